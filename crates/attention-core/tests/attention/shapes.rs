//! Every mismatch panics at the call, and says which axis, what was expected and what came.

use attention_core::functional::AttentionOptions;
use attention_core::{
    AdditiveAttentionConfig, DotProductAttentionConfig, Mask, MultiHeadAttentionConfig, functional,
    masked_softmax,
};
use attention_tests::{Array, MaskSpec, Path, device, refuses};
use burn::tensor::{DType, Device, Tensor};

fn zeros<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::zeros(shape, device)
}

#[test]
fn types_must_agree() {
    device::each(|device| {
        if !device::computes(device, DType::F64) {
            return;
        }
        let attention = DotProductAttentionConfig::new().init();
        let single: Tensor<3> = zeros([2, 5, 11], device);
        let double = single.clone().cast(DType::F64);
        let forward = |queries: &Tensor<3>, keys: &Tensor<3>| {
            let [q, k, v] = [queries, keys, &single].map(Tensor::clone);
            attention.forward(q, k, v, Mask::none())
        };
        let got = ["expected of type F32", "got F64"];
        refuses(["queries", got[0], got[1]], || forward(&double, &single));
        refuses(["keys", got[0], got[1]], || forward(&single, &double));
        forward(&single, &single);
    });
}

#[test]
fn keys_and_values_must_pair() {
    device::each_both_ways(|device| {
        let attention = DotProductAttentionConfig::new().init();
        let forward = |values: [usize; 4]| {
            let [queries, keys] = [5, 7].map(|len| zeros([2, 3, len, 11], device));
            attention.forward(queries, keys, zeros(values, device), Mask::none())
        };
        let expected = "values expected one for each key, [batch, heads, keys] = [2, 3, 7], got ";
        for got @ [batch, heads, number] in [[4, 3, 7], [2, 1, 7], [2, 3, 6], [2, 3, 0]] {
            let message = format!("{expected}{got:?}");
            refuses(&message, || forward([batch, heads, number, 13]));
        }
        refuses("[batch, heads, keys] = [2, 1, 7], got [2, 1, 6]", || {
            let (keys, values) = (zeros([2, 7, 11], device), zeros([2, 6, 13], device));
            attention.prepare(keys, values, Mask::none())
        });
    });
}

#[test]
fn queries_must_fit_keys() {
    device::each_both_ways(|device| {
        let attention = DotProductAttentionConfig::new().init();
        let (keys, values) = (zeros([2, 3, 7, 11], device), zeros([2, 3, 7, 13], device));
        let memory = attention.prepare(keys.clone(), values.clone(), Mask::none());
        let divide = "heads of keys expected to divide those of queries, 1, got 3";
        for (shape, expected) in [
            ([4, 3, 5, 11], "queries of 4 examples and keys of 2"),
            ([2, 1, 5, 11], divide),
            // For a dot product they must be of one size.
            ([2, 3, 5, 12], "axis 3 expected 12, got 11"),
        ] {
            let inputs = || [zeros(shape, device), keys.clone(), values.clone()];
            for path in [Path::Forward, Path::ForwardWithWeights] {
                refuses(expected, || path.call(&attention, inputs(), &Mask::none()));
            }
            let (queries, none) = (|| zeros(shape, device), Mask::none);
            refuses(expected, || attention.attend(queries(), &memory, none()));
            let attend = || attention.attend_with_weights(queries(), &memory, none());
            refuses(expected, attend);
        }
    });
}

#[test]
fn inputs_must_fit_the_parameters() {
    device::each_both_ways(|device| {
        let attention = AdditiveAttentionConfig::new(11, 13, 17).init(device);
        let (queries, keys) = (zeros([2, 5, 11], device), zeros([2, 7, 13], device));
        let values = zeros([2, 7, 19], device);
        let none = Mask::none();
        let forward = |queries, keys| attention.forward(queries, keys, values.clone(), &none);
        let wide = zeros([2, 5, 12], device);
        refuses("expected 11, got 12", || forward(wide, keys.clone()));
        let narrow = zeros([2, 7, 11], device);
        refuses("expected 13, got 11", || forward(queries, narrow));
        refuses("expected 13, got 14", || {
            attention.prepare(zeros([2, 7, 14], device), values.clone(), Mask::none())
        });
        let memory = attention.prepare(keys, values, Mask::none());
        refuses("expected 11, got 13", || {
            attention.attend(zeros([2, 5, 13], device), &memory, Mask::none())
        });
    });
}

