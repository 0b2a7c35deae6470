//! Inputs of attention on their way from a client to a server.

use burn::backend::Backend;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::remote::{
    AsScalars, BackendRouter, Opened, Pack, Parcel, RouterChannel, ScalarReader, ScalarWriter,
    Unpack, packed,
};

use crate::ops::attention_backend::AttentionBackend;
use crate::ops::fused::Attended;
use crate::ops::{
    AdditiveAttentionInputs, AdditiveScoreInputs, DeviceMask, DotProductAttentionInputs, HostMask,
    Intervals, Keep, MaskedSoftmaxInputs, ResolvedMask, ScoreModifiers,
};

/// Inputs of the backward pass of a fused attention.
pub(super) struct Backward<B: Backend, I, const N: usize> {
    pub(super) saved: Attended<B, I>,
    pub(super) gradient: FloatTensor<B>,
    pub(super) wanted: [bool; N],
}

impl<C: RouterChannel, I: Pack<C>, const N: usize> Pack<C> for Backward<BackendRouter<C>, I, N> {
    fn pack(self, parcel: &mut Parcel<C>) {
        let Attended {
            inputs,
            context,
            statistics,
            weights: _,
            seed,
        } = self.saved;
        inputs.pack(parcel);
        parcel.tensor(context);
        parcel.tensor(statistics);
        parcel.optional(seed);
        parcel.tensor(self.gradient);
        parcel.scalars(&self.wanted);
    }
}

impl<B, I, const N: usize> Unpack<B> for Backward<B, I, N>
where
    B: BackendIr + AttentionBackend,
    I: Unpack<B>,
{
    fn unpack(parcel: &mut Opened<B>) -> Self {
        Self {
            saved: Attended {
                inputs: I::unpack(parcel),
                context: parcel.float(),
                statistics: parcel.float(),
                weights: None,
                seed: parcel.optional(),
            },
            gradient: parcel.float(),
            wanted: parcel.scalars(),
        }
    }
}

packed!(AdditiveAttentionInputs, on: AttentionBackend, {
    queries: float,
    keys: float,
    values: float,
    weight: float,
    packed_keys: absent,
    modifiers: part,
    mask: part,
    dropout: scalars,
    shared: left,
});

packed!(DotProductAttentionInputs, on: AttentionBackend, {
    queries: float,
    keys: float,
    values: float,
    modifiers: part,
    mask: part,
    scale: scalars,
    dropout: scalars,
    shared: left,
});

packed!(ScoreModifiers, on: AttentionBackend, {
    bias: part,
    relative_bias: part,
    sinks: part,
    soft_cap: scalars,
});

packed!(AdditiveScoreInputs, on: AttentionBackend, {
    queries: float,
    keys: float,
    weight: float,
    mask: part,
});

/// Inputs of the backward pass of additive scores.
pub(super) struct ScoreBackward<B: Backend> {
    pub(super) inputs: AdditiveScoreInputs<B>,
    pub(super) gradient: FloatTensor<B>,
    pub(super) wanted: [bool; 3],
}

packed!(ScoreBackward, on: AttentionBackend, {
    inputs: part,
    gradient: float,
    wanted: scalars,
});

packed!(MaskedSoftmaxInputs, on: AttentionBackend, {
    scores: float,
    mask: part,
});

/// Inputs of the backward pass of a softmax.
pub(super) struct SoftmaxBackward<B: Backend> {
    pub(super) weights: FloatTensor<B>,
    pub(super) gradient: FloatTensor<B>,
}

packed!(SoftmaxBackward, on: AttentionBackend, {
    weights: float,
    gradient: float,
});

/// The kind of a mask, as the number that is sent.
const NO_MASK: usize = 0;
const ON_HOST: usize = 1;
const INTERVALS: usize = 2;
const KEEP: usize = 3;
const INTERVALS_AND_KEEP: usize = 4;

impl<C: RouterChannel> Pack<C> for ResolvedMask<BackendRouter<C>> {
    fn pack(self, parcel: &mut Parcel<C>) {
        let mask = match self {
            Self::None => return parcel.scalars(&NO_MASK),
            Self::Host { mask } => {
                parcel.scalars(&ON_HOST);
                return parcel.scalars(&mask);
            }
            Self::Device { mask } => mask,
        };
        match mask {
            DeviceMask::Intervals { start, end } => {
                parcel.scalars(&INTERVALS);
                parcel.tensor(start);
                parcel.tensor(end);
            }
            DeviceMask::Keep { keep } => {
                parcel.scalars(&KEEP);
                parcel.tensor(keep);
            }
            DeviceMask::IntervalsAndKeep { start, end, keep } => {
                parcel.scalars(&INTERVALS_AND_KEEP);
                parcel.tensor(start);
                parcel.tensor(end);
                parcel.tensor(keep);
            }
        }
    }
}

impl<B: BackendIr + AttentionBackend> Unpack<B> for ResolvedMask<B> {
    fn unpack(parcel: &mut Opened<B>) -> Self {
        let mask = match parcel.scalars::<usize>() {
            NO_MASK => return Self::None,
            ON_HOST => {
                return Self::Host {
                    mask: parcel.scalars(),
                };
            }
            INTERVALS => DeviceMask::Intervals {
                start: parcel.int(),
                end: parcel.int(),
            },
            KEEP => DeviceMask::Keep {
                keep: parcel.bool(),
            },
            INTERVALS_AND_KEEP => DeviceMask::IntervalsAndKeep {
                start: parcel.int(),
                end: parcel.int(),
                keep: parcel.bool(),
            },
            kind => panic!("an operation from a client: expected a kind of mask, got {kind}"),
        };
        (B::KERNELS.mask)(Self::Device { mask })
    }
}

impl AsScalars for HostMask {
    fn write(&self, to: &mut ScalarWriter) {
        let intervals = self.intervals.as_ref();
        to.write(&intervals.map(|Intervals { bounds, shape }| Pair(bounds.clone(), *shape)));
        let keep = self.keep.as_ref();
        to.write(&keep.map(|Keep { flags, shape }| Pair(flags.clone(), *shape)));
    }

    fn read(from: &mut ScalarReader) -> Self {
        let intervals: Option<Pair<_, _>> = from.read();
        let keep: Option<Pair<_, _>> = from.read();
        Self {
            intervals: intervals.map(|Pair(bounds, shape)| Intervals { bounds, shape }),
            keep: keep.map(|Pair(flags, shape)| Keep { flags, shape }),
        }
    }
}

/// Two values, one after the other.
struct Pair<S, T>(S, T);

impl<S: AsScalars, T: AsScalars> AsScalars for Pair<S, T> {
    fn write(&self, to: &mut ScalarWriter) {
        to.write(&self.0);
        to.write(&self.1);
    }

    fn read(from: &mut ScalarReader) -> Self {
        Self(from.read(), from.read())
    }
}
