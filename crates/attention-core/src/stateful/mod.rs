//! Attention as a decoder uses it: one query after the other, where each step knows what earlier steps attended to.

mod additive;
mod coverage;
mod expected;
mod forward;
mod location;
mod monotonic;
mod start;
mod step;

pub use coverage::{CoverageAttention, CoverageAttentionConfig, CoverageState};
pub use expected::expected_alignment;
pub use forward::{ForwardAttention, ForwardAttentionConfig, ForwardState};
pub use location::{LocationAttention, LocationAttentionConfig, LocationFeatures, LocationState};
pub use monotonic::{MonotonicAttention, MonotonicAttentionConfig, MonotonicState};
pub use start::Start;

use std::fmt::Debug;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Int, Tensor};
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::harness::wide::in_wide;

use crate::attention::{Attention, AttentionOutput};
use crate::mask::Mask;
use crate::memory::Memory;
use crate::multi_head_attention::{MultiHeadAttention, MultiHeadAttentionOutput};
use crate::score::ScoringFunction;

/// The attention of a decoder's steps to a [`Memory`]. The state that a step passes to the next is a value, never
/// hidden in the module.
///
/// [`Attention`] with any scoring function implements it with independent steps; [`LocationAttention`],
/// [`CoverageAttention`], [`MonotonicAttention`] and [`ForwardAttention`] know what earlier steps attended to.
///
/// ```
/// use attention_core::{AdditiveAttentionConfig, Mask};
/// use attention_core::stateful::StatefulAttention;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = AdditiveAttentionConfig::new(3, 5, 8).init(&device);
/// let keys = Tensor::<3>::ones([1, 7, 5], &device);
/// let memory = StatefulAttention::prepare(&attention, keys.clone(), keys, Mask::none());
/// let mut state = attention.initial_state(&memory);
/// for _ in 0..4 {
///     let query = Tensor::<3>::ones([1, 1, 3], &device);
///     let (context, next) = attention.step(query, &memory, state);
///     assert_eq!(context.dims(), [1, 1, 5]);
///     state = next;
/// }
/// ```
pub trait StatefulAttention: Module + ModuleDisplay {
    /// The state that a step passes to the next.
    type State: AttentionState;

    /// Prepares keys and values for all steps. The mask has one row for all steps, because a step has one query.
    ///
    /// # Shapes
    /// - keys `[batch, keys, key_size]`, values `[batch, keys, value_size]`
    ///
    /// # Panics
    /// If keys and values differ in batch or number.
    fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory;

    /// The state before the first step.
    fn initial_state(&self, memory: &Memory) -> Self::State;

    /// The context of one query, and the state after it.
    ///
    /// # Shapes
    /// - query `[batch, 1, query_size]`, result `[batch, 1, value_size]`
    ///
    /// # Panics
    /// If query, memory and state do not fit together, or the memory was prepared for another type of attention.
    fn step(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: Self::State,
    ) -> (Tensor<3>, Self::State) {
        let (output, state) = self.step_with_weights(query, memory, state);
        (output.context, state)
    }

    /// [`step`](Self::step), and its weights, `[batch, 1, keys]`.
    fn step_with_weights(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: Self::State,
    ) -> (AttentionOutput<3>, Self::State);

    /// The term that the steps up to `state` add to the loss of each example, `[batch]`, if any: already summed over
    /// the steps.
    fn penalty(&self, _state: &Self::State) -> Option<Tensor<1>> {
        None
    }
}

/// The state that a step of a [`StatefulAttention`] passes to the next. A beam search first expands the memory, then
/// calls [`initial_state`](StatefulAttention::initial_state) on it.
///
/// For a memory in half precision, the tensors of a state are f32, because half precision cannot sum many steps. A
/// state in the memory's own type is accepted, too.
pub trait AttentionState: Clone + Debug {
    /// The state of the examples `indices`, in that order, as beam search keeps it after a step.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    ///
    /// # Panics
    /// If the indices are on another device, or an index is no example.
    fn select(&self, indices: Tensor<1, Int>) -> Self;

    /// The state after a step whose weights a [`ForwardAttention`] changed to `weights`, `[batch, keys]`.
    fn with_weights(self, _weights: &Tensor<2>) -> Self {
        self
    }
}

/// The rows of a state's tensor for the examples `indices`.
fn selected<const D: usize>(state: &Tensor<D>, indices: &Tensor<1, Int>) -> Tensor<D> {
    let others = [Argument::on_device("indices", indices)];
    assert_together("select", Argument::on_device("state", state), others);
    state.clone().select(0, indices.clone())
}

/// No state.
impl AttentionState for () {
    fn select(&self, _indices: Tensor<1, Int>) -> Self {}
}

impl<S: ScoringFunction> StatefulAttention for Attention<S> {
    type State = ();

    fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
        self.prepare(keys, values, mask)
    }

    fn initial_state(&self, _memory: &Memory) {}

    fn step(&self, query: Tensor<3>, memory: &Memory, _state: ()) -> (Tensor<3>, ()) {
        (self.attend(query, memory, Mask::none()), ())
    }

    fn step_with_weights(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        _state: (),
    ) -> (AttentionOutput<3>, ()) {
        (self.attend_with_weights(query, memory, Mask::none()), ())
    }
}

/// The weights are the mean over the heads.
impl<S: ScoringFunction> StatefulAttention for MultiHeadAttention<S> {
    type State = ();

    fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
        self.prepare(keys, values, mask)
    }

    fn initial_state(&self, _memory: &Memory) {}

    fn step(&self, query: Tensor<3>, memory: &Memory, _state: ()) -> (Tensor<3>, ()) {
        (self.attend(query, memory, Mask::none()), ())
    }

    fn step_with_weights(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        _state: (),
    ) -> (AttentionOutput<3>, ()) {
        let MultiHeadAttentionOutput { context, weights } =
            self.attend_with_weights(query, memory, Mask::none());
        let weights = in_wide(weights, |weights| weights.mean_dim(1).squeeze_dim(1));
        (AttentionOutput { context, weights }, ())
    }
}
