//! The memory of a [`Buffer`] as a tensor's memory: after the tensor is dropped, a later result may reuse it.

use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use burn::tensor::{AllocationProperty, Bytes};
use burn_std::{AccessError, AccessPolicy, AllocationController};
use cpu_kernels::Buffer;

use super::CpuReal;

/// The elements of a buffer, not moved.
pub(super) fn buffer_bytes<E: CpuReal>(buffer: Buffer<E>) -> Bytes {
    if !buffer.is_kept() {
        return Bytes::from_elems(buffer.into_vec());
    }
    let len = size_of_val(&*buffer);
    // SAFETY: the controller's memory is the buffer's: `len` bytes, all initialized. `Bytes` may go to other threads,
    // as elements and buffer may.
    unsafe { Bytes::from_controller(Box::new(Owned(sendable(buffer))), len) }
}

fn sendable<T: Send + Sync>(value: T) -> T {
    value
}

/// Not shared with anyone, so that tensors may be changed in place.
struct Owned<E>(Buffer<E>);

impl<E: CpuReal> AllocationController for Owned<E> {
    fn alloc_align(&self) -> usize {
        align_of::<E>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Native
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let elements: &[E] = &self.0;
        let len = size_of_val(elements);
        // SAFETY: pointer and length come from a slice that is borrowed as long as the result; bytes have the weakest
        // alignment, and floats have no padding.
        Ok(unsafe { from_raw_parts(elements.as_ptr().cast(), len) })
    }

    unsafe fn memory_mut(
        &mut self,
        _: AccessPolicy,
    ) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let elements: &mut [E] = &mut self.0;
        let len = size_of_val(elements);
        // SAFETY: as in `memory`; the caller writes initialized bytes only, and any are a float.
        Ok(unsafe { from_raw_parts_mut(elements.as_mut_ptr().cast(), len) })
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::flex::FlexTensor;
    use burn::backend::{Flex, ops::FloatTensorOps};
    use burn::tensor::TensorData;

    use super::*;
    use crate::harness::host::CpuBackend;

    const LEN: usize = 1 << 16;

    fn counting(len: usize) -> FlexTensor {
        let mut buffer = Buffer::<f32>::for_overwrite(len);
        let values = (0..len).map(|value| value as f32);
        buffer
            .iter_mut()
            .zip(values)
            .for_each(|(to, value)| *to = value);
        let like = FlexTensor::from_data(TensorData::from([0.0_f32]));
        Flex::from_buffer(buffer, [len].into(), &like)
    }

    fn address(tensor: &FlexTensor) -> *const f32 {
        tensor.storage::<f32>().as_ptr()
    }

    #[test]
    fn a_tensor_is_changed_in_place_and_copied_where_it_is_shared() {
        let tensor = counting(LEN);
        let (before, shared) = (address(&tensor), tensor.clone());
        let sum = Flex::float_add_scalar(tensor, 1.0.into());
        assert_ne!(address(&sum), before);
        assert_eq!(address(&shared), before);
        assert_eq!(shared.storage::<f32>()[LEN - 1], (LEN - 1) as f32);
        drop(shared);
        let at = address(&sum);
        let [mut alone, other] = [sum, counting(LEN)];
        alone.storage_mut::<f32>()[0] = 7.0;
        assert_eq!(address(&alone), at);
        let product = Flex::float_mul(alone, other);
        assert_eq!(product.storage::<f32>()[1], 2.0);
    }

    #[test]
    fn data_leave_as_vectors() {
        for len in [0, 1, LEN] {
            let data = counting(len).into_data();
            let values: Vec<f32> = data.iter().collect();
            assert_eq!(data.clone().try_into_vec::<f32>().expect("floats"), values);
            assert_eq!(data.bytes().clone(), *data.bytes());
            let expected: Vec<_> = (0..len).map(|value| value as f32).collect();
            assert_eq!(values, expected);
        }
    }
}
