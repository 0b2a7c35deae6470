//! Gradients of some tensors, the others being frozen: the same bits as where the gradients of all are wanted.

use attention_tests::{Array, assert_close, assert_same, device};
use burn::tensor::{DType, Device, Int, Tensor};
use burn_fused_layers::recurrent::{CellKind, Steps, recurrent};
use burn_fused_layers::{
    Activation, ClassTargets, activate_gated, is_in_host_memory, layer_norm,
    linear_cross_entropy_of_parts,
};

/// Each way to want some of `N` gradients and not the others, all of them first.
fn subsets<const N: usize>() -> impl Iterator<Item = [bool; N]> {
    (0..1 << N).map(|frozen: usize| std::array::from_fn(|n| frozen >> n & 1 == 0))
}

/// A leaf, which is frozen unless its gradient is wanted.
fn leaf<const D: usize>(
    seed: u64,
    shape: [usize; D],
    (device, dtype): (&Device, DType),
    is_wanted: bool,
) -> Tensor<D> {
    let tensor = Array::draw(seed, &shape).tensor(device, dtype);
    tensor.set_require_grad(is_wanted)
}

/// The results of an operation, and its gradients where they are wanted.
type Run<const N: usize> = (Vec<Array>, [Option<Array>; N]);

/// The gradients of leaves by a loss, if one of them is wanted.
macro_rules! gradients {
    ($loss:expr, $is_wanted:expr, [$($leaf:ident),*]) => {{
        let loss = $loss;
        assert_eq!(loss.is_tracked(), $is_wanted);
        let gradients = $is_wanted.then(|| loss.backward());
        [$(gradients.as_ref().and_then(|all| $leaf.grad(all)).map(Array::read)),*]
    }};
}

/// Compares the results and gradients of `run` for each subset with those for all.
fn check_subsets<const N: usize>(what: &str, device: &Device, run: impl Fn([bool; N]) -> Run<N>) {
    let check = |what: &str, got: &Array, expected: &Array| {
        if is_in_host_memory(device) {
            assert_same(what, got, expected);
        } else {
            // Fusion may round other operations together.
            assert_close(what, got, expected, 2e-5);
        }
    };
    let (all_results, all_gradients) = run([true; N]);
    for wanted in subsets::<N>() {
        let what = format!("{what}, wanted {wanted:?}");
        let (results, gradients) = run(wanted);
        for (got, expected) in results.iter().zip(&all_results) {
            check(&what, got, expected);
        }
        for (n, is_wanted) in wanted.into_iter().enumerate() {
            let what = format!("{what}: gradient {n}");
            let got = gradients[n].as_ref();
            let expected = all_gradients[n].as_ref().filter(|_| is_wanted);
            assert_eq!(got.is_some(), expected.is_some(), "{what}");
            if let (Some(got), Some(expected)) = (got, expected) {
                assert!(expected.magnitude() > 0.0, "{what} is 0");
                check(&what, got, expected);
            }
        }
    }
}

/// Loss and predictions; the gradients of input, weight and bias.
fn cross_entropy(
    parts: usize,
    has_bias: bool,
    on @ (device, dtype): (&Device, DType),
    [of_input, of_weight, of_bias]: [bool; 3],
) -> Run<3> {
    let [rows, size, classes] = [23, 7, 37];
    let input = leaf(1, [parts, rows, size], on, of_input);
    let weight = leaf(2, [parts * size, classes], on, of_weight);
    let bias = leaf(3, [classes], on, of_bias);
    let targets = Array::from_fn(&[rows], |at| (at[0] * 31 % classes) as f64);
    let factors = Array::from_fn(&[rows], |at| (at[0] % 3) as f64 / 2.0);
    let (loss, predictions): (Tensor<1>, Tensor<1, Int>) = linear_cross_entropy_of_parts(
        input.clone(),
        weight.clone(),
        has_bias.then(|| bias.clone()),
        ClassTargets::new(targets.int(device), factors.tensor(device, dtype)),
    );
    let results = vec![Array::read(loss.clone()), Array::read(predictions.float())];
    let is_wanted = of_input || of_weight || of_bias && has_bias;
    // A gradient that is not 1.
    let gradients = gradients!(loss * 3.0, is_wanted, [input, weight, bias]);
    (results, gradients)
}

