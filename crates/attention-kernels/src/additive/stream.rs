//! Additive scores in the streaming kernels.

use std::ops::Range;

use cpu_kernels::checks::check_len;
use cpu_kernels::simd::{Level, Simd};
use cpu_kernels::slices::add;
use cpu_kernels::{Buffer, Real};

use super::blocks::BlockScores;
use super::decode;
use super::gradient::{Operand, ScoreGradients};
use super::pack::{HeadKeys, PackedQueries, UnitWeights, packed_block_len, packed_shape};
use super::score::AdditiveScoreInputs;
use crate::heads::Heads;
use crate::stream::{
    Attention, AttentionGradients, AttentionOutputs, LogSumExp, Phase, Sizes, TileScore, Wanted,
};
use crate::tiles::{KEY_LANES, KEY_STRIDE};
use crate::{AttentionInputs, HeadIndex, Score};

/// The score, and what is computed once from its weight and keys.
pub(crate) struct AdditiveScore<'a, E> {
    pub inputs: AdditiveScoreInputs<'a, E>,
    pub heads: Heads,
    pub(super) weights: UnitWeights<E>,
    /// The keys of all heads from [`AdditiveScoreInputs::packed_keys`], if they are already packed.
    pub packed: Option<&'a [E]>,
}

impl<'a, E: Real> AdditiveScore<'a, E> {
    /// The score of inputs with additive scores.
    ///
    /// # Panics
    /// If the shapes of queries, keys and weight do not fit together.
    pub(crate) fn new(attention: &AttentionInputs<'a, E>) -> Self {
        let Score::Additive {
            weight,
            packed_keys,
        } = attention.score
        else {
            panic!("{}: expected additive scores", Self::OPERATION);
        };
        let inputs = AdditiveScoreInputs {
            queries: attention.queries,
            keys: attention.keys,
            weight,
            mask: attention.mask,
        };
        let heads = inputs.check(Self::OPERATION);
        if let Some(packed) = packed_keys {
            let expected = packed_shape(inputs.keys.shape());
            check_len(Self::OPERATION, "packed keys", expected, packed.len());
        }
        Self {
            inputs,
            heads,
            weights: UnitWeights::new(weight),
            packed: packed_keys,
        }
    }

    /// Some blocks of the packed keys of a key head, if they are already packed.
    #[inline(always)]
    pub(super) fn packed_blocks(&self, at: HeadIndex, blocks: Range<usize>) -> Option<&'a [E]> {
        let [_, _, num_keys, units] = self.inputs.keys.shape();
        let block_len = packed_block_len(units);
        let first = at.position(self.heads.key_heads) * num_keys.div_ceil(KEY_LANES);
        let packed = self.packed?;
        Some(&packed[(first + blocks.start) * block_len..(first + blocks.end) * block_len])
    }
}

/// Some keys of one head.
#[derive(Default)]
pub(crate) struct Keys<'a, E> {
    at: HeadIndex,
    /// The range of the keys, from a multiple of [`KEY_LANES`] on.
    range: Range<usize>,
    /// Their packed blocks: packed for all keys, or here.
    packed: Option<&'a [E]>,
    own: Buffer<E>,
    scratch: Vec<E>,
    /// For the backward pass only.
    operand: Operand<'a, E>,
    weight_sums: Vec<E>,
}

/// A block of queries.
#[derive(Default)]
pub(crate) struct Queries<'a, E> {
    packed: PackedQueries<'a, E>,
    /// For the backward pass only.
    operand: Operand<'a, E>,
}

impl<'a, E: Real> TileScore<E> for AdditiveScore<'a, E> {
    const OPERATION: &'static str = "additive attention";

    type Keys = Keys<'a, E>;
    type Queries = Queries<'a, E>;

    fn sizes(&self) -> Sizes {
        let [_, _, queries, units] = self.inputs.queries.shape();
        let [_, _, keys, _] = self.inputs.keys.shape();
        Sizes {
            heads: self.heads,
            queries,
            keys,
            size: units,
            shared: units,
        }
    }

