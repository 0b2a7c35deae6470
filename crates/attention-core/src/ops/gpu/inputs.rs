//! Inputs whose tensors the kernels can read.

use attention_gpu::contiguous;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::optional::OptionalTensor;
use burn_fused_layers::harness::tracked::{TensorMap, TrackedInputs};

/// The same inputs, with the elements of each tensor one after the other.
pub(in crate::ops) fn readable<I, const N: usize>(inputs: I) -> I::On<CubeBackend>
where
    I: TrackedInputs<CubeBackend, N>,
{
    inputs.map(&mut Contiguous)
}

struct Contiguous;

impl TensorMap<CubeBackend, CubeBackend> for Contiguous {
    fn tracked(&mut self, tensor: CubeTensor) -> CubeTensor {
        contiguous(tensor)
    }

    fn tracked_option(
        &mut self,
        tensor: OptionalTensor<CubeBackend>,
    ) -> OptionalTensor<CubeBackend> {
        tensor.into_option().map(contiguous).into()
    }

    fn constant(&mut self, tensor: OptionalTensor<CubeBackend>) -> OptionalTensor<CubeBackend> {
        tensor
    }
}
