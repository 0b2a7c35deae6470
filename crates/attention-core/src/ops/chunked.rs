//! Definitions in chunks of examples and queries, where a tensor of all pairs would not fit into one buffer of the
//! device: 128 MiB, where WebGPU promises no more.

use std::ops::Range;
use std::sync::Once;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Shape, Slice};

use super::attention_backend::AttentionBackend;
use super::mask::ResolvedMask;

/// Inputs of an operation on pairs that can be cut along examples and queries.
pub(super) trait Chunks<B: Backend>: Sized {
    fn queries(&self) -> &FloatTensor<B>;

    fn keys(&self) -> &FloatTensor<B>;

    /// The elements of each pair in the largest tensor that the definition makes.
    fn elements_of_pair(&self) -> usize;

    /// The inputs for some of the examples and queries.
    fn chunk(&self, at: &Chunk) -> Self;
}

/// Some of the examples, and some of the queries of each.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chunk {
    examples: Range<usize>,
    queries: Range<usize>,
}

/// `definition`, in chunks that fit into the buffers of the device.
pub(super) fn in_chunks<B: AttentionBackend, I: Chunks<B>>(
    inputs: I,
    definition: fn(I) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let limit = B::largest_buffer(&inputs.queries().device());
    in_chunks_of(limit, inputs, definition)
}

fn in_chunks_of<B: Backend, I: Chunks<B>>(
    limit: usize,
    inputs: I,
    definition: fn(I) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let [batch, heads, num_queries, _] = inputs.queries().shape().dims();
    let [_, _, num_keys, _] = inputs.keys().shape().dims();
    // Of one query. Softmax of half precision is computed in f32.
    let size = inputs.queries().dtype().size().max(size_of::<f32>());
    let bytes = [num_keys, inputs.elements_of_pair(), size];
    let bytes = bytes.into_iter().fold(heads, usize::saturating_mul);
    let of_all = bytes.saturating_mul(batch * num_queries);
    if of_all <= limit {
        return definition(inputs);
    }
    static WARNING: Once = Once::new();
    WARNING.call_once(|| {
        log::warn!(
            "attention of {batch} x {heads} x {num_queries} queries and {num_keys} keys is computed in chunks, without \
             a kernel: a buffer of the device holds {limit} bytes, and all pairs take {of_all}"
        );
    });
    let of_example = |examples: Range<usize>| {
        let step = limit / examples.len().saturating_mul(bytes);
        let chunks = pieces(num_queries, step.clamp(1, num_queries)).map(|queries| {
            definition(inputs.chunk(&Chunk {
                examples: examples.clone(),
                queries,
            }))
        });
        B::float_cat(chunks.collect(), 2)
    };
    let step = limit / num_queries.saturating_mul(bytes);
    let pieces = pieces(batch, step.clamp(1, batch));
    B::float_cat(pieces.map(of_example).collect(), 0)
}

/// `0..len` in pieces of `step`.
fn pieces(len: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len)
        .step_by(step)
        .map(move |start| start..len.min(start + step))
}

impl Chunk {
    /// The examples and queries of `[batch or 1, _, queries or 1, _]`.
    fn slices(&self, shape: &Shape) -> [Slice; 4] {
        let [batch, heads, queries, last] = shape.dims();
        let along = |len, range: &Range<usize>| match len {
            1 => Slice::from(0..1),
            _ => Slice::from(range.clone()),
        };
        [
            along(batch, &self.examples),
            Slice::from(0..heads),
            along(queries, &self.queries),
            Slice::from(0..last),
        ]
    }

    /// The queries.
    pub(super) fn queries(&self) -> Range<usize> {
        self.queries.clone()
    }

    /// The chunk of `[batch or 1, heads, queries or 1, size]`.
    pub(super) fn of_queries<B: Backend>(&self, tensor: &FloatTensor<B>) -> FloatTensor<B> {
        B::float_slice(tensor.clone(), &self.slices(&tensor.shape()))
    }

    /// The chunk of a tensor of keys, `[batch or 1, heads, _, _]`.
    pub(super) fn of_keys<B: Backend>(&self, tensor: &FloatTensor<B>) -> FloatTensor<B> {
        let mut slices = self.slices(&tensor.shape());
        slices[2] = Slice::from(0..tensor.shape()[2]);
        B::float_slice(tensor.clone(), &slices)
    }

