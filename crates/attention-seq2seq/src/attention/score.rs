//! The scores among the attentions, which the heads of a Transformer can use.

use attention_core::position::Positions;
use attention_core::score::{
    AdditiveScoreConfig, BiaffineScore, BiaffineScoreConfig, BilinearScore, BilinearScoreConfig,
    ConcatScore, ConcatScoreConfig, CosineScore, CosineScoreConfig, DotProductScoreConfig,
    GaussianScore, GaussianScoreConfig, PositionTerm, ProjectedScore, ProjectedScoreConfig,
    QkNormScore, QkNormScoreConfig, ScoreKernel,
};
use attention_core::{AdditiveScore, DotProductScore, Mask, ScoringFunction};
use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::{DType, Device, Tensor};

use super::AttentionKind;
use crate::variants::module_of_variants;

/// Defines [`AnyScore`], with a variant for each line, made by a function from the size of queries and keys.
macro_rules! scores {
    ($($kind:ident($module:ty) = $make:expr;)+) => {
        /// The scoring function of an attention that consists of a score under softmax, without a state. Its parameters
        /// have the names of the score inside.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "a layer has one")]
        pub enum AnyScore {
            $(#[doc = concat!("That of [`AttentionKind::", stringify!($kind), "`].")] $kind($module),)+
        }

        module_of_variants!(AnyScore { $($kind),+ });

        impl AttentionKind {
            /// The attentions that have a [`score`](Self::score).
            pub const SCORES: &[Self] = &[$(Self::$kind),+];

            /// The scoring function, with new random parameters, for queries and keys of `size`: for the heads of a
            /// [`Transformer`](crate::Transformer). `None` if the attention is more than a score under softmax.
            ///
            /// # Panics
            /// If the size is 0.
            pub fn score(self, size: usize, device: &Device) -> Option<AnyScore> {
                match self {
                    $(Self::$kind => Some(AnyScore::$kind($make(size, device))),)+
                    _ => None,
                }
            }
        }

        impl ScoringFunction for AnyScore {
            fn project_queries(&self, queries: Tensor<4>, positions: &Positions) -> Tensor<4> {
                match self { $(Self::$kind(score) => score.project_queries(queries, positions),)+ }
            }

            fn project_keys(&self, keys: Tensor<4>, positions: &Positions) -> Tensor<4> {
                match self { $(Self::$kind(score) => score.project_keys(keys, positions),)+ }
            }

            fn projects_keys(&self) -> bool {
                match self { $(Self::$kind(score) => score.projects_keys(),)+ }
            }

            fn compares_as_given(&self) -> bool {
                match self { $(Self::$kind(score) => score.compares_as_given(),)+ }
            }

            fn kernel(&self) -> ScoreKernel {
                match self { $(Self::$kind(score) => score.kernel(),)+ }
            }

            fn key_bias(&self, keys: &Tensor<4>) -> Option<Tensor<4>> {
                match self { $(Self::$kind(score) => score.key_bias(keys),)+ }
            }

            fn query_bias(&self, queries: &Tensor<4>) -> Option<Tensor<4>> {
                match self { $(Self::$kind(score) => score.query_bias(queries),)+ }
            }

            fn position_term(
                &self,
                num_queries: usize,
                num_keys: usize,
                device: &Device,
                dtype: DType,
            ) -> PositionTerm {
                match self {
                    $(Self::$kind(score) => {
                        score.position_term(num_queries, num_keys, device, dtype)
                    })+
                }
            }

            fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
                match self { $(Self::$kind(score) => score.score(queries, keys, mask),)+ }
            }
        }
    };
}

scores! {
    Additive(AdditiveScore) = additive;
    Dot(DotProductScore) = dot;
    Normalized(AdditiveScore) = normalized;
    Concat(ConcatScore) = concat;
    Bilinear(BilinearScore) = bilinear;
    Biaffine(BiaffineScore) = biaffine;
    Projected(ProjectedScore) = projected;
    Cosine(CosineScore) = cosine;
    QkNorm(QkNormScore) = qk_norm;
    Gaussian(GaussianScore) = gaussian;
}

pub(super) fn additive(size: usize, device: &Device) -> AdditiveScore {
    AdditiveScoreConfig::new(size, size, size).init(device)
}

pub(super) fn dot(_: usize, _: &Device) -> DotProductScore {
    DotProductScoreConfig::new().init()
}

pub(super) fn normalized(size: usize, device: &Device) -> AdditiveScore {
    let score = AdditiveScoreConfig::new(size, size, size).with_normalize(true);
    score.init(device)
}

pub(super) fn concat(size: usize, device: &Device) -> ConcatScore {
    ConcatScoreConfig::new(size, size, size).init(device)
}

pub(super) fn bilinear(size: usize, device: &Device) -> BilinearScore {
    BilinearScoreConfig::new(size, size).init(device)
}

pub(super) fn biaffine(size: usize, device: &Device) -> BiaffineScore {
    BiaffineScoreConfig::new(size, size).init(device)
}

pub(super) fn projected(size: usize, device: &Device) -> ProjectedScore {
    ProjectedScoreConfig::new(size, size, size).init(device)
}

pub(super) fn cosine(_: usize, device: &Device) -> CosineScore {
    CosineScoreConfig::new().init(device)
}

pub(super) fn qk_norm(size: usize, device: &Device) -> QkNormScore {
    QkNormScoreConfig::new(size).init(device)
}

pub(super) fn gaussian(size: usize, device: &Device) -> GaussianScore {
    // With this width, the scores of random states are initially like scaled dot products.
    let width = (size as f64).sqrt().sqrt();
    let score = GaussianScoreConfig::new().with_width(width);
    score.with_learned(true).init(device)
}
