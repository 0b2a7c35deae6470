//! Attention to a memory that is prepared once, one query at a time: before the first query, keys are projected, and
//! packed for the kernel.

use attention_core::score::DotProductScoreConfig;
use attention_core::{AdditiveScore, Attention, Mask, Memory, ScoringFunction};
use attention_oracle::{Modifiers, Score, linear_backward};
use burn::module::{Param, ParamId};
use burn::nn::Linear;
use burn::tensor::Tensor;

use crate::attention::{ADDITIVE_ATTENTION, SCALE, dot_product_attention_by};
use crate::case::{Case, Sizes};
use crate::check::{Check, Input, Outcome};

pub(crate) fn checks(sizes: Sizes) -> [Check; 2] {
    let case = Case::of_decoding(sizes);
    [additive_attention(case), dot_product_attention(case)]
}

fn additive_attention(case: Case) -> Check {
    let (size, value_size) = (case.sizes.size, case.sizes.value_size);
    let pairs = case.pairs();
    let projection = |seed| Input::drawn(seed, [1, 1, size, size], 0.2);
    Check::new(
        [ADDITIVE_ATTENTION, case.name],
        [
            case.queries(),
            case.keys(),
            case.values(),
            projection(9),
            projection(10),
            case.weight(),
        ],
        case.grad_output(value_size),
        move |[queries, keys, values, of_queries, of_keys, weight], given| {
            let no_bias = &vec![0.0; size][..];
            let of_queries = [queries, of_queries, no_bias];
            let of_keys = [keys, of_keys, no_bias];
            let attention = attention_oracle::Attention {
                pairs: &pairs,
                score: Score::Additive { weight },
                queries: &attention_oracle::linear(of_queries),
                keys: &attention_oracle::linear(of_keys),
                values,
                value_size,
                modifiers: Modifiers::NONE,
                factors: None,
            };
            let outputs = attention.forward();
            let of = attention.backward(&outputs, given.grad_output);
            let [queries, of_queries, _] = linear_backward(of_queries, &of.queries);
            let [keys, of_keys, _] = linear_backward(of_keys, &of.keys);
            let gradients = [queries, keys, of.values, of_queries, of_keys, of.weight];
            Outcome::new(outputs.context, gradients)
        },
        move |[queries, keys, values, of_queries, of_keys, weight]| {
            let score = AdditiveScore {
                query: linear(of_queries.reshape([size, size])),
                key: linear(of_keys.reshape([size, size])),
                value: linear(weight.reshape([size, 1])),
                gain: None,
            };
            let attention = Attention::new(score, 0.0);
            let mask = case.mask(&queries.device());
            in_steps(&attention, queries, &attention.prepare(keys, values, mask))
        },
    )
}

fn dot_product_attention(case: Case) -> Check {
    let inputs = [case.queries(), case.keys(), case.values()];
    dot_product_attention_by(case, inputs, None, move |[queries, keys, values]| {
        let score = DotProductScoreConfig::new().with_scale(Some(SCALE)).init();
        let attention = Attention::new(score, 0.0);
        let mask = case.mask(&queries.device());
        in_steps(&attention, queries, &attention.prepare(keys, values, mask))
    })
}

/// The contexts of the queries, each from a separate call.
fn in_steps<S: ScoringFunction>(
    attention: &Attention<S>,
    queries: Tensor<4>,
    memory: &Memory,
) -> Tensor<4> {
    let [_, _, num_queries, _] = queries.dims();
    let step = |i| attention.attend(queries.clone().narrow(2, i, 1), memory, Mask::none());
    Tensor::cat((0..num_queries).map(step).collect(), 2)
}

/// A layer with this weight, which is not a leaf of the graph.
fn linear(weight: Tensor<2>) -> Linear {
    Linear {
        weight: Param::initialized(ParamId::new(), weight),
        bias: None,
    }
}
