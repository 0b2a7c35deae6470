//! The choice of a kernel's tiling: the default for its number of queries, or the one that the device found fastest.

use std::sync::atomic::{AtomicUsize, Ordering};

use burn_backend::TensorMetadata;

use crate::host::inputs::AttentionInputs;
use crate::tile::tiling::Tiling;

/// The tiling for work called `name` on inputs, which `run` can do in any tiling. A forward and its backward pass may
/// have different tilings: the numbers saved for each query do not depend on them.
pub(crate) fn tiling(
    inputs: &AttentionInputs,
    name: impl FnOnce() -> String,
    run: impl Fn(Tiling) + Send + Sync + 'static,
) -> Tiling {
    let [_, _, queries, _] = inputs.queries.shape().dims();
    let tilings = Tiling::of(queries);
    if let Some(tiling) = Tiling::ALL.get(FORCED.load(Ordering::Relaxed)) {
        return *tiling;
    }
    #[cfg(feature = "autotune")]
    {
        // Overrides a choice made for a similar number of queries.
        if !inputs.weight_sums_fit(tilings[1]) {
            return tilings[0];
        }
        crate::host::autotune::fastest(inputs, tilings, &name(), run)
    }
    #[cfg(not(feature = "autotune"))]
    {
        let _ = (name, run);
        tilings[0]
    }
}

/// The index of the tiling to use for all work; an index beyond the tilings means none.
static FORCED: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Forces all work into one of the tilings, by its index, or no longer. Returns whether it exists. For tests.
#[doc(hidden)]
pub fn force_tiling(index: Option<usize>) -> bool {
    FORCED.store(index.unwrap_or(usize::MAX), Ordering::Relaxed);
    index.is_none_or(|index| index < Tiling::ALL.len())
}

#[cfg(test)]
mod tests {
    use burn_backend::TensorData;
    use burn_backend::ops::IntTensorOps;
    use burn_cubecl::CubeBackend;
    use burn_cubecl::tensor::CubeTensor;

    use super::*;
    use crate::backward::Backward;
    use crate::backward::score_gradients::GradientOf;
    use crate::test_tensors::{elements, tensor};
    use crate::{DeviceMask, Score, ScoreModifiers, Wanted};

    /// Intervals whose tiles depend on the tiling: each query's end differs, and one attends to nothing.
    fn mask(queries: usize, keys: usize, like: &CubeTensor) -> DeviceMask {
        let bounds = |bound: &dyn Fn(usize) -> usize| {
            let bounds: Vec<i32> = (0..queries).map(|query| bound(query) as i32).collect();
            let data = TensorData::new(bounds, [1, 1, queries, 1]);
            CubeBackend::int_from_data(data, &like.device())
        };
        let start = bounds(&|query| query * 5 % 7);
        let end = bounds(&|query| {
            if query == 1 {
                0
            } else {
                keys.min(8 + query * 3)
            }
        });
        DeviceMask::new(queries).with_intervals(start, end)
    }

    /// Four times the tiles of queries have four times the sums.
    #[cfg(feature = "autotune")]
    #[test]
    fn a_tiling_whose_sums_fit_no_buffer_is_not_chosen() {
        use burn_backend::{DType, Shape};

        let size = 64;
        let largest = crate::largest_buffer(&tensor([1], 0.0).device);
        let inputs = |queries: usize| {
            // The shape of many queries, and the memory of one.
            let one = tensor([1, 1, 1, size], 0.1);
            let shape = Shape::new([1, 1, queries, size]);
            AttentionInputs {
                queries: CubeTensor::new_contiguous(
                    one.client,
                    one.device,
                    shape,
                    one.handle,
                    DType::F32,
                ),
                keys: tensor([1, 1, 3, size], 0.2),
                values: tensor([1, 1, 3, 2], 0.3),
                score: Score::Additive {
                    weight: tensor([size], 0.4),
                },
                modifiers: ScoreModifiers::NONE,
                mask: DeviceMask::new(queries),
                dropout: None,
            }
        };
        let [many, few] = Tiling::of(usize::MAX);
        let tile_sums = few.gradient_groups() * size * DType::F32.size();
        let most = largest / tile_sums * few.query_tile();
        assert!(inputs(most).weight_sums_fit(few));
        let too_many = inputs(most + 1);
        assert!(too_many.weight_sums_fit(many) && !too_many.weight_sums_fit(few));
        let name = || "backward".to_string();
        let chosen = tiling(&too_many, name, |tried| panic!("{tried:?} is tried"));
        assert_eq!(chosen, many);
        let products = AttentionInputs {
            score: Score::DotProduct { scale: 0.5 },
            ..too_many
        };
        assert!(products.weight_sums_fit(few));
    }

    #[test]
    fn every_tiling_gives_the_same() {
        let keys = 90;
        for queries in [1, 6, 37] {
            let additive = Score::Additive {
                weight: tensor([5], 0.2),
            };
            for score in [Score::DotProduct { scale: 0.5 }, additive] {
                let tensors = [queries, keys, keys].map(|rows| tensor([2, 2, rows, 5], 0.3));
                let [queries_, keys_, values] = tensors;
                let inputs = AttentionInputs {
                    mask: mask(queries, keys, &queries_),
                    queries: queries_,
                    keys: keys_,
                    values,
                    score,
                    modifiers: ScoreModifiers::NONE,
                    dropout: None,
                };
                let results = |tiling: Tiling| {
                    let inputs = inputs.in_tiles_of(tiling);
                    assert_eq!(inputs.tiling(), tiling);
                    let outputs = inputs.forward_in_tiles();
                    let gradient = tensor([2, 2, queries, 5], 0.6);
                    let (context, statistics) = (outputs.context.clone(), &outputs.statistics);
                    let statistics = inputs.statistics_with_deltas(statistics, context, &gradient);
                    let backward = Backward {
                        inputs,
                        of: GradientOf::Context,
                        gradient,
                        statistics: Some(statistics),
                        wanted: Wanted {
                            queries: true,
                            keys: true,
                            values: true,
                            weight: true,
                            ..Wanted::NONE
                        },
                    };
                    let gradients = backward.gradients();
                    let gradients = [
                        gradients.queries,
                        gradients.keys,
                        gradients.values,
                        gradients.weight,
                    ];
                    let all = [Some(outputs.context)].into_iter().chain(gradients);
                    all.flatten().map(elements).collect::<Vec<_>>()
                };
                let expected = results(Tiling::new(queries));
                for tiling in Tiling::ALL {
                    for (found, expected) in results(tiling).iter().zip(&expected) {
                        let largest = expected.iter().fold(0.0, |max: f32, x| max.max(x.abs()));
                        assert!(largest > 0.0);
                        for (a, b) in found.iter().zip(expected) {
                            assert!(
                                (a - b).abs() <= 1e-5 * largest,
                                "{queries} queries, {tiling:?}: {a} instead of {b}"
                            );
                        }
                    }
                }
            }
        }
    }
}
