//! Shapes that do not fit together must be refused, with a message that says what was expected.

use std::panic::{AssertUnwindSafe, catch_unwind};

use attention_kernels::{
    AdditiveScoreGradients, AdditiveScoreInputs, AttentionInputs, AttentionReal, Dropout, Mask,
    Rows, masked_softmax,
};
use cpu_kernels::Level;

use super::case::{Case, Kind};
use super::kernels::{Inputs, outputs, terms};
use super::tensor::Storage;

/// Runs what the case was made for, each time with one thing of another size.
pub(super) fn check<E: AttentionReal>(case: &Case, level: Level) {
    let inputs = Inputs::<E>::new(case, Storage::Whole);
    match case.kind {
        Kind::AdditiveScore => additive_score(&inputs, level),
        _ => attention(&inputs, level),
    }
    views::<E>(case, level);
    masks(&inputs, level);
}

/// # Panics
/// If `run` does not panic, or not with a message of the library.
fn assert_refused(what: &str, case: &Case, run: impl FnOnce()) {
    let Err(message) = catch_unwind(AssertUnwindSafe(run)) else {
        panic!("{what} was taken: {case:?}");
    };
    let text = message.downcast_ref::<String>().map_or("", String::as_str);
    assert!(text.contains("expected"), "{what} gave {text:?}: {case:?}");
}

/// Masks of more queries or keys than there are.
fn masks<E: AttentionReal>(inputs: &Inputs<E>, level: Level) {
    let case = inputs.case;
    let [_, _, queries, keys] = case.sizes.scores();
    let flags = vec![true; keys + 2];
    let bounds = vec![[0, 1]; queries + 2];
    let masks = [
        Mask::none().with_keep(&flags, [1, 1, 1, keys + 2]),
        Mask::none().with_intervals(&bounds, [1, queries + 2]),
    ];
    for mask in masks {
        let [context, lse] = case.output_lens();
        let (mut context, mut lse) = (outputs(context), terms(lse));
        let mut scores = outputs(case.sizes.pairs());
        let (mut score, mut attention) = (inputs.score(), inputs.attention());
        (score.mask, attention.mask) = (mask, mask);
        assert_refused("a mask of another shape", case, || match case.kind {
            Kind::AdditiveScore => score.forward(level, &mut scores),
            _ => attention.forward(level, &mut context, &mut lse),
        });
        assert_refused("a mask of another shape", case, || {
            let scores = case.score_gradient.view(&inputs.score_gradient);
            let len = case.sizes.pairs();
            masked_softmax(level, &mask, scores, &mut outputs(len));
        });
    }
}

fn views<E: AttentionReal>(case: &Case, level: Level) {
    let shape = case.sizes.scores();
    let len: usize = shape.iter().product();
    let elements = outputs::<E>(len + 1);
    assert_refused("a longer tensor", case, || {
        Rows::contiguous(&elements, shape);
    });
    if len > 0 {
        assert_refused("a tensor that ends before its last row", case, || {
            let [_, heads, queries, keys] = shape;
            let strides = [heads * queries * keys, queries * keys, keys];
            Rows::strided(&elements[..len - 1], shape, strides);
        });
    }
    let flags = vec![true; len + 1];
    assert_refused("a flag too many", case, || {
        let _ = Mask::none().with_keep(&flags, shape);
    });
    let bounds = vec![[0, 1]; shape[0] * shape[2] + 1];
    assert_refused("an interval too many", case, || {
        let _ = Mask::none().with_intervals(&bounds, [shape[0], shape[2]]);
    });
    assert_refused("more than 1", case, || {
        Dropout::new(1.5, 0);
    });
    assert_refused("weights of another shape", case, || {
        let scores = Rows::contiguous(&elements[..len], shape);
        masked_softmax(level, &Mask::none(), scores, &mut outputs(len + 1));
    });
}

