//! Modifiers of the wrong shape are refused, with a message that names both sides.

use std::panic::{AssertUnwindSafe, catch_unwind};

use attention_kernels::{
    AttentionOutputs, DotProductAttentionGradients, DotProductAttentionInputs, Mask,
    ModifierGradients, Rows, ScoreModifiers,
};
use cpu_kernels::Level;

use crate::case::Case;
use crate::modifiers::Modifiers;

/// The message of a panic.
fn refusal(run: impl FnOnce()) -> String {
    let message = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    message.downcast_ref::<String>().unwrap().clone()
}

fn refusal_of(modifiers: ScoreModifiers<f32>) -> String {
    let (queries, keys) = (vec![0.0; 330], vec![0.0; 462]);
    let attention = DotProductAttentionInputs {
        queries: Rows::contiguous(&queries, [2, 3, 5, 11]),
        keys: Rows::contiguous(&keys, [2, 3, 7, 11]),
        values: Rows::contiguous(&keys, [2, 3, 7, 11]),
        modifiers,
        mask: Mask::none(),
        scale: 1.0,
        dropout: None,
    };
    let (mut context, mut lse) = (vec![0.0; 330], vec![[0.0; 2]; 30]);
    refusal(|| attention.forward(Level::PORTABLE, &mut context, &mut lse))
}

#[test]
fn misfits_are_refused() {
    let zeros = [0.0; 300];
    let rows = |shape: [usize; 4]| {
        let len = shape.iter().product();
        Some(Rows::contiguous(&zeros[..len], shape))
    };
    for (shape, expected) in [
        ([2, 3, 5, 8], "[2, 3, 5, 7], got [2, 3, 5, 8]"),
        ([3, 1, 1, 7], "[2, 1, 1, 7], got [3, 1, 1, 7]"),
        ([1, 2, 1, 7], "[1, 3, 1, 7], got [1, 2, 1, 7]"),
        ([1, 1, 4, 7], "[1, 1, 5, 7], got [1, 1, 4, 7]"),
    ] {
        let modifiers = ScoreModifiers {
            bias: rows(shape),
            ..ScoreModifiers::NONE
        };
        let expected = format!("dot product attention: bias expected {expected}");
        assert_eq!(refusal_of(modifiers), expected);
    }
    for (shape, expected) in [
        ([2, 3, 1, 12], "[2, 3, 1, 11], got [2, 3, 1, 12]"),
        ([3, 1, 1, 11], "[2, 1, 1, 11], got [3, 1, 1, 11]"),
        ([1, 2, 1, 11], "[1, 3, 1, 11], got [1, 2, 1, 11]"),
        ([1, 1, 5, 11], "[1, 1, 1, 11], got [1, 1, 5, 11]"),
    ] {
        let modifiers = ScoreModifiers {
            relative_bias: rows(shape),
            ..ScoreModifiers::NONE
        };
        let expected = format!("dot product attention: relative bias expected {expected}");
        assert_eq!(refusal_of(modifiers), expected);
    }
    let modifiers = ScoreModifiers {
        sinks: Some(&zeros[..2]),
        ..ScoreModifiers::NONE
    };
    assert_eq!(
        refusal_of(modifiers),
        "dot product attention: sinks expected [3], got 2 elements"
    );
    for cap in [0.0, -1.0, f32::INFINITY, f32::NAN] {
        let modifiers = ScoreModifiers {
            soft_cap: Some(cap),
            ..ScoreModifiers::NONE
        };
        assert_eq!(
            refusal_of(modifiers),
            format!("dot product attention: soft-cap expected a positive finite number, got {cap}")
        );
    }
}

#[test]
fn gradients_that_do_not_fit_are_refused() {
    let case = Case {
        modifiers: Modifiers::SINKS,
        ..Case::SMALL
    };
    let inputs = case.inputs::<f32>(7);
    let Case {
        batch,
        heads,
        queries,
        keys,
        size,
        value_size,
        ..
    } = case;
    let shape = [batch, heads, queries, value_size];
    let attention = DotProductAttentionInputs {
        queries: Rows::contiguous(&inputs.queries, [batch, heads, queries, size]),
        keys: Rows::contiguous(&inputs.keys, [batch, heads, keys, size]),
        values: Rows::contiguous(&inputs.values, [batch, heads, keys, value_size]),
        modifiers: inputs.modifiers.view(),
        mask: Mask::none(),
        scale: 1.0,
        dropout: None,
    };
    let refusal_of = |modifiers: ModifierGradients<f32>| {
        let outputs = AttentionOutputs {
            context: Rows::contiguous(&inputs.context_gradient, shape),
            lse: &vec![[0.0; 2]; batch * heads * queries],
            weights: None,
            context_gradient: Rows::contiguous(&inputs.context_gradient, shape),
        };
        let gradients = DotProductAttentionGradients {
            queries: None,
            keys: None,
            values: None,
            modifiers,
        };
        refusal(|| attention.backward(Level::PORTABLE, &outputs, gradients))
    };
    let mut gradient = vec![0.0; heads + 1];
    let sinks = ModifierGradients {
        sinks: Some(&mut gradient),
        ..ModifierGradients::NONE
    };
    assert_eq!(
        refusal_of(sinks),
        format!(
            "dot product attention: gradient of sinks expected {heads} elements, got {}",
            heads + 1
        )
    );
    let bias = ModifierGradients {
        bias: Some(&mut gradient),
        ..ModifierGradients::NONE
    };
    assert_eq!(
        refusal_of(bias),
        "dot product attention: gradient of bias expected bias, got none"
    );
}
