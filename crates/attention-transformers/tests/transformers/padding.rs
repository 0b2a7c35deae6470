//! Padding is ignored through whole stacks, and an example has the same answer in any batch.

use attention_core::score::DotProductScoreConfig;
use attention_core::{Mask, NewRows, ScoringFunction};
use attention_tests::{Array, Outcome, assert_close, assert_same, assert_zero, device, parameters};
use attention_transformers::layer::NormConfig;
use attention_transformers::{NormOrder, TransformerDecoderConfig, TransformerEncoderConfig};
use burn::tensor::{Bool, DType, Device, Int, Tensor};

use super::models::{
    Around, HIDDENS, Stack, around_each, drawn, layer, lens, models, new_rows, padded, tensor, text,
};

const BATCH: usize = 2;
const ROWS: usize = 5;
const LENS: [usize; BATCH] = [5, 3];

struct Stacks<'a>(&'a Device, NormOrder, NormConfig);

impl Around for Stacks<'_> {
    type Made = Box<dyn Stack>;

    fn around<S: ScoringFunction>(&self, score: impl FnMut(usize) -> S) -> Self::Made {
        let Self(device, order, norm) = self;
        let layer = layer().with_norm_order(*order).with_norm(norm.clone());
        let config = TransformerEncoderConfig::new(layer, 2);
        Box::new(drawn(config.init_with(score, device)))
    }
}

/// Elements that are drawn, but for padding.
fn rows(seed: u64, padding: f64) -> Array {
    Array::draw(seed, &[BATCH, ROWS, HIDDENS]).masked_fill(padding, |at| at[1] >= LENS[at[0]])
}

/// The padding alone.
fn of_padding(array: &Array) -> Array {
    array.masked_fill(0.0, |at| at[1] < LENS[at[0]])
}

/// Every way to say that the last two rows of the second example are padding.
fn masks(device: &Device) -> Vec<(&'static str, Mask)> {
    let lens = || Mask::valid_lens(lens(&[5, 3], device));
    let keep = || {
        let keep = Array::from_fn(&[BATCH, ROWS], |at| f64::from(at[1] < LENS[at[0]]));
        keep.bool::<2>(device)
    };
    let padding: Tensor<2, Bool> = keep().bool_not();
    let pairs = |attends: fn(usize, usize) -> bool| {
        let pairs = Array::from_fn(&[ROWS, ROWS], |at| f64::from(attends(at[0], at[1])));
        Mask::keep(pairs.bool::<2>(device))
    };
    let pairs = || pairs(|i, j| i <= j + 3) & pairs(|i, j| i + 2 >= j);
    vec![
        ("lengths", lens()),
        ("lengths, causal", lens() & Mask::causal()),
        ("lengths, window", lens() & Mask::window(1, 2)),
        ("padding", Mask::padding(padding)),
        ("queries", Mask::queries(keep()) & Mask::not_padding(keep())),
        ("segments", Mask::segments(&[vec![2, 3], vec![2, 1]])),
        ("lengths, queries", lens() & Mask::queries(keep())),
        ("padding, pairs", Mask::not_padding(keep()) & pairs()),
    ]
}

/// The result and all gradients, with `padding` in rows of padding and in the gradients that they receive.
fn run(stack: &dyn Stack, mask: &Mask, padding: f64, device: &Device) -> Outcome {
    let leaf = rows(1, padding).leaf::<3>(device, DType::F32);
    let output = stack.whole(leaf.clone(), mask);
    let received = rows(2, padding).f32::<3>(device);
    let gradients = (output.clone() * received).sum().backward();
    let mut outcome = stack.gradients(&gradients);
    outcome.insert("rows".into(), parameters::gradient(&leaf, Some(&gradients)));
    outcome.insert("output".into(), Array::read(output));
    outcome
}

fn same(what: &str, stack: &dyn Stack, mask: &Mask, device: &Device) {
    let [clean, dirty] = [0.5, f64::NAN].map(|padding| run(stack, mask, padding, device));
    for (name, expected) in &clean {
        let what = format!("{what}: {name}");
        assert!(expected.data.iter().all(|x| x.is_finite()), "{what}");
        assert_same(&what, &dirty[name], expected);
    }
    for name in ["output", "rows"] {
        assert_zero(format!("{what}: {name}"), &of_padding(&clean[name]));
    }
    assert!(clean["output"].magnitude() > 0.1, "{what}");
}

