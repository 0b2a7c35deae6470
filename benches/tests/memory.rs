//! The memory of attention at its peak, and of layers some of whose tensors are frozen.

use attention_benches::devices::{devices, on_host};
use attention_benches::memory::peak_extra;
use attention_benches::tensors::{call, finish, numbers, random};
use attention_core::score::DotProductScoreConfig;
use attention_core::{
    AdditiveAttentionConfig, Attention, AttentionOptions, DotProductAttentionConfig, KeyValueCache,
    Mask, MultiHeadAttentionConfig, NewRows,
};
use attention_tests::parameters;
use burn::tensor::{DType, Device, Int, Tensor};
use burn_fused_layers::recurrent::{CellKind, Steps, recurrent};
use burn_fused_layers::{ClassTargets, linear_cross_entropy};

const QUERIES: usize = 4093;
const KEYS: usize = 4099;

/// The most bytes at once, outputs included, of a forward pass, and on a device that trains of the backward pass too.
fn peak(device: &Device, options: impl Into<AttentionOptions>) -> u64 {
    let options = options.into();
    let inputs = [QUERIES, KEYS, KEYS].map(|rows| random([1, rows, 8], device));
    let attention = DotProductAttentionConfig::new().init();
    let mut work = call(inputs, &[], move |[q, k, v]: [Tensor<3>; 3]| {
        attention.forward(q, k, v, &options)
    });
    // Buffers that stay from call to call are not of this one.
    work();
    peak_extra(work)
}

/// Dot-product attention grows with queries + keys, not with their product, whatever the mask, beside extra keys too.
fn no_pair_of_query_and_key_takes_a_byte(name: &str, device: &Device) {
    let rows = (QUERIES + KEYS) as u64;
    for device in [device.clone(), device.clone().autodiff()] {
        let [whole, causal] = [Mask::none(), Mask::causal()].map(|mask| peak(&device, mask));
        let what = format!("{name}, autodiff {}", device.is_autodiff());
        // A byte for each pair would be 2048 for each row.
        assert!(whole <= 512 * rows, "{what}: {whole} bytes");
        let mask = causal.saturating_sub(whole);
        assert!(mask <= 32 * rows, "{what}: {mask} bytes for the mask");
        let mut options = AttentionOptions::from(Mask::causal());
        options.extra_keys = Some([(); 2].map(|()| Tensor::ones([1, 1, 1, 8], &device)));
        let beside = peak(&device, options);
        let what = format!("{what}: {beside} bytes beside an extra key, {causal} without");
        println!("{what}");
        assert!(beside <= causal + 512 * rows, "{what}");
    }
}

/// A decoder's step reads keys and values in half precision where they are.
fn half_precision_is_not_copied(name: &str, device: &Device) {
    let shape = [16, 512, 64];
    let keys: usize = shape.iter().product();
    for dtype in [DType::F16, DType::BF16] {
        let [rows, query] = [shape, [16, 1, 64]].map(|shape| numbers(shape, device).cast(dtype));
        let dot_product = DotProductAttentionConfig::new().init();
        let additive = AdditiveAttentionConfig::new(64, 64, 64).init(device);
        let additive = parameters::cast(additive, dtype);
        let of_dot_product = dot_product.prepare(rows.clone(), rows.clone(), Mask::none());
        let of_additive = additive.prepare(rows.clone(), rows, Mask::none());
        let dot_product = || dot_product.attend(query.clone(), &of_dot_product, Mask::none());
        let additive = || additive.attend(query.clone(), &of_additive, Mask::none());
        let steps: [(&str, &dyn Fn() -> Tensor<3>); 2] =
            [("dot product", &dot_product), ("additive", &additive)];
        for (attention, step) in steps {
            finish(step());
            let peak = peak_extra(|| finish(step()));
            let what = format!("{name}, {dtype:?}, {attention}: {peak} bytes");
            // Widened values alone would take four bytes for each number.
            assert!(peak < keys as u64 / 2, "{what}");
        }
    }
}

/// Heads of queries that share one of keys and values read it where it is.
fn shared_heads_are_not_copied(name: &str, device: &Device) {
    let module = MultiHeadAttentionConfig::new(64, 16)
        .with_num_key_value_heads(Some(1))
        .init(device);
    let rows = numbers([2, 4096, 64], device);
    let memory = module.prepare(rows.clone(), rows.clone(), Mask::none());
    let elements = [memory.keys(), memory.values()].map(|tensor| tensor.shape().num_elements());
    let bytes = 4 * elements.iter().sum::<usize>() as u64;
    let works: [(&str, u64, &dyn Fn()); 2] = [
        ("a step", bytes / 2, &|| {
            finish(module.attend(numbers([2, 1, 64], device), &memory, Mask::none()));
        }),
        // The memory itself, and the products of the linear layers before they are split into heads.
        ("preparing", 4 * bytes, &|| {
            std::hint::black_box(module.prepare(rows.clone(), rows.clone(), Mask::none()));
        }),
    ];
    for (work, limit, call) in works {
        call();
        let peak = peak_extra(call);
        let what = format!("{name}, {work}: {peak} bytes, of {bytes} of keys and values");
        assert!(peak <= limit, "{what}");
    }
}

