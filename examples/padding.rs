//! Padding is inert: whatever it holds, NaN included, changes no bit of a result or of a gradient.
//!
//! *Dive into Deep Learning* (D2L), "Attention Scoring Functions", section "Masked Softmax Operation", fills the scores
//! of padding with -1e6. The weight of padding is 0 then, too, but its values are still multiplied with that weight,
//! and `0 * NaN` is NaN. And a text of no words attends to its padding.
//!
//! ```text
//! cargo run -p attention-examples --example padding
//! ```

use std::error::Error;

use attention_core::{AdditiveAttention, AdditiveAttentionConfig, Mask, masked_softmax};
use burn::optim::GradientsParams;
use burn::prelude::*;
use burn::tensor::Distribution;
use burn::tensor::activation::softmax;

mod common;
use common::println;

const KEYS: usize = 7;
const LENS: [i64; 2] = [7, 3];

// ANCHOR: filled
/// D2L's: keys from `len` on get the score -1e6.
fn filled_softmax(scores: Tensor<3>, lens: Tensor<1, Int>) -> Tensor<3> {
    let device = scores.device();
    let keys = Tensor::<1, Int>::arange(0..KEYS as i64, &device).unsqueeze::<3>();
    let padding = keys.greater_equal(lens.reshape([-1, 1, 1]).expand(scores.dims()));
    softmax(scores.mask_fill(padding, -1e6), 2)
}
// ANCHOR_END: filled

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(12);
    values(&device)?;
    no_words(&device)?;
    training(&device.autodiff())
}

fn lens(lens: [i64; 2], device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(lens, device)
}

/// The elements as bits: NaN is equal to itself, and 0 is not -0.
fn bits<const D: usize>(tensor: Tensor<D>) -> Result<Vec<u32>, Box<dyn Error>> {
    let elements = tensor.try_into_vec_as::<f32>()?;
    Ok(elements.into_iter().map(f32::to_bits).collect())
}

/// `rows`, but `element` from the third row of the second example on.
fn padded_with(rows: &Tensor<3>, element: f32) -> Tensor<3> {
    let [_, keys, size] = rows.dims();
    rows.clone()
        .slice_fill([1..2, LENS[1] as usize..keys, 0..size], element)
}

// ANCHOR: values
fn values(device: &Device) -> Result<(), Box<dyn Error>> {
    let random = |shape| Tensor::<3>::random(shape, Distribution::Default, device);
    let (scores, values) = (random([2, 4, KEYS]), random([2, KEYS, 5]));
    let values = padded_with(&values, f32::NAN);
    let weights = filled_softmax(scores.clone(), lens(LENS, device));
    let theirs = weights.matmul(values.clone());
    let nans = count_nan(theirs)?;
    println!("NaN in padded values, filled with -1e6: in {nans} elements of the context");
    assert!(nans > 0);

    let mask = Mask::valid_lens(lens(LENS, device));
    let weights = masked_softmax(scores, &mask);
    let heads = |tensor: Tensor<3>| tensor.unsqueeze_dim::<4>(1);
    let ours = attention_core::functional::weighted_sum(heads(weights), heads(values), &mask);
    let nans = count_nan(ours)?;
    println!("NaN in padded values, masked:           in {nans} elements of the context");
    assert_eq!(nans, 0);
    Ok(())
}
// ANCHOR_END: values

fn count_nan<const D: usize>(tensor: Tensor<D>) -> Result<usize, Box<dyn Error>> {
    let elements = tensor.try_into_vec_as::<f32>()?;
    Ok(elements.iter().filter(|element| element.is_nan()).count())
}

// ANCHOR: no_words
/// A text of no words: equal weights for its padding, or none.
fn no_words(device: &Device) -> Result<(), Box<dyn Error>> {
    let scores = Tensor::<3>::zeros([2, 1, KEYS], device);
    let empty = || lens([7, 0], device);
    let row = |weights: Tensor<3>| weights.narrow(0, 1, 1).try_into_vec_as::<f32>();
    let filled = row(filled_softmax(scores.clone(), empty()))?;
    let masked = row(masked_softmax(scores, &Mask::valid_lens(empty())))?;
    println!("weights of a text of no words, filled:  {filled:.3?}");
    println!("weights of a text of no words, masked:  {masked:.3?}");
    assert!(filled.iter().all(|weight| *weight > 0.1));
    assert!(masked.iter().all(|weight| *weight == 0.0));
    Ok(())
}
// ANCHOR_END: no_words

// ANCHOR: training
/// One training step with zeros in the padding, and one with NaN: context and all gradients, bit by bit.
fn training(device: &Device) -> Result<(), Box<dyn Error>> {
    let random = |shape| Tensor::<3>::random(shape, Distribution::Default, device);
    let (queries, keys, values) = (
        random([2, 4, 6]),
        random([2, KEYS, 3]),
        random([2, KEYS, 5]),
    );
    let attention = AdditiveAttentionConfig::new(6, 3, 8).init(device);
    let step = |element| one_step(&attention, [&queries, &keys, &values], element);
    let (zeros, nans) = (step(0.0)?, step(f32::NAN)?);
    assert_eq!(zeros, nans);
    let elements: usize = zeros.iter().map(Vec::len).sum();
    println!("zeros or NaN in the padding, training:  {elements} elements, the same bits");
    Ok(())
}

/// The context, and the gradients of queries, keys, values and parameters.
fn one_step(
    attention: &AdditiveAttention,
    [queries, keys, values]: [&Tensor<3>; 3],
    element: f32,
) -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
    let queries = queries.clone().require_grad();
    let keys = padded_with(keys, element).detach().require_grad();
    let values = padded_with(values, element).detach().require_grad();
    let mask = Mask::valid_lens(lens(LENS, &queries.device()));
    let context = attention.forward(queries.clone(), keys.clone(), values.clone(), &mask);
    let loss = context.clone().powf_scalar(2.0).sum();
    let mut gradients = loss.backward();

    let mut all = vec![bits(context)?];
    for input in [queries, keys, values] {
        all.push(bits(
            input.grad(&gradients).ok_or("an input has no gradient")?,
        )?);
    }
    let parameters = GradientsParams::from_module(&mut gradients, attention);
    let score = &attention.score;
    for weight in [&score.query.weight, &score.key.weight, &score.value.weight] {
        let gradient = parameters
            .get::<2>(weight.id)
            .ok_or("a weight has no gradient")?;
        all.push(bits(gradient)?);
    }
    assert!(
        all.iter()
            .flatten()
            .all(|bits| f32::from_bits(*bits).is_finite())
    );
    Ok(all)
}
// ANCHOR_END: training
