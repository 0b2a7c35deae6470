//! Calls with options, on the host and on devices, and their steps in plain loops.

use attention_core::functional::{AttentionOptions, AttentionSteps};
use attention_tests::parameters::gradient;
use attention_tests::{Array, MaskSpec, assert_close, oracle};
use burn::tensor::{DType, Device, Tensor};

pub(super) const BATCH: usize = 2;
pub(super) const HEADS: usize = 6;
pub(super) const KEY_HEADS: usize = 3;
pub(super) const SIZE: usize = 11;
pub(super) const VALUE_SIZE: usize = 13;
pub(super) const SCALE: f64 = 0.4;

/// Options on the host.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) cap: Option<f64>,
    pub(super) bias: Option<Array>,
    pub(super) relative: Option<Array>,
    pub(super) sinks: Option<Array>,
    pub(super) zero_key: bool,
    /// Keys and values.
    pub(super) extra: Option<[Array; 2]>,
}

/// A call on the host.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Queries, keys, values, and the weight of the additive score.
    pub(super) inputs: [Array; 4],
    pub(super) options: Options,
    pub(super) mask: MaskSpec,
}

/// The steps of a call in plain loops.
pub(super) struct Expected {
    pub(super) scores: Array,
    pub(super) capped: Array,
    pub(super) masked: Array,
    pub(super) weights: Array,
    pub(super) context: Array,
}

impl Call {
    pub(super) fn new([queries, keys]: [usize; 2], options: Options, mask: MaskSpec) -> Self {
        Self {
            inputs: [
                Array::draw(1, &[BATCH, HEADS, queries, SIZE]),
                Array::draw(2, &[BATCH, KEY_HEADS, keys, SIZE]),
                Array::draw(3, &[BATCH, KEY_HEADS, keys, VALUE_SIZE]),
                Array::draw(4, &[SIZE]),
            ],
            options,
            mask,
        }
    }

    pub(super) fn pairs(&self) -> [usize; 4] {
        let [queries, keys, ..] = &self.inputs;
        [BATCH, HEADS, queries.shape[2], keys.shape[2]]
    }

    /// `raw` of query and key.
    pub(super) fn expected(&self, raw: impl Fn(&[f64], &[f64]) -> f64) -> Expected {
        let shape @ [_, _, num_queries, num_keys] = self.pairs();
        let [queries, keys, values, _] = &self.inputs;
        let options = &self.options;
        // An axis of size 1 is for all; a head of keys is for some heads.
        let element = |from: &Array, [b, h, i, x]: [usize; 4]| {
            let [batch, heads, rows, size] = [0, 1, 2, 3].map(|axis| from.shape[axis]);
            let h = h * heads / HEADS;
            from.at(&[b.min(batch - 1), h, i.min(rows - 1), x.min(size - 1)])
        };
        let row = |from: &Array, [b, h, i]: [usize; 3]| -> Vec<f64> {
            let size = from.shape[3];
            (0..size).map(|x| element(from, [b, h, i, x])).collect()
        };
        let score = |keys: &Array, [b, h, i, j]: [usize; 4]| {
            raw(&row(queries, [b, h, i]), &row(keys, [b, h, j]))
        };
        let capped = |score: f64| match options.cap {
            Some(cap) => cap * (score / cap).tanh(),
            None => score,
        };
        let scores = Array::from_fn(&shape, |at| score(keys, [at[0], at[1], at[2], at[3]]));
        let of_caps = scores.map(capped);
        let masked = Array::from_fn(&shape, |at| {
            let at @ [b, h, i, j] = [at[0], at[1], at[2], at[3]];
            let bias = |bias: &Option<Array>, at| bias.as_ref().map_or(0.0, |it| element(it, at));
            let of_distance = bias(&options.relative, [b, h, 0, j + num_queries - 1 - i]);
            match self.mask.attends(shape, at) {
                true => of_caps.at(&at) + bias(&options.bias, at) + of_distance,
                false => f64::NEG_INFINITY,
            }
        });
        // Behind the keys stand further ones, a sink and the zero key, of which the last two have values of 0.
        let extra = options.extra.as_ref();
        let num_extra = extra.map_or(0, |[keys, _]| keys.shape[2]);
        let all = num_keys + num_extra + 2;
        let beside = Array::from_fn(&[BATCH, HEADS, num_queries, all], |at| {
            let [b, h, i] = [at[0], at[1], at[2]];
            match (at[3].checked_sub(num_keys), extra, &options.sinks) {
                (None, ..) => masked.at(at),
                (Some(n), Some([keys, _]), _) if n < num_extra => capped(score(keys, [b, h, i, n])),
                (Some(n), _, Some(sinks)) if n == num_extra => sinks.at(&[h]),
                (Some(n), ..) if n > num_extra && options.zero_key => 0.0,
                _ => f64::NEG_INFINITY,
            }
        });
        let values = Array::from_fn(&[BATCH, HEADS, all, VALUE_SIZE], |at| {
            let [b, h, x] = [at[0], at[1], at[3]];
            match (at[2].checked_sub(num_keys), extra) {
                (None, _) => element(values, [b, h, at[2], x]),
                (Some(n), Some([_, values])) if n < num_extra => element(values, [b, h, n, x]),
                _ => 0.0,
            }
        });
        let weights = oracle::masked_softmax(&beside, &MaskSpec::None);
        Expected {
            scores,
            capped: of_caps,
            masked,
            context: oracle::weighted_sum(&weights, &values),
            weights: Array::from_fn(&shape, |at| weights.at(at)),
        }
    }

