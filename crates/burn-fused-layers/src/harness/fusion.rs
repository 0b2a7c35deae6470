//! Kernels behind Burn's fusion. A call of a kernel is an operation of its own in fusion's queue, which fusion runs in
//! its place and does not look into: the tensors are there by then.

use burn::backend::fusion::custom::{
    CustomOpIr, FusionValueAdapter, OperationFn, OperationIr, StreamId, TensorIr, TensorSpec,
};
use burn::backend::fusion::{Fusion, FusionBackend};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};

use super::kernel::Gradient;
use super::optional::OptionalTensor;
use super::tracked::{TensorMap, TrackedInputs};

/// Queues `run` as one operation, of `inputs` and `tensors`; its results are as `specs` says.
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

/// The only tensor.
pub fn only<T>(tensors: Vec<T>) -> T {
    let [tensor] = tensors
        .try_into()
        .unwrap_or_else(|_| unreachable!("one tensor"));
    tensor
}

/// The gradients that there are.
pub fn whole<B: Backend, const N: usize>(gradients: [Gradient<B>; N]) -> Vec<FloatTensor<B>> {
    let whole = |gradient| match gradient {
        Gradient::Whole(gradient) => Some(gradient),
        Gradient::Absent => None,
        Gradient::Deferred(_) => unreachable!("deferring was forbidden"),
    };
    gradients.into_iter().filter_map(whole).collect()
}

/// Results as gradients, in the places where `specs` has one.
pub fn gradients<B: Backend, const N: usize>(
    specs: [Option<TensorSpec>; N],
    results: Vec<FloatTensor<B>>,
) -> [Gradient<B>; N] {
    let mut results = results.into_iter();
    specs.map(|spec| match spec.and_then(|_| results.next()) {
        Some(gradient) => Gradient::Whole(gradient),
        None => Gradient::Absent,
    })
}

/// Shapes and types of the gradients.
pub fn gradients_of<B, F, const N: usize>(inputs: &F) -> [Option<TensorSpec>; N]
where
    B: FusionBackend,
    F: TrackedInputs<Fusion<B>, N> + Clone,
{
    let mut specs = Specs(Vec::new());
    let _ = inputs.clone().map::<Fusion<B>>(&mut specs);
    specs
        .0
        .try_into()
        .unwrap_or_else(|_| unreachable!("inputs map as many tensors as they say"))
}

struct Specs(Vec<Option<TensorSpec>>);

impl<B: FusionBackend> TensorMap<Fusion<B>, Fusion<B>> for Specs {
    fn tracked(&mut self, tensor: FloatTensor<Fusion<B>>) -> FloatTensor<Fusion<B>> {
        self.0
            .push(Some(TensorSpec::new(tensor.shape(), tensor.dtype())));
        tensor
    }

    fn tracked_option(&mut self, tensor: OptionalTensor<Fusion<B>>) -> OptionalTensor<Fusion<B>> {
        let spec =
            |tensor: &FloatTensor<Fusion<B>>| TensorSpec::new(tensor.shape(), tensor.dtype());
        self.0.push(tensor.as_option().map(spec));
        tensor
    }

    fn constant(&mut self, tensor: OptionalTensor<Fusion<B>>) -> OptionalTensor<Fusion<B>> {
        tensor
    }
}
