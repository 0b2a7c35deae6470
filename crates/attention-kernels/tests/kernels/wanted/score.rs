//! Additive scores.

use attention_kernels::{AdditiveScoreGradients, AdditiveScoreInputs, AttentionReal, Level, Rows};

use super::assert_same_bits;
use super::case::{BATCH, Case, HEADS, KEYS, LENS, PAIRS, SIZE};
use crate::random::Random;

fn check<E: AttentionReal>(level: Level) {
    for (name, case) in Case::<E>::all() {
        let score = AdditiveScoreInputs {
            queries: case.queries(),
            keys: case.keys(),
            weight: &case.weight,
            mask: case.mask(),
        };
        let (mut random, pairs) = (Random::new(2), PAIRS * case.num_queries);
        let drawn: Vec<E> = (0..pairs).map(|_| random.normal()).collect();
        let score_gradients = Rows::contiguous(&drawn, [BATCH, HEADS, case.num_queries, KEYS]);
        let of_queries = ("queries", LENS[0] * case.num_queries);
        let gradients = [of_queries, ("keys", LENS[1]), ("weight", SIZE)];
        assert_same_bits::<E>(&format!("{name}, {level:?}"), &gradients, |mut to| {
            let gradients = AdditiveScoreGradients {
                queries: to.remove("queries"),
                keys: to.remove("keys"),
                weight: to.remove("weight"),
            };
            score.backward(level, score_gradients, gradients);
        });
    }
}

#[test]
fn gradients_of_the_score() {
    for level in Level::available() {
        check::<f32>(level);
        check::<f64>(level);
    }
}
