//! Batches of matrices multiplied: what scores of dot products and weighted sums of values are made of.
//!
//! *Dive into Deep Learning* (D2L), "Attention Scoring Functions", section "Batch Matrix Multiplication": PyTorch's
//! `torch.bmm`. In Burn it is `matmul`, with any number of axes before the last two.
//!
//! ```text
//! cargo run -p attention-examples --example batch_matrix_multiplication
//! ```

use std::error::Error;

use attention_core::{AttentionOutput, DotProductAttentionConfig, Mask};
use burn::prelude::*;
use burn::tensor::Distribution;
use burn::tensor::activation::softmax;

mod common;
use common::{println, scalar};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(6);
    shapes(&device);
    each_by_itself(&device)?;
    attention(&device)
}

// ANCHOR: shapes
fn shapes(device: &Device) {
    let q = Tensor::<3>::ones([2, 3, 4], device);
    let k = Tensor::<3>::ones([2, 4, 6], device);
    let product = q.matmul(k);
    println!("[2, 3, 4] x [2, 4, 6] -> {:?}", product.dims());
    assert_eq!(product.dims(), [2, 3, 6]);
}
// ANCHOR_END: shapes

// ANCHOR: each
/// The product of a batch is the products of its matrices.
fn each_by_itself(device: &Device) -> Result<(), Box<dyn Error>> {
    let random = |shape| Tensor::<3>::random(shape, Distribution::Default, device);
    let (q, k) = (random([2, 3, 4]), random([2, 4, 6]));
    let product = q.clone().matmul(k.clone());
    for example in 0..2 {
        let one = |tensor: &Tensor<3>| tensor.clone().narrow(0, example, 1).squeeze_dim::<2>(0);
        let difference = one(&q).matmul(one(&k)) - one(&product);
        assert!(scalar(difference.abs().max())? < 1e-6);
    }
    Ok(())
}
// ANCHOR_END: each

// ANCHOR: attention
/// Attention without a mask is two of them, with a softmax between.
fn attention(device: &Device) -> Result<(), Box<dyn Error>> {
    // Four axes: the heads are a batch, too.
    let random = |rows| Tensor::<4>::random([2, 8, rows, 16], Distribution::Default, device);
    let (queries, keys, values) = (random(5), random(7), random(7));

    let scores = queries.clone().matmul(keys.clone().transpose()) / 16_f64.sqrt();
    let weights = softmax(scores, 3);
    let context = weights.clone().matmul(values.clone());
    println!(
        "scores and weights {:?}, context {:?}",
        weights.dims(),
        context.dims()
    );

    let output = DotProductAttentionConfig::new()
        .init()
        .forward_with_weights(queries, keys, values, Mask::none());
    let AttentionOutput {
        context: ours,
        weights: our_weights,
    } = output;
    assert!(scalar((ours - context).abs().max())? < 1e-5);
    assert!(scalar((our_weights - weights).abs().max())? < 1e-5);
    Ok(())
}
// ANCHOR_END: attention
