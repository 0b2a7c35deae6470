//! Dot-product attention, with all modifiers.

use attention_kernels::{
    AttentionGradients, AttentionInputs, AttentionReal, KeyValueGradients, Level,
    ModifierGradients, Score,
};

use super::assert_same_bits;
use super::case::{Case, LENS, PAIRS};

fn check<E: AttentionReal>(level: Level) {
    for (name, case) in Case::<E>::all() {
        let what = format!("{name}, {level:?}");
        let attention = AttentionInputs {
            queries: case.queries(),
            keys: case.keys(),
            values: case.values(),
            modifiers: case.modifiers.view(),
            mask: case.mask(),
            score: Score::DotProduct {
                scale: E::from_f64(0.23),
            },
            dropout: case.dropout,
        };
        let [len, rows] = case.context_len();
        let (mut context, mut lse) = (vec![E::ZERO; len], vec![[0.0; 2]; rows]);
        attention.forward(level, &mut context, &mut lse);
        let outputs = case.outputs(&context, &lse);
        let [of_query, of_keys, of_values] = LENS;
        let of_queries = of_query * case.num_queries;
        let [of_bias, of_relative_bias, of_sinks] = case.modifiers.parts().map(<[E]>::len);
        let lens = [
            of_queries,
            of_keys,
            of_values,
            of_bias,
            of_relative_bias,
            of_sinks,
        ];
        assert_same_bits::<E, 6>(&what, lens, |to| {
            let [queries, keys, values, bias, relative_bias, sinks] = to;
            let gradients = AttentionGradients {
                queries,
                keys_and_values: KeyValueGradients::Added { keys, values },
                modifiers: ModifierGradients {
                    bias,
                    relative_bias,
                    sinks,
                },
                weight: None,
            };
            attention.backward(level, &outputs, gradients);
        });
        if !attention.is_decode() {
            continue;
        }
        let pairs = PAIRS * case.num_queries;
        let lens = [
            of_queries,
            pairs,
            pairs,
            of_bias,
            of_relative_bias,
            of_sinks,
        ];
        assert_same_bits::<E, 6>(&format!("{what}, deferred"), lens, |to| {
            let [queries, scores, weights, bias, relative_bias, sinks] = to;
            let gradients = AttentionGradients {
                queries,
                keys_and_values: KeyValueGradients::Deferred { scores, weights },
                modifiers: ModifierGradients {
                    bias,
                    relative_bias,
                    sinks,
                },
                weight: None,
            };
            attention.backward(level, &outputs, gradients);
        });
    }
}

#[test]
fn gradients_of_attention() {
    for level in Level::available() {
        check::<f32>(level);
        check::<f64>(level);
    }
}