#[test]
fn of_linear_cross_entropy() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        for parts in [1, 2] {
            for has_bias in [true, false] {
                let what = format!("{dtype:?}, {parts} parts, bias {has_bias}");
                let run = |wanted| cross_entropy(parts, has_bias, (device, dtype), wanted);
                check_subsets(&what, device, run);
            }
        }
    }));
}

/// The result; the gradients of gate and input.
fn activation(
    function: Activation,
    on @ (device, dtype): (&Device, DType),
    wanted @ [of_gate, of_input]: [bool; 2],
) -> Run<2> {
    let shape = [3, 47];
    let (gate, input) = (leaf(1, shape, on, of_gate), leaf(2, shape, on, of_input));
    let output = activate_gated(gate.clone(), input.clone(), function);
    let results = vec![Array::read(output.clone())];
    let loss = (output * Array::draw(3, &shape).tensor::<2>(device, dtype)).sum();
    let gradients = gradients!(loss, wanted.contains(&true), [gate, input]);
    (results, gradients)
}

#[test]
fn of_gated_activations() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        for function in [Activation::Relu, Activation::Gelu, Activation::Silu] {
            let what = format!("{dtype:?} {function:?}");
            let run = |wanted| activation(function, (device, dtype), wanted);
            check_subsets(&what, device, run);
        }
    }));
}

/// The result; the gradients of input, gain and bias.
fn normalization(
    on @ (device, dtype): (&Device, DType),
    wanted @ [of_input, of_gain, of_bias]: [bool; 3],
) -> Run<3> {
    let shape = [70, 19];
    let input = leaf(1, shape, on, of_input);
    let (gain, bias) = (leaf(2, [19], on, of_gain), leaf(3, [19], on, of_bias));
    let output = layer_norm(input.clone(), gain.clone(), Some(bias.clone()), 1e-5);
    let results = vec![Array::read(output.clone())];
    let loss = (output * Array::draw(4, &shape).tensor::<2>(device, dtype)).sum();
    let gradients = gradients!(loss, wanted.contains(&true), [input, gain, bias]);
    (results, gradients)
}

#[test]
fn of_normalizations() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        let run = |wanted| normalization((device, dtype), wanted);
        check_subsets(&format!("{dtype:?}"), device, run);
    }));
}

/// The states; the gradients of gates, hidden weight, hidden bias and initial state.
fn states(
    cell: CellKind,
    count: usize,
    steps: &Steps,
    on @ (device, dtype): (&Device, DType),
    wanted: [bool; 4],
) -> Run<4> {
    let [of_gates, of_weight, of_bias, of_initial] = wanted;
    let [batch, size] = [3, 19];
    let width = cell.gates() * size;
    let gates = leaf(1, [batch, count, width], on, of_gates);
    let weight = leaf(2, [size, width], on, of_weight);
    let bias = leaf(3, [width], on, of_bias);
    let initial = leaf(4, [cell.states(), batch, size], on, of_initial);
    let hidden = (weight.clone(), bias.clone());
    let (starts, steps) = (initial.clone(), steps.clone());
    let states = recurrent(cell, gates.clone(), hidden, None, starts, steps).all();
    let results = vec![Array::read(states.clone())];
    let gradient = Array::draw(5, &[cell.states(), batch, count, size]);
    let loss = (states * gradient.tensor::<4>(device, dtype)).sum();
    let is_wanted = wanted.contains(&true);
    let gradients = gradients!(loss, is_wanted, [gates, weight, bias, initial]);
    (results, gradients)
}

#[test]
fn of_recurrent_layers() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        for cell in [CellKind::Gru, CellKind::Lstm] {
            for (count, steps) in [
                (1, Steps::all()),
                (5, Steps::all().reversed()),
                (5, Steps::of_lens([3, 5, 0])),
            ] {
                let what = format!("{dtype:?} {cell:?} {steps:?}");
                let run = |wanted| states(cell, count, &steps, (device, dtype), wanted);
                check_subsets(&what, device, run);
            }
        }
    }));
}
