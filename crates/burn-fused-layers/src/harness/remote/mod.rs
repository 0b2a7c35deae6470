//! Kernels of a server, for tensors that are there: an operation goes to it as one, with what it is called with.
//!
//! A backend of remote devices sends Burn's operations one by one, and knows no kernels. [`call`] sends an operation of
//! ours instead: tensors as handles, everything else as scalars, in the order in which [`Pack`] writes and [`Unpack`]
//! reads it. [`serve`] has a server run it by the kernel of its own backend. An operation of another version than
//! [`VERSION`] has another name, which a server does not know.
//!
//! A server says in [`introduce`] for what it has kernels; until a client has asked, by
//! [`use_kernels`](crate::remote::use_kernels), everything is composed on it.

mod call;
mod packing;
mod scalars;
mod workers;

pub use burn_router::{BackendRouter, CustomOpRegistry, RouterChannel};
pub use call::{Results, SAID_SO, Spec, call, float_spec, serve, wanted_specs};
pub use packing::{Opened, Pack, Parcel, Unpack, packed};
pub use scalars::{AsScalars, ScalarReader, ScalarWriter};
pub use workers::{introduce, runs_on, set_of};

pub(crate) use workers::{INTRODUCTION, Introduction, know};

/// The version of what is sent. It goes up with every change to an operation's inputs, results or meaning.
pub const VERSION: u32 = 1;

/// An expression with the backend of a device as a type; the other one where it is none of this build's own.
#[doc(hidden)]
#[macro_export]
macro_rules! with_backend {
    ($device:expr, $backend:ident => $with:expr, else $without:expr) => {
        match $device.clone().inner().as_dispatch() {
            #[cfg(feature = "flex")]
            ::burn::backend::DispatchDevice::Flex(_) => {
                type $backend = ::burn::backend::Flex;
                $with
            }
            #[cfg(feature = "ndarray")]
            ::burn::backend::DispatchDevice::NdArray(_) => {
                type $backend = ::burn::backend::NdArray;
                $with
            }
            #[cfg(feature = "cubecl-backend")]
            ::burn::backend::DispatchDevice::Cube(_) => {
                type $backend = ::burn::backend::Cube;
                $with
            }
            #[allow(unreachable_patterns, reason = "where no other backend is enabled")]
            _ => $without,
        }
    };
}

pub use crate::with_backend;
