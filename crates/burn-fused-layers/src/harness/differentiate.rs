//! A kernel as a single node of the graph of Burn's autodiff.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{LazyLock, Mutex, PoisonError};

pub use burn::backend::Autodiff;
use burn::backend::tensor::FloatTensor;
use burn::backend::{AutodiffBackend, Backend, TensorMetadata};
use burn::tensor::{FloatDType, Shape};
use burn_autodiff::checkpoint::base::Checkpointer;
pub use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};

use super::deferred_gradients::{Deferral, Deposit, GradientSlot, Pass};
use super::kernel::{self, Asked, Gradient, Kernel};
use super::tracked::TrackedInputs;
use super::wide::wide;

/// The inputs, taken off the graph, for an operation without a gradient.
pub fn off_graph<B, C, I, const N: usize>(inputs: I) -> I::On<B>
where
    B: Backend,
    C: CheckpointStrategy,
    I: TrackedInputs<Autodiff<B, C>, N>,
{
    take_off(inputs).0
}

/// The inputs, taken off the graph, the node of each of their tensors, and whether a backward pass will request its
/// gradient.
fn take_off<B, C, I, const N: usize>(inputs: I) -> (I::On<B>, [NodeGuard; N], [bool; N])
where
    B: Backend,
    C: CheckpointStrategy,
    I: TrackedInputs<Autodiff<B, C>, N>,
{
    let (mut guards, mut wanted) = (Vec::with_capacity(N), Vec::with_capacity(N));
    let mut like = None;
    let inputs = inputs.map::<B>(&mut |tensor: Option<FloatTensor<Autodiff<B, C>>>,
                                       tracked: bool| {
        if !tracked {
            return tensor.map(|tensor| tensor.into_primitive());
        }
        wanted.push(tensor.as_ref().is_some_and(|tensor| tensor.is_tracked()));
        match tensor {
            Some(tensor) => {
                let (tensor, node) = tensor.into_parts();
                guards.push(node);
                like.get_or_insert_with(|| tensor.clone());
                Some(tensor)
            }
            None => {
                // An untracked leaf as placeholder, which has no gradient.
                let like = like.clone().expect("an optional tensor is not the first");
                guards.push(constant::<B, C>(like).node());
                None
            }
        }
    });
    // The kernel may overwrite a tensor if nothing else holds it.
    drop(like);
    let as_many = "inputs map as many tensors as they say";
    let guards = guards.try_into().expect(as_many);
    (inputs, guards, wanted.try_into().expect(as_many))
}

/// The result of an operation without a gradient.
pub fn constant<B: Backend, C: CheckpointStrategy>(
    tensor: FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    <Autodiff<B, C> as AutodiffBackend>::from_inner(tensor)
}

/// The kernel as a node of the graph, with a result that may include a part without a gradient: `parts` separates them.
/// If no gradient is requested, it runs inference.
pub fn differentiate<B, C, I, O, S, R, const N: usize>(
    kernel: Kernel<B, I::On<B>, O, S, N>,
    inputs: I,
    parts: fn(O) -> (FloatTensor<B>, R),
) -> (FloatTensor<Autodiff<B, C>>, R)
where
    B: Backend,
    C: CheckpointStrategy,
    I: TrackedInputs<Autodiff<B, C>, N>,
    S: Clone + Send + Debug + 'static,
{
    let (slots, readers) = (inputs.slots(), inputs.readers::<B>());
    let (inputs, guards, wanted) = take_off(inputs);
    let prepared = KernelGradient(PhantomData).prepare::<C>(guards);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let (results, saved) = (kernel.train)(inputs, wanted);
            let (output, beside) = parts(results);
            let state = KernelState {
                saved,
                backward: kernel.backward,
                slots,
            };
            let output = prep.finish(state, output);
            if let Some((slot, open)) = readers {
                open(&slot, output.id().value);
            }
            (output, beside)
        }
        OpsKind::UnTracked(prep) => {
            let (output, beside) = parts((kernel.infer)(inputs));
            (prep.finish(output), beside)
        }
    }
}

/// The pass that propagates `gradients`. Its number is stored among them, in the shape `[0, number]` of a gradient that
/// belongs to no tensor: Burn 0.22.1 has no name for a pass, and an address may be reused later.
pub fn pass_of<B: Backend>(gradients: &mut Gradients, like: &FloatTensor<B>) -> Pass {
    let (device, dtype) = (like.device(), like.dtype().into());
    let key = key_of_pass(|| B::float_empty([0].into(), &device, dtype));
    if let Some(number) = gradients.get::<B>(&key) {
        return Pass(number.shape()[1]);
    }
    let pass = Pass::next();
    let number = B::float_empty([0, pass.0].into(), &device, dtype);
    gradients.register::<B>(key.id(), number);
    pass
}

