//! The passes of attention with a pairwise score, compiled in the crate of the term, as only that crate knows it.

use std::fmt::Debug;

use cpu_kernels::simd::{Job, Level, MAX_LANES, Simd};
use cpu_kernels::{Float, Real};

use super::PairwiseTerm;
use super::score::PairwiseScore;
use crate::AttentionInputs;
use crate::stream::{self, AttentionGradients, AttentionOutputs, LogSumExp};

/// The attention kernels of one [`PairwiseTerm`], implemented for every term.
pub trait PairwiseKernel: Debug + Send + Sync {
    #[doc(hidden)]
    fn run_f32(&self, level: Level, inputs: &AttentionInputs<f32>, pass: Pass<f32>);

    #[doc(hidden)]
    fn run_f64(&self, level: Level, inputs: &AttentionInputs<f64>, pass: Pass<f64>);

    /// `f(q, k)`, `df/dq` and `df/dk` of some pairs, computed like the kernels of `level`.
    ///
    /// # Panics
    /// If there are not as many queries as keys.
    fn evaluate(&self, level: Level, queries: &[f32], keys: &[f32]) -> Vec<[f32; 3]>;
}

/// A pass of attention, and its outputs.
#[doc(hidden)]
#[derive(Debug)]
pub enum Pass<'a, E> {
    Forward {
        context: &'a mut [E],
        lse: &'a mut [LogSumExp],
    },
    Backward {
        outputs: &'a AttentionOutputs<'a, E>,
        gradients: AttentionGradients<'a, E>,
    },
}

impl<T: PairwiseTerm> PairwiseKernel for T {
    fn run_f32(&self, level: Level, inputs: &AttentionInputs<f32>, pass: Pass<f32>) {
        run(self, level, inputs, pass);
    }

    fn run_f64(&self, level: Level, inputs: &AttentionInputs<f64>, pass: Pass<f64>) {
        if !cfg!(feature = "f64") {
            panic!("expected the feature `f64`: without it no kernel computes in f64");
        }
        run(self, level, inputs, pass);
    }

    fn evaluate(&self, level: Level, queries: &[f32], keys: &[f32]) -> Vec<[f32; 3]> {
        let (got, expected) = (keys.len(), queries.len());
        assert!(
            got == expected,
            "PairwiseKernel: {expected} keys expected for as many queries, got {got}"
        );
        let mut results = vec![[0.0; 3]; queries.len()];
        let job = Evaluation {
            term: self,
            queries,
            keys,
            results: &mut results,
        };
        f32::dispatch(level, job);
        results
    }
}

fn run<E: Real, T: PairwiseTerm>(
    term: &T,
    level: Level,
    inputs: &AttentionInputs<E>,
    pass: Pass<E>,
) {
    let score = PairwiseScore::new(term, inputs);
    let attention = inputs.attention(&score);
    match pass {
        Pass::Forward { context, lse } => stream::forward(level, &attention, context, lse),
        Pass::Backward { outputs, gradients } => {
            if !cfg!(feature = "gradients") {
                panic!(
                    "expected the feature `gradients`: without it kernels have no backward pass"
                );
            }
            stream::backward(level, &attention, outputs, gradients);
        }
    }
}

type Run<E> = fn(&dyn PairwiseKernel, Level, &AttentionInputs<E>, Pass<E>);

/// A type with its own method of [`PairwiseKernel`].
pub(crate) trait Dispatched: Real {
    const RUN: Run<Self>;
}

impl Dispatched for f32 {
    const RUN: Run<f32> = |kernel, level, inputs, pass| kernel.run_f32(level, inputs, pass);
}

impl Dispatched for f64 {
    const RUN: Run<f64> = |kernel, level, inputs, pass| kernel.run_f64(level, inputs, pass);
}

/// The term and its derivatives for some pairs.
struct Evaluation<'a, T> {
    term: &'a T,
    queries: &'a [f32],
    keys: &'a [f32],
    results: &'a mut [[f32; 3]],
}

impl<T: PairwiseTerm> Job<f32> for Evaluation<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, simd: S) {
        let keys = self.keys.chunks(S::LANES);
        let pairs = self.queries.chunks(S::LANES).zip(keys);
        for ((queries, keys), results) in pairs.zip(self.results.chunks_mut(S::LANES)) {
            let (query, key) = (simd.load_partial(queries), simd.load_partial(keys));
            let value = self.term.value(simd, query, key);
            let [by_query, by_key] = self.term.derivatives(simd, query, key);
            for (part, vector) in [value, by_query, by_key].into_iter().enumerate() {
                let mut lanes = [0.0; MAX_LANES];
                simd.store(vector, &mut lanes);
                for (result, lane) in results.iter_mut().zip(lanes) {
                    result[part] = lane;
                }
            }
        }
    }
}
