//! The operations of the door by the kernels of `attention-kernels`: from tensors to slices and back.
//!
//! Half precision is computed in `f32`.

use attention_kernels::{
    AdditiveAttention, AdditiveAttentionGradients, AdditiveGradients, AdditiveScore, DotProduct,
    DotProductGradients, Dropout, Level, Mask, Rows, dot_product_backward, dot_product_forward,
};
use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Backend, TensorMetadata, get_device_settings};
use burn::tensor::{DType, Distribution, FloatDType, Shape, TensorData, try_read_sync};

use super::MaskPrimitive;
use super::host::{HostBackend, HostReal, HostSlice};

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
                [
                    at(&start, start_shape, batch, query),
                    at(&end, end_shape, batch, query),
                ]
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
            MaskPrimitive::IntervalsAndDense {
                start,
                end,
                keep: flags,
            } => Self {
                intervals: intervals(start, end),
                keep: keep(flags),
            },
        }
    }

    /// The keys that no query sees, true where hidden, `[batch, heads or 1, 1, keys]`; `None` if there are none. In
    /// time that grows with queries + keys but for a dense mask.
    pub(super) fn padding(&self, batch: usize, num_keys: usize) -> Option<(Vec<bool>, [usize; 4])> {
        let heads = self.keep.as_ref().map_or(1, |(_, shape)| shape[1]);
        let queries = [
            self.intervals.as_ref().map_or(1, |(_, shape)| shape[1]),
            self.keep.as_ref().map_or(1, |(_, shape)| shape[2]),
        ];
        let num_queries = queries[0].max(queries[1]);
        let mask = self.as_mask();
        let mut hidden = Vec::with_capacity(batch * heads * num_keys);
        for row in 0..batch * heads {
            let seen = mask.seen_keys(row / heads, row % heads, num_queries, num_keys);
            hidden.extend(seen.into_iter().map(|seen| !seen));
        }
        hidden
            .contains(&true)
            .then_some((hidden, [batch, heads, 1, num_keys]))
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
    let bounds = data
        .iter::<i64>()
        .map(|bound| usize::try_from(bound).unwrap_or(0));
    (bounds.collect(), [batch, queries])
}

