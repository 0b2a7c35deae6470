//! The kernels of layers that servers run for their clients.
//!
//! | operation | goes to the server as |
//! | --- | --- |
//! | `recurrent` | one call forward, one backward |
//! | `dropout_factors` | one call |
//! | `linear_cross_entropy` | one call, in training with the gradients where that of the loss is 1 |
//!
//! The others are composed of Burn's operations, which the server runs one by one.

use burn::backend::ir::BackendIr;
use burn::backend::tensor::{Device, FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata, get_device_settings};
use burn::tensor::{DType, Slice};

use crate::harness::kernel::{Asked, Gradient, TrainedKernel};
use crate::harness::remote::{
    AsScalars, BackendRouter, CustomOpRegistry, Results, RouterChannel, SAID_SO, ScalarReader,
    ScalarWriter, call, float_spec, packed, runs_on, serve, set_of, wanted_specs,
};
use crate::harness::results::{as_gradients, only};
use crate::harness::wide::wide;
use crate::ops::layer_backend::{LayerBackend, LayerKernels};
use crate::ops::recurrent::Recurred;
use crate::ops::recurrent::states::StateGradients;
use crate::ops::{
    CellKind, DropoutFactorsInputs, LinearCrossEntropyInputs, RecurrentInputs, Steps,
};
use crate::paths::Operation;

/// The kernels, a line for each operation.
pub(super) const fn kernels<C: RouterChannel>() -> LayerKernels<BackendRouter<C>> {
    LayerKernels {
        runs_on,
        dropout_factors: Some(factors),
        linear_cross_entropy: Some(TrainedKernel {
            infer: |inputs| loss(inputs, [false; 3]).0,
            train: loss,
            backward: loss_backward,
        }),
        recurrent: Some(TrainedKernel {
            infer: states,
            train: |inputs, _| states_saving(inputs),
            backward: states_backward,
        }),
        ..LayerKernels::NONE
    }
}

/// Adds the operations of this crate to those of a server. It does not say yet that they are there:
/// [`introduce`](crate::harness::remote::introduce) does.
pub fn register_layers<B: BackendIr + LayerBackend>(registry: &mut CustomOpRegistry<B>) {
    serve(
        registry,
        (Operation::DropoutFactors, FACTORS),
        |inputs: DropoutFactorsInputs<B>| {
            let draw = B::LAYERS.dropout_factors.expect(SAID_SO);
            Results::of([draw(inputs)])
        },
    );
    let operation = Operation::LinearCrossEntropy;
    serve(
        registry,
        (operation, LOSS),
        |Loss { inputs, wanted }: Loss<B>| {
            let kernel = B::LAYERS.linear_cross_entropy.expect(SAID_SO);
            if !wanted.contains(&true) {
                let (loss, predictions) = (kernel.infer)(inputs);
                return Results::of([loss]).and_int(predictions);
            }
            let ((loss, predictions), gradients) = (kernel.train)(inputs, wanted);
            Results::of([loss])
                .and_int(predictions)
                .and(gradients.into_iter().flatten())
        },
    );
    let operation = Operation::Recurrent;
    serve(
        registry,
        (operation, STATES),
        |inputs: RecurrentInputs<B>| {
            let kernel = B::LAYERS.recurrent.expect(SAID_SO);
            Results::of([(kernel.infer)(inputs)])
        },
    );
    serve(
        registry,
        (operation, STATES_SAVING),
        |inputs: RecurrentInputs<B>| {
            let kernel = B::LAYERS.recurrent.expect(SAID_SO);
            let (states, Recurred { inputs, saved, .. }) = (kernel.train)(inputs, [true; 4]);
            Results::of([states, inputs.gates, saved])
        },
    );
    serve(
        registry,
        (operation, STATES_BACKWARD),
        |sent: StatesBackward<B>| {
            let kernel = B::LAYERS.recurrent.expect(SAID_SO);
            let StatesBackward {
                saved,
                gradient,
                wanted,
            } = sent;
            Results::of_gradients((kernel.backward)(saved, gradient, Asked::whole(wanted)))
        },
    );
}

