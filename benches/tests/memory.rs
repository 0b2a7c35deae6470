//! The memory of attention at its peak.

use attention_benches::devices::{devices, on_host};
use attention_benches::memory::peak_extra;
use attention_benches::tensors::{call, finish, numbers, random};
use attention_core::{
    AdditiveAttentionConfig, DotProductAttentionConfig, Mask, MultiHeadAttentionConfig,
};
use attention_tests::parameters;
use burn::tensor::{DType, Device, Tensor};

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

/// Dot-product attention grows with queries + keys, not with their product, whatever the mask.
fn no_pair_of_query_and_key_takes_a_byte(name: &str, device: &Device) {
    let rows = (QUERIES + KEYS) as u64;
    for device in [device.clone(), device.clone().autodiff()] {
        let [whole, causal] = [Mask::none(), Mask::causal()].map(|mask| peak(&device, mask));
        let what = format!("{name}, autodiff {}", device.is_autodiff());
        // A byte for each pair would be 2048 for each row.
        assert!(whole <= 512 * rows, "{what}: {whole} bytes");
        let mask = causal.saturating_sub(whole);
        assert!(mask <= 32 * rows, "{what}: {mask} bytes for the mask");
    }
}

/// A decoder's step reads keys and values in half precision where they are.
fn half_precision_is_not_copied(name: &str, device: &Device) {
    let shape = [16, 512, 64];
    let keys: usize = shape.iter().product();
    for dtype in [DType::F16, DType::BF16] {
        let [keys_and_values, query] =
            [shape, [16, 1, 64]].map(|shape| numbers(shape, device).cast(dtype));
        let dot_product = DotProductAttentionConfig::new().init();
        let additive = AdditiveAttentionConfig::new(64, 64, 64).init(device);
        let additive = parameters::cast(additive, dtype);
        let memories = [
            dot_product.prepare(
                keys_and_values.clone(),
                keys_and_values.clone(),
                Mask::none(),
            ),
            additive.prepare(keys_and_values.clone(), keys_and_values, Mask::none()),
        ];
        let steps: [(&str, &dyn Fn() -> Tensor<3>); 2] = [
            ("dot product", &|| {
                dot_product.attend(query.clone(), &memories[0])
            }),
            ("additive", &|| additive.attend(query.clone(), &memories[1])),
        ];
        for (attention, step) in steps {
            finish(step());
            let peak = peak_extra(|| finish(step()));
            // Widened values alone would take four bytes for each number.
            assert!(
                peak < keys as u64 / 2,
                "{name}, {dtype:?}, {attention}: {peak} bytes"
            );
        }
    }
}

/// Heads of queries that share one of keys and values read it where it is.
fn shared_heads_are_not_copied(name: &str, device: &Device) {
    let module = MultiHeadAttentionConfig::new(64, 16)
        .with_num_key_value_heads(Some(1))
        .init(device);
    let keys_and_values = numbers([2, 4096, 64], device);
    let memory = module.prepare(
        keys_and_values.clone(),
        keys_and_values.clone(),
        Mask::none(),
    );
    let bytes = 4 * [memory.keys(), memory.values()]
        .map(|tensor| tensor.shape().num_elements())
        .iter()
        .sum::<usize>() as u64;
    let works: [(&str, u64, &dyn Fn()); 2] = [
        ("a step", bytes / 2, &|| {
            finish(module.attend(numbers([2, 1, 64], device), &memory));
        }),
        // What stays, and the products of the linear layers before they are split into heads.
        ("preparing", 4 * bytes, &|| {
            let inputs = (keys_and_values.clone(), keys_and_values.clone());
            std::hint::black_box(module.prepare(inputs.0, inputs.1, Mask::none()));
        }),
    ];
    for (work, limit, call) in works {
        call();
        let peak = peak_extra(call);
        assert!(
            peak <= limit,
            "{name}, {work}: {peak} bytes, of {bytes} of keys and values"
        );
    }
}

/// The only test of this program, which counts what all its threads allocate.
#[test]
fn memory_at_the_peak() {
    // Each thread would have a tile of its own.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .expect("no rayon threads run yet");
    for (name, device) in devices().into_iter().filter(|(_, device)| on_host(device)) {
        no_pair_of_query_and_key_takes_a_byte(name, &device);
        if name == "flex" {
            // ndarray has no half precision.
            half_precision_is_not_copied(name, &device);
        }
        shared_heads_are_not_copied(name, &device);
    }
}
