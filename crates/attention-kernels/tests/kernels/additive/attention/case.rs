//! Inputs of additive attention, and what plain loops make of them.

use attention_kernels::{AttentionReal, Dropout};
use attention_oracle::{Real, Score};

use crate::additive::case::{Case, elements};
use crate::modifiers::{Modifiers, OwnedModifiers};
use crate::oracle::{Outcome, Plain};

/// Inputs of attention: its scores' inputs, and the rest.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    pub(super) case: Case,
    pub(super) value_size: usize,
    pub(super) values: Vec<f64>,
    pub(super) context_gradient: Vec<f64>,
    pub(super) modifiers: OwnedModifiers<f64>,
    pub(super) dropout: Option<Dropout>,
}

impl Attention {
    pub(super) fn new(case: Case, value_size: usize) -> Self {
        let [batch, heads, queries, keys, _] = case.sizes;
        Self {
            value_size,
            values: elements(5, batch * case.key_heads * keys * value_size),
            context_gradient: elements(6, batch * heads * queries * value_size),
            modifiers: Modifiers::NONE.with_elements([0; 4], |_| Vec::new()),
            dropout: None,
            case,
        }
    }

    /// With elements of modifiers.
    pub(super) fn with_modifiers(mut self, modifiers: Modifiers) -> Self {
        let [batch, heads, queries, keys, _] = self.case.sizes;
        let mut seed = 6;
        let draw = |count| {
            seed += 1;
            elements(seed, count)
        };
        self.modifiers = modifiers.with_elements([batch, heads, queries, keys], draw);
        self
    }

    /// By plain loops in arithmetic of type `E`.
    pub(super) fn solve<E: AttentionReal + Real>(&self) -> Outcome {
        let plain = Plain {
            axes: self.case.axes(),
            attends: &|at| self.case.mask.attends(at),
            score: Score::Additive {
                weight: &self.case.weight,
            },
            queries: &self.case.queries,
            keys: &self.case.keys,
            values: &self.values,
            value_size: self.value_size,
            modifiers: &self.modifiers,
            dropout: self.dropout,
            context_gradient: &self.context_gradient,
        };
        plain.solve::<E>()
    }
}
