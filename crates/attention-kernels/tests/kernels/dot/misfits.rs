//! Values, modifiers and gradients of the wrong shape are refused, with a message that names both sides.

use std::panic::{AssertUnwindSafe, catch_unwind};

use attention_kernels::{
    AttentionGradients, AttentionInputs, AttentionOutputs, KeyValueGradients, Mask,
    ModifierGradients, Rows, Score, ScoreModifiers,
};
use cpu_kernels::Level;

use super::case::Case;
use crate::modifiers::Modifiers;

/// The message of a panic.
fn refusal(run: impl FnOnce()) -> String {
    let message = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    message.downcast_ref::<String>().unwrap().clone()
}

/// The refusal of values `[2, 3, rows, 13]`.
fn refusal_of(rows: usize, modifiers: ScoreModifiers<f32>) -> String {
    let zeros = [0.0; 546];
    let tensor = |rows, size| Rows::contiguous(&zeros[..6 * rows * size], [2, 3, rows, size]);
    let attention = AttentionInputs {
        queries: tensor(5, 11),
        keys: tensor(7, 11),
        values: tensor(rows, 13),
        modifiers,
        mask: Mask::none(),
        score: Score::DotProduct { scale: 1.0 },
        dropout: None,
    };
    let (mut context, mut lse) = (vec![0.0; 390], vec![[0.0; 2]; 30]);
    refusal(|| attention.forward(Level::PORTABLE, &mut context, &mut lse))
}

#[test]
fn misfits_are_refused() {
    let zeros = [0.0; 300];
    let rows = |shape: [usize; 4]| {
        let len = shape.iter().product();
        Some(Rows::contiguous(&zeros[..len], shape))
    };
    for (is_relative, shape, expected) in [
        (false, [2, 3, 5, 8], "bias expected [2, 3, 5, 7]"),
        (false, [3, 1, 1, 7], "bias expected [2, 1, 1, 7]"),
        (false, [1, 2, 1, 7], "bias expected [1, 3, 1, 7]"),
        (false, [1, 1, 4, 7], "bias expected [1, 1, 5, 7]"),
        (true, [2, 3, 1, 12], "relative bias expected [2, 3, 1, 11]"),
        (true, [3, 1, 1, 11], "relative bias expected [2, 1, 1, 11]"),
        (true, [1, 2, 1, 11], "relative bias expected [1, 3, 1, 11]"),
        (true, [1, 1, 5, 11], "relative bias expected [1, 1, 1, 11]"),
    ] {
        let mut modifiers = ScoreModifiers::NONE;
        match is_relative {
            true => modifiers.relative_bias = rows(shape),
            false => modifiers.bias = rows(shape),
        }
        let expected = format!("dot product attention: {expected}, got {shape:?}");
        assert_eq!(refusal_of(7, modifiers), expected);
    }
    let expected = "dot product attention: values expected [2, 3, 7, 13], got [2, 3, 6, 13]";
    assert_eq!(refusal_of(6, ScoreModifiers::NONE), expected);
    let mut modifiers = ScoreModifiers::NONE;
    modifiers.sinks = Some(&zeros[..2]);
    let expected = "dot product attention: sinks expected [3], got 2 elements";
    assert_eq!(refusal_of(7, modifiers), expected);
    for cap in [0.0, -1.0, f32::INFINITY, f32::NAN] {
        let mut modifiers = ScoreModifiers::NONE;
        modifiers.soft_cap = Some(cap);
        let expected = "soft-cap expected a positive finite number";
        let expected = format!("dot product attention: {expected}, got {cap}");
        assert_eq!(refusal_of(7, modifiers), expected);
    }
}

#[test]
fn gradients_that_do_not_fit_are_refused() {
    let case = Case::SMALL.with_modifiers(Modifiers::SINKS);
    let inputs = case.inputs::<f32>(7);
    let attention = inputs.attention(&case, Mask::none());
    let context = case.of_queries(&inputs.context_gradient, case.value_size);
    let refusal_of = |modifiers: ModifierGradients<f32>| {
        let outputs = AttentionOutputs {
            context,
            lse: &vec![[0.0; 2]; case.batch * case.heads * case.queries],
            weights: None,
            context_gradient: context,
        };
        let gradients = AttentionGradients {
            queries: None,
            keys_and_values: KeyValueGradients::Added {
                keys: None,
                values: None,
            },
            modifiers,
            weight: None,
        };
        refusal(|| attention.backward(Level::PORTABLE, &outputs, gradients))
    };
    let mut gradient = [0.0; 4];
    let mut modifiers = ModifierGradients::NONE;
    modifiers.sinks = Some(&mut gradient);
    let expected = "dot product attention: gradient of sinks expected 3 elements, got 4";
    assert_eq!(refusal_of(modifiers), expected);
    let mut modifiers = ModifierGradients::NONE;
    modifiers.bias = Some(&mut gradient);
    let expected = "dot product attention: gradient of bias expected bias, got none";
    assert_eq!(refusal_of(modifiers), expected);
}
