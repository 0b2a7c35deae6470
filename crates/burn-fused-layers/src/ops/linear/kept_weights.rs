//! Weights whose packings are kept between products, see [`PackedWeights`](crate::PackedWeights).
//!
//! A product gets a tensor, and finds the packing by where its elements lie. A kept weight holds these elements: while
//! it does, nothing else lies there, and they are not written in place. A weight that no clone can hold is not kept:
//! ndarray (Burn 0.22.1) copies what it read from a file with each clone.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use cpu_kernels::Packing;

use crate::harness::host::{CpuBackend, CpuReal, strided};

/// The rows of products that read a kept packing. Fewer read the weight once, packed or not. With more, packing is a
/// small part, which tasks share.
const ROWS: Range<usize> = 7..128;

/// Weights by where their elements lie.
pub(crate) type KeptWeights = HashMap<Place, Arc<KeptWeight>>;

/// A weight by where its elements lie, or nothing.
pub(crate) type Found = Rc<OnceCell<(Place, Arc<KeptWeight>)>>;

/// Address, sizes and stride of a weight: the same place has the same elements.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Place {
    address: usize,
    sizes: [usize; 2],
    stride: usize,
}

impl Place {
    fn new<B: CpuBackend, E: CpuReal>(weight: &FloatTensor<B>) -> Self {
        let whole = B::elements(weight);
        let elements = strided::<B, E>(&whole, weight);
        Self {
            address: elements.data.as_ptr().addr(),
            sizes: weight.shape().dims(),
            stride: elements.strides[0],
        }
    }
}

/// A weight and its packing.
#[derive(Debug)]
pub(crate) struct KeptWeight {
    /// The tensor, a `FloatTensor<B>`: it holds the elements.
    _weight: Box<dyn Any + Send + Sync>,
    /// A `Packing<E>`, from the first product on.
    packing: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl KeptWeight {
    /// The packing, filled by the first product.
    pub(crate) fn packing<E: CpuReal>(&self) -> &Packing<E> {
        let packing = self
            .packing
            .get_or_init(|| Box::new(Packing::<E>::default()));
        let packing = packing.downcast_ref();
        packing.expect("elements at one place are of one type")
    }

    pub(crate) fn is_packed(&self) -> bool {
        self.packing.get().is_some()
    }
}

/// The part that products on this thread have in a call.
pub(crate) enum Scope {
    /// They read these packings.
    Read(Arc<KeptWeights>),
    /// The first one leaves its weight here.
    Find(Found),
}

thread_local! {
    /// The scopes that this thread is in, the innermost last.
    static SCOPES: RefCell<Vec<Scope>> = const { RefCell::new(Vec::new()) };
}

/// Runs `call` in one more scope, which ends with it, also if it panics.
pub(crate) fn within<R>(scope: Scope, call: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            SCOPES.with_borrow_mut(Vec::pop);
        }
    }
    SCOPES.with_borrow_mut(|scopes| scopes.push(scope));
    let _leave = Leave;
    call()
}

/// The weight of a product of `rows` rows as the scopes have it, the innermost first. Where the innermost only looks
/// for a weight, it gets this one.
pub(super) fn kept<B: CpuBackend, E: CpuReal>(
    weight: &FloatTensor<B>,
    rows: usize,
) -> Option<Arc<KeptWeight>> {
    SCOPES.with_borrow(|scopes| {
        if let Scope::Find(found) = scopes.last()? {
            leave::<B, E>(found, weight);
            return None;
        }
        if !ROWS.contains(&rows) {
            return None;
        }
        let place = Place::new::<B, E>(weight);
        let kept = scopes.iter().rev().find_map(|scope| match scope {
            Scope::Read(weights) => weights.get(&place),
            Scope::Find(_) => None,
        });
        kept.cloned()
    })
}

/// Leaves a weight in `found`, if a clone of it holds the same elements.
fn leave<B: CpuBackend, E: CpuReal>(found: &Found, weight: &FloatTensor<B>) {
    let (held, place) = (weight.clone(), Place::new::<B, E>(weight));
    if Place::new::<B, E>(&held) == place {
        found.get_or_init(|| {
            let kept = KeptWeight {
                _weight: Box::new(held),
                packing: OnceLock::new(),
            };
            (place, Arc::new(kept))
        });
    }
}
