//! What attention costs on the backends compiled in, forward and forward + backward, beside Burn's own
//! `attention` where there is one.
//!
//! `cargo bench -p attention-benches`, with `--features ndarray` (or `wgpu`) for more backends.

#![cfg_attr(
    feature = "ndarray",
    allow(deprecated, reason = "Burn deprecates `Device::ndarray`")
)]

use attention_benches::{Contestant, medians};
use attention_core::{AdditiveAttentionConfig, DotProductAttentionConfig, Mask};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Distribution, Tensor};

const ROUNDS: usize = 7;

fn main() {
    println!(
        "milliseconds, medians of {ROUNDS} interleaved rounds: forward / forward + backward\n"
    );
    additive("additive b8 q128 k128 d256 h256", 8, 128, 128, 256);
    additive("additive, decoding: b64 q1 k64 d256 h256", 64, 1, 64, 256);
    dot_product("dot product b8 heads8 q128 k128 d64", 8, 128);
    dot_product("dot product b2 heads8 q1024 k1024 d64", 2, 1024);
}

fn devices() -> Vec<(&'static str, Device)> {
    vec![
        #[cfg(feature = "flex")]
        ("flex", Device::flex()),
        #[cfg(feature = "ndarray")]
        ("ndarray", Device::ndarray()),
        #[cfg(feature = "wgpu")]
        (
            "wgpu",
            Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        ),
    ]
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// Waits until `tensor` is computed.
fn finish<const D: usize>(tensor: Tensor<D>) {
    std::hint::black_box(tensor.into_data());
}

/// The gradient of the sum of `output` with respect to `leaf`.
fn finish_backward<const D: usize>(output: Tensor<D>, leaf: &Tensor<D>) {
    let gradients = output.sum().backward();
    finish(leaf.grad(&gradients).expect("the leaf requires a gradient"));
}

fn additive(title: &str, batch: usize, queries: usize, keys: usize, size: usize) {
    let mut contestants = Vec::new();
    for (name, device) in devices() {
        let train = device.clone().autodiff();
        for (what, device) in [("forward", device), ("forward + backward", train)] {
            let module = AdditiveAttentionConfig::new(size, size, size).init(&device);
            let queries = random([batch, queries, size], &device);
            let keys = random([batch, keys, size], &device);
            let values = random([batch, keys.dims()[1], size], &device);
            contestants.push(Contestant::new(format!("{name}, {what}"), move || {
                let queries = queries.clone();
                if !device.is_autodiff() {
                    finish(module.forward(queries, keys.clone(), values.clone(), &Mask::none()));
                    return;
                }
                let queries = queries.require_grad();
                let output =
                    module.forward(queries.clone(), keys.clone(), values.clone(), &Mask::none());
                finish_backward(output, &queries);
            }));
        }
    }
    report(title, contestants);
}

fn dot_product(title: &str, batch: usize, rows: usize) {
    let mut contestants = Vec::new();
    for (name, device) in devices() {
        let train = device.clone().autodiff();
        for (what, device) in [("forward", device), ("forward + backward", train)] {
            let inputs = [0; 3].map(|_| random([batch, 8, rows, 64], &device));
            let ours = DotProductAttentionConfig::new().init();
            let pooling = move |[q, k, v]: [Tensor<4>; 3]| ours.forward(q, k, v, &Mask::none());
            let burns = |[q, k, v]: [Tensor<4>; 3]| {
                attention(q, k, v, None, None, AttentionModuleOptions::default())
            };
            contestants.push(pooled(format!("{name}, {what}"), inputs.clone(), pooling));
            contestants.push(pooled(format!("{name}, {what}, Burn's own"), inputs, burns));
        }
    }
    report(title, contestants);
}

fn pooled<'a>(
    name: String,
    inputs: [Tensor<4>; 3],
    attend: impl Fn([Tensor<4>; 3]) -> Tensor<4> + 'a,
) -> Contestant<'a> {
    Contestant::new(name, move || {
        let [queries, keys, values] = inputs.clone();
        if !queries.device().is_autodiff() {
            finish(attend([queries, keys, values]));
            return;
        }
        let queries = queries.require_grad();
        let output = attend([queries.clone(), keys, values]);
        finish_backward(output, &queries);
    })
}

fn report(title: &str, mut contestants: Vec<Contestant>) {
    println!("{title}");
    let medians = medians(&mut contestants, ROUNDS);
    for (contestant, median) in contestants.iter().zip(medians) {
        println!(
            "  {:<40} {:>9.2}",
            contestant.name,
            1e3 * median.as_secs_f64()
        );
    }
    println!();
}
