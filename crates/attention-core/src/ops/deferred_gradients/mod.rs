//! Gradients of keys and values that the steps of a decoder share.
//!
//! All steps read the same keys. Burn adds up the gradients of a tensor with many readers by an addition of the whole
//! tensor for each of them. Here a step may leave something much smaller instead, a row of score gradients and its
//! query, and the gradient of all steps is made of these at once.
//!
//! # The invariant
//!
//! A [`GradientSlot`] belongs to one node of the graph, and **what is in it is exactly what is missing from that node's
//! gradient.** It holds since
//!
//! 1. *Who opens*: [`AttentionOps::defer_gradients`](super::AttentionOps::defer_gradients), once, when it makes the
//!    node. A slot is never opened twice, so its node never changes.
//! 2. *Who deposits*: the backward pass of an operation whose parent that node is (it compares ids, see [`Deferral`]).
//!    It registers no gradient there, but a [marker](Deferred::marker), a single 0, with the first deposit: the node
//!    has a gradient then, and Burn calls its backward pass. An operation that does not find its own parent in the slot
//!    registers whole gradients.
//! 3. *Who takes*: the backward pass of the node itself, all at once, and adds what other readers have registered.
//! 4. *When*: Burn runs a backward pass in the order of decreasing depth. A reader is deeper than the node, its parent,
//!    so all readers that take part have deposited before the node takes. A reader that takes part has the node among
//!    its ancestors, so the node takes part, too, and nothing stays behind. Burn locks the graph for the pass, hence no
//!    other thread deposits meanwhile, and consumes the node's step, hence it takes once.
//!
//! A deposit of another type than the slot was opened for (another backend's) or for another node is a panic that names
//! both, as is a node that takes from a slot which is not its own.

pub(super) mod cpu;

use std::any::{Any, type_name};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, TensorMetadata};
use burn::tensor::Tensor;

use super::AttentionOps;

/// Where the readers of one tensor deposit what its gradient is made of.
#[derive(Clone, Debug, Default)]
pub struct GradientSlot(Arc<Mutex<Option<Deposits>>>);

#[derive(Debug)]
struct Deposits {
    /// The id of the node whose gradient it is.
    node: u64,
    /// A `Vec` of what is deposited, whose type depends on the backend.
    entries: Box<dyn Any + Send>,
    /// The name of that type.
    entry: &'static str,
}

/// The slots of a memory's keys and values.
#[derive(Clone, Debug, Default)]
pub struct SharedGradients {
    /// Of the keys.
    pub keys: GradientSlot,
    /// Of the values.
    pub values: GradientSlot,
}

impl SharedGradients {
    /// Those of a fused attention's queries, keys, values, and weight or bias.
    pub(super) fn slots(shared: Option<&Self>) -> [Option<GradientSlot>; 4] {
        let slot = |of: fn(&Self) -> &GradientSlot| shared.map(|shared| of(shared).clone());
        [
            None,
            slot(|shared| &shared.keys),
            slot(|shared| &shared.values),
            None,
        ]
    }
}

impl GradientSlot {
    /// Belongs to `node` from now on, for deposits of type `E`.
    ///
    /// # Panics
    /// If it belongs to a node already.
    pub(super) fn open<E: Any + Send>(&self, node: u64) {
        let mut deposits = self.lock();
        assert!(
            deposits.is_none(),
            "gradient slot: expected a new one for node {node}, got one that is open: {deposits:?}"
        );
        *deposits = Some(Deposits {
            node,
            entries: Box::new(Vec::<E>::new()),
            entry: type_name::<E>(),
        });
    }

    fn is_of(&self, node: u64) -> bool {
        let deposits = self.lock();
        deposits
            .as_ref()
            .is_some_and(|deposits| deposits.node == node)
    }

    /// Deposits for `node`; true for the first deposit since they were last taken.
    ///
    /// # Panics
    /// If the slot is another node's, or for another type.
    pub(super) fn deposit<E: Any + Send>(&self, node: u64, entry: E) -> bool {
        let mut deposits = self.lock();
        let entries = Deposits::entries::<E>(&mut deposits, node);
        entries.push(entry);
        entries.len() == 1
    }

