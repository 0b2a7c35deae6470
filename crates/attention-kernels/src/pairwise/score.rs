//! Pairwise scores in the streaming kernels.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::checks::check_len;
use cpu_kernels::simd::{Level, Simd};
use cpu_kernels::slices::add;

use super::PairwiseTerm;
use super::gradient::{Operand, TileGradients};
use super::tile::PanelScores;
use crate::heads::Heads;
use crate::stream::{
    Attention, AttentionGradients, AttentionOutputs, LogSumExp, PackedRows, Panels, Phase, Sizes,
    TileScore, Wanted,
};
use crate::{AttentionInputs, HeadIndex, Rows, Score, decode};

/// `sum_u w[u] f(q[u], k[u])`
pub(super) struct PairwiseScore<'a, E, T> {
    pub term: &'a T,
    pub queries: Rows<'a, E>,
    pub keys: Rows<'a, E>,
    heads: Heads,
    /// `w`; ones if it is absent.
    pub weight: Vec<E>,
    /// `w log2 e`
    scaled: Vec<E>,
    learns_weight: bool,
}

impl<'a, E: Real, T: PairwiseTerm> PairwiseScore<'a, E, T> {
    /// The score of inputs with pairwise scores.
    ///
    /// # Panics
    /// If the shapes of queries, keys and weight do not fit together.
    pub(super) fn new(term: &'a T, inputs: &AttentionInputs<'a, E>) -> Self {
        let AttentionInputs { queries, keys, .. } = *inputs;
        let weight = match inputs.score {
            Score::Pairwise { weight, .. } => weight,
            _ => panic!("{}: expected pairwise scores", Self::OPERATION),
        };
        let [.., units] = queries.shape();
        if let Some(weight) = weight {
            check_len(Self::OPERATION, "weight", [units], weight.len());
        }
        let learns_weight = weight.is_some();
        let weight = weight.map_or_else(|| vec![E::ONE; units], <[E]>::to_vec);
        let log2_e = E::from_f64(std::f64::consts::LOG2_E);
        Self {
            term,
            queries,
            keys,
            heads: Heads::of(Self::OPERATION, queries.shape(), keys.shape()),
            scaled: weight.iter().map(|&weight| weight * log2_e).collect(),
            weight,
            learns_weight,
        }
    }
}

/// Some keys of one head.
#[derive(Default)]
pub(super) struct Keys<E> {
    first: usize,
    panels: Panels<E>,
    /// For the backward pass only.
    operand: Operand<E>,
    /// For the backward pass only; empty if not requested.
    weight_sums: Vec<E>,
}

/// A block of queries.
#[derive(Default)]
pub(super) struct Queries<E> {
    rows: PackedRows<E>,
    /// For the backward pass only.
    operand: Operand<E>,
}

impl<E: Real, T: PairwiseTerm> TileScore<E> for PairwiseScore<'_, E, T> {
    const OPERATION: &'static str = "pairwise attention";

    type Keys = Keys<E>;
    type Queries = Queries<E>;

    fn sizes(&self) -> Sizes {
        let [_, _, queries, size] = self.queries.shape();
        let [_, _, keys, _] = self.keys.shape();
        Sizes {
            heads: self.heads,
            queries,
            keys,
            size,
            shared: if self.learns_weight { size } else { 0 },
        }
    }

    #[inline(always)]
    fn pack_keys<S: Simd<E>>(
        &self,
        simd: S,
        at: HeadIndex,
        range: Range<usize>,
        phase: Phase,
        keys: &mut Keys<E>,
    ) {
        keys.first = range.start;
        keys.panels.pack(simd, &self.keys, at, range.clone());
        if let Phase::Backward(wanted) = phase
            && wanted.through_scores()
        {
            keys.operand.fill(&self.keys, at, range);
            keys.weight_sums.clear();
            let len = if wanted.shared { self.weight.len() } else { 0 };
            keys.weight_sums.resize(len, E::ZERO);
        }
    }

    #[inline(always)]
    fn pack_queries<S: Simd<E>>(
        &self,
        simd: S,
        at: HeadIndex,
        range: Range<usize>,
        phase: Phase,
        queries: &mut Queries<E>,
    ) {
        let from = &self.queries;
        queries.rows.pack(simd, from, at, range.clone(), E::ONE);
        if let Phase::Backward(wanted) = phase
            && wanted.through_scores()
        {
            queries.operand.fill(from, at, range);
        }
    }

    #[inline(always)]
    fn scores<S: Simd<E>>(
        &self,
        simd: S,
        queries: &Queries<E>,
        keys: &Keys<E>,
        tile: Range<usize>,
        out: &mut [E],
    ) {
        let within = tile.start - keys.first..tile.end - keys.first;
        for panel in keys.panels.of_rows::<S>(within) {
            simd.call(PanelScores {
                term: self.term,
                weight: &self.scaled,
                queries: &queries.rows,
                out: &mut out[panel.first..],
                panel,
            });
        }
    }

    #[inline(always)]
    fn backward<S: Simd<E>>(
        &self,
        simd: S,
        wanted: Wanted,
        queries: &mut Queries<E>,
        keys: &mut Keys<E>,
        tile: Range<usize>,
        gradient: &[E],
    ) {
        if !(wanted.queries || wanted.keys || wanted.shared) {
            return;
        }
        simd.call(TileGradients {
            term: self.term,
            queries: &mut queries.operand,
            keys: &mut keys.operand,
            weight_sums: &mut keys.weight_sums,
            tile: tile.start - keys.first..tile.end - keys.first,
            gradient,
        });
    }

    #[inline(always)]
    fn add_query_gradient<S: Simd<E>>(&self, _simd: S, queries: &Queries<E>, gradient: &mut [E]) {
        queries.operand.add_gradients_to(&self.weight, gradient);
    }

    #[inline(always)]
    fn add_key_gradient<S: Simd<E>>(&self, _simd: S, keys: &Keys<E>, gradient: &mut [E]) {
        keys.operand.add_gradients_to(&self.weight, gradient);
    }

    fn add_shared_gradient(&self, keys: &Keys<E>, shared: &mut [E]) {
        add(&keys.weight_sums, shared);
    }

    fn decode_forward(
        level: Level,
        attention: &Attention<E, Self>,
        context: &mut [E],
        lse: &mut [LogSumExp],
    ) {
        decode::forward(level, attention, context, lse);
    }

    fn decode_backward(
        level: Level,
        attention: &Attention<E, Self>,
        outputs: &AttentionOutputs<E>,
        gradients: AttentionGradients<E>,
    ) {
        decode::backward(level, attention, outputs, gradients);
    }
}
