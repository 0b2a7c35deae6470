//! Gradients of keys, values and weights that the steps of a decoder share.
//!
//! All steps read the same keys, and the same weights. Burn adds up the gradients of a tensor with many readers by an
//! addition of the whole tensor for each of them. Here a step may leave something much smaller instead, as a row of
//! score gradients and its query, and the gradient of all steps is made of these at once.
//!
//! # The invariant
//!
//! A [`GradientSlot`] belongs to one tensor, the source. Each reader gets a node of its own, whose only parent is the
//! source, and **during a backward pass, what that pass has deposited in the slot is exactly what is missing from the
//! source's gradient**; between passes the slot is empty. It holds since
//!
//! 1. *Who opens*: [`LayerOps::read_shared`](crate::backend::LayerOps::read_shared), once for each node that it makes.
//! 2. *Who deposits*: the backward pass of an operation whose parent is such a node (it compares ids, see
//!    [`Deferral`]). It registers no gradient there, but a [marker](Deposit::marker), a single 0: the node has a
//!    gradient then, and Burn calls its backward pass. An operation that does not find its own parent in the slot
//!    registers whole gradients.
//! 3. *Who takes*: of the nodes that take part, the one whose backward pass is first, all at once, for the source. The
//!    others find nothing, and pass on what was registered with them but for the marker.
//! 4. *When*: Burn runs a backward pass in the order of decreasing depth. All nodes of a slot are one deeper than the
//!    source, and a reader is deeper than its node, so all readers that take part have deposited before a node takes.
//!    Every participating reader has its shared node as an ancestor, so the node runs too, and no deposit is left over.
//!    Readers of one leaf may be in several graphs, whose passes run at once, on one thread even: where a pass waits
//!    for work that it shared, its thread may take up another. So each has its own deposits, see [`Pass`].
//!
//! Only the source outlives a pass: if that is a leaf, there may be any number of passes, as for any leaf.
//!
//! The slot of a recurrent layer's [`States`](crate::recurrent::States), one for each call, is the other way round:
//! the layer's own node opens it and takes; the nodes that read a state, one deeper, deposit, with a marker at the
//! layer's node.
//!
//! A pass that panics takes nothing; nobody takes its deposits later, since no later pass has its number.
//!
//! Of a source in half precision, the gradients that are passed on are added in f32 by the slot, since Burn's sum of
//! many would stand still: a node passes on by how much its own part changes the sum, rounded.
//!
//! A deposit of another type than the slot was opened for (another backend's) or for a node that is not the slot's is a
//! panic that names both, as is a node that takes from a slot which is not its own.
//!
//! # The gain
//!
//! Time of a training step without it by time with it, at batch 128, on dates and with 30,000 words: 1.36, 1.14 and
//! 1.20; its peak at batch 128 is 91.6 MiB, and 358 MiB without (`cargo bench -p attention-benches --bench bets`).

use std::any::{Any, type_name};
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;

use crate::paths;

/// Where the readers of one tensor deposit what its gradient is made of.
#[derive(Clone, Debug, Default)]
pub struct GradientSlot(Arc<Mutex<Option<Deposits>>>);

#[derive(Debug)]
struct Deposits {
    /// The ids of the nodes that it is open for, which have not yet taken.
    nodes: HashSet<u64>,
    /// The deposits of each pass, an [`Entries`] whose type depends on the backend.
    entries: Box<dyn Any + Send>,
    /// The name of that type.
    entry: &'static str,
    /// The sum of what the nodes of the latest pass have passed on so far, a tensor.
    sum: Option<(Pass, Box<dyn Any + Send>)>,
}

/// A backward pass, by a number that no other pass has, before it or after; see
/// [`pass_of`](super::differentiate::pass_of).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass(usize);

impl Pass {
    /// One that has not been yet.
    pub(super) fn next() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The one of this number.
    pub(super) fn of_number(number: usize) -> Self {
        Self(number)
    }

    pub(super) fn number(self) -> usize {
        self.0
    }
}

type Entries<E> = HashMap<Pass, Vec<E>>;