    /// The tensors, each a leaf, and the options.
    pub(super) fn on(&self, device: &Device) -> (Vec<Tensor<4>>, Vec<Tensor<1>>, AttentionOptions) {
        let rows = |array: &Array| array.leaf::<4>(device, DType::F32);
        let vector = |array: &Array| array.leaf::<1>(device, DType::F32);
        let [queries, keys, values, weight] = &self.inputs;
        let own = &self.options;
        let options = AttentionOptions {
            mask: self.mask.mask(device),
            soft_cap: own.cap,
            bias: own.bias.as_ref().map(rows),
            relative_bias: own.relative.as_ref().map(rows),
            sinks: own.sinks.as_ref().map(vector),
            zero_key: own.zero_key,
            extra_keys: own.extra.as_ref().map(|extra| extra.each_ref().map(rows)),
            ..Default::default()
        };
        let mut leaves: Vec<_> = [queries, keys, values].map(rows).into();
        leaves.extend(options.bias.clone());
        leaves.extend(options.relative_bias.clone());
        leaves.extend(options.extra_keys.clone().into_iter().flatten());
        let mut vectors = vec![vector(weight)];
        vectors.extend(options.sinks.clone());
        (leaves, vectors, options)
    }
}

pub(super) fn sizes() -> [[usize; 2]; 4] {
    // Decoding, about a tile, more queries than keys, and beyond tiles.
    [[1, 7], [5, 7], [9, 5], [53, 139]]
}

/// Every option by itself in all its shapes, and all together.
#[rustfmt::skip]
pub(super) fn options([queries, keys]: [usize; 2]) -> Vec<(&'static str, Options)> {
    let none = Options::default();
    let bias = |shape: [usize; 4]| Some(Array::draw(5, &shape));
    let relative = |batch, heads| Some(Array::draw(6, &[batch, heads, 1, queries + keys - 1]));
    let sinks = Some(Array::draw(7, &[HEADS]));
    let extra = |batch| {
        Some([Array::draw(8, &[batch, KEY_HEADS, 2, SIZE]), Array::draw(9, &[batch, KEY_HEADS, 2, VALUE_SIZE])])
    };
    vec![
        ("a soft-cap", Options { cap: Some(1.7), ..none.clone() }),
        ("a bias of all", Options { bias: bias([BATCH, HEADS, queries, keys]), ..none.clone() }),
        ("a bias of pairs", Options { bias: bias([1, 1, queries, keys]), ..none.clone() }),
        ("a bias of heads", Options { bias: bias([1, HEADS, queries, keys]), ..none.clone() }),
        ("a bias of keys", Options { bias: bias([BATCH, 1, 1, keys]), ..none.clone() }),
        ("distances", Options { relative: relative(1, HEADS), ..none.clone() }),
        ("distances of examples", Options { relative: relative(BATCH, 1), ..none.clone() }),
        ("sinks", Options { sinks: sinks.clone(), ..none.clone() }),
        ("a zero key", Options { zero_key: true, ..none.clone() }),
        ("further keys", Options { extra: extra(1), ..none.clone() }),
        (
            "all",
            Options {
                cap: Some(2.3),
                bias: bias([BATCH, 1, queries, keys]),
                relative: relative(1, HEADS),
                sinks,
                zero_key: true,
                extra: extra(BATCH),
            },
        ),
    ]
}

pub(super) fn masks([queries, keys]: [usize; 2]) -> Vec<MaskSpec> {
    vec![
        MaskSpec::None,
        MaskSpec::Causal.and(MaskSpec::lens(&[keys as i64 - 2, 1])),
        // Intervals that begin after the first key.
        MaskSpec::window(1, 2).and(MaskSpec::lens(&[keys as i64, keys as i64 - 1])),
        MaskSpec::drawn(3, &[BATCH, HEADS, queries, keys], 0.6),
    ]
}

/// Gradients of all leaves, of the sum of results with drawn factors.
pub(super) fn gradients(
    context: Tensor<4>,
    leaves: &[Tensor<4>],
    vectors: &[Tensor<1>],
) -> Vec<Array> {
    let factors = Array::draw(11, &context.dims()).f32::<4>(&context.device());
    let gradients = (context * factors).sum().backward();
    let of_leaves = leaves.iter().map(|leaf| gradient(leaf, Some(&gradients)));
    let of_vectors = vectors.iter().map(|leaf| gradient(leaf, Some(&gradients)));
    of_leaves.chain(of_vectors).collect()
}

pub(super) fn check_steps(what: &str, steps: AttentionSteps<4>, expected: &Expected) {
    let finite = |array: Array| array.map(|x| if x == f64::NEG_INFINITY { -1e3 } else { x });
    let expected_masked = finite(expected.masked.clone());
    let masked = finite(Array::read(steps.masked));
    let of_context = format!("{what}: context");
    assert_close(of_context, steps.context, &expected.context, 1e-5);
    for (step, got, expected) in [
        ("scores", Array::read(steps.scores), &expected.scores),
        ("capped", Array::read(steps.capped), &expected.capped),
        ("masked", masked, &expected_masked),
        ("weights", Array::read(steps.weights), &expected.weights),
    ] {
        // Elements of further keys stand behind.
        let got = Array::from_fn(&expected.shape, |at| got.at(at));
        assert_close(format!("{what}: {step}"), &got, expected, 1e-5);
    }
}