    /// The chunk of a mask for scores of `num_keys` keys, on the device of `like`.
    pub(super) fn of_mask<B: Backend>(
        &self,
        mask: &ResolvedMask<B>,
        num_keys: usize,
        like: &FloatTensor<B>,
    ) -> ResolvedMask<B> {
        let (intervals, keep) = mask.clone().to_device(num_keys, &like.device());
        let ints = |tensor: IntTensor<B>| {
            let slices = self.slices(&tensor.shape());
            B::int_slice(tensor, &slices)
        };
        let keep = keep.map(|keep| {
            let slices = self.slices(&keep.shape());
            B::bool_slice(keep, &slices)
        });
        ResolvedMask::on_device(intervals.map(|bounds| bounds.map(ints)), keep)
    }
}

#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests {
    use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
    use burn::backend::{Autodiff, AutodiffBackend, Flex};
    use burn::tensor::TensorData;
    use burn_fused_layers::harness::optional::OptionalTensor;

    use super::*;
    use crate::ops::{
        AdditiveScoreInputs, DotProductAttentionInputs, ScoreModifiers, additive_score,
        dot_product_attention,
    };

    type Training = Autodiff<Flex>;

    const BATCH: usize = 3;
    const HEADS: usize = 2;
    const QUERIES: usize = 5;
    const KEYS: usize = 7;
    const SIZE: usize = 4;

    fn drawn(shape: &[usize], seed: usize) -> TensorData {
        let count: usize = shape.iter().product();
        let element = |n: usize| ((n * 37 + seed * 11) % 29) as f32 / 7.0 - 2.0;
        TensorData::new((0..count).map(element).collect::<Vec<_>>(), shape.to_vec())
    }

    fn leaf(shape: &[usize], seed: usize) -> FloatTensor<Training> {
        let tensor = Training::float_from_data(drawn(shape, seed), &Default::default());
        Training::float_set_require_grad(tensor, true)
    }

    fn numbers(tensor: FloatTensor<Flex>) -> Vec<f32> {
        let data = burn::tensor::try_read_sync(Flex::float_into_data(tensor));
        let data = data.expect("on the host").expect("it was computed");
        data.try_into_vec().expect("of f32")
    }

    fn masks() -> Vec<ResolvedMask<Training>> {
        let device = Default::default();
        let ints = |bounds: Vec<i32>, queries| {
            let shape = [bounds.len() / queries, 1, queries, 1];
            Training::int_from_data(TensorData::new(bounds, shape), &device)
        };
        let bools = |shape: [usize; 4]| {
            let count = shape.iter().product();
            let flags: Vec<bool> = (0..count).map(|n| n % 5 != 1).collect();
            Training::bool_from_data(TensorData::new(flags, shape), &device)
        };
        let per_query: Vec<i32> = (0..BATCH * QUERIES).map(|n| n as i32 % 8).collect();
        vec![
            ResolvedMask::None,
            ResolvedMask::on_device(Some([ints(vec![0, 2, 1], 1), ints(vec![7, 5, 1], 1)]), None),
            ResolvedMask::on_device(None, Some(bools([1, HEADS, QUERIES, KEYS]))),
            ResolvedMask::on_device(
                Some([
                    ints(vec![0; BATCH * QUERIES], QUERIES),
                    ints(per_query, QUERIES),
                ]),
                Some(bools([BATCH, 1, 1, KEYS])),
            ),
        ]
    }

    /// The result, and the gradients of what it was made of.
    fn results(result: FloatTensor<Training>, leaves: &[FloatTensor<Training>]) -> Vec<Vec<f32>> {
        let shape = result.shape();
        let gradient = Training::float_from_data(drawn(&shape, 5), &Default::default());
        let loss = Training::float_sum(Training::float_mul(result.clone(), gradient));
        let gradients = Training::backward(loss);
        let of_leaf = |leaf| numbers(Training::grad(leaf, &gradients).expect("a leaf"));
        let mut results = vec![numbers(Training::inner(result))];
        results.extend(leaves.iter().map(of_leaf));
        results
    }

    fn leaves() -> [FloatTensor<Training>; 4] {
        [
            leaf(&[BATCH, HEADS, QUERIES, SIZE], 1),
            leaf(&[BATCH, 1, KEYS, SIZE], 2),
            leaf(&[BATCH, 1, KEYS, 3], 3),
            leaf(&[BATCH, HEADS, 1, KEYS], 4),
        ]
    }

    fn scores(limit: usize, mask: &ResolvedMask<Training>) -> Vec<Vec<f32>> {
        let [queries, keys, _, _] = leaves();
        let weight = leaf(&[SIZE], 6);
        let leaves = [queries.clone(), keys.clone(), weight.clone()];
        let inputs = AdditiveScoreInputs {
            queries,
            keys,
            weight,
            mask: mask.clone(),
        };
        // Without a kernel even where there is one.
        let scores = in_chunks_of(limit, inputs, additive_score::composed::forward);
        results(scores, &leaves)
    }

    fn attention(limit: usize) -> Vec<Vec<f32>> {
        let [queries, keys, values, _] = leaves();
        let bias = leaf(&[BATCH, 1, QUERIES, KEYS], 4);
        let relative_bias = leaf(&[1, HEADS, 1, QUERIES + KEYS - 1], 7);
        let sinks = leaf(&[HEADS], 8);
        let leaves = [queries, keys, values, bias, relative_bias, sinks];
        let [queries, keys, values, bias, relative_bias, sinks] = leaves.clone();
        let present = |tensor| OptionalTensor::Present { tensor };
        let inputs = DotProductAttentionInputs::<Training> {
            queries,
            keys,
            values,
            modifiers: ScoreModifiers {
                bias: present(bias),
                relative_bias: present(relative_bias),
                sinks: present(sinks),
                soft_cap: Some(1.5),
            },
            mask: ResolvedMask::None,
            scale: 0.5,
            dropout: 0.0,
            shared: None,
        };
        let context = in_chunks_of(limit, inputs, dot_product_attention::composed::forward);
        results(context, &leaves)
    }

    fn assert_close(actual: &[Vec<f32>], expected: &[Vec<f32>], what: usize) {
        for (actual, expected) in actual.iter().zip(expected) {
            assert_eq!(actual.len(), expected.len());
            for (a, b) in actual.iter().zip(expected) {
                assert!((a - b).abs() < 1e-5, "{what}: {a} instead of {b}");
            }
        }
    }

    #[test]
    fn chunks_give_the_results_of_the_whole() {
        // Four elements a pair: of a query 224 bytes, of an example 1120.
        for mask in masks() {
            let whole = scores(usize::MAX, &mask);
            for limit in [1, 223, 500, 1120, 2_300, 3_359] {
                assert_close(&scores(limit, &mask), &whole, limit);
            }
        }
        let whole = attention(usize::MAX);
        for limit in [1, 60, 150, 280, 600, 839] {
            assert_close(&attention(limit), &whole, limit);
        }
    }

    #[test]
    fn pieces_cover_everything_once() {
        assert_eq!(pieces(5, 2).collect::<Vec<_>>(), [0..2, 2..4, 4..5]);
        assert_eq!(pieces(4, 4).collect::<Vec<_>>().len(), 1);
    }
}

