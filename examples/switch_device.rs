//! One model on several devices: only the line that names the device changes.
//!
//! Modules run on the device of their tensors, as D2L's classes do. Each backend is a feature:
//!
//! ```text
//! cargo run -p attention-examples --example switch_device --features ndarray,wgpu
//! ```

#![cfg_attr(
    feature = "ndarray",
    allow(deprecated, reason = "Burn deprecates `Device::ndarray`")
)]

use std::error::Error;

use attention_core::{AdditiveAttention, AdditiveAttentionConfig, Mask};
use burn::prelude::*;

mod common;
use common::println;

fn devices() -> Vec<Device> {
    vec![
        // This is the line.
        #[cfg(feature = "flex")]
        Device::flex(),
        #[cfg(feature = "ndarray")]
        Device::ndarray(),
        #[cfg(feature = "wgpu")]
        Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cuda")]
        Device::cuda(0),
    ]
}

/// Runs on any backend: the attention moves to `device`, and everything else is made there. Once a parameter was read,
/// Burn 0.22.1's `to_device` ends training (no gradient, no error); `fork` moves a model that trains.
fn run(attention: AdditiveAttention, device: &Device) -> Tensor<3> {
    let attention = attention.to_device(device);
    // The same inputs on every backend; their random generators differ.
    let wave = |shape: [usize; 3]| {
        let count = shape.iter().product::<usize>() as i64;
        Tensor::<1, Int>::arange(0..count, device)
            .float()
            .sin()
            .reshape(shape)
    };
    let (queries, keys, values) = (wave([2, 3, 20]), wave([2, 10, 2]), wave([2, 10, 4]));
    let mask = Mask::valid_lens(Tensor::from_ints([2, 6], device));
    attention.forward(queries, keys, values, &mask)
}

fn main() -> Result<(), Box<dyn Error>> {
    let devices = devices();
    let first = devices
        .first()
        .ok_or("no backend is compiled in: add --features flex")?;
    let attention = AdditiveAttentionConfig::new(20, 2, 8).init(first);

    let mut reference = None;
    for device in &devices {
        let context = run(attention.clone(), device).try_into_vec_as::<f32>()?;
        let reference = reference.get_or_insert_with(|| context.clone());
        let difference = context
            .iter()
            .zip(reference)
            .map(|(here, there)| (here - *there).abs());
        let difference = difference.fold(0.0, f32::max);

        println!("{device:?}");
        println!("  first context: {:.4?}", &context[..4]);
        println!("  largest difference from the first device: {difference:e}");
        assert!(difference < 1e-5, "two devices disagree");
    }
    Ok(())
}
