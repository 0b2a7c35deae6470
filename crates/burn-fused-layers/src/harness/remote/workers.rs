//! The kernels that servers have.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use burn::backend::DeviceOps;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::Device;
use burn::tensor::{DType, TensorData};
use burn_router::CustomOpRegistry;

use super::VERSION;
use crate::paths::{Operation, served};

/// The operation by which a client asks; every version of this crate has it.
pub(crate) const INTRODUCTION: &str = "burn-fused-layers/kernels";

/// The types of floats that a server answers for.
const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// A device of a server: the type of device, and its number.
type Id = (u16, u16);

static WORKERS: LazyLock<Mutex<HashMap<Id, [u32; 4]>>> = LazyLock::new(Mutex::default);

/// The answer of a server, exact in f32: versions, sets of operations and counts are below 2^24.
pub(crate) struct Introduction {
    /// The server's [`VERSION`].
    pub(crate) version: u32,
    /// For each of [`DTYPES`] the operations that it has kernels for, by [`Operation::bit`].
    kernels: [u32; 4],
    /// How many calls of kernels it has served, all clients together; modulo 2^24.
    pub(crate) served: u32,
}

impl Introduction {
    /// The elements of the answer.
    pub(crate) const LEN: usize = 6;

    /// From the elements.
    pub(crate) fn of(elements: [f32; Self::LEN]) -> Self {
        let [version, kernels @ .., served] = elements.map(|element| element as u32);
        Self {
            version,
            kernels,
            served,
        }
    }

    fn elements(&self) -> [f32; Self::LEN] {
        let [a, b, c, d] = self.kernels;
        [self.version, a, b, c, d, self.served].map(|element| element as f32)
    }
}

/// Has a server say which operations it has kernels for: a set of [`Operation::bit`]s for each device and type.
pub fn introduce<B: BackendIr>(
    registry: &mut CustomOpRegistry<B>,
    kernels: fn(&Device<B>, DType) -> u32,
) {
    registry.register(INTRODUCTION, move |handles, called, device| {
        let total: u64 = Operation::ALL.into_iter().map(served).sum();
        let introduction = Introduction {
            version: VERSION,
            kernels: DTYPES.map(|dtype| kernels(device, dtype)),
            served: (total % (1 << 24)) as u32,
        };
        let elements = introduction.elements().to_vec();
        let elements = TensorData::new(elements, [Introduction::LEN]);
        let elements = B::float_from_data(elements, device);
        handles.register_float_tensor::<B>(&called.outputs[0].id, elements);
    });
}

/// A set, by [`Operation::bit`], of the operations that have a kernel which is switched on and runs.
pub fn set_of<const N: usize>(
    has_kernel: [(Operation, bool); N],
    runs: impl Fn(Operation) -> bool,
) -> u32 {
    let all = has_kernel.into_iter();
    let all = all.filter(|&(operation, has)| has && operation.is_on() && runs(operation));
    all.map(|(operation, _)| operation.bit()).sum()
}

/// Remembers what the server of a device answered.
pub(crate) fn know(device: &impl DeviceOps, introduction: &Introduction) {
    let mut workers = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    workers.insert(id(device), introduction.kernels);
}

/// Whether the server of `device` has said that it has a kernel for an operation on tensors of a type.
pub fn runs_on(device: &impl DeviceOps, dtype: DType, operation: Operation) -> bool {
    let Some(index) = DTYPES.iter().position(|known| *known == dtype) else {
        return false;
    };
    let workers = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    let kernels = workers.get(&id(device));
    kernels.is_some_and(|kernels| kernels[index] & operation.bit() != 0)
}

fn id(device: &impl DeviceOps) -> Id {
    let id = device.id();
    (id.type_id, id.index_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_is_exact_in_f32() {
        let all: u32 = Operation::ALL.iter().map(|operation| operation.bit()).sum();
        assert!(all < 1 << 24);
        let introduction = Introduction {
            version: VERSION,
            kernels: [all, 0, 1, all - 1],
            served: (1 << 24) - 1,
        };
        let read = Introduction::of(introduction.elements());
        assert_eq!(read.version, VERSION);
        assert_eq!(read.kernels, introduction.kernels);
        assert_eq!(read.served, introduction.served);
    }
}