    /// Takes all deposits for `node`, in their order.
    ///
    /// # Panics
    /// If the slot is another node's, or for another type.
    pub(super) fn take<E: Any + Send>(&self, node: u64) -> Vec<E> {
        let mut deposits = self.lock();
        std::mem::take(Deposits::entries::<E>(&mut deposits, node))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Deposits>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deposits {
    fn entries<E: Any + Send>(deposits: &mut Option<Self>, node: u64) -> &mut Vec<E> {
        let deposits = deposits
            .as_mut()
            .unwrap_or_else(|| panic!("gradient slot: expected an open one for node {node}"));
        assert!(
            deposits.node == node,
            "gradient slot: expected the slot of node {node}, got that of node {}",
            deposits.node
        );
        let expected = deposits.entry;
        let entries = deposits.entries.downcast_mut();
        entries.unwrap_or_else(|| {
            panic!(
                "gradient slot: expected deposits of {expected}, got {}",
                type_name::<E>()
            )
        })
    }
}

/// Whether an operation may defer gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deferral {
    /// Each tracked tensor with a slot is the node of that slot.
    Allowed,
    /// Whole gradients are needed.
    Forbidden,
}

impl Deferral {
    /// For tensors with these slots, and these nodes where they are tracked.
    pub(super) fn of<const N: usize>(
        slots: &[Option<GradientSlot>; N],
        nodes: [Option<u64>; N],
    ) -> Self {
        let fits = |(slot, node): (&Option<GradientSlot>, Option<u64>)| match (slot, node) {
            (Some(slot), Some(node)) => slot.is_of(node),
            _ => true,
        };
        let has_slots = slots.iter().any(Option::is_some);
        if has_slots && slots.iter().zip(nodes).all(fits) {
            Self::Allowed
        } else {
            Self::Forbidden
        }
    }
}

/// What one step leaves for the gradient of keys or values. Pairs are `[batch, heads, queries, keys]`, 0 where masked,
/// and not in half precision.
#[derive(Clone, Debug)]
pub(in crate::ops) enum Deferred<B: Backend> {
    /// `gradient[j] = factor sum_i pairs[i, j] queries[i]`: of values, from weights and the gradient of the context in
    /// the place of the queries; of keys that are multiplied with the queries, from the gradients of the scores.
    Products {
        /// The factor.
        factor: f64,
        /// Weights, or gradients of scores.
        pairs: FloatTensor<B>,
        /// `[batch, heads, queries, size]`
        queries: FloatTensor<B>,
    },
    /// What the gradients of additive scores give the keys.
    Additive {
        /// The gradients of the scores.
        pairs: FloatTensor<B>,
        /// `[batch, heads, queries, num_hiddens]`
        queries: FloatTensor<B>,
        /// `[num_hiddens]`
        weight: FloatTensor<B>,
    },
}

impl<B: Backend> Deferred<B> {
    fn queries(&self) -> &FloatTensor<B> {
        match self {
            Self::Products { queries, .. } | Self::Additive { queries, .. } => queries,
        }
    }

    /// What is registered in the place of the gradient: a single 0, `[1, 1, 1, 1]`.
    pub(super) fn marker(&self) -> FloatTensor<B> {
        let like = self.queries();
        B::float_zeros([1; 4].into(), &like.device(), like.dtype().into())
    }
}

/// The same tensor; in training its gradient may be made at once from what its readers deposit in `slot`, which is new.
pub(crate) fn defer_gradients(tensor: Tensor<4>, slot: &GradientSlot) -> Tensor<4> {
    if tensor.dims().contains(&0) {
        return tensor;
    }
    let tensor = tensor.into_dispatch();
    Tensor::from_dispatch(<Dispatch as AttentionOps>::defer_gradients(
        tensor,
        slot.clone(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deposits_are_taken_once_and_in_order() {
        let slot = GradientSlot::default();
        slot.open::<u8>(7);
        assert!(slot.deposit(7, 1_u8));
        assert!(!slot.deposit(7, 2_u8));
        assert_eq!(slot.take::<u8>(7), [1, 2]);
        assert_eq!(slot.take::<u8>(7), [0_u8; 0]);
    }

    #[test]
    #[should_panic(expected = "expected deposits of u8, got u16")]
    fn a_deposit_of_another_type_is_refused() {
        let slot = GradientSlot::default();
        slot.open::<u8>(7);
        slot.deposit(7, 1_u16);
    }

    #[test]
    #[should_panic(expected = "expected the slot of node 8, got that of node 7")]
    fn another_node_cannot_take() {
        let slot = GradientSlot::default();
        slot.open::<u8>(7);
        slot.take::<u8>(8);
    }

    #[test]
    #[should_panic(expected = "expected a new one for node 8")]
    fn a_slot_is_opened_once() {
        let slot = GradientSlot::default();
        slot.open::<u8>(7);
        slot.open::<u8>(8);
    }

    #[test]
    fn deferral_needs_a_slot_and_the_nodes_of_all_slots() {
        let [keys, values] = [1, 2].map(|node| {
            let slot = GradientSlot::default();
            slot.open::<u8>(node);
            Some(slot)
        });
        let slots = [None, keys, values];
        let allowed = |nodes| Deferral::of(&slots, nodes) == Deferral::Allowed;
        assert!(allowed([Some(5), Some(1), Some(2)]));
        assert!(allowed([Some(5), None, Some(2)]));
        assert!(!allowed([Some(5), Some(2), Some(2)]));
        assert!(!allowed([Some(5), Some(1), Some(9)]));
        assert_eq!(
            Deferral::of(&[const { None }; 3], [Some(5), Some(1), Some(2)]),
            Deferral::Forbidden
        );
    }
}
