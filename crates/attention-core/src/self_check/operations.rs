//! Each operation of attention, on a device and by the CPU's kernels in f64.

use std::time::{Duration, Instant};

use attention_kernels::{self as kernels, AttentionOutputs, Rows};
use burn::tensor::{DType, Device, Tensor, TensorData};
use cpu_kernels::Level;

use super::case::{Case, KEYS, SIZE, VALUE_SIZE};
use crate::{Memory, functional, masked_softmax};

/// An error, of the largest element, and how long it took.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    pub(super) error: f64,
    pub(super) time: Duration,
}

/// Checks an operation in a case, forward and backward.
pub(super) type Check = fn(&Case, &Device) -> [Measured; 2];

pub(super) const ALL: [(&str, Check); 4] = [
    ("additive attention", additive_attention),
    ("dot-product attention", dot_product_attention),
    ("additive score", additive_score),
    ("masked softmax", softmax),
];

const SCALE: f64 = 0.25;

fn additive_attention(case: &Case, device: &Device) -> [Measured; 2] {
    let (q, k, v, w) = (case.queries(), case.keys(), case.values(), Case::weight());
    let gradient = case.gradient(VALUE_SIZE);
    let expected = case.with_kernel_mask(|mask| {
        let inputs = kernels::AdditiveAttentionInputs {
            score: kernels::AdditiveScoreInputs {
                queries: Rows::contiguous(&q, case.query_shape(SIZE)),
                keys: Rows::contiguous(&k, case.key_shape(SIZE)),
                weight: &w,
                mask,
            },
            values: Rows::contiguous(&v, case.key_shape(VALUE_SIZE)),
            packed_keys: None,
            dropout: None,
        };
        let mut context = vec![0.0; gradient.len()];
        let mut lse = vec![[0.0; 2]; gradient.len() / VALUE_SIZE];
        inputs.forward(Level::current(), &mut context, &mut lse);
        let shape = case.query_shape(VALUE_SIZE);
        let outputs = AttentionOutputs {
            context: Rows::contiguous(&context, shape),
            lse: &lse,
            weights: None,
            context_gradient: Rows::contiguous(&gradient, shape),
        };
        let [mut dq, mut dk, mut dv, mut dw] = [&q, &k, &v, &w].map(|x| vec![0.0; x.len()]);
        let gradients = kernels::AdditiveAttentionGradients {
            queries: &mut dq,
            keys: &mut dk,
            values: &mut dv,
            weight: &mut dw,
        };
        inputs.backward(Level::current(), &outputs, gradients);
        [context, dq, dk, dv, dw]
    });
    measure(expected, || {
        let [queries, keys, values] = [
            leaf(&q, case.query_shape(SIZE), device),
            leaf(&k, case.key_shape(SIZE), device),
            leaf(&v, case.key_shape(VALUE_SIZE), device),
        ];
        let weight = leaf(&w, [SIZE], device);
        let memory = Memory::of_projected(keys.clone(), values.clone(), case.mask(device));
        let context = functional::additive_attention(queries.clone(), &memory, weight.clone(), 0.0);
        let grad = tensor(&gradient, case.query_shape(VALUE_SIZE), device);
        let backward = move |loss: Tensor<1>| {
            let grads = loss.backward();
            vec![
                read(queries.grad(&grads)),
                read(keys.grad(&grads)),
                read(values.grad(&grads)),
                read(weight.grad(&grads)),
            ]
        };
        Run::new(context, grad, backward)
    })
}

