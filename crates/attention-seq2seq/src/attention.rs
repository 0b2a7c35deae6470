//! The attentions to choose from by `--attention`: [`AttentionKind`] names one, [`AnyAttention`] is one.
//!
//! All are variants of one module, so that model, training and program are compiled only once. A new one is a line in
//! the list at the end of this file: its description, its name, its type, and how it is made from the settings of a
//! model. On the command line and in saved settings its name is the variant's in kebab case. A Transformer can use
//! those that consist of a score alone: [`AnyScore`].

mod score;

pub use score::AnyScore;

use attention_core::score::{
    BiaffineScore, BilinearScore, ConcatScore, CosineScore, GaussianScore, Kernel, KernelScore,
    KernelScoreConfig, ProjectedScore, QkNormScore,
};
use attention_core::stateful::{
    AttentionState, CoverageAttention, CoverageAttentionConfig, LocationAttention,
    LocationAttentionConfig, MonotonicAttention, MonotonicAttentionConfig, StatefulAttention,
};
use attention_core::{
    AdditiveAttention, AdditiveScore, Attention, AttentionOutput, DotProductAttention,
    DotProductScore, Mask, Memory, MultiHeadAttention, MultiHeadAttentionConfig, Normalizer,
    ScoringFunction,
};
use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};

use crate::model::{ModelKind, Seq2SeqConfig};
use crate::variants::module_of_variants;

