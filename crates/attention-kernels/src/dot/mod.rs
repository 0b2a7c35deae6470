//! Scaled dot products: `score[i, j] = scale * (q[i] . k[j]) + bias[j]`.

mod add_pairs;
mod few;
mod score;

use crate::pairs::Pairs;
use crate::stream::{self, Attention, Gradients, Outputs, assert_len};
use crate::{Dropout, Level, Mask, Real, Rows};
use score::DotScore;

/// Attention with scaled dot products: `softmax(scale * Q K^T + bias) V` over the keys that each query sees.
///
/// Fewer key heads than heads are grouped: head `h` attends to key head `h * key_heads / heads`.
///
/// # Shapes
/// - queries `[batch, heads, queries, key_size]`
/// - keys `[batch, key_heads, keys, key_size]`
/// - values `[batch, key_heads, keys, value_size]`
/// - bias `[batch, heads or 1, 1, keys]`
#[derive(Clone, Copy, Debug)]
pub struct DotProduct<'a, E> {
    /// What asks.
    pub queries: Rows<'a, E>,
    /// What is asked.
    pub keys: Rows<'a, E>,
    /// What answers.
    pub values: Rows<'a, E>,
    /// Added to the scores of each key; minus infinity hides the key.
    pub bias: Option<Rows<'a, E>>,
    /// Which keys each query sees.
    pub mask: Mask<'a>,
    /// Usually `1 / sqrt(key_size)`.
    pub scale: E,
    /// Of the weights.
    pub dropout: Option<Dropout>,
}

/// Where [`dot_product_backward`] adds gradients: what the slices hold is kept, so that the steps of a decoder sum
/// into the same ones. All are contiguous.
#[derive(Debug)]
pub struct DotProductGradients<'a, E> {
    /// `[batch, heads, queries, key_size]`
    pub queries: &'a mut [E],
    /// `[batch, key_heads, keys, key_size]`
    pub keys: &'a mut [E],
    /// `[batch, key_heads, keys, value_size]`
    pub values: &'a mut [E],
    /// `[batch, heads or 1, keys]`, as the bias.
    pub bias: Option<&'a mut [E]>,
}

/// The gradients of a decoder's step, see [`dot_product_backward_step`]; contiguous.
#[derive(Debug)]
pub struct DotProductStep<'a, E> {
    /// Added to, `[batch, heads, queries, key_size]`.
    pub queries: &'a mut [E],
    /// The gradients of the scores, written where a query sees a key, `[batch, heads, queries, keys]`.
    pub scores: &'a mut [E],
    /// The weights after dropout, written where a query sees a key, `[batch, heads, queries, keys]`.
    pub weights: &'a mut [E],
    /// Added to, `[batch, heads or 1, keys]`, as the bias.
    pub bias: Option<&'a mut [E]>,
}

impl<'a, E: Real> DotProduct<'a, E> {
    fn attention<'b>(
        &self,
        score: &'b DotScore<'a, E>,
        mask: &'b Mask<'a>,
    ) -> Attention<'b, E, DotScore<'a, E>>
    where
        'a: 'b,
    {
        Attention {
            score,
            values: self.values,
            bias: self.bias,
            mask,
            dropout: self.dropout,
        }
    }

    fn key_head(&self, head: usize) -> usize {
        head * self.keys.shape()[1] / self.queries.shape()[1]
    }

    /// The most queries of a [step](Self::is_step).
    pub const STEP_QUERIES: usize = few::FEW;

    /// Whether there are so few queries, as in a decoder's step, that packing keys and values for them is not worth
    /// it.
    pub fn is_step(&self) -> bool {
        self.queries.shape()[2] <= Self::STEP_QUERIES
    }

    fn score(&self) -> DotScore<'a, E> {
        DotScore::new(self.queries, self.keys, self.scale)
    }
}