impl GradientSlot {
    /// Opens it for `node`, too; deposits are of type `E`.
    ///
    /// # Panics
    /// If the slot is for another type.
    pub fn open<E: Any + Send>(&self, node: u64) {
        let mut deposits = self.lock();
        let deposits = deposits.get_or_insert_with(|| Deposits {
            nodes: HashSet::new(),
            entries: Box::new(Entries::<E>::new()),
            entry: type_name::<E>(),
            sum: None,
        });
        deposits.entries::<E>();
        deposits.nodes.insert(node);
    }

    /// Whether it is open for `node`.
    pub fn is_of(&self, node: u64) -> bool {
        let deposits = self.lock();
        deposits
            .as_ref()
            .is_some_and(|deposits| deposits.nodes.contains(&node))
    }

    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        self.lock().as_ref().is_some_and(|of| !of.nodes.is_empty())
    }

    /// Deposits what `node` was to receive.
    ///
    /// # Panics
    /// If it is not a node of this slot, or the slot is for another type.
    pub fn deposit<E: Any + Send>(&self, pass: Pass, node: u64, entry: E) {
        let mut deposits = self.lock();
        let deposits = Deposits::of(&mut deposits, node);
        let entries = deposits.entries().entry(pass);
        entries.or_default().push(entry);
    }

    /// Takes all deposits of a pass, in their order, and closes the slot for `node`.
    ///
    /// # Panics
    /// If it is not a node of this slot, or the slot is for another type.
    pub fn take<E: Any + Send>(&self, pass: Pass, node: u64) -> Vec<E> {
        let mut deposits = self.lock();
        let deposits = Deposits::of(&mut deposits, node);
        deposits.nodes.remove(&node);
        let entries = deposits.entries().remove(&pass);
        entries.unwrap_or_default()
    }

    /// Adds what a node passes on to the sum of those before it in a pass, by `add`: the sum before, if there is one,
    /// and now. Where passes run at once, a sum may begin anew.
    pub fn accumulate<T: Any + Clone + Send>(
        &self,
        pass: Pass,
        part: T,
        add: impl FnOnce(T, T) -> T,
    ) -> (Option<T>, T) {
        let mut deposits = self.lock();
        let sum = &mut deposits.as_mut().expect("it was opened").sum;
        let before = sum.take().filter(|(of, _)| *of == pass);
        let before = before.and_then(|(_, sum)| sum.downcast::<T>().ok());
        let before = before.map(|sum| *sum);
        let now = before.clone().map_or(part.clone(), |sum| add(sum, part));
        *sum = Some((pass, Box::new(now.clone())));
        (before, now)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Deposits>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deposits {
    fn of(deposits: &mut Option<Self>, node: u64) -> &mut Self {
        let deposits = deposits
            .as_mut()
            .unwrap_or_else(|| panic!("gradient slot: expected an open one for node {node}"));
        assert!(
            deposits.nodes.contains(&node),
            "gradient slot: expected the slot of node {node}, got that of nodes {:?}",
            deposits.nodes
        );
        deposits
    }

    fn entries<E: Any + Send>(&mut self) -> &mut Entries<E> {
        let expected = self.entry;
        let entries = self.entries.downcast_mut();
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
pub enum Deferral {
    /// Each tracked tensor with a slot is a node of that slot.
    Allowed,
    /// Whole gradients are needed.
    Forbidden,
}

impl Deferral {
    /// For tensors with these slots, and these nodes where they are tracked.
    pub fn of<const N: usize>(slots: &[Option<GradientSlot>; N], nodes: [Option<u64>; N]) -> Self {
        let fits = |(slot, node): (&Option<GradientSlot>, Option<u64>)| match (slot, node) {
            (Some(slot), Some(node)) => slot.is_of(node),
            _ => true,
        };
        let has_slots = slots.iter().any(Option::is_some);
        if paths::defers() && has_slots && slots.iter().zip(nodes).all(fits) {
            Self::Allowed
        } else {
            Self::Forbidden
        }
    }
}

/// The part that one step leaves for the gradient of a tensor that it shares with others. All deposits of a slot are of
/// one type.
pub trait Deposit<B: Backend>: Any + Debug + Send {
    /// The tensor that is registered in the place of the gradient: a single 0, with the same number of axes.
    fn marker(&self) -> FloatTensor<B>;

    /// The gradient of `shared` from this deposit and `others`, those before it.
    fn sum(
        self: Box<Self>,
        others: Vec<Box<dyn Deposit<B>>>,
        shared: FloatTensor<B>,
    ) -> FloatTensor<B>;
}

/// A single 0, in the place of a gradient like `like`.
pub fn marker<B: Backend, const D: usize>(like: &FloatTensor<B>) -> FloatTensor<B> {
    let shape = Shape::from([1; D]);
    B::float_zeros(shape, &like.device(), like.dtype().into())
}

/// The deposits as what they are.
///
/// # Panics
/// If one is of another type.
pub fn downcast<B: Backend, D: Deposit<B>>(deposits: Vec<Box<dyn Deposit<B>>>) -> Vec<D> {
    let one = |deposit: Box<dyn Deposit<B>>| {
        let deposit: Box<dyn Any> = deposit;
        let deposit = deposit.downcast::<D>();
        *deposit.unwrap_or_else(|_| panic!("gradient slot: expected {}", type_name::<D>()))
    };
    deposits.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: Pass = Pass(1);

    #[test]
    fn deposits_are_taken_once_and_in_order() {
        let slot = GradientSlot::default();
        slot.open::<u8>(7);
        slot.open::<u8>(8);
        slot.deposit(PASS, 8, 1_u8);
        slot.deposit(PASS, 7, 2_u8);
        assert_eq!(slot.take::<u8>(PASS, 7), [1, 2]);
        assert_eq!(slot.take::<u8>(PASS, 8), [0_u8; 0]);
    }

    #[test]
    fn a_pass_takes_what_it_deposited() {
        let slot = GradientSlot::default();
        slot.open::<u8>(7);
        slot.open::<u8>(8);
        let [first, second] = [Pass::next(), Pass::next()];
        slot.deposit(first, 7, 1_u8);
        slot.deposit(second, 8, 2_u8);
        assert_eq!(slot.take::<u8>(second, 8), [2]);
        assert_eq!(slot.take::<u8>(first, 7), [1]);
    }

    #[test]
    #[should_panic(expected = "expected deposits of u8, got u16")]
    fn a_deposit_of_another_type_is_refused() {
        let slot = GradientSlot::default();
        slot.open::<u8>(7);
        slot.deposit(PASS, 7, 1_u16);
    }

    #[test]
    #[should_panic(expected = "expected deposits of u8, got u16")]
    fn a_node_of_another_type_is_refused() {
        let slot = GradientSlot::default();
        slot.open::<u8>(7);
        slot.open::<u16>(8);
    }

    #[test]
    #[should_panic(expected = "expected the slot of node 8, got that of nodes {7}")]
    fn another_node_cannot_take() {
        let slot = GradientSlot::default();
        slot.open::<u8>(7);
        slot.take::<u8>(PASS, 8);
    }

    #[test]
    #[should_panic(expected = "expected the slot of node 7, got that of nodes {}")]
    fn a_node_takes_once() {
        let slot = GradientSlot::default();
        slot.open::<u8>(7);
        slot.take::<u8>(PASS, 7);
        slot.take::<u8>(PASS, 7);
    }

    #[test]
    fn deferral_needs_a_slot_and_the_nodes_of_all_slots() {
        let [keys, values] = [1, 2].map(|node| {
            let slot = GradientSlot::default();
            slot.open::<u8>(node);
            slot.open::<u8>(node + 10);
            Some(slot)
        });
        let slots = [None, keys, values];
        let allowed = |nodes| Deferral::of(&slots, nodes) == Deferral::Allowed;
        assert!(allowed([Some(5), Some(1), Some(2)]));
        assert!(allowed([Some(5), Some(11), Some(2)]));
        assert!(allowed([Some(5), None, Some(2)]));
        assert!(!allowed([Some(5), Some(2), Some(2)]));
        assert!(!allowed([Some(5), Some(1), Some(9)]));
        assert_eq!(
            Deferral::of(&[const { None }; 3], [Some(5), Some(1), Some(2)]),
            Deferral::Forbidden
        );
    }
}
