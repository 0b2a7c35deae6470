//! An operation, sent by a client and run by a server.

use burn::backend::ir::{BackendIr, CustomOpIr, OperationIr, TensorIr};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Shape};
use burn_router::{BackendRouter, CustomOpRegistry, RouterChannel, RouterClient, RouterTensor};

use super::VERSION;
use super::packing::{Opened, Pack, Parcel, Unpack};
use crate::harness::kernel::Gradient;
use crate::harness::results::{gradient_specs, whole};
use crate::harness::tracked::TrackedInputs;
use crate::paths::{Operation, count_served};

/// A result's shape and type.
pub type Spec = (Shape, DType);

/// The part of an operation that is called, as a server knows it.
fn name(part: &str) -> String {
    format!("burn-fused-layers/{VERSION}/{part}")
}

/// Has the server of the inputs' device run a part of an operation; its results are as `specs` says.
///
/// # Panics
/// If the inputs have no tensor.
pub fn call<C: RouterChannel>(
    part: &str,
    inputs: impl Pack<C>,
    specs: impl IntoIterator<Item = Spec>,
) -> Vec<RouterTensor<C::Client>> {
    let mut parcel = Parcel::new();
    inputs.pack(&mut parcel);
    let client = parcel.client.expect("an operation has a tensor");
    let uninitialised =
        |(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype);
    let operation = CustomOpIr {
        id: name(part),
        inputs: parcel.tensors,
        outputs: specs.into_iter().map(uninitialised).collect(),
        scalars: parcel.scalars.0,
    };
    client.register(OperationIr::Custom(operation))
}

/// Why a server has a kernel that a client calls for.
pub const SAID_SO: &str = "a client calls for what the server has said that it has";

/// The results of a part of an operation, on a server.
#[derive(Debug)]
pub struct Results<B: Backend>(Vec<Computed<B>>);

#[derive(Debug)]
enum Computed<B: Backend> {
    Float(FloatTensor<B>),
    Gradient(FloatTensor<B>),
    Int(IntTensor<B>),
}

impl<B: Backend> Results<B> {
    /// Those that there are, in their order.
    pub fn of(floats: impl IntoIterator<Item = FloatTensor<B>>) -> Self {
        Self(floats.into_iter().map(Computed::Float).collect())
    }

    /// The gradients that there are, each of the type that its client expects.
    pub fn of_gradients<const N: usize>(gradients: [Gradient<B>; N]) -> Self {
        Self(
            whole(gradients)
                .into_iter()
                .map(Computed::Gradient)
                .collect(),
        )
    }

    /// These, and a tensor of integers.
    pub fn and_int(mut self, tensor: IntTensor<B>) -> Self {
        self.0.push(Computed::Int(tensor));
        self
    }

    /// These, and others.
    pub fn and(mut self, floats: impl IntoIterator<Item = FloatTensor<B>>) -> Self {
        self.0.extend(floats.into_iter().map(Computed::Float));
        self
    }
}

/// Has a server run a part of an operation by `run`.
pub fn serve<B: BackendIr, I: Unpack<B> + 'static>(
    registry: &mut CustomOpRegistry<B>,
    (operation, part): (Operation, &str),
    run: fn(I) -> Results<B>,
) {
    let name = name(part);
    registry.register(&name.clone(), move |handles, called, _| {
        let inputs = I::unpack(&mut Opened::new(handles, called));
        let Results(results) = run(inputs);
        let (got, expected) = (results.len(), called.outputs.len());
        assert!(
            got == expected,
            "{name}: a client expected {expected} results, got {got}"
        );
        for (result, to) in results.into_iter().zip(&called.outputs) {
            match result {
                Computed::Float(tensor) => handles.register_float_tensor::<B>(&to.id, tensor),
                Computed::Gradient(tensor) => {
                    let tensor = if tensor.dtype() == to.dtype {
                        tensor
                    } else {
                        B::float_cast(tensor, to.dtype.into())
                    };
                    handles.register_float_tensor::<B>(&to.id, tensor);
                }
                Computed::Int(tensor) => handles.register_int_tensor::<B>(&to.id, tensor),
            }
        }
        count_served(operation);
    });
}

/// Shape and type of a tensor, as a result like it has them.
pub fn float_spec<B: Backend>(tensor: &FloatTensor<B>) -> Spec {
    (tensor.shape(), tensor.dtype())
}

/// Shapes and types of the gradients that are wanted of tensors that are there.
pub fn wanted_specs<C, I, const N: usize>(inputs: &I, wanted: [bool; N]) -> [Option<Spec>; N]
where
    C: RouterChannel,
    I: TrackedInputs<BackendRouter<C>, N> + Clone,
{
    let mut specs = gradient_specs(inputs, float_spec::<BackendRouter<C>>);
    for (spec, is_wanted) in specs.iter_mut().zip(wanted) {
        if !is_wanted {
            *spec = None;
        }
    }
    specs
}
