//! Which results a NaN may reach.

use attention_core::{Attention, ScoringFunction};
use burn::tensor::{DType, Device};

use crate::contract::{problem, shape, some_masks};
use crate::{Array, Outcome, Path, Sizes, assert_same};

/// A NaN in one row of some inputs, of the last example and first head.
pub(crate) struct Nan<'a> {
    pub(crate) inputs: &'a [&'a str],
    pub(crate) row: usize,
    /// How many rows there are.
    pub(crate) rows: usize,
    /// The results that have a row for each query or key of the other side.
    pub(crate) outputs: &'a [&'a str],
    /// Query and key, of the row and one of the other side.
    pub(crate) pair: fn(usize, usize) -> [usize; 2],
}

impl Nan<'_> {
    pub(crate) fn stays_where_it_is_attended_to<S: ScoringFunction>(
        &self,
        name: &str,
        attention: &Attention<S>,
        sizes: Sizes,
        device: &Device,
    ) {
        let shape = shape(sizes);
        let [batch, heads, ..] = shape;
        let head = [batch - 1, 0];
        let chosen = Array::from_fn(&[batch, heads, self.rows], |at| {
            f64::from(at[..2] == head && at[2] == self.row)
        });
        for (mask_name, mask) in some_masks(sizes) {
            let clean = problem(sizes, &mask);
            let dirty = self.inputs.iter().fold(clean.clone(), |problem, input| {
                problem.with_rows(input, &chosen, f64::NAN)
            });
            for path in [Path::Forward, Path::AttendWithWeights] {
                let [clean, dirty] = [&clean, &dirty]
                    .map(|problem| problem.run_with(attention, device, DType::F32, path));
                for output in self.outputs {
                    // Only rows on the other side that the NaN has nothing to do with.
                    let others = |outcome: &Outcome| {
                        let array = outcome[*output].with_heads();
                        let meets = |at: &[usize]| {
                            let [query, key] = (self.pair)(self.row, at[2]);
                            at[..2] == head && mask.attends(shape, [at[0], at[1], query, key])
                        };
                        array.masked_fill(0.0, meets)
                    };
                    let inputs = self.inputs;
                    let what =
                        format!("{name}: {mask_name}: {path:?}: NaN in {inputs:?}: {output}");
                    assert_same(&what, &others(&dirty), &others(&clean));
                }
            }
        }
    }
}
