//! The fastest tiling for some work, by CubeCL's autotune.
//!
//! At the first call of its kind, CubeCL does the work several times in each tiling, in turns, and stores the fastest
//! under the key of the call: the key has everything that a tiling depends on, with the numbers of queries and keys
//! rounded up to powers of two. Any tiling can do any work; the mask says which keys the tiles of each tiling skip.
//!
//! The work is that of the first call, on its own tensors. The choice also holds for later calls with the same key,
//! whose intervals may be longer or shorter, so that a tiling skips other tiles.

use std::sync::Arc;

use burn_backend::TensorMetadata;
use burn_cubecl::cubecl::tune::{Tunable, TunableSet, anchor};
use burn_cubecl::tensor::CubeTensor;

use crate::host::inputs::AttentionInputs;
use crate::host::trials::{Tuner, caught};
use crate::tile::tiling::Tiling;

/// The choices for this version of the kernels.
static TUNER: Tuner = Tuner::new(concat!(
    module_path!(),
    "-",
    env!("CARGO_PKG_VERSION_MAJOR"),
    "-",
    env!("CARGO_PKG_VERSION_MINOR"),
    "-",
    env!("CARGO_PKG_VERSION_PATCH")
));

/// Work that can be done in several tilings.
#[derive(Clone)]
struct Trial {
    key: String,
    tilings: [Tiling; 2],
    run: Arc<dyn Fn(Tiling) + Send + Sync>,
    /// False in the final run, which CubeCL adds after choosing and which does the actual work.
    is_tried: bool,
}

/// A tiling, by its index among all.
type Index = usize;

/// The fastest of some tilings for work called `name` on inputs, on their device; it is measured if unknown.
pub(crate) fn fastest(
    inputs: &AttentionInputs,
    tilings: [Tiling; 2],
    name: &str,
    run: impl Fn(Tiling) + Send + Sync + 'static,
) -> Tiling {
    let key = key(inputs, name, tilings);
    let device = (&inputs.queries.client, &inputs.queries.device);
    let fastest = TUNER.fastest(device, &key, all_tilings, || Trial {
        key: key.clone(),
        tilings,
        run: Arc::new(run),
        is_tried: false,
    });
    fastest
        .map(|index| Tiling::ALL[index])
        .filter(|tiling| tilings.contains(tiling))
        .unwrap_or(tilings[0])
}

/// All tilings; a trial refuses those that are not its own.
fn all_tilings() -> TunableSet<String, Trial, (), Index> {
    let set = TunableSet::new(
        |trial: &Trial| trial.key.clone(),
        |_: &String, trial: &Trial| Trial {
            is_tried: true,
            ..trial.clone()
        },
    );
    Tiling::ALL
        .into_iter()
        .enumerate()
        .fold(set, |set, (index, tiling)| {
            set.with(Tunable::identified(index, move |trial: Trial| {
                trial.run(tiling)
            }))
        })
}

impl Trial {
    fn run(self, tiling: Tiling) -> Result<(), String> {
        if !self.is_tried {
            return Ok(());
        }
        if !self.tilings.contains(&tiling) {
            return Err("no tiling for so many queries".to_string());
        }
        caught(|| (self.run)(tiling))
    }
}

/// The key of some work: everything that its time in a tiling depends on, except the lengths of intervals.
fn key(inputs: &AttentionInputs, name: &str, tilings: [Tiling; 2]) -> String {
    let [batch, heads, queries, size] = inputs.queries.shape().dims();
    let [_, key_heads, keys, value_size] = inputs.values.shape().dims();
    let about = |number| anchor(number, None, None, None);
    let [rows, queries, keys] = [about(batch * heads), about(queries), about(keys)];
    let group = heads / key_heads;
    let form = |tensor: &Option<CubeTensor>| {
        tensor.as_ref().map(|tensor| {
            let [batch, heads, rows, _] = tensor.shape().dims();
            [batch > 1, heads > 1, rows > 1]
        })
    };
    let modifiers = &inputs.modifiers;
    let tilings = tilings.map(|tiling| tiling.query_tile());
    format!(
        "{name}, {:?} {:?}, {rows} x {group}, {queries} x {keys}, {size}, {value_size}, intervals {:?}, flags {}, \
         bias {:?}, distances {:?}, sinks {}, cap {}, dropout {}; tiles of {tilings:?}",
        inputs.queries.dtype(),
        inputs.kind(),
        inputs.mask.form_of_intervals(),
        inputs.mask.has_flags(),
        form(&modifiers.bias),
        form(&modifiers.relative_bias),
        modifiers.sinks.is_some(),
        modifiers.soft_cap.is_some(),
        inputs.dropout.is_some(),
    )
}