/// Defines [`AttentionKind`], [`AnyAttention`] and [`AnyState`], with a variant for each line.
macro_rules! attentions {
    ($($(#[doc = $doc:literal])+ $kind:ident($module:ty) = $make:expr;)+) => {
        /// The name of an attention that a saved model can have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum AttentionKind {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl AttentionKind {
            /// All kinds, in the order of the command line.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The documentation of the kind: its score, or its difference to additive attention.
            pub fn description(self) -> &'static str {
                match self { $(Self::$kind => concat!($($doc),+).trim_start(),)+ }
            }

            /// Attention with new random parameters, for a model with these settings: queries, keys and contexts have
            /// the size `hidden_size`.
            ///
            /// # Panics
            /// If a size is 0 or `dropout` is not in `[0, 1)`.
            pub fn init(self, model: &Seq2SeqConfig, device: &Device) -> AnyAttention {
                match self {
                    $(Self::$kind => {
                        let make: fn(&Seq2SeqConfig, &Device) -> $module = $make;
                        AnyAttention::$kind(make(model, device))
                    })+
                }
            }
        }

        /// The name on the command line and in saved settings.
        impl std::fmt::Display for AttentionKind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.serialize(f)
            }
        }

        /// Any of the attentions that [`AttentionKind`] names. Its parameters have the names of the attention inside.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "a model has one")]
        pub enum AnyAttention {
            $($(#[doc = $doc])+ $kind($module),)+
        }

        /// The state that a step of [`AnyAttention`] passes to the next.
        #[derive(Clone, Debug)]
        pub enum AnyState {
            $($(#[doc = $doc])+ $kind(<$module as StatefulAttention>::State),)+
        }

        module_of_variants!(AnyAttention { $($kind),+ });

        impl StatefulAttention for AnyAttention {
            type State = AnyState;

            fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
                match self { $(Self::$kind(module) => module.prepare(keys, values, mask),)+ }
            }

            fn initial_state(&self, memory: &Memory) -> AnyState {
                match self { $(Self::$kind(module) => AnyState::$kind(module.initial_state(memory)),)+ }
            }

            fn step(
                &self,
                query: Tensor<3>,
                memory: &Memory,
                state: AnyState,
            ) -> (Tensor<3>, AnyState) {
                match (self, state) {
                    $((Self::$kind(module), AnyState::$kind(state)) => {
                        let (context, state) = module.step(query, memory, state);
                        (context, AnyState::$kind(state))
                    })+
                    (_, state) => self.refuse(&state),
                }
            }

            fn step_with_weights(
                &self,
                query: Tensor<3>,
                memory: &Memory,
                state: AnyState,
            ) -> (AttentionOutput<3>, AnyState) {
                match (self, state) {
                    $((Self::$kind(module), AnyState::$kind(state)) => {
                        let (output, state) = module.step_with_weights(query, memory, state);
                        (output, AnyState::$kind(state))
                    })+
                    (_, state) => self.refuse(&state),
                }
            }

            fn penalty(&self, state: &AnyState) -> Option<Tensor<1>> {
                match (self, state) {
                    $((Self::$kind(module), AnyState::$kind(state)) => module.penalty(state),)+
                    (_, state) => self.refuse(state),
                }
            }
        }

        impl AnyAttention {
            /// The name of this attention.
            pub fn kind(&self) -> AttentionKind {
                match self { $(Self::$kind(_) => AttentionKind::$kind,)+ }
            }
        }

        impl AnyState {
            /// The name of the attention that this state belongs to.
            fn kind(&self) -> AttentionKind {
                match self { $(Self::$kind(_) => AttentionKind::$kind,)+ }
            }
        }

        impl AttentionState for AnyState {
            fn select(&self, indices: Tensor<1, Int>) -> Self {
                match self {
                    $(Self::$kind(state) => Self::$kind(AttentionState::select(state, indices)),)+
                }
            }
        }
    };
}

impl AttentionKind {
    /// The default attention for models of this kind.
    pub(crate) fn of(model: ModelKind) -> Self {
        match model {
            ModelKind::Rnn => Self::Additive,
            ModelKind::Transformer => Self::Dot,
        }
    }
}

impl AnyAttention {
    /// # Panics
    /// Always, because `state` belongs to another attention.
    fn refuse(&self, state: &AnyState) -> ! {
        let (expected, found) = (self.kind(), state.kind());
        panic!("AnyAttention: state expected of {expected:?}, got one of {found:?}")
    }
}

/// Attention with the scoring function that `make` creates from the size of states, and the dropout of the model.
fn pooling<S: ScoringFunction>(
    make: fn(usize, &Device) -> S,
    model: &Seq2SeqConfig,
    device: &Device,
) -> Attention<S> {
    Attention::new(make(model.hidden_size, device), model.dropout)
}

attentions! {
    /// `w_v . tanh(W_q q + W_k k)`
    Additive(AdditiveAttention) = |model, device| pooling(score::additive, model, device);
    /// `q . k / sqrt(size)`
    Dot(DotProductAttention) = |model, device| pooling(score::dot, model, device);
    /// `g v/|v| . tanh(W_q q + W_k k + b)`
    Normalized(AdditiveAttention) = |model, device| pooling(score::normalized, model, device);
    /// `v . tanh(W [q; k])`
    Concat(Attention<ConcatScore>) = |model, device| pooling(score::concat, model, device);
    /// `q^T M k`
    Bilinear(Attention<BilinearScore>) = |model, device| pooling(score::bilinear, model, device);
    /// `q^T M k + u . q + v . k + b`
    Biaffine(Attention<BiaffineScore>) = |model, device| pooling(score::biaffine, model, device);
    /// `W_q q . W_k k / sqrt(size)`
    Projected(Attention<ProjectedScore>) = |model, device| pooling(score::projected, model, device);
    /// `t cos(q, k)`, `t` learned
    Cosine(Attention<CosineScore>) = |model, device| pooling(score::cosine, model, device);
    /// `norm(q) . norm(k) / sqrt(size)`, RMS normalization with learned gains
    QkNorm(Attention<QkNormScore>) = |model, device| pooling(score::qk_norm, model, device);
    /// `-|q - k|^2 / 2 s^2`, `s` learned
    Gaussian(Attention<GaussianScore>) = |model, device| pooling(score::gaussian, model, device);
    /// `max(0, 1 - |q - k|^2 / s^2)`, divided by their sum in place of softmax: keys beyond `s` have weight 0
    Kernel(Attention<KernelScore>) = |model, device| {
        // At the start of training, states are small and all within this distance of each other, so that they learn.
        // States with components near 1 or -1 are beyond it if more than 18 % of the signs differ.
        let score = |size: usize, _: &Device| {
            let width = 0.85 * (size as f64).sqrt();
            KernelScoreConfig::new(Kernel::Epanechnikov).with_width(width).init()
        };
        pooling(score, model, device).with_normalizer(Normalizer::SumNormalized)
    };
    /// `w_v . tanh(W_q q + W_k k)` with sparsemax in place of softmax
    Sparse(AdditiveAttention) = |model, device| {
        pooling(score::additive, model, device).with_normalizer(Normalizer::Sparsemax)
    };
    /// scaled dot products of 4 heads (2 or 1 where the size does not divide)
    Heads(MultiHeadAttention<DotProductScore>) = |model, device| {
        let heads = [4, 2, 1].into_iter().find(|heads| model.hidden_size.is_multiple_of(*heads));
        let config = MultiHeadAttentionConfig::new(model.hidden_size, heads.unwrap_or(1));
        config.with_dropout(model.dropout).init(device)
    };
    /// additive, with the attention weights of the step before as location features
    Location(LocationAttention) = |model, device| {
        let size = model.hidden_size;
        LocationAttentionConfig::new(size, size, size).with_dropout(model.dropout).init(device)
    };
    /// additive, with the attention weights of all steps before; attending to a key again adds to the loss
    Coverage(CoverageAttention) = |model, device| {
        let size = model.hidden_size;
        CoverageAttentionConfig::new(size, size, size).with_dropout(model.dropout).init(device)
    };
    /// attends to the source from left to right, and never goes back
    Monotonic(MonotonicAttention<AdditiveScore>) = |model, device| {
        let size = model.hidden_size;
        // With this offset an untrained model reaches the end of sources with some ten tokens.
        MonotonicAttentionConfig::new().with_offset(-1.0).init_additive(size, size, size, device)
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::test_device;

    fn model() -> (Seq2SeqConfig, Device) {
        (Seq2SeqConfig::new(9, 9).with_hidden_size(4), test_device())
    }

    #[test]
    fn each_kind_is_saved_and_shown_by_one_name() {
        let (config, device) = model();
        for kind in AttentionKind::ALL {
            let saved = serde_json::to_string(kind).unwrap();
            assert_eq!(saved, format!("\"{kind}\""));
            let read: AttentionKind = serde_json::from_str(&saved).unwrap();
            assert_eq!(read.init(&config, &device).kind(), *kind);
            let is_score = kind.score(4, &device).is_some();
            assert_eq!(AttentionKind::SCORES.contains(kind), is_score);
        }
    }

    #[test]
    fn the_kernel_gives_weight_to_keys_within_its_width_alone() {
        let (config, device) = model();
        let kernel = AttentionKind::Kernel.init(&config, &device);
        // At size 4 the width is 1.7. The second query has no key within it.
        let keys = [[0.0; 4], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]];
        let queries = [[0.0; 4], [-1.0, -1.0, 1.0, -1.0]];
        let squares = [[0.0, 2.0, 3.0_f32], [4.0, 10.0, 9.0]];
        let keys = Tensor::<3>::from_floats([keys], &device);
        let memory = kernel.prepare(keys.clone(), keys, Mask::none());
        for (query, squares) in queries.into_iter().zip(squares) {
            let query = Tensor::<3>::from_floats([[query]], &device);
            let (output, _) =
                kernel.step_with_weights(query, &memory, kernel.initial_state(&memory));
            let values = squares.map(|square| (1.0 - square / (1.7 * 1.7)).max(0.0));
            let sum: f32 = values.iter().sum();
            let weights = output.weights.try_into_vec_as::<f32>().unwrap();
            for (weight, value) in weights.into_iter().zip(values) {
                match value {
                    0.0 => assert_eq!(weight, 0.0),
                    _ => assert!((weight - value / sum).abs() < 1e-6, "{weight} of {value}"),
                }
            }
            let context: f32 = output.context.abs().sum().try_into_scalar().unwrap();
            assert_eq!(context == 0.0, sum == 0.0, "{context}");
        }
    }

    #[test]
    #[should_panic(expected = "state expected of Additive, got one of Dot")]
    fn the_state_of_another_attention_is_refused() {
        let (config, device) = model();
        let [additive, dot] =
            [AttentionKind::Additive, AttentionKind::Dot].map(|kind| kind.init(&config, &device));
        let ones = |rows| Tensor::<3>::ones([1, rows, 4], &device);
        let memory = additive.prepare(ones(3), ones(3), Mask::none());
        additive.step(ones(1), &memory, dot.initial_state(&memory));
    }
}
