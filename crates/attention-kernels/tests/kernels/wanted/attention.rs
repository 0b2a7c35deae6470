//! Dot-product attention, with all modifiers, and additive attention, with all and with none.

use attention_kernels::{
    AttentionGradients, AttentionInputs, AttentionOutputs, AttentionReal, KeyValueGradients, Level,
    ModifierGradients, Score, ScoreModifiers,
};

use super::case::{Case, LENS, PAIRS, SIZE};
use super::{Wanted, assert_same_bits};

/// The gradients of the score, and of the modifiers.
type Others = Vec<(&'static str, usize)>;

/// Gradients of keys and values, at once and, decoding, deferred: beside those of queries and `others`.
fn check<E: AttentionReal>(
    what: &str,
    level: Level,
    case: &Case<E>,
    attention: &AttentionInputs<E>,
    others: &Others,
) {
    let [len, rows] = case.context_len();
    let (mut context, mut lse) = (vec![E::ZERO; len], vec![[0.0; 2]; rows]);
    attention.forward(level, &mut context, &mut lse);
    let outputs = case.outputs(&context, &lse);
    let [of_query, of_keys, of_values] = LENS;
    let check = |what: &str, outputs: &AttentionOutputs<E>, of_pairs: [_; 2], is_deferred| {
        let of_queries = ("queries", of_query * case.num_queries);
        let gradients = [&[of_queries][..], &of_pairs, others].concat();
        assert_same_bits::<E>(&format!("{what}, {level:?}"), &gradients, |to| {
            attention.backward(level, outputs, wanted(to, is_deferred));
        });
    };
    let keys_and_values = [("keys", of_keys), ("values", of_values)];
    check(what, &outputs, keys_and_values, false);
    if !attention.is_decode() {
        return;
    }
    let pairs = PAIRS * case.num_queries;
    if let Score::Additive { .. } = attention.score {
        let mut weights = vec![E::ZERO; pairs];
        let (mut context, mut lse) = (context.clone(), lse.clone());
        attention.forward_saving(level, &mut context, &mut lse, &mut weights);
        let saved = AttentionOutputs {
            weights: Some(&weights),
            ..outputs
        };
        let what = format!("{what}, weights saved");
        check(&what, &saved, keys_and_values, false);
    }
    let deferred = [("scores", pairs), ("weights", pairs)];
    check(&format!("{what}, deferred"), &outputs, deferred, true);
}

fn wanted<E>(mut to: Wanted<'_, E>, is_deferred: bool) -> AttentionGradients<'_, E> {
    AttentionGradients {
        queries: to.remove("queries"),
        keys_and_values: match is_deferred {
            true => KeyValueGradients::Deferred {
                scores: to.remove("scores"),
                weights: to.remove("weights"),
            },
            false => KeyValueGradients::Added {
                keys: to.remove("keys"),
                values: to.remove("values"),
            },
        },
        modifiers: ModifierGradients {
            bias: to.remove("bias"),
            relative_bias: to.remove("relative bias"),
            sinks: to.remove("sinks"),
        },
        weight: to.remove("weight"),
    }
}

fn check_all<E: AttentionReal>(level: Level) {
    for (name, case) in Case::<E>::all() {
        let dot = Score::DotProduct {
            scale: E::from_f64(0.23),
        };
        let additive = Score::Additive {
            weight: &case.weight,
            packed_keys: None,
        };
        let attention = |score, modifiers| AttentionInputs {
            queries: case.queries(),
            keys: case.keys(),
            values: case.values(),
            score,
            mask: case.mask(),
            modifiers,
            dropout: case.dropout,
        };
        let [bias, relative_bias, sinks] = case.modifiers.parts().map(<[E]>::len);
        let biases = [("bias", bias), ("relative bias", relative_bias)];
        let modifiers = [&biases[..], &[("sinks", sinks)]].concat();
        let check = |what: &str, score, is_modified, others: &Others| {
            let modifiers = match is_modified {
                true => case.modifiers.view(),
                false => ScoreModifiers::NONE,
            };
            let what = format!("{what}, {name}");
            check(&what, level, &case, &attention(score, modifiers), others);
        };
        check("dot products", dot, true, &modifiers);
        let weight = vec![("weight", SIZE)];
        check("additive", additive, false, &weight);
        // Modifiers are not for decoding by additive scores: one number of queries is enough.
        if case.num_queries == 3 {
            let all = [weight, modifiers].concat();
            check("additive, modified", additive, true, &all);
        }
    }
}

#[test]
fn gradients_of_attention() {
    for level in Level::available() {
        check_all::<f32>(level);
        check_all::<f64>(level);
    }
}