/// What a backend in this process reads is there at once.
fn synchronously<E: std::fmt::Debug>(data: Option<Result<TensorData, E>>) -> TensorData {
    data.expect("a tensor in memory can be read")
        .expect("a tensor in memory can be read")
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

/// Where [`super::AttentionOps::fill_padding`] fills: the rows of `[batch, heads, keys, size]` that no query sees.
pub(super) fn padding<B: Backend>(
    tensor: &FloatTensor<B>,
    mask: &HostMask,
) -> Option<BoolTensor<B>> {
    let [batch, _, num_keys, _] = tensor.shape().dims();
    let (hidden, [batch, heads, _, _]) = mask.padding(batch, num_keys)?;
    let data = TensorData::new(hidden, [batch, heads, num_keys, 1]);
    let device = tensor.device();
    let dtype = get_device_settings::<B>(&device).bool_dtype;
    let hidden = B::bool_from_data(data.convert_dtype(dtype.into()), &device);
    Some(B::bool_expand(hidden, tensor.shape()))
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

/// The context, and the logarithm of each row's sum, from which the backward pass computes the weights again.
pub(super) struct Attended<B: Backend> {
    /// `[batch, heads, queries, value_size]`
    pub(super) context: FloatTensor<B>,
    /// `[batch, heads, queries]`, not narrowed to half precision.
    pub(super) lse: FloatTensor<B>,
}

/// Gradients that are there already, to add to in place: of keys and of values.
pub(super) type Existing<B> = [Option<FloatTensor<B>>; 2];

/// Dropout with a seed from the backend's generator, if the probability is not 0.
pub(super) fn draw_dropout<B: Backend>(probability: f64, like: &FloatTensor<B>) -> Option<Dropout> {
    if probability == 0.0 {
        return None;
    }
    let uniform = Distribution::Uniform(0.0, 1.0);
    let draw = B::float_random([4].into(), uniform, &like.device(), FloatDType::F32);
    let data = synchronously(try_read_sync(B::float_into_data(draw)));
    // Sixteen bits of each number: an `f32` below 1 has at least as many.
    let seed = data.iter::<f64>().fold(0, |seed: u64, number| {
        seed << 16 | (number * 65536.0) as u64
    });
    Some(Dropout::new(probability, seed))
}

/// The numbers of `existing`, without a copy if nothing else holds them, or zeros.
fn take<B: Backend, E: HostReal>(existing: Option<FloatTensor<B>>, shape: &Shape) -> Vec<E> {
    match existing {
        Some(tensor) => {
            let data = synchronously(try_read_sync(B::float_into_data(widened::<B>(tensor))));
            data.try_into_vec()
                .expect("gradients have the type of their tensors")
        }
        None => zeros(shape),
    }
}

fn dot_product<'a, E: HostReal>(
    [(q, q_shape), (k, k_shape), (v, v_shape)]: [(&'a HostSlice<E>, Shape); 3],
    mask: &'a HostMask,
    scale: f64,
    dropout: Option<Dropout>,
) -> DotProduct<'a, E> {
    DotProduct {
        queries: rows(q, &q_shape),
        keys: rows(k, &k_shape),
        values: rows(v, &v_shape),
        bias: None,
        mask: mask.as_mask(),
        scale: E::from_f64(scale),
        dropout,
    }
}

/// [`super::AttentionOps::attention`], dropout drawn before.
pub(super) fn attention<B: HostBackend>(
    [queries, keys, values]: [FloatTensor<B>; 3],
    mask: &HostMask,
    scale: f64,
    dropout: Option<Dropout>,
) -> Attended<B> {
    let dtype = queries.dtype();
    let [queries, keys, values] = [queries, keys, values].map(widened::<B>);
    let (context_shape, lse_shape) = attended_shapes::<B>(&queries, &values);
    let (context, lse) = with_real!(queries.dtype(), E => {
        let (q, k, v) = (read::<B, E>(&queries), read::<B, E>(&keys), read::<B, E>(&values));
        let inputs = [(&q, queries.shape()), (&k, keys.shape()), (&v, values.shape())];
        let problem = dot_product(inputs, mask, scale, dropout);
        let (mut context, mut lse) = (zeros::<E>(&context_shape), zeros::<E>(&lse_shape));
        dot_product_forward(Level::current(), &problem, &mut context, &mut lse);
        (
            tensor::<B, E>(context, context_shape, &queries),
            tensor::<B, E>(lse, lse_shape, &queries),
        )
    });
    let context = narrowed::<B>(context, dtype);
    Attended { context, lse }
}

fn attended_shapes<B: Backend>(
    queries: &FloatTensor<B>,
    values: &FloatTensor<B>,
) -> (Shape, Shape) {
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, _, value_size] = values.shape().dims();
    (
        [batch, heads, num_queries, value_size].into(),
        [batch, heads, num_queries].into(),
    )
}

/// The gradients of [`attention`]: of queries, keys and values.
pub(super) fn attention_backward<B: HostBackend>(
    [queries, keys, values]: [FloatTensor<B>; 3],
    mask: &HostMask,
    scale: f64,
    dropout: Option<Dropout>,
    attended: Attended<B>,
    grad: FloatTensor<B>,
    existing: Existing<B>,
) -> [FloatTensor<B>; 3] {
    let dtype = queries.dtype();
    let [queries, keys, values] = [queries, keys, values].map(widened::<B>);
    let [context, grad] = [attended.context, grad].map(widened::<B>);
    let gradients = with_real!(queries.dtype(), E => {
        let (q, k, v) = (read::<B, E>(&queries), read::<B, E>(&keys), read::<B, E>(&values));
        let inputs = [(&q, queries.shape()), (&k, keys.shape()), (&v, values.shape())];
        let problem = dot_product(inputs, mask, scale, dropout);
        let (c, l, g) = (read::<B, E>(&context), read::<B, E>(&attended.lse), read::<B, E>(&grad));
        let [existing_keys, existing_values] = existing;
        let mut dq = zeros::<E>(&queries.shape());
        let mut dk = take::<B, E>(existing_keys, &keys.shape());
        let mut dv = take::<B, E>(existing_values, &values.shape());
        dot_product_backward(
            Level::current(),
            &problem,
            &numbers(&c, &context.shape()),
            &l.data,
            rows(&g, &grad.shape()),
            DotProductGradients { queries: &mut dq, keys: &mut dk, values: &mut dv, bias: None },
        );
        [
            tensor::<B, E>(dq, queries.shape(), &queries),
            tensor::<B, E>(dk, keys.shape(), &queries),
            tensor::<B, E>(dv, values.shape(), &queries),
        ]
    });
    gradients.map(|gradient| narrowed::<B>(gradient, dtype))
}

/// The tensors of [`super::AttentionOps::additive_attention`].
#[derive(Clone, Debug)]
pub(super) struct AdditiveTensors<B: Backend> {
    pub(super) queries: FloatTensor<B>,
    pub(super) keys: FloatTensor<B>,
    pub(super) values: FloatTensor<B>,
    pub(super) weight: FloatTensor<B>,
    pub(super) packed: Option<FloatTensor<B>>,
}

impl<B: Backend> AdditiveTensors<B> {
    fn widened(self) -> Self {
        Self {
            queries: widened::<B>(self.queries),
            keys: widened::<B>(self.keys),
            values: widened::<B>(self.values),
            weight: widened::<B>(self.weight),
            packed: self.packed,
        }
    }
}

/// The slices of [`AdditiveTensors`].
struct AdditiveSlices<'a, E: HostReal> {
    queries: HostSlice<'a, E>,
    keys: HostSlice<'a, E>,
    values: HostSlice<'a, E>,
    weight: Vec<E>,
    packed: Option<HostSlice<'a, E>>,
}

