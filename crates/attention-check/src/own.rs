//! A user's own functions: a term of pairwise scores, and a modification of scores.

use std::sync::Arc;

use attention_core::functional::{self, AttentionOptions, RowOfScores, VectorMod};
use attention_core::score::{PairwiseFormula, PairwiseTerm, Real, Simd};
use attention_oracle::Score;
use burn::tensor::Tensor;

use crate::attention::{SCALE, dot_product_attention_by, weighted_attention};
use crate::case::{Case, Sizes};
use crate::check::{Check, Input};

pub(crate) fn checks(sizes: Sizes) -> impl Iterator<Item = Check> {
    let cases = Case::all(sizes).into_iter().map(Case::of_dot_products);
    cases.flat_map(|case| [pairwise(case), changed(case)])
}

/// `q k`, whose two derivatives differ.
#[derive(Debug)]
struct Product;

impl PairwiseTerm for Product {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        simd.mul(query, key)
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, _simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        [key, query]
    }
}

impl PairwiseFormula for Product {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        queries * keys
    }
}

fn pairwise(case: Case) -> Check {
    weighted_attention(
        ["pairwise attention", case.name],
        case,
        |weight| Score::Pairwise {
            weight,
            term: |query, key| [query * key, key, query],
        },
        |[queries, keys, values], weight, options| {
            let (term, weight) = (Arc::new(Product), Some(weight));
            functional::pairwise_attention(queries, keys, values, term, weight, options)
        },
    )
}

/// `tanh(score) + (batch + head) key / 128`
#[derive(Debug)]
struct TanhAndPlace;

impl VectorMod for TanhAndPlace {
    #[inline(always)]
    fn value<S: Simd<f32>>(&self, simd: S, scores: S::V, at: RowOfScores) -> S::V {
        let factor = (at.batch + at.head) as f32 / 128.0;
        let keys = simd.count_from(at.first_key as f32);
        simd.mul_add(keys, simd.splat(factor), simd.tanh(scores))
    }

    #[inline(always)]
    fn derivative<S: Simd<f32>>(&self, simd: S, scores: S::V, _at: RowOfScores) -> S::V {
        let tanh = simd.tanh(scores);
        simd.neg_mul_add(tanh, tanh, simd.splat(1.0))
    }
}

fn changed(case: Case) -> Check {
    let Input { elements, shape } = case.bias();
    let [_, heads, _, keys] = shape;
    let of_key = |at: usize| (at / keys / heads + at / keys % heads) * (at % keys);
    let of_keys = (0..elements.len()).map(|at| of_key(at) as f64 / 128.0);
    let inputs = [case.queries(), case.keys(), case.values()];
    let changed = Some(of_keys.collect());
    dot_product_attention_by(case, inputs, changed, move |[queries, keys, values]| {
        let mut options = AttentionOptions::from(case.mask(&queries.device()));
        options.scale = Some(SCALE);
        let options = options.with_score_mod(TanhAndPlace);
        functional::dot_product_attention(queries, keys, values, options)
    })
}
