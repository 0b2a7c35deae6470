//! Kernels with Burn's fusion. A call of a kernel is an operation of its own in fusion's queue, which fusion runs in
//! order, without fusing it: by then its tensors exist.

use burn::backend::TensorMetadata;
use burn::backend::fusion::custom::{
    CustomOpIr, FusionValueAdapter, OperationFn, OperationIr, StreamId, TensorIr, TensorSpec,
};
use burn::backend::fusion::{Fusion, FusionBackend};
use burn::backend::tensor::FloatTensor;

/// Queues `run` as one operation with `inputs` and `tensors`; `specs` describes its results.
pub fn queue<B, A>(
    name: &str,
    inputs: A::Fused,
    tensors: Vec<FloatTensor<Fusion<B>>>,
    specs: Vec<TensorSpec>,
    run: impl Fn(A::Inner, Vec<FloatTensor<B>>) -> Vec<FloatTensor<B>> + Send + Sync + 'static,
) -> Vec<FloatTensor<Fusion<B>>>
where
    B: FusionBackend,
    A: FusionValueAdapter<B>,
    A::Input: Send + Sync + 'static,
{
    let mut client = None;
    A::visit_fused_tensors(&inputs, &mut |tensor| {
        client.get_or_insert_with(|| tensor.client.clone());
    });
    let client = client.expect("an operation has a tensor");
    let mut read = Vec::new();
    let inputs = A::append_input_ir(inputs, &mut read);
    let tensors: Vec<TensorIr> = tensors.into_iter().map(|tensor| tensor.into_ir()).collect();
    read.extend(tensors.iter().cloned());
    let uninitialised = |spec: TensorSpec| {
        let id = client.create_empty_handle();
        TensorIr::uninit(id, spec.shape, spec.dtype)
    };
    let written: Vec<TensorIr> = specs.into_iter().map(uninitialised).collect();
    let ids: Vec<_> = written.iter().map(|tensor| tensor.id).collect();
    let operation = OperationIr::Custom(CustomOpIr {
        id: name.into(),
        inputs: read,
        outputs: written,
        scalars: Vec::new(),
    });
    let run = OperationFn(move |handles: &mut _| {
        let inputs = A::resolve_inputs(&inputs, handles);
        let tensors = tensors
            .iter()
            .map(|tensor| handles.get_float_tensor::<B>(tensor));
        let results = run(inputs, tensors.collect());
        for (id, result) in ids.iter().zip(results) {
            handles.register_float_tensor::<B>(id, result);
        }
        Ok(())
    });
    client.register(StreamId::current(), operation, run)
}

/// Shape and type of a tensor, for a result like it.
pub fn spec_of<B: FusionBackend>(tensor: &FloatTensor<Fusion<B>>) -> TensorSpec {
    TensorSpec::new(tensor.shape(), tensor.dtype())
}
