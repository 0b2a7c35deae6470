//! Weights that many calls of one pass read, such as the steps of a decoder.
//!
//! Each call would pack the weight, and produce a dense gradient of it to be added to the others. Instead the first
//! call packs it for all, and the calls deposit the factors of the gradient, see
//! [`deferred_gradients`](super::deferred_gradients).

use std::any::Any;
use std::sync::{Arc, OnceLock};

use cpu_kernels::Packing;

use super::deferred_gradients::GradientSlot;
use super::host::CpuReal;

/// State, besides the weight, that the calls that read it share.
#[derive(Clone, Debug, Default)]
pub struct SharedWeight {
    slot: GradientSlot,
    /// A `[Packing<E>; 2]`, for the weight and its transpose.
    packings: Arc<OnceLock<Box<dyn Any + Send + Sync>>>,
}

impl SharedWeight {
    /// The place to deposit its gradients.
    pub fn slot(&self) -> GradientSlot {
        self.slot.clone()
    }

    /// The slot, if calls share a weight.
    pub fn slot_of(shared: &Option<Self>) -> Option<GradientSlot> {
        shared.as_ref().map(Self::slot)
    }

    /// The packings of the weight and of its transpose.
    ///
    /// # Panics
    /// If another call packed elements of another type.
    pub fn packings<E: CpuReal>(&self) -> &[Packing<E>; 2] {
        let packings = self
            .packings
            .get_or_init(|| Box::new([Packing::<E>::default(), Packing::<E>::default()]))
            .downcast_ref();
        packings.unwrap_or_else(|| panic!("a shared weight expected to be of {:?}", E::DTYPE))
    }
}
