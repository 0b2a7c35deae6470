//! The operations of the door by the kernels of `attention-kernels`: from tensors to slices and back.
//!
//! Half precision is computed in `f32`.

use attention_kernels::{AdditiveGradients, AdditiveScore, Level, Mask, Rows};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, FloatDType, Shape, TensorData, try_read_sync};

use super::host::{HostBackend, HostReal, HostSlice};
use super::MaskPrimitive;

/// A mask as the kernels read it.
#[derive(Clone, Debug, Default)]
pub(super) struct HostMask {
    intervals: Option<(Vec<[usize; 2]>, [usize; 2])>,
    keep: Option<(Vec<bool>, [usize; 4])>,
}

impl HostMask {
    pub(super) fn read<B: Backend>(mask: MaskPrimitive<B>) -> Self {
        let intervals = |start, end| {
            let (start, start_shape) = read_bounds::<B>(start);
            let (end, end_shape) = read_bounds::<B>(end);
            let shape = [0, 1].map(|axis: usize| start_shape[axis].max(end_shape[axis]));
            let at = |bounds: &[usize], [batches, queries]: [usize; 2], batch, query| {
                let batch = if batches == 1 { 0 } else { batch };
                bounds[batch * queries + if queries == 1 { 0 } else { query }]
            };
            let pairs = (0..shape[0] * shape[1]).map(|index| {
                let (batch, query) = (index / shape[1], index % shape[1]);
                [at(&start, start_shape, batch, query), at(&end, end_shape, batch, query)]
            });
            Some((pairs.collect(), shape))
        };
        let keep = |keep| {
            let shape = B::BoolTensorPrimitive::shape(&keep).dims();
            let data = synchronously(try_read_sync(B::bool_into_data(keep)));
            Some((data.iter::<bool>().collect(), shape))
        };
        match mask {
            MaskPrimitive::None => Self::default(),
            MaskPrimitive::Intervals { start, end } => Self {
                intervals: intervals(start, end),
                keep: None,
            },
            MaskPrimitive::Dense { keep: flags } => Self {
                intervals: None,
                keep: keep(flags),
            },
            MaskPrimitive::IntervalsAndDense { start, end, keep: flags } => Self {
                intervals: intervals(start, end),
                keep: keep(flags),
            },
        }
    }

    fn as_mask(&self) -> Mask<'_> {
        let mask = Mask::none();
        let mask = match &self.intervals {
            Some((bounds, shape)) => mask.with_intervals(bounds, *shape),
            None => mask,
        };
        match &self.keep {
            Some((keep, shape)) => mask.with_keep(keep, *shape),
            None => mask,
        }
    }
}

/// Bounds of intervals, `[batch or 1, 1, queries or 1, 1]`.
fn read_bounds<B: Backend>(tensor: B::IntTensorPrimitive) -> (Vec<usize>, [usize; 2]) {
    let [batch, _, queries, _] = tensor.shape().dims();
    let data = synchronously(try_read_sync(B::int_into_data(tensor)));
    let bounds = data.iter::<i64>().map(|bound| usize::try_from(bound).unwrap_or(0));
    (bounds.collect(), [batch, queries])
}

/// What a backend in this process reads is there at once.
fn synchronously<E: std::fmt::Debug>(data: Option<Result<TensorData, E>>) -> TensorData {
    data.expect("a tensor in memory can be read").expect("a tensor in memory can be read")
}

/// Runs `$body` with the type alias `$E` for the dtype.
macro_rules! with_real {
    ($dtype:expr, $E:ident => $body:expr) => {
        match $dtype {
            DType::F64 => {
                type $E = f64;
                $body
            }
            _ => {
                type $E = f32;
                $body
            }
        }
    };
}

/// Half precision as `f32`; other types as they are.
fn widened<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    match tensor.dtype() {
        DType::F16 | DType::BF16 => B::float_cast(tensor, FloatDType::F32),
        _ => tensor,
    }
}

/// The inverse of [`widened`].
fn narrowed<B: Backend>(tensor: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    match tensor.dtype() == dtype {
        true => tensor,
        false => B::float_cast(tensor, dtype.into()),
    }
}

fn read<B: HostBackend, E: HostReal>(tensor: &FloatTensor<B>) -> HostSlice<'_, E> {
    B::read(tensor).expect("asked only of backends with kernels")
}

/// A tensor of four axes as the kernels see it.
fn rows<'a, E: HostReal>(slice: &'a HostSlice<E>, shape: &Shape) -> Rows<'a, E> {
    let strides = [slice.strides[0], slice.strides[1], slice.strides[2]];
    Rows::strided(&slice.data, shape.dims(), strides)
}