/// Writes the context and the logarithm of the sum of `e^score` of each query, which the backward pass needs.
///
/// A query that sees no key, or only scores of minus infinity, has context 0 and log-sum-exp minus infinity. The
/// number of threads changes no bit.
///
/// PyTorch: `F.scaled_dot_product_attention`.
///
/// # Shapes
/// - context `[batch, heads, queries, value_size]`
/// - lse `[batch, heads, queries]`
///
/// # Panics
/// If sizes do not fit.
pub fn dot_product_forward<E: Real>(
    level: Level,
    problem: &DotProduct<E>,
    context: &mut [E],
    lse: &mut [E],
) {
    E::dot_forward(level, problem, context, lse);
}

/// Adds the gradients to `gradients`; `context` and `lse` are what [`dot_product_forward`] wrote for the same problem.
///
/// The weights are computed again from `lse`, and are as precise as that is: to within `epsilon * |lse|`. Where a query
/// sees no key all gradients are 0, whatever `context_gradient` holds. The number of threads changes no bit.
///
/// # Shapes
/// - context, context_gradient `[batch, heads, queries, value_size]`
/// - lse `[batch, heads, queries]`
///
/// # Panics
/// If sizes do not fit.
pub fn dot_product_backward<E: Real>(
    level: Level,
    problem: &DotProduct<E>,
    context: Rows<E>,
    lse: &[E],
    context_gradient: Rows<E>,
    gradients: DotProductGradients<E>,
) {
    E::dot_backward(level, problem, context, lse, context_gradient, gradients);
}

/// As [`dot_product_backward`], for one [step](DotProduct::is_step) of many through the same keys and values: what
/// their gradients are made of is written instead of added, so that all steps can be added at once, with their
/// queries side by side: [`add_pairs`] of `scores` and queries, with the scale as factor, and of `weights` and the gradients of the contexts.
///
/// # Panics
/// If this is no step or sizes do not fit.
pub fn dot_product_backward_step<E: Real>(
    level: Level,
    problem: &DotProduct<E>,
    context: Rows<E>,
    lse: &[E],
    context_gradient: Rows<E>,
    step: DotProductStep<E>,
) {
    E::dot_backward_step(level, problem, context, lse, context_gradient, step);
}

/// Adds to each key what its pairs with the queries give, `to[j] += factor * sum_i pairs[i, j] rows[i]`: what the steps of a
/// decoder leave of the gradients of values and of keys. Pairs of 0 add nothing, whatever the row holds.
///
/// # Shapes
/// - pairs `[batch, heads, queries, keys]`, contiguous
/// - rows `[batch, heads, queries, size]`
/// - to `[batch, heads, keys, size]`, contiguous
///
/// # Panics
/// If sizes do not fit.
pub fn add_pairs<E: Real>(level: Level, factor: E, pairs: &[E], rows: Rows<E>, to: &mut [E]) {
    E::add_pairs(level, factor, pairs, rows, to);
}

/// The kernels of one type, compiled here: a generic function would be compiled again, for every instruction set, in
/// each crate that calls it.
pub(crate) trait DotKernels: Sized {
    fn dot_forward(
        level: Level,
        problem: &DotProduct<Self>,
        context: &mut [Self],
        lse: &mut [Self],
    );

    fn dot_backward(
        level: Level,
        problem: &DotProduct<Self>,
        context: Rows<Self>,
        lse: &[Self],
        context_gradient: Rows<Self>,
        gradients: DotProductGradients<Self>,
    );

    fn dot_backward_step(
        level: Level,
        problem: &DotProduct<Self>,
        context: Rows<Self>,
        lse: &[Self],
        context_gradient: Rows<Self>,
        step: DotProductStep<Self>,
    );

    fn add_pairs(level: Level, factor: Self, pairs: &[Self], rows: Rows<Self>, to: &mut [Self]);
}