/// The operations that a server's backend has kernels for among those of [`register_layers`], as
/// [`introduce`](crate::harness::remote::introduce) wants them.
pub fn layer_kernels<B: LayerBackend>(device: &Device<B>, dtype: DType) -> u32 {
    let has = [
        (
            Operation::DropoutFactors,
            B::LAYERS.dropout_factors.is_some(),
        ),
        (Operation::Recurrent, B::LAYERS.recurrent.is_some()),
        (
            Operation::LinearCrossEntropy,
            B::LAYERS.linear_cross_entropy.is_some(),
        ),
    ];
    set_of(has, |operation| {
        (B::LAYERS.runs_on)(device, dtype, operation)
    })
}

const FACTORS: &str = "dropout_factors";
const LOSS: &str = "linear_cross_entropy";
const STATES: &str = "recurrent";
const STATES_SAVING: &str = "recurrent.saving";
const STATES_BACKWARD: &str = "recurrent.backward";

packed!(DropoutFactorsInputs, on: LayerBackend, {
    like: float,
    probability: scalars,
});

/// Inputs of the loss, and the gradients that are wanted.
struct Loss<B: Backend> {
    inputs: LinearCrossEntropyInputs<B>,
    wanted: [bool; 3],
}

packed!(Loss, on: LayerBackend, {
    inputs: part,
    wanted: scalars,
});

packed!(LinearCrossEntropyInputs, on: LayerBackend, {
    input: float,
    weight: float,
    bias: part,
    targets: int,
    factors: part,
    label_smoothing: scalars,
});

/// Inputs of the backward pass of a recurrent layer.
struct StatesBackward<B: Backend> {
    saved: Recurred<B>,
    /// The gradient of all states, `[states, batch, steps, hidden_size]`.
    gradient: FloatTensor<B>,
    wanted: [bool; 4],
}

packed!(StatesBackward, on: LayerBackend, {
    saved: part,
    gradient: float,
    wanted: scalars,
});

packed!(Recurred, on: LayerBackend, {
    inputs: part,
    states: float,
    saved: float,
});

packed!(RecurrentInputs, on: LayerBackend, {
    gates: float,
    hidden_weight: float,
    hidden_bias: float,
    initial: float,
    cell: scalars,
    steps: scalars,
    shared: left,
    reads: left,
});

impl AsScalars for CellKind {
    fn write(&self, to: &mut ScalarWriter) {
        to.write(&(*self == Self::Lstm));
    }

    fn read(from: &mut ScalarReader) -> Self {
        if from.read() { Self::Lstm } else { Self::Gru }
    }
}

impl AsScalars for Steps {
    fn write(&self, to: &mut ScalarWriter) {
        to.write(&self.lens);
        to.write(&self.is_reversed);
    }

    fn read(from: &mut ScalarReader) -> Self {
        Self {
            lens: from.read(),
            is_reversed: from.read(),
        }
    }
}

type Router<C> = BackendRouter<C>;

/// The factors of dropout.
fn factors<C: RouterChannel>(inputs: DropoutFactorsInputs<Router<C>>) -> FloatTensor<Router<C>> {
    let spec = float_spec::<Router<C>>(&inputs.like);
    only(call::<C>(FACTORS, inputs, [spec]))
}

type Unscaled<C> = [Option<FloatTensor<Router<C>>>; 3];

/// The loss, the predictions, and the gradients that are wanted where that of the loss is 1.
#[allow(clippy::type_complexity, reason = "a kernel of training returns this")]
fn loss<C: RouterChannel>(
    inputs: LinearCrossEntropyInputs<Router<C>>,
    wanted: [bool; 3],
) -> ((FloatTensor<Router<C>>, IntTensor<Router<C>>), Unscaled<C>) {
    let dtype = wide(inputs.input.dtype());
    let settings = get_device_settings::<Router<C>>(&inputs.input.device());
    let gradients = wanted_specs::<C, _, 3>(&inputs, wanted);
    let mut specs = vec![
        ([1].into(), dtype),
        (inputs.targets.shape(), settings.int_dtype.into()),
    ];
    let of = gradients.iter().flatten();
    specs.extend(of.map(|(shape, _)| (shape.clone(), dtype)));
    let mut results = call::<C>(LOSS, Loss { inputs, wanted }, specs).into_iter();
    let mut next = || results.next().expect("as many as were asked for");
    let results = (next(), next());
    let unscaled = gradients.map(|spec| spec.map(|_| next()));
    (results, unscaled)
}

