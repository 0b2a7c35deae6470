//! Results of a kernel that runs later, in the queue of Burn's fusion: their shapes and types are known before the
//! results exist.

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;

use super::kernel::Gradient;
use super::tracked::TrackedInputs;

/// The spec of each input tensor's gradient, made by `spec` from the tensor; `None` for absent ones.
pub fn gradient_specs<B, I, S, const N: usize>(
    inputs: &I,
    spec: fn(&FloatTensor<B>) -> S,
) -> [Option<S>; N]
where
    B: Backend,
    I: TrackedInputs<B, N> + Clone,
{
    let mut specs = Vec::with_capacity(N);
    let _ = inputs
        .clone()
        .map::<B>(&mut |tensor: Option<FloatTensor<B>>, tracked: bool| {
            if tracked {
                specs.push(tensor.as_ref().map(spec));
            }
            tensor
        });
    let specs = <[Option<S>; N]>::try_from(specs);
    specs.unwrap_or_else(|_| unreachable!("inputs map as many tensors as they say"))
}

/// The existing gradients, in order, of a backward pass that computes whole ones.
pub fn whole<B: Backend, const N: usize>(gradients: [Gradient<B>; N]) -> Vec<FloatTensor<B>> {
    let whole = |gradient| match gradient {
        Gradient::Whole(gradient) => Some(gradient),
        Gradient::Absent => None,
        Gradient::Deferred(_) => unreachable!("deferring was forbidden"),
    };
    gradients.into_iter().filter_map(whole).collect()
}

/// Results as gradients, at the places where `specs` has one.
pub fn as_gradients<B: Backend, S, const N: usize>(
    specs: [Option<S>; N],
    results: Vec<FloatTensor<B>>,
) -> [Gradient<B>; N] {
    let mut results = results.into_iter();
    specs.map(|spec| match spec.and_then(|_| results.next()) {
        Some(gradient) => Gradient::Whole(gradient),
        None => Gradient::Absent,
    })
}

/// The only tensor.
pub fn only<T>(tensors: Vec<T>) -> T {
    let [tensor] = tensors
        .try_into()
        .unwrap_or_else(|_| unreachable!("one tensor"));
    tensor
}
