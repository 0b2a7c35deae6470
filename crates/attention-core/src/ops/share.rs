//! Gradients that many operations add to, one after the other.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
#[cfg(all(feature = "host", feature = "autodiff"))]
use std::sync::atomic::Ordering;

use burn::backend::Backend;
use burn::backend::ExtensionType;
use burn::backend::tensor::FloatTensor;

/// Whether the running backward pass holds a gradient of one tensor already.
///
/// A decoder's steps all read the same keys. Burn adds up the gradients of a tensor with many readers by an addition
/// of the whole for each of them. A tensor that has gone through [`share_gradients`](super::AttentionOps::share_gradients)
/// with this slot lets a kernel take the gradient that is there, add to it in place and put it back.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    not(all(feature = "host", feature = "autodiff")),
    allow(dead_code, reason = "only the kernels read it")
)]
pub struct GradientSlot(Arc<AtomicBool>);

#[cfg(all(feature = "host", feature = "autodiff"))]
impl GradientSlot {
    /// The gradient of a tracked `node` that another kernel has registered in this pass, taken out by `consume`. What
    /// the caller registers next is the one to take then.
    pub(super) fn take<N, T>(&self, node: &Option<N>, consume: impl FnOnce(&N) -> T) -> Option<T> {
        let node = node.as_ref()?;
        self.0.swap(true, Ordering::Relaxed).then(|| consume(node))
    }

    /// The gradient is complete.
    pub(super) fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The slots of a memory's keys and values.
#[derive(Clone, Debug, Default)]
pub struct SharedGradients {
    /// Of the keys.
    pub keys: GradientSlot,
    /// Of the values.
    pub values: GradientSlot,
}

/// Keys in the order in which a kernel reads them, made once for many calls.
#[derive(Clone, Debug, ExtensionType)]
pub enum PackedKeys<B: Backend> {
    /// Not made: the kernel does it in every call.
    None,
    /// What [`pack_additive_keys`](super::AttentionOps::pack_additive_keys) returned.
    Packed {
        /// Of the shape that the backend chose.
        keys: FloatTensor<B>,
    },
}

#[cfg(feature = "host")]
impl<B: Backend> PackedKeys<B> {
    pub(super) fn keys(self) -> Option<FloatTensor<B>> {
        match self {
            Self::None => None,
            Self::Packed { keys } => Some(keys),
        }
    }
}