    #[inline(always)]
    fn pack_keys<S: Simd<E>>(
        &self,
        simd: S,
        at: HeadIndex,
        range: Range<usize>,
        phase: Phase,
        keys: &mut Self::Keys,
    ) {
        let [_, _, num_queries, _] = self.inputs.queries.shape();
        let [_, _, num_keys, units] = self.inputs.keys.shape();
        keys.at = at;
        keys.range = range.clone();
        let blocks = range.start / KEY_LANES..range.end.div_ceil(KEY_LANES);
        keys.packed = self.packed_blocks(at, blocks.clone());
        if keys.packed.is_none() {
            let block_len = packed_block_len(units);
            let head = HeadKeys {
                rows: self.inputs.keys,
                at,
                attended: self.inputs.mask.span(at.batch, 0..num_queries, num_keys),
            };
            let own = keys.own.of_len(blocks.len() * block_len);
            for (block, to) in blocks.zip(own.chunks_exact_mut(block_len)) {
                head.pack(simd, block, &mut keys.scratch, to);
            }
        }
        if let Phase::Backward(wanted) = phase
            && wanted.through_scores()
        {
            keys.operand.fill_keys(simd, &self.inputs.keys, at, range);
            keys.weight_sums.clear();
            keys.weight_sums.resize(units, E::ZERO);
        }
    }

    #[inline(always)]
    fn pack_queries<S: Simd<E>>(
        &self,
        simd: S,
        at: HeadIndex,
        range: Range<usize>,
        phase: Phase,
        queries: &mut Self::Queries,
    ) {
        let from = &self.inputs.queries;
        let rows = range.clone().map(|query| from.row(at, query));
        queries.packed.pack(simd, rows, &self.weights);
        if let Phase::Backward(wanted) = phase
            && wanted.through_scores()
        {
            queries.operand.fill_queries(simd, from, at, range);
        }
    }

    #[inline(always)]
    fn scores<S: Simd<E>>(
        &self,
        simd: S,
        queries: &Self::Queries,
        keys: &Self::Keys,
        tile: Range<usize>,
        out: &mut [E],
    ) {
        let [_, _, _, units] = self.inputs.keys.shape();
        let block_len = packed_block_len(units);
        let packed = keys.packed.unwrap_or(&keys.own);
        let log2_e = std::f64::consts::LOG2_E;
        let factor = E::from_f64(self.weights.factor().to_f64() * log2_e);
        BlockScores {
            weights: &self.weights,
            queries: &queries.packed,
            keys: self.inputs.keys,
            at: keys.at,
            first: tile.start,
            packed: &packed[(tile.start - keys.range.start) / KEY_LANES * block_len..],
            masks: &[],
            to: out,
            stride: KEY_STRIDE,
            width: tile.len().next_multiple_of(KEY_LANES),
            factor,
        }
        .compute(simd);
    }

    #[inline(always)]
    fn backward<S: Simd<E>>(
        &self,
        simd: S,
        wanted: Wanted,
        queries: &mut Self::Queries,
        keys: &mut Self::Keys,
        tile: Range<usize>,
        gradient: &[E],
    ) {
        let scores = ScoreGradients {
            keys: tile.start - keys.range.start..tile.end - keys.range.start,
            gradient,
            stride: KEY_STRIDE,
        };
        let (queries, weight) = (&mut queries.operand, &mut keys.weight_sums);
        scores.add(simd, wanted, queries, &mut keys.operand, weight);
    }

    #[inline(always)]
    fn add_query_gradient<S: Simd<E>>(
        &self,
        _simd: S,
        queries: &Self::Queries,
        gradient: &mut [E],
    ) {
        let weight = self.inputs.weight;
        queries.operand.add_gradients_to(weight, gradient);
    }

    #[inline(always)]
    fn add_key_gradient<S: Simd<E>>(&self, _simd: S, keys: &Self::Keys, gradient: &mut [E]) {
        keys.operand.add_gradients_to(self.inputs.weight, gradient);
    }

    fn add_shared_gradient(&self, keys: &Self::Keys, shared: &mut [E]) {
        add(&keys.weight_sums, shared);
    }

    fn decode_forward(
        level: Level,
        attention: &Attention<E, Self>,
        context: &mut [E],
        lse: &mut [LogSumExp],
    ) {
        decode::forward(level, attention, context, lse, None);
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
