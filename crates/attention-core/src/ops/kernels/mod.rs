//! The operations of the door by the kernels of `attention-kernels`: from tensors to slices and back.
//!
//! Half precision is computed in `f32`: the kernels widen what they read of it, and results are rounded once.

mod additive;
#[cfg(feature = "autodiff")]
mod backward;
mod dot;
mod mask;
mod slices;
mod softmax;

pub(super) use additive::*;
#[cfg(feature = "autodiff")]
pub(super) use backward::*;
pub(super) use dot::*;
pub(super) use mask::{HostMask, padding};
pub(super) use softmax::*;

use attention_kernels::Dropout;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Distribution, FloatDType, Shape, try_read_sync};

use slices::synchronously;

/// The context, and the logarithm of each row's sum, from which the backward pass computes the weights again.
#[derive(Clone, Debug)]
pub(super) struct Attended<B: Backend> {
    /// `[batch, heads, queries, value_size]`
    pub(super) context: FloatTensor<B>,
    /// `[batch, heads, queries]`, not narrowed to half precision.
    #[cfg_attr(
        not(feature = "autodiff"),
        allow(dead_code, reason = "for the backward pass")
    )]
    pub(super) lse: FloatTensor<B>,
}

/// Dropout with a seed from the backend's generator, if the probability is not 0.
pub(super) fn draw_dropout<B: Backend>(probability: f64, like: &FloatTensor<B>) -> Option<Dropout> {
    if probability == 0.0 {
        return None;
    }
    let uniform = Distribution::Uniform(0.0, 1.0);
    let draw = B::float_random([4].into(), uniform, &like.device(), FloatDType::F32);
    let data = synchronously(try_read_sync(B::float_into_data(draw)));
    // Sixteen bits of each number: an `f32` below 1 has at least as many.
    let seed = data.iter::<f64>().fold(0, |seed: u64, number| {
        seed << 16 | (number * 65536.0) as u64
    });
    Some(Dropout::new(probability, seed))
}

fn attended_shapes<B: Backend>(
    queries: &FloatTensor<B>,
    values: &FloatTensor<B>,
) -> (Shape, Shape) {
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, _, value_size] = values.shape().dims();
    (
        [batch, heads, num_queries, value_size].into(),
        [batch, heads, num_queries].into(),
    )
}