#[test]
fn nan_in_padding_reaches_nothing_with_any_score() {
    device::each_training(|device| {
        let stacks = Stacks(device, NormOrder::Pre, NormConfig::layer());
        for (name, stack) in around_each(&stacks, device) {
            for (of_mask, mask) in masks(device) {
                same(&format!("{name}, {of_mask}"), &*stack, &mask, device);
            }
        }
    });
}

#[test]
fn nan_in_padding_reaches_no_norm() {
    device::each_training(|device| {
        for order in [NormOrder::Pre, NormOrder::Post, NormOrder::Sandwich] {
            for norm in [NormConfig::layer(), NormConfig::rms()] {
                let what = format!("{order:?}, {norm:?}");
                let stack =
                    Stacks(device, order, norm).around(|_| DotProductScoreConfig::new().init());
                for (of_mask, mask) in masks(device) {
                    same(&format!("{what}, {of_mask}"), &*stack, &mask, device);
                }
            }
        }
    });
}

#[test]
fn nan_in_the_padding_of_a_decoder_reaches_nothing() {
    device::each_training(|device| {
        let stack = drawn(TransformerDecoderConfig::new(layer(), 2).init(device));
        let run = |padding: f64| {
            let leaves = [rows(1, padding), rows(3, padding)];
            let [targets, encoded] = leaves.map(|of| of.leaf::<3>(device, DType::F32));
            let mask = || Mask::valid_lens(lens(&[5, 3], device));
            let memory = stack.prepare(encoded.clone(), mask());
            let output = stack.forward(targets.clone(), mask(), &memory);
            let received = rows(2, padding).f32::<3>(device);
            let gradients = (output.clone() * received).sum().backward();
            let mut outcome = parameters::gradients(&stack, Some(&gradients));
            for (name, leaf) in [("targets", &targets), ("encoded", &encoded)] {
                outcome.insert(name.into(), parameters::gradient(leaf, Some(&gradients)));
            }
            outcome.insert("output".into(), Array::read(output));
            outcome
        };
        let [clean, dirty] = [0.5, f64::NAN].map(run);
        for (name, expected) in &clean {
            assert_same(name, &dirty[name], expected);
        }
        for name in ["output", "targets", "encoded"] {
            assert_zero(name, &of_padding(&clean[name]));
            assert!(clean[name].magnitude() > 0.0, "{name}");
        }
    });
}

#[test]
fn the_answer_of_a_text_does_not_depend_on_its_batch() {
    device::each(|device| {
        for (name, model) in models(device, DType::F32) {
            let texts = [text(1, [1, 3]), text(2, [1, 8]), text(3, [1, 1])].concat();
            let lens = [3, 8, 1];
            for is_left in [false, true] {
                let padded = padded(&texts, 8, is_left, device);
                let all = Array::read(model.whole(padded, new_rows(&lens, is_left)));
                for (b, own) in texts.iter().enumerate() {
                    let own = tensor(std::slice::from_ref(own), device);
                    let alone = Array::read(model.whole(own, NewRows::All));
                    let first = if is_left { 8 - lens[b] } else { 0 };
                    let got = Array::from_fn(&alone.shape, |at| all.at(&[b, first + at[1], at[2]]));
                    assert_close(format!("{name}, text {b}"), &got, &alone, 1e-5);
                }
            }
        }
    });
}

/// A mask of pairs makes no padding, even where no row attends to the last one.
#[test]
fn a_row_that_no_row_attends_to_is_still_computed() {
    device::each(|device| {
        let stack = Stacks(device, NormOrder::Pre, NormConfig::layer())
            .around(|_| DotProductScoreConfig::new().init());
        let rows = || rows(1, 0.5).f32::<3>(device);
        let before: Tensor<1, Int> = Tensor::from_ints([1, 1, 2, 3, 4], device);
        let mask = Mask::valid_lens_per_query(before.unsqueeze());
        let output = Array::read(stack.whole(rows(), &mask));
        let last = Array::from_fn(&[BATCH, HIDDENS], |at| output.at(&[at[0], 4, at[1]]));
        assert!(last.magnitude() > 0.1);
        let keep = Array::from_fn(&[1, 5, 5], |at| f64::from(at[2] < at[1].max(1)));
        let by_pairs = stack.whole(rows(), &Mask::keep(keep.bool::<3>(device)));
        assert_close("pairs", by_pairs, &output, 1e-6);
    });
}
