//! Dot-product attention, with a bias.

use attention_kernels::{
    AttentionOutputs, AttentionReal, DotProductAttentionGradients, DotProductAttentionInputs,
    DotProductDeferredGradients, Level,
};

use crate::assert_same_bits;
use crate::case::{Case, LENS, PAIRS};

fn check<E: AttentionReal>(level: Level) {
    for (name, case) in Case::<E>::all() {
        let what = format!("{name}, {level:?}");
        let attention = DotProductAttentionInputs {
            queries: case.queries(),
            keys: case.keys(),
            values: case.values(),
            bias: Some(case.bias()),
            mask: case.mask(),
            scale: E::from_f64(0.23),
            dropout: case.dropout,
        };
        let [len, rows] = case.context_len();
        let (mut context, mut lse) = (vec![E::ZERO; len], vec![[0.0; 2]; rows]);
        attention.forward(level, &mut context, &mut lse);
        let outputs = AttentionOutputs {
            context: case.of_contexts(&context),
            lse: &lse,
            weights: None,
            context_gradient: case.context_gradient(),
        };
        let [of_query, of_keys, of_values] = LENS;
        let of_queries = of_query * case.num_queries;
        let lens = [of_queries, of_keys, of_values, PAIRS];
        assert_same_bits::<E, 4>(&what, lens, |to| {
            let [queries, keys, values, bias] = to;
            let gradients = DotProductAttentionGradients {
                queries,
                keys,
                values,
                bias,
            };
            attention.backward(level, &outputs, gradients);
        });
        if !attention.is_decode() {
            continue;
        }
        let pairs = PAIRS * case.num_queries;
        let lens = [of_queries, pairs, pairs, PAIRS];
        assert_same_bits::<E, 4>(&format!("{what}, deferred"), lens, |to| {
            let [queries, scores, weights, bias] = to;
            let gradients = DotProductDeferredGradients {
                queries,
                scores,
                weights,
                bias,
            };
            attention.backward_deferred(level, &outputs, gradients);
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
