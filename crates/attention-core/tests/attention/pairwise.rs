//! Scores of a user's own term, fused.

use std::sync::Arc;

use attention_core::functional::{
    AttentionOptions, masked_softmax, pairwise_attention, pairwise_score, weighted_sum,
};
use attention_core::position::Positions;
use attention_core::score::{
    PairwiseFormula, PairwiseTerm, Real, ScoreKernel, Simd, TermError, check_term,
};
use attention_core::{Attention, Mask, ScoringFunction};
use attention_tests::{
    Array, MaskSpec, Path, Problem, Sizes, assert_close, assert_says, contract, device, masks,
    panic_message,
};
use burn::module::{Module, Param};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{DType, Device, Tensor, activation};

/// `-|q - k|`
#[derive(Debug)]
struct Distance;

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
struct SquaredDistance;

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
struct LeakyRelu;

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
        [simd.select(
            is_negative,
            simd.splat(E::from_f64(SLOPE)),
            simd.splat(E::ONE),
        ); 2]
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
        let normal = Initializer::Normal {
            mean: 0.0,
            std: 0.3,
        };
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
            let scores = pairwise_score(
                queries.clone(),
                keys.clone(),
                &LeakyRelu,
                Some(weight.clone()),
                &Mask::none(),
            );
            let attend = |options: &AttentionOptions| {
                let [queries, keys, values] = [&queries, &keys, &values].map(Tensor::clone);
                pairwise_attention(
                    queries,
                    keys,
                    values,
                    Arc::new(LeakyRelu),
                    Some(weight.clone()),
                    options,
                )
            };
            let context = attend(&options);
            // The same by a dot product of nothing with the scores as its bias.
            let capped = (scores / 2.0).tanh() * 2.0;
            options.bias = options.bias.map(|bias| bias + capped);
            options.soft_cap = None;
            let nothing = [queries.zeros_like(), keys.zeros_like(), values.clone()];
            let [nothing, of_keys, of_values] = nothing;
            let expected = attention_core::functional::dot_product_attention(
                nothing, of_keys, of_values, &options,
            );
            assert_close(name, context, &Array::read(expected), 2e-5);
        }
    });
}

/// Each part of a term may be wrong.
#[derive(Debug)]
struct Planted<const WRONG: usize>;

impl<const WRONG: usize> PairwiseTerm for Planted<WRONG> {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        let product = simd.mul(query, key);
        if WRONG == 1 {
            simd.add(product, query)
        } else {
            product
        }
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        match WRONG {
            2 => [query, query],
            3 => [key, simd.neg(query)],
            _ => [key, query],
        }
    }
}

impl<const WRONG: usize> PairwiseFormula for Planted<WRONG> {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        if WRONG == 4 {
            queries * keys * 1.01
        } else {
            queries * keys
        }
    }
}

/// `q^0.5 k`, of which half of the numbers tried are NaN, with a right derivative by the key and perhaps another by the
/// query.
#[derive(Debug)]
struct Root<const WRONG: bool>;

impl<const WRONG: bool> PairwiseTerm for Root<WRONG> {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        simd.mul(simd.sqrt(query), key)
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let root = simd.sqrt(query);
        let half = simd.mul(simd.splat(E::from_f64(if WRONG { 0.7 } else { 0.5 })), key);
        [simd.div(half, root), root]
    }
}

impl<const WRONG: bool> PairwiseFormula for Root<WRONG> {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        queries.sqrt() * keys
    }
}

#[test]
fn a_term_may_have_no_value_somewhere() {
    let device = Device::flex();
    assert_eq!(check_term(&Root::<false>, &device), Ok(()));
    let error = check_term(&Root::<true>, &device).unwrap_err();
    assert_eq!(error.part, "derivative by the query", "{error}");
}

/// A square, with a value or a definition that is no number somewhere.
#[derive(Debug)]
enum Square {
    /// Beyond 100 the value is infinite.
    Overflows,
    /// The definition is NaN below -100.
    Undefined,
    /// Both are infinite beyond 100.
    Ends,
    /// Both are infinite beyond 100, with other signs.
    Turns,
    /// The definition sums over the units.
    Sums,
}