impl<'a, E: HostReal> AdditiveSlices<'a, E> {
    fn new<B: HostBackend>(tensors: &'a AdditiveTensors<B>) -> Self {
        let weight = read::<B, E>(&tensors.weight);
        Self {
            queries: read::<B, E>(&tensors.queries),
            keys: read::<B, E>(&tensors.keys),
            values: read::<B, E>(&tensors.values),
            weight: numbers(&weight, &tensors.weight.shape()).into_owned(),
            packed: tensors.packed.as_ref().map(read::<B, E>),
        }
    }

    fn problem<B: HostBackend>(
        &self,
        tensors: &AdditiveTensors<B>,
        mask: &'a HostMask,
        dropout: Option<Dropout>,
    ) -> AdditiveAttention<'_, E> {
        let packed_len = |packed: &FloatTensor<B>| packed.shape().num_elements();
        let packed = self
            .packed
            .as_ref()
            .zip(tensors.packed.as_ref().map(packed_len));
        AdditiveAttention {
            score: AdditiveScore {
                queries: rows(&self.queries, &tensors.queries.shape()),
                keys: rows(&self.keys, &tensors.keys.shape()),
                weight: &self.weight,
                mask: mask.as_mask(),
            },
            values: rows(&self.values, &tensors.values.shape()),
            packed_keys: packed.map(|(slice, len)| &slice.data[..len]),
            dropout,
        }
    }
}

/// [`super::AttentionOps::pack_additive_keys`]
pub(super) fn pack_additive_keys<B: HostBackend>(
    keys: FloatTensor<B>,
    mask: &HostMask,
    num_queries: usize,
) -> FloatTensor<B> {
    let keys = widened::<B>(keys);
    with_real!(keys.dtype(), E => {
        let k = read::<B, E>(&keys);
        let shape = keys.shape();
        let packed = AdditiveScore::packed_keys(rows(&k, &shape), mask.as_mask(), num_queries, Level::current());
        tensor::<B, E>(packed, AdditiveScore::<E>::packed_shape(shape.dims()), &keys)
    })
}

/// [`super::AttentionOps::additive_attention`], dropout drawn before.
pub(super) fn additive_attention<B: HostBackend>(
    tensors: AdditiveTensors<B>,
    mask: &HostMask,
    dropout: Option<Dropout>,
) -> Attended<B> {
    let dtype = tensors.queries.dtype();
    let tensors = tensors.widened();
    let (context_shape, lse_shape) = attended_shapes::<B>(&tensors.queries, &tensors.values);
    let (context, lse) = with_real!(tensors.queries.dtype(), E => {
        let slices = AdditiveSlices::<E>::new(&tensors);
        let (mut context, mut lse) = (zeros::<E>(&context_shape), zeros::<E>(&lse_shape));
        slices.problem(&tensors, mask, dropout).forward(Level::current(), &mut context, &mut lse);
        (
            tensor::<B, E>(context, context_shape, &tensors.queries),
            tensor::<B, E>(lse, lse_shape, &tensors.queries),
        )
    });
    let context = narrowed::<B>(context, dtype);
    Attended { context, lse }
}

/// The gradients of [`additive_attention`]: of queries, keys, values and weight.
pub(super) fn additive_attention_backward<B: HostBackend>(
    tensors: AdditiveTensors<B>,
    mask: &HostMask,
    dropout: Option<Dropout>,
    attended: Attended<B>,
    grad: FloatTensor<B>,
    existing: Existing<B>,
) -> [FloatTensor<B>; 4] {
    let dtype = tensors.queries.dtype();
    let tensors = tensors.widened();
    let [context, grad] = [attended.context, grad].map(widened::<B>);
    let gradients = with_real!(tensors.queries.dtype(), E => {
        let slices = AdditiveSlices::<E>::new(&tensors);
        let (c, l, g) = (read::<B, E>(&context), read::<B, E>(&attended.lse), read::<B, E>(&grad));
        let [existing_keys, existing_values] = existing;
        let mut dq = zeros::<E>(&tensors.queries.shape());
        let mut dk = take::<B, E>(existing_keys, &tensors.keys.shape());
        let mut dv = take::<B, E>(existing_values, &tensors.values.shape());
        let mut dw = zeros::<E>(&tensors.weight.shape());
        slices.problem(&tensors, mask, dropout).backward(
            Level::current(),
            &numbers(&c, &context.shape()),
            &l.data,
            rows(&g, &grad.shape()),
            AdditiveAttentionGradients {
                queries: &mut dq,
                keys: &mut dk,
                values: &mut dv,
                weight: &mut dw,
            },
        );
        [
            tensor::<B, E>(dq, tensors.queries.shape(), &tensors.queries),
            tensor::<B, E>(dk, tensors.keys.shape(), &tensors.queries),
            tensor::<B, E>(dv, tensors.values.shape(), &tensors.queries),
            tensor::<B, E>(dw, tensors.weight.shape(), &tensors.queries),
        ]
    });
    gradients.map(|gradient| narrowed::<B>(gradient, dtype))
}