/// The numbers of a contiguous tensor.
fn numbers<'a, E: HostReal>(slice: &'a HostSlice<E>, shape: &Shape) -> std::borrow::Cow<'a, [E]> {
    let rank = shape.num_dims();
    let is_contiguous = (1..rank).all(|axis| {
        let inner: usize = (axis..rank).map(|axis| shape[axis]).product();
        slice.strides[axis - 1] == inner || shape[axis - 1] == 1
    });
    match is_contiguous {
        true => (&slice.data[..shape.num_elements()]).into(),
        false => {
            let rows = rows(slice, shape);
            let [batch, heads, len, _] = rows.shape();
            let mut numbers = Vec::with_capacity(shape.num_elements());
            for row in 0..batch * heads * len {
                let head = row / len;
                numbers.extend_from_slice(rows.row(head / heads, head % heads, row % len));
            }
            numbers.into()
        }
    }
}

fn tensor<B: Backend, E: HostReal>(
    numbers: Vec<E>,
    shape: impl Into<Shape>,
    like: &FloatTensor<B>,
) -> FloatTensor<B> {
    B::float_from_data(TensorData::new(numbers, shape.into()), &like.device())
}

fn zeros<E: HostReal>(shape: &Shape) -> Vec<E> {
    vec![E::ZERO; shape.num_elements()]
}

/// [`super::AttentionOps::additive_score`]
pub(super) fn additive_score<B: HostBackend>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    weight: FloatTensor<B>,
    mask: &HostMask,
) -> FloatTensor<B> {
    let dtype = queries.dtype();
    let [queries, keys, weight] = [queries, keys, weight].map(widened::<B>);
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    let shape = Shape::from([batch, heads, num_queries, num_keys]);
    let scores = with_real!(queries.dtype(), E => {
        let (q, k, w) = (read::<B, E>(&queries), read::<B, E>(&keys), read::<B, E>(&weight));
        let problem = AdditiveScore {
            queries: rows(&q, &queries.shape()),
            keys: rows(&k, &keys.shape()),
            weight: &numbers(&w, &weight.shape()),
            mask: mask.as_mask(),
        };
        let mut scores = zeros::<E>(&shape);
        problem.forward(Level::current(), &mut scores);
        tensor::<B, E>(scores, shape, &queries)
    });
    narrowed::<B>(scores, dtype)
}

/// The gradients of [`additive_score`]: of queries, keys and weight.
pub(super) fn additive_score_backward<B: HostBackend>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    weight: FloatTensor<B>,
    mask: &HostMask,
    grad: FloatTensor<B>,
) -> [FloatTensor<B>; 3] {
    let dtype = queries.dtype();
    let [queries, keys, weight, grad] = [queries, keys, weight, grad].map(widened::<B>);
    let gradients = with_real!(queries.dtype(), E => {
        let (q, k, w) = (read::<B, E>(&queries), read::<B, E>(&keys), read::<B, E>(&weight));
        let g = read::<B, E>(&grad);
        let problem = AdditiveScore {
            queries: rows(&q, &queries.shape()),
            keys: rows(&k, &keys.shape()),
            weight: &numbers(&w, &weight.shape()),
            mask: mask.as_mask(),
        };
        let inputs = [&queries, &keys, &weight];
        let [mut dq, mut dk, mut dw] = inputs.map(|input| zeros::<E>(&input.shape()));
        let gradients = AdditiveGradients { queries: &mut dq, keys: &mut dk, weight: &mut dw };
        problem.backward(Level::current(), &numbers(&g, &grad.shape()), gradients);
        [
            tensor::<B, E>(dq, queries.shape(), &queries),
            tensor::<B, E>(dk, keys.shape(), &queries),
            tensor::<B, E>(dw, weight.shape(), &queries),
        ]
    });
    gradients.map(|gradient| narrowed::<B>(gradient, dtype))
}

/// [`super::AttentionOps::masked_softmax`]
pub(super) fn masked_softmax<B: HostBackend>(
    scores: FloatTensor<B>,
    mask: &HostMask,
) -> FloatTensor<B> {
    let dtype = scores.dtype();
    let scores = widened::<B>(scores);
    let shape = scores.shape();
    let weights = with_real!(scores.dtype(), E => {
        let s = read::<B, E>(&scores);
        let mut weights = zeros::<E>(&shape);
        let numbers = numbers(&s, &shape);
        attention_kernels::masked_softmax(Level::current(), shape.dims(), &mask.as_mask(), &numbers, &mut weights);
        tensor::<B, E>(weights, shape, &scores)
    });
    narrowed::<B>(weights, dtype)
}

/// The gradient of [`masked_softmax`], from its result.
pub(super) fn masked_softmax_backward<B: HostBackend>(
    weights: FloatTensor<B>,
    grad: FloatTensor<B>,
) -> FloatTensor<B> {
    let dtype = weights.dtype();
    let [weights, grad] = [weights, grad].map(widened::<B>);
    let shape = weights.shape();
    let gradient = with_real!(weights.dtype(), E => {
        let (w, g) = (read::<B, E>(&weights), read::<B, E>(&grad));
        let (w, g) = (numbers(&w, &shape), numbers(&g, &shape));
        let mut to = zeros::<E>(&shape);
        attention_kernels::masked_softmax_backward(Level::current(), shape.dims(), &w, &g, &mut to);
        tensor::<B, E>(to, shape, &weights)
    });
    narrowed::<B>(gradient, dtype)
}