macro_rules! dot_kernels {
    ($type:ident) => {
        impl DotKernels for $type {
            fn dot_forward(
                level: Level,
                problem: &DotProduct<Self>,
                context: &mut [Self],
                lse: &mut [Self],
            ) {
                forward(level, problem, context, lse);
            }

            fn dot_backward(
                level: Level,
                problem: &DotProduct<Self>,
                context: Rows<Self>,
                lse: &[Self],
                context_gradient: Rows<Self>,
                gradients: DotProductGradients<Self>,
            ) {
                backward(level, problem, context, lse, context_gradient, gradients);
            }

            fn dot_backward_step(
                level: Level,
                problem: &DotProduct<Self>,
                context: Rows<Self>,
                lse: &[Self],
                context_gradient: Rows<Self>,
                step: DotProductStep<Self>,
            ) {
                backward_step(level, problem, context, lse, context_gradient, step);
            }

            fn add_pairs(
                level: Level,
                factor: Self,
                pairs: &[Self],
                rows: Rows<Self>,
                to: &mut [Self],
            ) {
                add_pairs::add_pairs(level, factor, pairs, rows, to);
            }
        }
    };
}

dot_kernels!(f32);
dot_kernels!(f64);

fn forward<E: Real>(level: Level, problem: &DotProduct<E>, context: &mut [E], lse: &mut [E]) {
    let score = problem.score();
    let attention = problem.attention(&score, &problem.mask);
    attention.check_forward(context, lse);
    if problem.is_step() {
        few::forward(level, problem, context, lse);
    } else {
        stream::forward(level, &attention, context, lse);
    }
}

fn backward<E: Real>(
    level: Level,
    problem: &DotProduct<E>,
    context: Rows<E>,
    lse: &[E],
    context_gradient: Rows<E>,
    gradients: DotProductGradients<E>,
) {
    let score = problem.score();
    let attention = problem.attention(&score, &problem.mask);
    let outputs = Outputs {
        context,
        lse,
        context_gradient,
    };
    let DotProductGradients {
        queries,
        keys,
        values,
        bias,
    } = gradients;
    let want_bias = bias.is_some();
    assert!(
        !want_bias || problem.bias.is_some(),
        "dot product: a bias gradient without a bias"
    );
    let gradients = Gradients {
        queries,
        keys,
        values,
        bias: bias.unwrap_or_default(),
        shared: &mut [],
    };
    attention.check_backward(&outputs, &gradients);
    if problem.is_step() {
        let Gradients {
            queries,
            keys,
            values,
            bias,
            ..
        } = gradients;
        let pairs = Pairs::Add { keys, values };
        let bias = want_bias.then_some(bias);
        few::backward(level, problem, &outputs, queries, pairs, bias);
    } else {
        stream::backward(level, &attention, &outputs, gradients);
    }
}

fn backward_step<E: Real>(
    level: Level,
    problem: &DotProduct<E>,
    context: Rows<E>,
    lse: &[E],
    context_gradient: Rows<E>,
    step: DotProductStep<E>,
) {
    let DotProductStep {
        queries,
        scores,
        weights,
        bias,
    } = step;
    let [batch, heads, num_queries, size] = problem.queries.shape();
    assert!(
        problem.is_step(),
        "dot product: a step expected at most {} queries, got {num_queries}",
        few::FEW
    );
    assert!(
        bias.is_none() || problem.bias.is_some(),
        "dot product: a bias gradient without a bias"
    );
    let outputs = Outputs {
        context,
        lse,
        context_gradient,
    };
    let score = problem.score();
    let attention = problem.attention(&score, &problem.mask);
    let sizes = attention.check_outputs(&outputs);
    attention.check_bias(&sizes, bias.as_deref().unwrap_or_default());
    let shape = [batch, heads, num_queries, problem.keys.shape()[2]];
    assert_len(
        "query gradient",
        queries.len(),
        [batch, heads, num_queries, size],
    );
    assert_len("score gradient", scores.len(), shape);
    assert_len("weights", weights.len(), shape);
    let pairs = Pairs::Keep { scores, weights };
    few::backward(level, problem, &outputs, queries, pairs, bias);
}
