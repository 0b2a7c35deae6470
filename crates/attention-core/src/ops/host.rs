//! Backends whose tensors lie in this process's memory, where kernels on slices can read them.

#[cfg(feature = "host")]
use std::borrow::Cow;

use burn::backend::Backend;

#[cfg(feature = "host")]
use burn::backend::tensor::FloatTensor;
#[cfg(feature = "host")]
use burn::tensor::{bf16, f16};

/// A backend, and whether the kernels on slices serve it. A backend of your own says `impl HostBackend for .. {}`.
pub trait HostBackend: Backend {
    /// Whether they do.
    const HAS_KERNELS: bool = false;

    /// The numbers of a tensor of type `E`, on flex without a copy where its last axis is contiguous, on ndarray where
    /// the whole is; `None` if the kernels do not serve the backend.
    #[cfg(feature = "host")]
    #[doc(hidden)]
    fn read<E: HostNumber>(_tensor: &FloatTensor<Self>) -> Option<HostSlice<'_, E>> {
        None
    }
}

/// The numbers of a tensor, and how far apart they lie.
#[cfg(feature = "host")]
#[derive(Debug)]
pub struct HostSlice<'a, E: Clone> {
    /// The numbers, from the tensor's first on.
    pub data: Cow<'a, [E]>,
    /// The strides of all axes but the last, which is contiguous.
    pub strides: Vec<usize>,
}

#[cfg(feature = "host")]
impl<'a, E: Clone> HostSlice<'a, E> {
    /// A contiguous tensor.
    fn contiguous(data: Cow<'a, [E]>, shape: &[usize]) -> Self {
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis];
        }
        strides.pop();
        Self { data, strides }
    }
}

/// The numbers that tensors hold.
#[cfg(feature = "host")]
pub trait HostNumber: burn::tensor::Element {
    #[cfg(feature = "flex")]
    #[doc(hidden)]
    fn read_flex(tensor: &burn::backend::flex::FlexTensor) -> HostSlice<'_, Self>;

    #[cfg(feature = "ndarray")]
    #[doc(hidden)]
    fn read_ndarray(tensor: &burn::backend::ndarray::NdArrayTensor) -> HostSlice<'_, Self>;
}

#[cfg(feature = "host")]
macro_rules! host_number {
    ($number:ident $(, $variant:ident)?) => {
        impl HostNumber for $number {
            #[cfg(feature = "flex")]
            fn read_flex(tensor: &burn::backend::flex::FlexTensor) -> HostSlice<'_, Self> {
                let layout = tensor.layout();
                let shape: Vec<usize> = layout.shape().iter().copied().collect();
                let (last, rest) = layout.strides().split_last().unwrap_or((&1, &[]));
                let last_is_contiguous = *last == 1 || shape.last() == Some(&1);
                let strides: Result<Vec<usize>, _> =
                    rest.iter().map(|&s| usize::try_from(s)).collect();
                match strides {
                    Ok(strides) if last_is_contiguous => HostSlice {
                        data: Cow::Borrowed(
                            tensor
                                .storage()
                                .get(layout.start_offset()..)
                                .unwrap_or_default(),
                        ),
                        strides,
                    },
                    // Transposed or flipped.
                    _ => {
                        let data = tensor.to_contiguous().storage().to_vec();
                        HostSlice::contiguous(Cow::Owned(data), &shape)
                    }
                }
            }

            #[cfg(feature = "ndarray")]
            fn read_ndarray(tensor: &burn::backend::ndarray::NdArrayTensor) -> HostSlice<'_, Self> {
                $(
                    if let burn::backend::ndarray::NdArrayTensor::$variant(storage) = tensor {
                        let view = storage.view();
                        let shape = view.shape().to_vec();
                        let data = match view.to_slice() {
                            Some(data) => Cow::Borrowed(data),
                            None => Cow::Owned(storage.view().iter().copied().collect()),
                        };
                        return HostSlice::contiguous(data, &shape);
                    }
                )?
                let dtype = burn::backend::TensorMetadata::dtype(tensor);
                panic!("expected a tensor of {}, got {dtype:?}", stringify!($number));
            }
        }
    };
}

#[cfg(feature = "host")]
host_number!(f32, F32);
#[cfg(feature = "host")]
host_number!(f64, F64);
// ndarray has no half precision.
#[cfg(feature = "host")]
host_number!(f16);
#[cfg(feature = "host")]
host_number!(bf16);

/// The numbers that the kernels compute with.
#[cfg(feature = "host")]
pub(in crate::ops) trait HostReal: attention_kernels::Real + HostNumber {}

#[cfg(feature = "host")]
impl<E: attention_kernels::Real + HostNumber> HostReal for E {}

#[cfg(feature = "flex")]
impl HostBackend for burn::backend::Flex {
    const HAS_KERNELS: bool = true;

    fn read<E: HostNumber>(tensor: &FloatTensor<Self>) -> Option<HostSlice<'_, E>> {
        Some(E::read_flex(tensor))
    }
}

#[cfg(feature = "ndarray")]
impl HostBackend for burn::backend::NdArray {
    const HAS_KERNELS: bool = true;

    fn read<E: HostNumber>(tensor: &FloatTensor<Self>) -> Option<HostSlice<'_, E>> {
        Some(E::read_ndarray(tensor))
    }
}

#[cfg(feature = "cubecl-backend")]
impl HostBackend for burn_cubecl::CubeBackend {}

#[cfg(feature = "fusion")]
impl<B: burn::backend::fusion::FusionBackend> HostBackend for burn::backend::fusion::Fusion<B> {}

#[cfg(feature = "autodiff")]
impl<B, C> HostBackend for burn::backend::Autodiff<B, C>
where
    B: Backend,
    C: burn_autodiff::checkpoint::strategy::CheckpointStrategy,
{
}

impl HostBackend for burn::backend::Dispatch {}
