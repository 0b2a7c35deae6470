//! Gradients of tensors that many operations read, one after the other.

#[cfg(all(feature = "host", feature = "autodiff"))]
use std::any::Any;
#[cfg(all(feature = "host", feature = "autodiff"))]
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(all(feature = "host", feature = "autodiff"))]
use burn_autodiff::NodeId;

/// What the operations of one tensor's readers leave for its gradient in a backward pass.
///
/// A decoder's steps all read the same keys. Burn adds up the gradients of a tensor with many readers by an addition
/// of the whole for each of them. Readers of a tensor that has gone through
/// [`share_gradients`](super::AttentionOps::share_gradients) with this slot may leave something smaller here, from
/// which the gradient of all of them is made at once.
#[derive(Clone, Debug, Default)]
pub struct GradientSlot {
    #[cfg(all(feature = "host", feature = "autodiff"))]
    gathered: Arc<Mutex<Gathered>>,
}

#[cfg(all(feature = "host", feature = "autodiff"))]
#[derive(Debug, Default)]
struct Gathered {
    /// The node of the graph whose gradient it is.
    node: Option<NodeId>,
    /// Of one type: what the readers of one tensor leave.
    steps: Vec<Box<dyn Any + Send>>,
}

#[cfg(all(feature = "host", feature = "autodiff"))]
impl GradientSlot {
    /// Belongs to `node` from now on.
    pub(super) fn open(&self, node: NodeId) {
        *self.lock() = Gathered {
            node: Some(node),
            steps: Vec::new(),
        };
    }

    /// Whether it belongs to `node`.
    pub(super) fn is_of(&self, node: NodeId) -> bool {
        self.lock().node == Some(node)
    }

    /// Leaves a step; true for the first of a backward pass.
    pub(super) fn leave<S: Any + Send>(&self, step: S) -> bool {
        let steps = &mut self.lock().steps;
        steps.push(Box::new(step));
        steps.len() == 1
    }

    /// All that was left, in that order.
    pub(super) fn take<S: Any>(&self) -> Vec<S> {
        let steps = std::mem::take(&mut self.lock().steps);
        let typed = steps.into_iter().filter_map(|step| step.downcast().ok());
        typed.map(|step| *step).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
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