/// A cache takes the memory of its keys and values, with the heads of the keys; a step takes nothing that grows with
/// them.
fn a_cache_takes_its_keys_and_values(name: &str, device: &Device) {
    const CAPACITY: usize = 2048;
    const KEY_HEADS: usize = 4;
    const SIZE: usize = 16;
    let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
    let [query, key] = [32, KEY_HEADS].map(|heads| numbers([2, heads, 1, SIZE], device));
    let step = |cache: &mut KeyValueCache| {
        let (q, k, v) = (query.clone(), key.clone(), key.clone());
        finish(attention.forward_cached(q, k, v, NewRows::All, cache, Mask::none()));
    };
    let bytes = (2 * 2 * KEY_HEADS * CAPACITY * SIZE * size_of::<f32>()) as u64;
    step(&mut KeyValueCache::with_capacity(CAPACITY));
    let mut cache = KeyValueCache::with_capacity(CAPACITY);
    let peak = peak_extra(|| (0..CAPACITY - 2).for_each(|_| step(&mut cache)));
    let what = format!("{name}: {peak} bytes of a cache, of {bytes} of keys and values");
    // Burn copies zeros once where it makes a tensor of them: the values', beside the keys.
    assert!(peak <= bytes + bytes / 2 + bytes / 8, "{what}");
    let peak = peak_extra(|| step(&mut cache));
    assert!(peak <= bytes / 8, "{name}: {peak} bytes of a step");
    // Beams share the keys of their prefix, and what is left of them in the end has its own.
    let peak = peak_extra(|| {
        cache.expand(8);
        cache.select(Tensor::from_ints([3, 9], device));
        step(&mut cache);
    });
    assert!(peak <= bytes / 8, "{name}: {peak} bytes of beams");
}

/// The most bytes at once of a loss and its gradients, in a second step.
fn training_peak(loss: impl Fn() -> Tensor<1>) -> u64 {
    let step = || drop(std::hint::black_box(loss().backward()));
    step();
    peak_extra(step)
}

/// Numbers, as a leaf or frozen.
fn leaf<const D: usize>(shape: [usize; D], device: &Device, is_frozen: bool) -> Tensor<D> {
    numbers(shape, device).set_require_grad(!is_frozen)
}

/// The gradient of a frozen tensor takes no memory, where the forward pass makes the gradients too.
fn frozen_tensors_of_cross_entropy_take_no_gradient(name: &str, device: &Device) {
    for (what, frozen, [rows, size, classes]) in [
        ("input", [true, false], [4096, 64, 16]),
        ("weight", [false, true], [64, 128, 4096]),
    ] {
        let targets = Tensor::<1, Int>::zeros([rows], device);
        let factors = Tensor::<1>::ones([rows], device);
        let [all, some] = [[false; 2], frozen].map(|[is_input_frozen, is_weight_frozen]| {
            let input = leaf([rows, size], device, is_input_frozen);
            let weight = leaf([size, classes], device, is_weight_frozen);
            training_peak(|| {
                let targets = ClassTargets::new(targets.clone(), factors.clone());
                linear_cross_entropy(input.clone(), weight.clone(), None, targets).0
            })
        });
        let elements = if frozen[0] { rows } else { classes } * size;
        let gradient = 4 * elements as u64;
        let bytes = format!("{some} bytes, {all} with its gradient of {gradient}");
        assert!(some + gradient <= all, "{name}, frozen {what}: {bytes}");
    }
}

/// The gradient of a weight is a product of all steps, whose operands are not made for a frozen one.
fn frozen_weights_of_recurrent_layers_take_no_gradient(name: &str, device: &Device) {
    let [batch, steps, size] = [16, 64, 32];
    for cell in [CellKind::Gru, CellKind::Lstm] {
        let width = cell.gates() * size;
        let gates = leaf([batch, steps, width], device, false);
        let initial = leaf([cell.states(), batch, size], device, true);
        let [all, some] = [false, true].map(|is_frozen| {
            let weight = leaf([size, width], device, is_frozen);
            let bias = leaf([width], device, is_frozen);
            training_peak(|| {
                let (gates, initial) = (gates.clone(), initial.clone());
                let hidden = (weight.clone(), bias.clone());
                let states = recurrent(cell, gates, hidden, None, initial, Steps::all());
                states.all().sum()
            })
        });
        let columns = match cell {
            CellKind::Gru => size + width,
            // The gates have the gradient of the hidden projection, too.
            CellKind::Lstm => size,
        };
        let operands = 4 * (batch * steps * columns) as u64;
        let bytes = format!("{some} bytes, {all} with the weight's gradient, made of {operands}");
        assert!(some + operands <= all, "{name}, {cell:?}: {bytes}");
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
        a_cache_takes_its_keys_and_values(name, &device);
        let training = device.autodiff();
        frozen_tensors_of_cross_entropy_take_no_gradient(name, &training);
        frozen_weights_of_recurrent_layers_take_no_gradient(name, &training);
    }
}
