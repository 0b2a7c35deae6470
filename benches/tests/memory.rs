//! What dot-product attention takes at its peak grows with queries + keys, not with their product.

use attention_benches::memory::peak_extra;
use attention_benches::tensors::{call, devices, on_host, random};
use attention_core::{DotProductAttentionConfig, Mask};
use burn::tensor::{Device, Tensor};

const QUERIES: usize = 4093;
const KEYS: usize = 4099;

/// The most bytes at once, outputs included, of a forward pass, and on a device that trains of the backward pass too.
fn peak(device: &Device, mask: Mask) -> u64 {
    let inputs = [QUERIES, KEYS, KEYS].map(|rows| random([1, rows, 8], device));
    let attention = DotProductAttentionConfig::new().init();
    let mut work = call(inputs, &[], move |[q, k, v]: [Tensor<3>; 3]| {
        attention.forward(q, k, v, &mask)
    });
    // Buffers that stay from call to call are not of this one.
    work();
    peak_extra(work)
}

/// The only test of this program, which counts what all its threads allocate.
#[test]
fn no_pair_of_query_and_key_takes_a_byte() {
    // Each thread would have a tile of its own.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .expect("no rayon threads run yet");
    let rows = (QUERIES + KEYS) as u64;
    for (name, device) in devices().into_iter().filter(|(name, _)| on_host(name)) {
        for device in [device.clone(), device.autodiff()] {
            let [whole, causal] = [Mask::none(), Mask::causal()].map(|mask| peak(&device, mask));
            let what = format!("{name}, autodiff {}", device.is_autodiff());
            // A byte for each pair would be 2048 for each row.
            assert!(whole <= 512 * rows, "{what}: {whole} bytes");
            let mask = causal.saturating_sub(whole);
            assert!(mask <= 32 * rows, "{what}: {mask} bytes for the mask");
        }
    }
}