#[test]
fn masks_must_fit_the_scores() {
    #[rustfmt::skip]
    let cases = [
        (MaskSpec::lens(&[1, 2, 3]), "valid lengths: axis `batch` expected 2 or 1, got 3"),
        (MaskSpec::lens_per_query(2, &[1; 8]), "valid lengths: axis `queries` expected 5 or 1, got 4"),
        (MaskSpec::lens_per_query(3, &[1; 15]), "valid lengths: axis `batch` expected 2 or 1, got 3"),
        (MaskSpec::Queries(Array::full(&[2, 7], 1.0)), "Mask::queries: axis `queries` expected 5 or 1, got 7"),
        (
            MaskSpec::lens(&[1, 2]).and(MaskSpec::Queries(Array::full(&[2, 7], 1.0))),
            "valid lengths & Mask::queries: axis `queries` expected 5 or 1, got 7",
        ),
        (MaskSpec::drawn(1, &[5, 6], 0.5), "Mask::keep: axis `keys` expected 7 or 1, got 6"),
        (MaskSpec::drawn(1, &[4, 7], 0.5), "Mask::keep: axis `queries` expected 5 or 1, got 4"),
        (MaskSpec::drawn(1, &[3, 5, 7], 0.5), "Mask::keep: axis `batch` expected 2 or 1, got 3"),
        (MaskSpec::drawn(1, &[2, 2, 5, 7], 0.5), "Mask::keep: axis `heads` expected 3 or 1, got 2"),
    ];
    device::each_both_ways(|device| {
        for (mask, expected) in &cases {
            let mask = mask.mask(device);
            let scores = [2, 3, 5, 7];
            let parts = [*expected, "[2, 3, 5, 7]"];
            refuses(parts, || masked_softmax(zeros(scores, device), &mask));
            let dot_product = DotProductAttentionConfig::new().init();
            let additive = AdditiveAttentionConfig::new(11, 11, 17).init(device);
            let inputs = || [5, 7, 7].map(|len| zeros([2, 3, len, 11], device));
            let [q, k, v] = inputs();
            refuses(parts, || dot_product.forward(q, k, v, &mask));
            let [q, k, v] = inputs();
            refuses(parts, || additive.forward_with_weights(q, k, v, &mask));
            let [q, k, v] = inputs();
            refuses(*expected, || {
                let memory = additive.prepare(k, v, mask.clone());
                additive.attend(q, &memory, Mask::none())
            });
        }
    });
}

#[test]
fn a_mask_of_two_axes_has_one_meaning() {
    device::each_both_ways(|device| {
        let attention = DotProductAttentionConfig::new().init();
        let forward = |[batch, queries]: [usize; 2], mask: &Mask| {
            let rows = |len| zeros([batch, 2, len, 11], device);
            attention.forward(rows(queries), rows(7), rows(7), mask)
        };
        let flags = |rows| Tensor::<2>::zeros([rows, 7], device).bool();
        let message = ["Mask::drop", "4 examples and 4 queries", "Mask::padding"];
        refuses(message, || forward([4, 4], &Mask::drop(flags(4))));
        let message = ["Mask::keep", "[4, 7]", "Mask::not_padding"];
        refuses(message, || forward([4, 4], &Mask::keep(flags(4))));
        let message = ["Mask::drop", "with 5 queries, got [4, 7]", "Mask::padding"];
        refuses(message, || forward([4, 5], &Mask::drop(flags(4))));
        let message = ["Mask::padding", "axis `batch` expected 4 or 1, got 5"];
        refuses(message, || forward([4, 5], &Mask::padding(flags(5))));
        for mask in [
            Mask::keep(flags(1)) & Mask::drop(flags(4)),
            Mask::drop(flags(4)) & Mask::keep(flags(1)),
            Mask::padding(flags(4)) & Mask::drop(flags(4)),
        ] {
            let message = ["Mask::drop: expected one meaning", "Mask::padding takes"];
            refuses(message, || forward([4, 4], &mask));
        }
        let one_meaning = [
            ([4, 4], Mask::padding(flags(4))),
            ([4, 4], Mask::drop(flags(4).unsqueeze::<3>())),
            ([4, 4], Mask::drop(flags(1))),
            ([1, 1], Mask::drop(flags(1))),
            ([4, 5], Mask::drop(flags(5))),
        ];
        for (sizes, mask) in one_meaning {
            forward(sizes, &mask);
        }
    });
}

#[test]
fn messages_name_the_argument() {
    device::each_both_ways(|device| {
        let attention = AdditiveAttentionConfig::new(11, 13, 17).init(device);
        let heads = MultiHeadAttentionConfig::new(12, 3).init(device);
        let none = Mask::none();
        let rows = |batch, len, size| zeros([batch, len, size], device);
        refuses("last axis of the keys expected 13, got 12", || {
            attention.forward(rows(2, 5, 11), rows(2, 7, 12), rows(2, 7, 19), &none)
        });
        refuses("last axis of the values expected 12, got 10", || {
            heads.forward(rows(2, 5, 12), rows(2, 7, 12), rows(2, 7, 10), &none)
        });
        refuses(["one batch", "queries of 2 examples and keys of 3"], || {
            heads.forward(rows(2, 5, 12), rows(3, 7, 12), rows(3, 7, 12), &none)
        });
        let message = "keys expected of type F32, as the weight, got F64";
        let rows = |len, size| rows(2, len, size).cast(DType::F64);
        let (queries, keys, values) = (rows(5, 11), rows(7, 13), rows(7, 19));
        refuses(message, || attention.forward(queries, keys, values, &none));
    });
}