fn dot_product_attention(case: &Case, device: &Device) -> [Measured; 2] {
    let case = &case.of_dot_products();
    let (q, k, v) = (case.queries(), case.keys(), case.values());
    let gradient = case.gradient(VALUE_SIZE);
    let expected = case.with_kernel_mask(|mask| {
        let inputs = kernels::DotProductAttentionInputs {
            queries: Rows::contiguous(&q, case.query_shape(SIZE)),
            keys: Rows::contiguous(&k, case.key_shape(SIZE)),
            values: Rows::contiguous(&v, case.key_shape(VALUE_SIZE)),
            bias: None,
            mask,
            scale: SCALE,
            dropout: None,
        };
        let mut context = vec![0.0; gradient.len()];
        let mut lse = vec![[0.0; 2]; gradient.len() / VALUE_SIZE];
        inputs.forward(Level::current(), &mut context, &mut lse);
        let shape = case.query_shape(VALUE_SIZE);
        let outputs = AttentionOutputs {
            context: Rows::contiguous(&context, shape),
            lse: &lse,
            weights: None,
            context_gradient: Rows::contiguous(&gradient, shape),
        };
        let [mut dq, mut dk, mut dv] = [&q, &k, &v].map(|x| vec![0.0; x.len()]);
        let gradients = kernels::DotProductAttentionGradients {
            queries: &mut dq,
            keys: &mut dk,
            values: &mut dv,
            bias: None,
        };
        inputs.backward(Level::current(), &outputs, gradients);
        [context, dq, dk, dv]
    });
    measure(expected, || {
        let [queries, keys, values] = [
            leaf(&q, case.query_shape(SIZE), device),
            leaf(&k, case.key_shape(SIZE), device),
            leaf(&v, case.key_shape(VALUE_SIZE), device),
        ];
        let memory = Memory::of_projected(keys.clone(), values.clone(), case.mask(device));
        let context = functional::dot_product_attention(queries.clone(), &memory, SCALE, None, 0.0);
        let grad = tensor(&gradient, case.query_shape(VALUE_SIZE), device);
        let backward = move |loss: Tensor<1>| {
            let grads = loss.backward();
            vec![
                read(queries.grad(&grads)),
                read(keys.grad(&grads)),
                read(values.grad(&grads)),
            ]
        };
        Run::new(context, grad, backward)
    })
}

fn additive_score(case: &Case, device: &Device) -> [Measured; 2] {
    let (q, k, w) = (case.queries(), case.keys(), Case::weight());
    let gradient = case.gradient(KEYS);
    let expected = case.with_kernel_mask(|mask| {
        let inputs = kernels::AdditiveScoreInputs {
            queries: Rows::contiguous(&q, case.query_shape(SIZE)),
            keys: Rows::contiguous(&k, case.key_shape(SIZE)),
            weight: &w,
            mask,
        };
        let mut scores = vec![0.0; gradient.len()];
        inputs.forward(Level::current(), &mut scores);
        let [mut dq, mut dk, mut dw] = [&q, &k, &w].map(|x| vec![0.0; x.len()]);
        let gradients = kernels::AdditiveScoreGradients {
            queries: &mut dq,
            keys: &mut dk,
            weight: &mut dw,
        };
        let received = Rows::contiguous(&gradient, case.query_shape(KEYS));
        inputs.backward(Level::current(), received, gradients);
        [scores, dq, dk, dw]
    });
    measure(expected, || {
        let queries = leaf(&q, case.query_shape(SIZE), device);
        let keys = leaf(&k, case.key_shape(SIZE), device);
        let weight = leaf(&w, [SIZE], device);
        let mask = case.mask(device);
        let scores =
            functional::additive_score(queries.clone(), keys.clone(), weight.clone(), &mask);
        let grad = tensor(&gradient, case.query_shape(KEYS), device);
        let backward = move |loss: Tensor<1>| {
            let grads = loss.backward();
            vec![
                read(queries.grad(&grads)),
                read(keys.grad(&grads)),
                read(weight.grad(&grads)),
            ]
        };
        Run::new(scores, grad, backward)
    })
}