impl PairwiseTerm for Square {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        let square = simd.mul(query, query);
        let value = simd.add(square, key);
        if matches!(self, Self::Overflows | Self::Ends | Self::Turns) {
            let is_far = simd.less(simd.splat(E::from_f64(100.0)), query);
            return simd.select(is_far, simd.splat(E::INFINITY), value);
        }
        value
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, _key: S::V) -> [S::V; 2] {
        [simd.add(query, query), simd.splat(E::ONE)]
    }
}

impl PairwiseFormula for Square {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        let square = queries.clone() * queries.clone();
        let (low, high) = (queries.clone().lower_elem(-100), queries.greater_elem(100));
        let square = match self {
            Self::Undefined => square.mask_fill(low, f64::NAN),
            Self::Ends => square.mask_fill(high, f64::INFINITY),
            Self::Turns => square.mask_fill(high, f64::NEG_INFINITY),
            _ => square,
        };
        match self {
            Self::Sums => (square + keys).sum_dim(2),
            _ => square + keys,
        }
    }
}

#[test]
fn what_is_no_number_is_compared() {
    let device = Device::flex();
    assert_eq!(check_term(&Square::Ends, &device), Ok(()));
    for (term, expected, found) in [
        (Square::Overflows, 9e4, f64::INFINITY),
        (Square::Undefined, f64::NAN, 9e4),
        (Square::Turns, f64::NEG_INFINITY, f64::INFINITY),
    ] {
        let error = check_term(&term, &device).unwrap_err();
        assert_eq!(error.part, "value", "{error}");
        let is_close = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan() || (x - y).abs() < 400.0;
        let is_right = is_close(error.expected, expected) && is_close(error.found, found);
        assert!(is_right, "{error}");
    }
    let message = panic_message(|| check_term(&Square::Sums, &device));
    assert_says(&message, "check_term: definition expected [1, 1, ");
}

#[test]
fn a_wrong_part_of_a_term_is_named() {
    let device = Device::flex();
    for term in [
        &Distance as &dyn PairwiseFormula,
        &LeakyRelu,
        &SquaredDistance,
        &Planted::<0>,
    ] {
        assert_eq!(check_term(term, &device), Ok(()), "{term:?}");
    }
    let wrong: [(&dyn PairwiseFormula, &str); 4] = [
        (&Planted::<1>, "value"),
        (&Planted::<2>, "derivative by the query"),
        (&Planted::<3>, "derivative by the key"),
        (&Planted::<4>, "definition"),
    ];
    for (term, part) in wrong {
        let error = check_term(term, &device).unwrap_err();
        assert_eq!(error.part, part, "{error}");
        let TermError {
            at: [query, key],
            expected,
            found,
            ..
        } = error;
        let text =
            format!("{part} at query {query} and key {key}: expected {expected}, got {found}");
        assert_eq!(error.to_string(), text);
    }
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
    let draw =
        |seed, shape: [usize; 4]| Array::draw(seed, &shape).map(|x| x + 3.0).f32::<4>(device);
    let (queries, keys, values) = (
        draw(1, [2, 2, num_queries, 5]),
        draw(2, [2, 2, 4, 5]),
        draw(3, [2, 2, 4, 3]),
    );
    let gradient = |fused: bool| {
        let weight = Array::draw(4, &[5]).f32::<1>(device).require_grad();
        let mask = Mask::causal();
        let [queries, keys, values] = [&queries, &keys, &values].map(Tensor::clone);
        let context = if fused {
            pairwise_attention(
                queries,
                keys,
                values,
                Arc::new(Quotient),
                Some(weight.clone()),
                mask,
            )
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
        let attention =
            PairwiseScore::new(LeakyRelu, [SIZES.query_size, SIZES.key_size], true, device);
        let attention = Attention::new(attention, 0.0);
        let problem = Problem::dot_product(SIZES, MaskSpec::None);
        let all = problem.run_with(&attention, device, DType::F32, Path::Forward);
        let queries = problem.inputs["queries"].f32::<4>(device);
        let [keys, values] = ["keys", "values"].map(|name| problem.inputs[name].f32::<4>(device));
        let steps = (0..SIZES.queries).map(|at| {
            let query = queries.clone().narrow(2, at, 1);
            attention.forward(query, keys.clone(), values.clone(), Mask::none())
        });
        let steps = Tensor::cat(steps.collect(), 2);
        assert_close("steps", steps, &all["context"], 1e-6);
    });
}