/// The gradients of input, weight and bias that are wanted.
fn loss_backward<C: RouterChannel>(
    saved: Unscaled<C>,
    gradient: FloatTensor<Router<C>>,
    _: Asked<3>,
) -> [Gradient<Router<C>>; 3] {
    saved.map(|unscaled| match unscaled {
        Some(unscaled) => Gradient::Whole(scaled::<Router<C>>(unscaled, gradient.clone())),
        None => Gradient::Absent,
    })
}

fn scaled<B: Backend>(unscaled: FloatTensor<B>, factor: FloatTensor<B>) -> FloatTensor<B> {
    let ones = vec![1; unscaled.shape().num_dims()];
    B::float_mul(unscaled, B::float_reshape(factor, ones.into()))
}

fn states_shape<B: Backend>(inputs: &RecurrentInputs<B>) -> [usize; 4] {
    let [batch, steps, _] = inputs.gates.shape().dims();
    let [size, _] = inputs.hidden_weight.shape().dims();
    [inputs.cell.states(), batch, steps, size]
}

/// The states.
fn states<C: RouterChannel>(inputs: RecurrentInputs<Router<C>>) -> FloatTensor<Router<C>> {
    let spec = (states_shape(&inputs).into(), wide(inputs.gates.dtype()));
    only(call::<C>(STATES, inputs, [spec]))
}

/// The states, and what the backward pass needs.
fn states_saving<C: RouterChannel>(
    inputs: RecurrentInputs<Router<C>>,
) -> (FloatTensor<Router<C>>, Recurred<Router<C>>) {
    let dtype = wide(inputs.gates.dtype());
    let shape @ [_, batch, steps, size] = states_shape(&inputs);
    let values = match inputs.cell {
        CellKind::Gru => cpu_kernels::GruInputs::<f32>::SAVED,
        CellKind::Lstm => cpu_kernels::LstmInputs::<f32>::SAVED,
    };
    let specs = [
        (shape.into(), dtype),
        float_spec::<Router<C>>(&inputs.gates),
        ([batch, steps, values * size].into(), dtype),
    ];
    let mut results = call::<C>(STATES_SAVING, inputs.clone(), specs).into_iter();
    let mut next = || results.next().expect("as many as were asked for");
    let states = next();
    let recurred = Recurred {
        inputs: RecurrentInputs {
            gates: next(),
            ..inputs
        },
        states: states.clone(),
        saved: next(),
    };
    (states, recurred)
}

/// The gradients of gates, hidden weight, hidden bias and initial state that are wanted.
fn states_backward<C: RouterChannel>(
    saved: Recurred<Router<C>>,
    gradient: FloatTensor<Router<C>>,
    asked: Asked<4>,
) -> [Gradient<Router<C>>; 4] {
    let gradients = StateGradients::new(&saved.inputs, &saved.states, gradient, &asked);
    let gradient = of_all_states::<Router<C>>(&saved, gradients);
    let wanted = asked.wanted;
    let specs = wanted_specs::<C, _, 4>(&saved.inputs, wanted);
    let sent = StatesBackward {
        saved,
        gradient,
        wanted,
    };
    let results = call::<C>(STATES_BACKWARD, sent, specs.iter().flatten().cloned());
    as_gradients(specs, results)
}

/// One gradient of all states: what readers deposited stays with the client, and the server has none of it.
fn of_all_states<B: Backend>(saved: &Recurred<B>, gradients: StateGradients<B>) -> FloatTensor<B> {
    let Recurred { inputs, states, .. } = saved;
    let [_, batch, count, size] = states.shape().dims();
    let last = inputs.steps.order(count).last().copied();
    let whole = |(of_steps, of_last): (Option<FloatTensor<B>>, Option<FloatTensor<B>>)| {
        let none = || {
            let shape = [1, batch, count, size].into();
            B::float_zeros(shape, &states.device(), states.dtype().into())
        };
        let of_steps = of_steps.unwrap_or_else(none);
        let Some((of_last, step)) = of_last.zip(last) else {
            return of_steps;
        };
        let at = [0..1, 0..batch, step..step + 1, 0..size].map(Slice::from);
        let before = B::float_slice(of_steps.clone(), &at);
        B::float_slice_assign(of_steps, &at, B::float_add(before, of_last))
    };
    let each = gradients.of_steps.into_iter().zip(gradients.last);
    B::float_cat(each.map(whole).collect(), 0)
}
