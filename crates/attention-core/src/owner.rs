//! The type that keys were projected for.

use std::any::{TypeId, type_name};

/// The type for which keys were projected: a scoring function, or a
/// [`StatefulAttention`](crate::stateful::StatefulAttention) with a score of its own.
///
/// It is checked at run time. A type parameter of [`Memory`](crate::Memory) would be checked at compile time, but a
/// model that chooses its attention by a setting would need an enum of memories beside its enum of attentions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    id: TypeId,
    pub(crate) name: &'static str,
}

impl Owner {
    pub(crate) fn of<T: 'static>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
        }
    }
}
