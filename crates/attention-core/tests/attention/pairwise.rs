//! Scores of a user's own term, fused.

use std::sync::Arc;

use attention_core::functional::{
    AttentionOptions, dot_product_attention, masked_softmax, pairwise_attention, pairwise_score,
    weighted_sum,
};
use attention_core::position::Positions;
use attention_core::score::{PairwiseFormula, PairwiseTerm, Real, ScoreKernel, Simd};
use attention_core::{Attention, Mask, ScoringFunction};
use attention_tests::{
    Array, MaskSpec, Path, Problem, Sizes, assert_close, contract, device, masks,
};
use burn::module::{Module, Param};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{DType, Device, Tensor, activation};

/// `-|q - k|`
#[derive(Debug)]
pub(super) struct Distance;

impl PairwiseTerm for Distance {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        simd.min(simd.sub(query, key), simd.sub(key, query))
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let [one, minus_one] = [simd.splat(E::ONE), simd.splat(-E::ONE)];
        let falls = simd.select(simd.less(key, query), minus_one, simd.zero());
        let by_query = simd.select(simd.less(query, key), one, falls);
        [by_query, simd.neg(by_query)]
    }
}

impl PairwiseFormula for Distance {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        -(queries - keys).abs()
    }
}

/// `-(q - k)^2 / 8`: smooth, so that rounding moves its derivatives little.
#[derive(Debug)]
pub(super) struct SquaredDistance;

impl PairwiseTerm for SquaredDistance {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        let difference = simd.sub(query, key);
        let factor = simd.splat(E::from_f64(-0.125));
        simd.mul(simd.mul(difference, difference), factor)
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let by_key = simd.mul(simd.sub(query, key), simd.splat(E::from_f64(0.25)));
        [simd.neg(by_key), by_key]
    }
}

impl PairwiseFormula for SquaredDistance {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        let difference = queries - keys;
        difference.clone() * difference * -0.125
    }
}

/// `LeakyReLU(q + k)`: Brody et al. 2022, "How Attentive are Graph Attention Networks?"
#[derive(Debug)]
pub(super) struct LeakyRelu;

const SLOPE: f64 = 0.2;

impl PairwiseTerm for LeakyRelu {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        let sum = simd.add(query, key);
        simd.max(simd.mul(sum, simd.splat(E::from_f64(SLOPE))), sum)
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let is_negative = simd.less(simd.add(query, key), simd.zero());
        let (slope, one) = (simd.splat(E::from_f64(SLOPE)), simd.splat(E::ONE));
        [simd.select(is_negative, slope, one); 2]
    }
}

impl PairwiseFormula for LeakyRelu {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        activation::leaky_relu(queries + keys, SLOPE)
    }
}

const SIZES: Sizes = Sizes::new([2, 2, 3, 5], [4, 4, 0, 3]);
const UNEQUAL: Sizes = SIZES.with_query_size(3).with_key_size(5);

/// A term of the projected queries and keys, and a weight that learns, or none.
#[derive(Module, Debug)]
struct PairwiseScore {
    query: Linear,
    key: Linear,
    weight: Option<Param<Tensor<1>>>,
    #[module(skip)]
    term: Arc<dyn PairwiseFormula>,
}

impl PairwiseScore {
    fn new(
        term: impl PairwiseFormula + 'static,
        [query, key]: [usize; 2],
        has_weight: bool,
        device: &Device,
    ) -> Self {
        const HIDDENS: usize = 21;
        let linear = |size| {
            LinearConfig::new(size, HIDDENS)
                .with_bias(false)
                .init(device)
        };
        let (mean, std) = (0.0, 0.3);
        let normal = Initializer::Normal { mean, std };
        Self {
            query: linear(query),
            key: linear(key),
            weight: has_weight.then(|| normal.init([HIDDENS], device)),
            term: Arc::new(term),
        }
    }
}

impl ScoringFunction for PairwiseScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.query.forward(queries)
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.key.forward(keys)
    }

    fn kernel(&self) -> ScoreKernel {
        ScoreKernel::Pairwise {
            term: self.term.clone(),
            weight: self.weight.as_ref().map(Param::val),
        }
    }
}

#[test]
fn attention_by_a_term_keeps_the_contract() {
    device::each_training(|device| {
        let sizes = [SIZES.query_size, SIZES.key_size];
        let plain = PairwiseScore::new(SquaredDistance, sizes, false, device);
        contract::check("plain", &Attention::new(plain, 0.0), SIZES, device);
        let sizes = [UNEQUAL.query_size, UNEQUAL.key_size];
        let weighted = PairwiseScore::new(SquaredDistance, sizes, true, device);
        contract::check("weighted", &Attention::new(weighted, 0.0), UNEQUAL, device);
    });
}