fn softmax(case: &Case, device: &Device) -> [Measured; 2] {
    let case = &case.of_dot_products();
    let shape = case.query_shape(KEYS);
    let (scores, gradient) = (
        case.queries()
            .into_iter()
            .cycle()
            .take(shape.iter().product()),
        case.gradient(KEYS),
    );
    let scores: Vec<f64> = scores.collect();
    let expected = case.with_kernel_mask(|mask| {
        let rows = |elements| Rows::contiguous(elements, shape);
        let [mut weights, mut to_scores] = [&scores; 2].map(|x| vec![0.0; x.len()]);
        kernels::masked_softmax(Level::current(), &mask, rows(&scores), &mut weights);
        kernels::masked_softmax_backward(
            Level::current(),
            rows(&weights),
            rows(&gradient),
            &mut to_scores,
        );
        [weights, to_scores]
    });
    measure(expected, || {
        let scores = leaf(&scores, shape, device);
        let weights = masked_softmax(scores.clone(), &case.mask(device));
        let grad = tensor(&gradient, shape, device);
        let backward = move |loss: Tensor<1>| vec![read(scores.grad(&loss.backward()))];
        Run::new(weights, grad, backward)
    })
}

/// A finished forward pass, and how to get the gradients.
pub(super) struct Run<F> {
    result: Tensor<4>,
    gradient: Tensor<4>,
    backward: F,
}

impl<F: FnOnce(Tensor<1>) -> Vec<Vec<f64>>> Run<F> {
    pub(super) fn new(result: Tensor<4>, gradient: Tensor<4>, backward: F) -> Self {
        Self {
            result,
            gradient,
            backward,
        }
    }
}

/// Runs twice, and compares what came the second time: first the result, then the gradients.
pub(super) fn measure<F, const N: usize>(
    expected: [Vec<f64>; N],
    run: impl Fn() -> Run<F>,
) -> [Measured; 2]
where
    F: FnOnce(Tensor<1>) -> Vec<Vec<f64>>,
{
    let once = || {
        let start = Instant::now();
        let Run {
            result,
            gradient,
            backward,
        } = run();
        let forward = read(Some(result.clone()));
        let forward_time = start.elapsed();
        let start = Instant::now();
        let gradients = backward((result * gradient).sum());
        (forward, forward_time, gradients, start.elapsed())
    };
    once();
    let (forward, forward_time, gradients, backward_time) = once();
    let [expected_forward, expected_gradients @ ..] = &expected[..] else {
        unreachable!("there is a result");
    };
    let errors = gradients.iter().zip(expected_gradients);
    [
        Measured {
            error: error(&forward, expected_forward),
            time: forward_time,
        },
        Measured {
            error: errors.fold(0.0, |most, (actual, expected)| {
                larger(most, error(actual, expected))
            }),
            time: backward_time,
        },
    ]
}

/// The largest error, of the largest element; NaN counts as the largest.
fn error(actual: &[f64], expected: &[f64]) -> f64 {
    let magnitude = expected
        .iter()
        .fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
    let errors = actual.iter().zip(expected).map(|(a, e)| (a - e).abs());
    errors.fold(0.0, larger) / magnitude
}

fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

pub(super) fn tensor<const D: usize>(
    elements: &[f64],
    shape: [usize; D],
    device: &Device,
) -> Tensor<D> {
    let elements = elements.iter().map(|x| *x as f32).collect();
    let data = TensorData::new::<f32, _>(elements, shape);
    Tensor::from_data(data, (device, DType::F32))
}

pub(super) fn leaf<const D: usize>(
    elements: &[f64],
    shape: [usize; D],
    device: &Device,
) -> Tensor<D> {
    tensor(elements, shape, device).require_grad()
}

/// The elements; NaN if there is no tensor.
pub(super) fn read<const D: usize>(tensor: Option<Tensor<D>>) -> Vec<f64> {
    let data = tensor.map(|tensor| tensor.into_data().convert::<f64>());
    let elements = data.and_then(|data| data.try_into_vec::<f64>().ok());
    elements.unwrap_or_else(|| vec![f64::NAN])
}