#[cfg(all(test, feature = "wgpu"))]
mod tests_on_wgpu {
    use burn::backend::ops::FloatTensorOps;
    use burn::tensor::Distribution;
    use burn_cubecl::CubeBackend;
    use burn_cubecl::cubecl::{Device, wgpu::WgpuDevice};

    use super::*;
    use crate::ops::{AdditiveScoreInputs, AttentionOps, additive_score};

    /// 268 MB of hidden units, on software Vulkan in WGSL of 128 MiB a buffer.
    #[test]
    fn hidden_units_beyond_a_buffer() {
        let device = Device::Wgpu(WgpuDevice::default());
        let normal = |shape: Shape| {
            let normal = Distribution::Normal(0.0, 1.0);
            CubeBackend::float_random(shape, normal, &device, burn::tensor::FloatDType::F32)
        };
        let inputs = AdditiveScoreInputs::<CubeBackend> {
            queries: normal([1, 1, 512, 256].into()),
            keys: normal([1, 1, 512, 256].into()),
            weight: normal([256].into()),
            mask: ResolvedMask::None,
        };
        let by_kernel = CubeBackend::additive_score(inputs.clone());
        let composed = additive_score::composed::forward(inputs);
        let error = CubeBackend::float_max(CubeBackend::float_abs(CubeBackend::float_sub(
            by_kernel, composed,
        )));
        let error = burn::tensor::try_read_sync(CubeBackend::float_into_data(error));
        let error = error
            .expect("at once")
            .expect("computed")
            .iter::<f32>()
            .next();
        assert!(error.is_some_and(|error| error < 1e-4), "{error:?}");
    }
}
