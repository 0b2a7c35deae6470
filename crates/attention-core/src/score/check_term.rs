//! A check of a user's own term.

use std::error::Error;
use std::fmt;
use std::mem::swap;

use burn::tensor::{DType, Device, Tensor, TensorData};
use cpu_kernels::Level;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::PairwiseFormula;

/// The part of a term that differs from the others, and the pair where it differs most.
#[derive(Clone, Debug, PartialEq)]
pub struct TermError {
    /// `value`, `derivative by the query`, `derivative by the key` or `definition`.
    pub part: &'static str,
    /// The query and the key.
    pub at: [f64; 2],
    /// The number that follows from the other parts.
    pub expected: f64,
    /// The number that this part gives.
    pub found: f64,
}

impl fmt::Display for TermError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([query, key], expected, found) = (self.at, self.expected, self.found);
        write!(
            formatter,
            "{} at query {query} and key {key}: expected {expected}, got {found}",
            self.part
        )
    }
}

impl Error for TermError {}

/// Checks that the three parts of a term agree: its value on lanes with its definition in tensor operations, and its
/// derivatives with finite differences of both. Random numbers of several magnitudes, equal ones, 0 and numbers up to
/// 300 are tried, on each instruction set of the machine. At a kink, a derivative must lie between the derivatives of
/// the two sides. Where the definition is infinite or NaN in `f32`, so must the value be.
///
/// # Errors
/// The part that the other two contradict; if value and definition differ by a constant, the value. Only one part is
/// reported; if two wrong parts agree, it is the third one.
///
/// # Panics
/// If `device` has no `f64`, in which the differences of the definition are computed, or the definition does not
/// broadcast the shapes of queries and keys.
pub fn check_term(term: &dyn PairwiseFormula, device: &Device) -> Result<(), TermError> {
    let pairs = pairs();
    for level in Level::available() {
        let evaluate = |pairs: &[[f64; 2]]| {
            let [queries, keys]: [Vec<f32>; 2] =
                [0, 1].map(|side| pairs.iter().map(|pair| pair[side] as f32).collect());
            let results = term.evaluate(level, &queries, &keys).into_iter();
            results
                .map(|result| result.map(f64::from))
                .collect::<Vec<_>>()
        };
        let lanes = evaluate(&pairs);
        let by_lanes =
            |pairs: &[[f64; 2]]| evaluate(pairs).iter().map(|result| result[0]).collect();
        let by_definition = |pairs: &[[f64; 2]]| defined(term, pairs, device);
        let definition: Vec<f64> = by_definition(&pairs);
        let values = lanes.iter().zip(&definition);
        let values = values.map(|(lanes, &defined)| [lanes[0], defined, defined]);
        let differs = worst("value", &pairs, values, 1e-4);
        // The lanes are in f32, so their differences are coarse.
        let of_lanes = derivatives(&pairs, &lanes, by_lanes, [2e-2, 8e-2]);
        let of_definition = derivatives(&pairs, &lanes, by_definition, [1e-4, 4e-3]);
        match (differs, of_lanes, of_definition) {
            (None, _, None) => {}
            // The derivatives fit the value, and not the definition.
            (Some(mut error), None, Some(_)) => {
                error.part = "definition";
                swap(&mut error.expected, &mut error.found);
                return Err(error);
            }
            (Some(error), ..) | (None, _, Some(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Random and hostile pairs of a query and a key.
fn pairs() -> Vec<[f64; 2]> {
    let special = [
        0.0, 1e-3, -1e-3, 0.5, -0.5, 1.0, -1.0, 3.0, -20.0, 20.0, -300.0, 300.0,
    ];
    let grid = special
        .into_iter()
        .flat_map(|query| special.map(|key| [query, key]));
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let random = [0.1, 1.0, 8.0]
        .map(|size| [(); 40].map(|()| [(); 2].map(|()| random.random_range(-size..size))));
    let pairs = grid.chain(random.into_iter().flatten());
    // The pairs as the lanes read them, in f32.
    pairs
        .map(|pair| pair.map(|x: f64| f64::from(x as f32)))
        .collect()
}

/// The definition of each pair, in f64: computed for all queries with all keys, broadcast as in attention.
fn defined(term: &dyn PairwiseFormula, pairs: &[[f64; 2]], device: &Device) -> Vec<f64> {
    let count = pairs.len();
    let [queries, keys] = [[count, 1], [1, count]].map(|[queries, keys]| {
        let elements = pairs.iter().map(|pair| pair[usize::from(queries == 1)]);
        let data = TensorData::new(elements.collect::<Vec<f64>>(), [1, 1, queries, keys, 1]);
        Tensor::<5>::from_data(data, (device, DType::F64))
    });
    let defined = term.compose(queries, keys);
    let (expected, got) = ([1, 1, count, count, 1], defined.dims());
    assert!(
        got == expected,
        "check_term: definition expected {expected:?} for queries [1, 1, {count}, 1, 1] and keys [1, 1, 1, {count}, \
         1], got {got:?}"
    );
    let defined = defined.into_data().convert::<f64>();
    defined.iter::<f64>().step_by(count + 1).collect()
}

/// The first derivative that differs from differences of `values` (of the given step and tolerance), at its worst pair.
fn derivatives(
    pairs: &[[f64; 2]],
    lanes: &[[f64; 3]],
    values: impl Fn(&[[f64; 2]]) -> Vec<f64>,
    [step, tolerance]: [f64; 2],
) -> Option<TermError> {
    let parts = ["derivative by the query", "derivative by the key"];
    parts.into_iter().enumerate().find_map(|(side, part)| {
        let steps = |sign: f64| -> Vec<[f64; 2]> {
            let moved = pairs.iter().map(|pair| {
                let mut moved = *pair;
                moved[side] += sign * step * pair[side].abs().max(1.0);
                moved
            });
            moved.collect()
        };
        let [below, above] = [-1.0, 1.0].map(steps);
        let [low, middle, high] = [values(&below), values(pairs), values(&above)];
        let slopes = (0..pairs.len()).map(|at| {
            let slope = |from: f64, to: f64, x: f64, y: f64| (to - from) / (y - x);
            let x = [below[at][side], pairs[at][side], above[at][side]];
            let sides = [
                slope(low[at], middle[at], x[0], x[1]),
                slope(middle[at], high[at], x[1], x[2]),
            ];
            let found = lanes[at][1 + side];
            if ![&low, &middle, &high]
                .iter()
                .all(|values| values[at].is_finite())
            {
                return [found; 3]; // Beside a pole, or where there is no value, differences tell nothing.
            }
            [found, sides[0].min(sides[1]), sides[0].max(sides[1])]
        });
        worst(part, pairs, slopes, tolerance)
    })
}

/// The pair whose number is farthest outside its bounds, if the relative excess is above `tolerance`.
fn worst(
    part: &'static str,
    pairs: &[[f64; 2]],
    found_and_bounds: impl Iterator<Item = [f64; 3]>,
    tolerance: f64,
) -> Option<TermError> {
    let errors = pairs
        .iter()
        .zip(found_and_bounds)
        .map(|(&at, [found, low, high])| {
            let expected = if found.is_nan() || low.is_nan() {
                low
            } else {
                found.max(low).min(high)
            };
            let error = match (found.is_finite(), (expected as f32).is_finite()) {
                (true, true) => (found - expected).abs() / expected.abs().max(1.0),
                (false, false) if (found as f32).total_cmp(&(expected as f32)).is_eq() => 0.0,
                (false, false) if found.is_nan() && expected.is_nan() => 0.0,
                _ => f64::INFINITY,
            };
            let worst = TermError {
                part,
                at,
                expected,
                found,
            };
            (error, worst)
        });
    let (error, worst) = errors.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (error > tolerance).then_some(worst)
}
