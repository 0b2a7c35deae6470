//! Softmax over the keys that are not padding, for sequences of different lengths in one batch.
//!
//! *Dive into Deep Learning* (D2L), "Attention Scoring Functions", section "Masked Softmax Operation".
//!
//! ```text
//! cargo run -p attention-examples --example masked_softmax
//! ```

use std::error::Error;

use attention_core::{Mask, masked_softmax};
use burn::prelude::*;
use burn::tensor::Distribution;

mod common;
use common::{print_matrices, println};

fn main() -> Result<(), Box<dyn Error>> {
    // The fastest backend of this build; `Device::flex()`, `Device::cuda(0)` and others name one.
    let device = Device::default();
    device.seed(15);

    // ANCHOR: example_lens
    // A minibatch of two 2 x 4 matrices: scores of 2 queries for 4 keys each.
    let scores = Tensor::<3>::random([2, 2, 4], Distribution::Default, &device);

    // The first example has 2 keys, the second 3; the others are padding.
    let lens = Tensor::<1, Int>::from_ints([2, 3], &device);
    let weights = masked_softmax(scores.clone(), &Mask::valid_lens(lens));
    print_matrices("one length per example, [2, 3]:", &weights)?;
    check(weights, [2, 2, 3, 3])?;
    // ANCHOR_END: example_lens

    // ANCHOR: query_lens
    // Or every query has a length of its own.
    let lens = Tensor::<2, Int>::from_ints([[1, 3], [2, 4]], &device);
    let weights = masked_softmax(scores, &Mask::valid_lens_per_query(lens));
    print_matrices("one length per query, [[1, 3], [2, 4]]:", &weights)?;
    check(weights, [1, 3, 2, 4])?;
    // ANCHOR_END: query_lens

    println!("each row sums to 1, and beyond its length it is exactly 0");
    Ok(())
}

// ANCHOR: check
fn check(weights: Tensor<3>, lens: [usize; 4]) -> Result<(), Box<dyn Error>> {
    let weights = weights.try_into_vec_as::<f32>()?;
    for (row, len) in weights.chunks(4).zip(lens) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
        assert!(row[..len].iter().all(|&weight| weight > 0.0), "{row:?}");
        assert!(row[len..].iter().all(|&weight| weight == 0.0), "{row:?}");
    }
    Ok(())
}
// ANCHOR_END: check
