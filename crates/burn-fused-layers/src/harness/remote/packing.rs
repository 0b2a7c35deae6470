//! Inputs of an operation, packed by a client and unpacked by a server.

use std::slice::Iter;

use burn::backend::ir::{BackendIr, CustomOpIr, HandleContainer, TensorIr};
use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_router::{BackendRouter, RouterChannel, RouterTensor};

use super::scalars::{AsScalars, ScalarReader, ScalarWriter};
use crate::harness::optional::OptionalTensor;

/// Inputs that a client sends.
pub trait Pack<C: RouterChannel> {
    /// Puts them into a parcel.
    fn pack(self, parcel: &mut Parcel<C>);
}

/// Inputs that a server receives, as [`Pack`] sent them.
pub trait Unpack<B: BackendIr>: Sized {
    /// Takes them out of a parcel.
    ///
    /// # Panics
    /// If others were sent.
    fn unpack(parcel: &mut Opened<B>) -> Self;
}

/// Tensors and scalars on their way to a server.
pub struct Parcel<C: RouterChannel> {
    pub(super) client: Option<C::Client>,
    pub(super) tensors: Vec<TensorIr>,
    pub(super) scalars: ScalarWriter,
}

impl<C: RouterChannel> Parcel<C> {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self {
            client: None,
            tensors: Vec::new(),
            scalars: ScalarWriter::default(),
        }
    }

    /// Puts in a tensor of any kind. The server frees it if nobody else has it.
    pub fn tensor(&mut self, tensor: RouterTensor<C::Client>) {
        self.client.get_or_insert_with(|| tensor.client.clone());
        self.tensors.push(tensor.into_ir());
    }

    /// Puts in a tensor that may be absent.
    pub fn optional(&mut self, tensor: Option<RouterTensor<C::Client>>) {
        self.scalars(&tensor.is_some());
        if let Some(tensor) = tensor {
            self.tensor(tensor);
        }
    }

    /// Puts in a value that is no tensor.
    pub fn scalars(&mut self, value: &impl AsScalars) {
        self.scalars.write(value);
    }
}

/// Tensors and scalars that arrived at a server.
pub struct Opened<'a, B: BackendIr> {
    handles: &'a mut HandleContainer<B::Handle>,
    tensors: Iter<'a, TensorIr>,
    scalars: ScalarReader<'a>,
}

impl<'a, B: BackendIr> Opened<'a, B> {
    pub(super) fn new(
        handles: &'a mut HandleContainer<B::Handle>,
        operation: &'a CustomOpIr,
    ) -> Self {
        Self {
            handles,
            tensors: operation.inputs.iter(),
            scalars: ScalarReader(operation.scalars.iter()),
        }
    }

    fn next(&mut self) -> &'a TensorIr {
        self.tensors
            .next()
            .expect("an operation from a client: expected another tensor")
    }

    /// Takes out a tensor.
    ///
    /// # Panics
    /// If there is none.
    pub fn float(&mut self) -> FloatTensor<B> {
        let tensor = self.next();
        self.handles.get_float_tensor::<B>(tensor)
    }

    /// Takes out a tensor of integers.
    ///
    /// # Panics
    /// If there is none.
    pub fn int(&mut self) -> IntTensor<B> {
        let tensor = self.next();
        self.handles.get_int_tensor::<B>(tensor)
    }

    /// Takes out a tensor of flags.
    ///
    /// # Panics
    /// If there is none.
    pub fn bool(&mut self) -> BoolTensor<B> {
        let tensor = self.next();
        self.handles.get_bool_tensor::<B>(tensor)
    }

    /// Takes out a tensor that may be absent.
    ///
    /// # Panics
    /// If something else was sent.
    pub fn optional(&mut self) -> Option<FloatTensor<B>> {
        self.scalars::<bool>().then(|| self.float())
    }

    /// Takes out a value that is no tensor.
    ///
    /// # Panics
    /// If something else was sent.
    pub fn scalars<T: AsScalars>(&mut self) -> T {
        self.scalars.read()
    }
}

impl<C: RouterChannel> Pack<C> for OptionalTensor<BackendRouter<C>> {
    fn pack(self, parcel: &mut Parcel<C>) {
        parcel.optional(self.into_option());
    }
}

impl<B: BackendIr> Unpack<B> for OptionalTensor<B> {
    fn unpack(parcel: &mut Opened<B>) -> Self {
        parcel.optional().into()
    }
}

/// Implements [`Pack`] and [`Unpack`] for a struct of tensors and options, each field with the way it goes; a server
/// has to be of the bound that is named.
///
/// | way | field |
/// | --- | --- |
/// | `float`, `int` | a tensor |
/// | `part` | by its own `Pack` and `Unpack` |
/// | `scalars` | a value, by [`AsScalars`] |
/// | `left`, `absent` | stays with the client; the server has the default, or no tensor |
#[macro_export]
macro_rules! packed {
    ($inputs:ident, on: $bound:path, { $($field:ident: $way:ident),+ $(,)? }) => {
        impl<C: $crate::harness::remote::RouterChannel> $crate::harness::remote::Pack<C>
            for $inputs<$crate::harness::remote::BackendRouter<C>>
        {
            fn pack(self, parcel: &mut $crate::harness::remote::Parcel<C>) {
                $($crate::packed!(@pack $way parcel, self.$field);)+
            }
        }

        impl<B: ::burn::backend::ir::BackendIr + $bound> $crate::harness::remote::Unpack<B> for $inputs<B> {
            fn unpack(parcel: &mut $crate::harness::remote::Opened<B>) -> Self {
                $inputs { $($field: $crate::packed!(@unpack $way parcel)),+ }
            }
        }
    };
    (@pack part $parcel:ident, $field:expr) => { $crate::harness::remote::Pack::pack($field, $parcel) };
    (@pack scalars $parcel:ident, $field:expr) => { $parcel.scalars(&$field) };
    (@pack left $parcel:ident, $field:expr) => { drop($field) };
    (@pack absent $parcel:ident, $field:expr) => { drop($field) };
    (@pack $tensor:ident $parcel:ident, $field:expr) => { $parcel.tensor($field) };
    (@unpack part $parcel:ident) => { $crate::harness::remote::Unpack::unpack($parcel) };
    (@unpack left $parcel:ident) => { Default::default() };
    (@unpack absent $parcel:ident) => { $crate::harness::optional::OptionalTensor::Absent };
    (@unpack $method:ident $parcel:ident) => { $parcel.$method() };
}

pub use crate::packed;