#[test]
fn masks_must_fit_each_other() {
    device::each(|device| {
        let lens = || MaskSpec::lens(&[1, 2]);
        let queries = MaskSpec::Queries(Array::full(&[3, 5], 1.0));
        let keep = |shape: &[usize]| MaskSpec::drawn(1, shape, 0.5);
        let (pairs, heads) = (keep(&[5, 7]), keep(&[2, 3, 1, 7]));
        let refused = |parts: [&str; 2], one: MaskSpec, other: MaskSpec| {
            refuses(parts, || one.mask(device) & other.mask(device));
        };
        let batch = "axis 0 expected 2 or 1, got 3";
        let three = MaskSpec::lens(&[1, 2, 3]);
        refused(["valid lengths", batch], lens(), three);
        refused(["Mask::queries", batch], lens(), queries);
        let axis = "axis 3 expected 7 or 1, got 6";
        refused(["Mask::keep", axis], pairs, keep(&[5, 6]));
        let axis = "axis 1 expected 3 or 1, got 2";
        refused(["Mask::keep", axis], heads, keep(&[1, 2, 5, 1]));
    });
}

#[test]
fn operations_check_their_operands() {
    device::each_both_ways(|device| {
        let none = Mask::none();
        let queries = || zeros([2, 3, 5, 11], device);
        let keys = |shape: [usize; 4]| zeros(shape, device);
        let additive = |shape, weight| {
            let weight = Tensor::<1>::zeros([weight], device);
            functional::additive_score(queries(), keys(shape), weight, &none)
        };
        let dot = |shape| functional::dot_product_score(queries(), keys(shape), &none, 1.0);
        let sum = |values| functional::weighted_sum(keys([2, 3, 5, 7]), keys(values), &none);
        let attend = |key_shape, value_shape, scale| {
            let mut options = AttentionOptions::from(&none);
            options.scale = Some(scale);
            let (keys, values) = (keys(key_shape), keys(value_shape));
            functional::dot_product_attention(queries(), keys, values, &options)
        };
        let heads = ["heads of keys", "divide those of queries, 3, got 2"];
        refuses(heads, || additive([2, 2, 7, 11], 11));
        refuses(heads, || dot([2, 2, 7, 11]));
        refuses(heads, || sum([2, 2, 7, 13]));
        refuses(heads, || attend([2, 2, 7, 11], [2, 2, 7, 13], 1.0));
        let size = "axis 3 expected 11, got 12";
        refuses(size, || additive([2, 3, 7, 12], 11));
        refuses(size, || dot([2, 3, 7, 12]));
        refuses(size, || attend([2, 3, 7, 12], [2, 3, 7, 13], 1.0));
        refuses("axis 0 expected 11, got 10", || additive([2, 3, 7, 11], 10));
        refuses("axis 0 expected 2, got 1", || dot([1, 3, 7, 11]));
        let keys_of_values = "axis 2 expected 7, got 6";
        refuses(keys_of_values, || sum([2, 3, 6, 13]));
        let one_for_each_key = || attend([2, 3, 7, 11], [2, 3, 6, 13], 1.0);
        refuses("= [2, 3, 7], got [2, 3, 6]", one_for_each_key);
        let scale = "scale expected to be finite, got NaN";
        refuses(scale, || attend([2, 3, 7, 11], [2, 3, 7, 13], f64::NAN));
        let lens = MaskSpec::lens(&[1, 2, 3]).mask(device);
        refuses("axis `batch` expected 2 or 1, got 3", || {
            functional::fill_padding(keys([2, 3, 7, 13]), &lens, [3, 5])
        });
    });
}

#[test]
fn configurations_check_their_numbers() {
    let device = &device::plain()[0];
    let additive = AdditiveAttentionConfig::new;
    for [queries, keys, hiddens] in [[0, 2, 3], [1, 0, 3], [1, 2, 0]] {
        let config = additive(queries, keys, hiddens);
        refuses("expected at least 1, got 0", || config.init(device));
    }
    for dropout in [-0.1, 1.0, 1.5, f64::NAN] {
        let config = additive(1, 2, 3).with_dropout(dropout);
        refuses("robability", || config.init(device));
        let config = DotProductAttentionConfig::new().with_dropout(dropout);
        refuses("robability", || config.init());
    }
    for scale in [f64::NAN, f64::INFINITY] {
        let config = DotProductAttentionConfig::new().with_scale(Some(scale));
        refuses("scale expected a finite number", || config.init());
    }
}