fn additive_score<E: AttentionReal>(inputs: &Inputs<E>, level: Level) {
    let case = inputs.case;
    let score = inputs.score();
    let len = case.sizes.pairs();
    let refused = |what, score: AdditiveScoreInputs<E>, len| {
        assert_refused(what, case, || score.forward(level, &mut outputs(len)));
    };
    let weight = &outputs(inputs.weight.len() + 1);
    let longer = AdditiveScoreInputs { weight, ..score };
    refused("a longer weight", longer, len);
    refused("more scores", score, len + 1);
    let [batch, heads, keys, units] = score.keys.shape();
    let mut shapes = vec![
        ("keys of another batch", [batch + 1, heads, keys, units]),
        ("keys of more units", [batch, heads, keys, units + 1]),
    ];
    if case.sizes.heads > 0 {
        // One more than the heads divides nothing.
        let shape = [batch, case.sizes.heads + 1, keys, units];
        shapes.push(("more key heads than heads", shape));
    }
    for (what, shape) in shapes {
        let elements = outputs(shape.iter().product());
        let keys = Rows::contiguous(&elements, shape);
        refused(what, AdditiveScoreInputs { keys, ..score }, len);
    }
    assert_refused("a gradient of another shape", case, || {
        let [batch, heads, queries, keys] = case.sizes.scores();
        let longer = [batch + 1, heads, queries, keys];
        let elements = outputs(longer.iter().product());
        let gradient = Rows::contiguous(&elements, longer);
        let of = |rows: &Rows<E>| outputs(rows.shape().iter().product());
        let gradients = AdditiveScoreGradients {
            queries: Some(&mut of(&score.queries)),
            keys: Some(&mut of(&score.keys)),
            weight: Some(&mut outputs(score.weight.len())),
        };
        score.backward(level, gradient, gradients);
    });
}

/// Attention by any score.
fn attention<E: AttentionReal>(inputs: &Inputs<E>, level: Level) {
    let case = inputs.case;
    let attention = inputs.attention();
    let lens = case.output_lens();
    let refused = |what, attention: AttentionInputs<E>, [context, lse]: [usize; 2]| {
        let forward = || attention.forward(level, &mut outputs(context), &mut terms(lse));
        assert_refused(what, case, forward);
    };
    refused("a longer context", attention, [lens[0] + 1, lens[1]]);
    refused("a longer log-sum-exp", attention, [lens[0], lens[1] + 1]);
    let [batch, heads, keys, size] = attention.keys.shape();
    let [.., value_size] = attention.values.shape();
    let distances = (case.sizes.queries + keys).saturating_sub(1);
    type Change<E> = for<'a> fn(&mut AttentionInputs<'a, E>, Rows<'a, E>);
    let shapes = [
        [batch, heads, keys, size + 1],
        [batch, heads, keys + 1, value_size],
        [batch, 1, 1, keys + 1],
        [batch, 1, 1, distances + 1],
    ];
    let changes: [(_, Change<E>); 4] = [
        ("longer keys", |of, rows| of.keys = rows),
        ("more values", |of, rows| of.values = rows),
        ("a longer bias", |of, rows| of.modifiers.bias = Some(rows)),
        ("a longer relative bias", |of, rows| {
            of.modifiers.relative_bias = Some(rows)
        }),
    ];
    for ((what, change), shape) in changes.into_iter().zip(shapes) {
        let elements = outputs(shape.iter().product());
        let mut changed = attention;
        change(&mut changed, Rows::contiguous(&elements, shape));
        refused(what, changed, lens);
    }
    let sinks = outputs(case.sizes.heads + 1);
    let mut changed = attention;
    changed.modifiers.sinks = Some(&sinks);
    refused("more sinks", changed, lens);
    if case.kind == Kind::AdditiveAttention {
        let packed = [&inputs.packed_keys(level)[..], &[E::ONE]].concat();
        let score = inputs.additive_score(Some(&packed));
        let more = AttentionInputs { score, ..attention };
        refused("more packed keys", more, lens);
    }
}