/// A term and its definition agree with attention of a user's own tensors, with every mask and option.
#[test]
fn options_and_masks_go_with_terms() {
    device::each(|device| {
        let draw = |seed, shape: [usize; 4]| Array::draw(seed, &shape).f32::<4>(device);
        let (queries, keys) = (draw(1, [2, 4, 9, 5]), draw(2, [2, 2, 11, 5]));
        let values = draw(3, [2, 2, 11, 3]);
        let weight = Array::draw(4, &[5]).f32::<1>(device);
        for (name, mask) in masks([2, 4, 9, 11]) {
            let mut options = AttentionOptions {
                mask: mask.mask(device),
                bias: Some(draw(5, [1, 4, 9, 11])),
                relative_bias: Some(draw(6, [1, 4, 1, 19])),
                soft_cap: Some(2.0),
                sinks: Some(Array::draw(7, &[4]).f32(device)),
                ..Default::default()
            };
            let [q, k, v] = [&queries, &keys, &values].map(Tensor::clone);
            let (of_scores, none) = (Some(weight.clone()), Mask::none());
            let scores = pairwise_score(q.clone(), k.clone(), &LeakyRelu, of_scores, &none);
            let (term, weight) = (Arc::new(LeakyRelu), Some(weight.clone()));
            let context = pairwise_attention(q, k, v, term, weight, &options);
            // The same by a dot product of nothing with the scores as its bias.
            let capped = (scores / 2.0).tanh() * 2.0;
            options.bias = options.bias.map(|bias| bias + capped);
            options.soft_cap = None;
            let (q, k) = (queries.zeros_like(), keys.zeros_like());
            let expected = dot_product_attention(q, k, values.clone(), &options);
            assert_close(name, context, &Array::read(expected), 2e-5);
        }
    });
}

/// `q / k`, which is NaN of zeros: what masked pairs are to the definition.
#[derive(Debug)]
struct Quotient;

impl PairwiseTerm for Quotient {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        simd.div(query, key)
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let inverse = simd.reciprocal(key);
        let square = simd.mul(inverse, inverse);
        [inverse, simd.neg(simd.mul(query, square))]
    }
}

impl PairwiseFormula for Quotient {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        queries / keys
    }
}

#[test]
fn masked_pairs_give_a_weight_no_gradient() {
    // Few queries have kernels of their own, with units in the lanes, of which there are more.
    for num_queries in [3, 2, 1] {
        device::each_training(|device| check_masked_pairs(num_queries, device));
    }
}

fn check_masked_pairs(num_queries: usize, device: &Device) {
    let draw = |seed, rows, size| Array::draw(seed, &[2, 2, rows, size]).map(|x| x + 3.0);
    let drawn = [draw(1, num_queries, 5), draw(2, 4, 5), draw(3, 4, 3)];
    let [queries, keys, values] = drawn.map(|of| of.f32::<4>(device));
    let gradient = |fused: bool| {
        let weight = Array::draw(4, &[5]).f32::<1>(device).require_grad();
        let mask = Mask::causal();
        let [queries, keys, values] = [&queries, &keys, &values].map(Tensor::clone);
        let context = if fused {
            let (term, weight) = (Arc::new(Quotient), Some(weight.clone()));
            pairwise_attention(queries, keys, values, term, weight, mask)
        } else {
            let scores = pairwise_score(queries, keys, &Quotient, Some(weight.clone()), &mask);
            weighted_sum(masked_softmax(scores, &mask), values, &mask)
        };
        let received = Array::draw(5, &context.dims()).f32::<4>(device);
        let gradients = (context * received).sum().backward();
        Array::read(weight.grad(&gradients).unwrap())
    };
    assert_close("weight", &gradient(true), &gradient(false), 1e-5);
}

/// A query alone has the context that it has among others.
#[test]
fn a_single_query_is_a_row_of_many() {
    device::each_training(|device| {
        let sizes = [SIZES.query_size, SIZES.key_size];
        let attention = Attention::new(PairwiseScore::new(LeakyRelu, sizes, true, device), 0.0);
        let problem = Problem::dot_product(SIZES, MaskSpec::None);
        let all = problem.run_with(&attention, device, DType::F32, Path::Forward);
        let [queries, keys, values] = problem.f32::<4>(device);
        let steps = (0..SIZES.queries).map(|at| {
            let query = queries.clone().narrow(2, at, 1);
            attention.forward(query, keys.clone(), values.clone(), Mask::none())
        });
        let steps = Tensor::cat(steps.collect(), 2);
        assert_close("steps", steps, &all["context"], 1e-6);
    });
}
