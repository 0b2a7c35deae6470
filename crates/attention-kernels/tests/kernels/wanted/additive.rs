//! Additive scores and additive attention.

use attention_kernels::{
    AdditiveScoreGradients, AdditiveScoreInputs, AttentionGradients, AttentionInputs,
    AttentionOutputs, AttentionReal, KeyValueGradients, Level, ModifierGradients, Rows, Score,
    ScoreModifiers,
};

use super::assert_same_bits;
use super::case::{BATCH, Case, HEADS, KEYS, LENS, PAIRS, SIZE};
use crate::random::Random;

fn score<E: AttentionReal>(case: &Case<E>) -> AdditiveScoreInputs<'_, E> {
    AdditiveScoreInputs {
        queries: case.queries(),
        keys: case.keys(),
        weight: &case.weight,
        mask: case.mask(),
    }
}

fn check_score<E: AttentionReal>(level: Level) {
    for (name, case) in Case::<E>::all() {
        let mut random = Random::new(2);
        let drawn: Vec<E> = (0..PAIRS * case.num_queries)
            .map(|_| random.normal())
            .collect();
        let shape = [BATCH, HEADS, case.num_queries, KEYS];
        let score_gradients = Rows::contiguous(&drawn, shape);
        let lens = [LENS[0] * case.num_queries, LENS[1], SIZE];
        assert_same_bits::<E, 3>(&format!("{name}, {level:?}"), lens, |to| {
            let [queries, keys, weight] = to;
            let gradients = AdditiveScoreGradients {
                queries,
                keys,
                weight,
            };
            score(&case).backward(level, score_gradients, gradients);
        });
    }
}

fn check_attention<E: AttentionReal>(level: Level) {
    for (name, case) in Case::<E>::all() {
        let what = format!("{name}, {level:?}");
        let attention = AttentionInputs {
            queries: case.queries(),
            keys: case.keys(),
            values: case.values(),
            score: Score::Additive {
                weight: &case.weight,
                packed_keys: None,
            },
            mask: case.mask(),
            modifiers: ScoreModifiers::NONE,
            dropout: case.dropout,
        };
        let [len, rows] = case.context_len();
        let (mut context, mut lse) = (vec![E::ZERO; len], vec![[0.0; 2]; rows]);
        attention.forward(level, &mut context, &mut lse);
        let outputs = case.outputs(&context, &lse);
        let [of_query, of_keys, of_values] = LENS;
        let of_queries = of_query * case.num_queries;
        let check = |what: &str, outputs: &AttentionOutputs<E>| {
            let lens = [of_queries, of_keys, of_values, SIZE];
            assert_same_bits::<E, 4>(what, lens, |to| {
                let [queries, keys, values, weight] = to;
                let gradients = AttentionGradients {
                    queries,
                    keys_and_values: KeyValueGradients::Added { keys, values },
                    modifiers: ModifierGradients::NONE,
                    weight,
                };
                attention.backward(level, outputs, gradients);
            });
        };
        check(&what, &outputs);
        if !attention.is_decode() {
            continue;
        }
        let pairs = PAIRS * case.num_queries;
        let mut weights = vec![E::ZERO; pairs];
        let (mut context, mut lse) = (context.clone(), lse.clone());
        attention.forward_saving(level, &mut context, &mut lse, &mut weights);
        let saved = AttentionOutputs {
            weights: Some(&weights),
            ..outputs
        };
        check(&format!("{what}, weights saved"), &saved);
        let lens = [of_queries, SIZE, pairs, pairs];
        assert_same_bits::<E, 4>(&format!("{what}, deferred"), lens, |to| {
            let [queries, weight, scores, weights] = to;
            let gradients = AttentionGradients {
                queries,
                keys_and_values: KeyValueGradients::Deferred { scores, weights },
                modifiers: ModifierGradients::NONE,
                weight,
            };
            attention.backward(level, &outputs, gradients);
        });
    }
}

/// With all modifiers, which are not for decoding: one number of queries is enough.
fn check_modified<E: AttentionReal>(level: Level) {
    for (name, case) in Case::<E>::all() {
        if case.num_queries != 3 {
            continue;
        }
        let attention = AttentionInputs {
            queries: case.queries(),
            keys: case.keys(),
            values: case.values(),
            score: Score::Additive {
                weight: &case.weight,
                packed_keys: None,
            },
            mask: case.mask(),
            modifiers: case.modifiers.view(),
            dropout: case.dropout,
        };
        let [len, rows] = case.context_len();
        let (mut context, mut lse) = (vec![E::ZERO; len], vec![[0.0; 2]; rows]);
        attention.forward(level, &mut context, &mut lse);
        let outputs = case.outputs(&context, &lse);
        let [of_query, of_keys, of_values] = LENS;
        let [of_bias, of_relative_bias, of_sinks] = case.modifiers.parts().map(<[E]>::len);
        let lens = [
            of_query * case.num_queries,
            of_keys,
            of_values,
            SIZE,
            of_bias,
            of_relative_bias,
            of_sinks,
        ];
        assert_same_bits::<E, 7>(&format!("{name}, {level:?}, modified"), lens, |to| {
            let [queries, keys, values, weight, bias, relative_bias, sinks] = to;
            let gradients = AttentionGradients {
                queries,
                keys_and_values: KeyValueGradients::Added { keys, values },
                modifiers: ModifierGradients {
                    bias,
                    relative_bias,
                    sinks,
                },
                weight,
            };
            attention.backward(level, &outputs, gradients);
        });
    }
}

#[test]
fn gradients_of_the_score() {
    for level in Level::available() {
        check_score::<f32>(level);
        check_score::<f64>(level);
    }
}

#[test]
fn gradients_of_attention() {
    for level in Level::available() {
        check_attention::<f32>(level);
        check_attention::<f64>(level);
    }
}

#[test]
fn gradients_of_modified_attention() {
    for level in Level::available() {
        check_modified::<f32>(level);
        check_modified::<f64>(level);
    }
}