/// The tensor whose gradient stores the number of a pass; `empty` creates it, once for each backend.
fn key_of_pass<B: Backend>(empty: impl FnOnce() -> FloatTensor<B>) -> FloatTensor<Autodiff<B>> {
    static KEYS: LazyLock<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>> =
        LazyLock::new(Mutex::default);
    let lock = || KEYS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |keys: &HashMap<TypeId, Box<dyn Any + Send>>| {
        let key = keys
            .get(&TypeId::of::<B>())?
            .downcast_ref::<FloatTensor<Autodiff<B>>>();
        Some(key.expect("each backend has its own").clone())
    };
    let key = known(&lock());
    key.unwrap_or_else(|| {
        // Without holding the lock: creating a tensor may wait for the device's thread, whose trial may request a key.
        let made = Autodiff::<B>::from_inner(empty());
        let mut keys = lock();
        known(&keys).unwrap_or_else(|| {
            keys.insert(TypeId::of::<B>(), Box::new(made.clone()));
            made.clone()
        })
    })
}

/// The gradient of an operation that saved `S`.
#[derive(Debug)]
struct KernelGradient<S>(PhantomData<fn() -> S>);

#[derive(Clone, Debug)]
struct KernelState<B: Backend, S, const N: usize> {
    saved: S,
    backward: kernel::Backward<B, S, N>,
    slots: [Option<GradientSlot>; N],
}

impl<B, S, const N: usize> Backward<B, N> for KernelGradient<S>
where
    B: Backend,
    S: Clone + Send + Debug + 'static,
{
    type State = KernelState<B, S, N>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let pass = pass_of::<B>(grads, &gradient);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        let state = ops.state;
        let nodes = parents.map(|parent| parent.map(|id| id.value));
        let asked = Asked {
            wanted: parents.map(|parent| parent.is_some()),
            deferral: Deferral::of(&state.slots, nodes),
            taker: Some((pass, ops.node.id.value)),
        };
        let gradients = (state.backward)(state.saved, gradient, asked);
        for ((parent, slot), gradient) in parents.into_iter().zip(state.slots).zip(gradients) {
            let Some(parent) = parent else { continue };
            match (gradient, slot) {
                (Gradient::Absent, _) => {}
                (Gradient::Whole(gradient), _) => grads.register::<B>(parent, gradient),
                (Gradient::Deferred(deposit), Some(slot)) => {
                    grads.register::<B>(parent, deposit.marker());
                    slot.deposit(pass, parent.value, deposit);
                }
                (Gradient::Deferred(_), None) => {
                    unreachable!("gradients are deferred only for tensors with a slot")
                }
            }
        }
    }
}

/// `rows` for one of several readers, whose gradient goes to `source`; see
/// [`LayerOps::read_shared`](crate::backend::LayerOps::read_shared).
pub fn read_shared<B: Backend, C: CheckpointStrategy>(
    source: FloatTensor<Autodiff<B, C>>,
    rows: FloatTensor<Autodiff<B, C>>,
    slot: GradientSlot,
) -> FloatTensor<Autodiff<B, C>> {
    let (source, node) = source.into_parts();
    let rows = rows.into_primitive();
    let state = SharedState {
        source: source.shape(),
        rows: rows.clone(),
        slot: slot.clone(),
    };
    let prepared = SharedGradient.prepare::<C>([node]);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let rows = prep.finish(state, rows);
            slot.open::<Box<dyn Deposit<B>>>(rows.id().value);
            rows
        }
        OpsKind::UnTracked(prep) => prep.finish(rows),
    }
}

/// The gradient of a tensor with several readers, which may deposit their gradients.
#[derive(Debug)]
struct SharedGradient;

#[derive(Clone, Debug)]
struct SharedState<B: Backend> {
    /// The shape of the source.
    source: Shape,
    rows: FloatTensor<B>,
    slot: GradientSlot,
}

impl<B: Backend> Backward<B, 1> for SharedGradient {
    type State = SharedState<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let SharedState { source, rows, slot } = ops.state;
        let [parent] = ops.parents;
        let gradient = grads.consume::<B>(&ops.node);
        let pass = pass_of::<B>(grads, &gradient);
        let is_whole = gradient.shape() == rows.shape(); // or else a marker
        let whole = is_whole.then_some(gradient);
        let mut deposits = slot.take::<Box<dyn Deposit<B>>>(pass, ops.node.id.value);
        let deposited = deposits.pop().map(|last| last.sum(deposits, rows));
        let total = match (deposited, whole) {
            (Some(deposited), Some(whole)) => Some(B::float_add(deposited, whole)),
            (deposited, whole) => deposited.or(whole),
        };
        if let (Some(parent), Some(mut total)) = (parent, total) {
            let dtype = total.dtype();
            if wide(dtype) != dtype {
                let part = B::float_cast(total, FloatDType::F32);
                let (before, now) = slot.accumulate(pass, part, B::float_add);
                let rounded = |sum| B::float_cast(sum, dtype.into());
                total = rounded(now);
                if let Some(before) = before {
                    total = B::float_sub(total, rounded(before));
                }
            }
            grads.register::<B>(parent.id, B::float_reshape(total, source));
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::backend::Flex;
    use burn::backend::ops::FloatTensorOps;
    use burn::tensor::DType;

    use super::*;

    /// A device's thread may run a trial before it makes the tensor, and the trial's backward pass asks for the key.
    #[test]
    fn a_key_may_be_asked_for_while_it_is_made() {
        let empty = || Flex::float_empty([0].into(), &Default::default(), DType::F32.into());
        let key = key_of_pass::<Flex>(|| {
            key_of_pass::<Flex>(empty);
            empty()
        });
        assert_eq!(key.id(), key_of_pass::<Flex>(empty).id());
    }
}
