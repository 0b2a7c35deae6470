//! The masked softmax.

use attention_kernels::{AttentionReal, Rows, masked_softmax, masked_softmax_backward};
use attention_oracle::{Attention, Axes, Bias, Modifiers, Pairs, Real, Score};
use cpu_kernels::Level;

use super::bytes::Bytes;
use super::exact::{Exact, Found, Rounded, assert_close, assert_same};
use super::kernels::outputs;
use super::owned_mask::{OwnedMask, pair};
use super::plain::exact;
use super::random::Random;
use super::tensor::{Storage, Tensor};

/// Scores to take the softmax of.
#[derive(Clone, Debug)]
struct Case {
    shape: [usize; 4],
    mask: OwnedMask,
    scores: Vec<f64>,
    gradient: Vec<f64>,
}

impl Case {
    fn from_bytes(bytes: &[u8]) -> Self {
        let bytes = &mut Bytes::new(bytes);
        let [batch, heads, queries] = [0; 3].map(|_: usize| [1, 2, 3, 4, 5, 0][bytes.next() % 6]);
        let keys = match bytes.next() {
            few @ ..200 => (few + 7) % 71,
            many => many,
        };
        let shape = [batch, heads, queries, keys];
        let mask = OwnedMask::from_bytes(bytes, shape);
        let amplitude = bytes.one_of(&[1.0, 8.0, 100.0, 1e30]);
        let masked = bytes.next() % 2;
        let mut random = Random::new(bytes.next() as u64);
        let score = |_| match random.below(16) < masked {
            true => f64::NEG_INFINITY,
            false => f64::from((random.element() * amplitude) as f32),
        };
        let scores: Vec<f64> = (0..shape.iter().product()).map(score).collect();
        let gradient = scores.iter().map(|_| random.element()).collect();
        Self {
            shape,
            mask,
            scores,
            gradient,
        }
    }

    fn is_attended(&self, at: usize) -> bool {
        self.mask.attends(pair(self.shape, at))
    }

    /// By the oracle: each row is a query, its scores the bias of a query without elements, its values their gradients.
    fn solve(&self) -> Exact {
        let [batch, heads, queries, keys] = self.shape;
        let rows = batch * heads * queries;
        let axes = Axes {
            batch: rows,
            heads: 1,
            key_heads: 1,
            queries: 1,
            keys,
        };
        let (scores, gradient) = (exact(&self.scores), exact(&self.gradient));
        let bias = Bias {
            elements: &scores,
            shape: [rows, 1, 1, keys],
        };
        let attention = Attention {
            pairs: &Pairs::new(axes, |[row, _, _, key]| self.is_attended(row * keys + key)),
            score: Score::Dot {
                scale: Rounded::ONE,
            },
            queries: &[],
            keys: &[],
            values: &gradient,
            value_size: 1,
            modifiers: Modifiers {
                bias: Some(bias),
                ..Modifiers::NONE
            },
            factors: None,
        };
        let outputs = attention.forward();
        let gradients = attention.backward(&outputs, &vec![Rounded::ONE; rows]);
        vec![("weights", outputs.weights), ("gradient", gradients.bias)]
    }

    /// By the kernels; what is masked holds `masked` if there is one.
    fn run<E: AttentionReal>(&self, on: Level, storage: Storage, masked: Option<f64>) -> Found<E> {
        let tensor = |elements: &[f64]| {
            let masked = |at| masked.filter(|_| !self.is_attended(at));
            let elements = elements.iter().enumerate();
            let data = elements.map(|(at, x)| masked(at).unwrap_or(*x)).collect();
            Tensor::contiguous(self.shape, data)
        };
        let (scores, gradient) = (tensor(&self.scores), tensor(&self.gradient));
        let [mut weights, mut score_gradients] = [0; 2].map(|_: usize| outputs(scores.data.len()));
        let stored = scores.stored(storage);
        masked_softmax(on, &self.mask.mask(), scores.view(&stored), &mut weights);
        let rows = Rows::contiguous(&weights, self.shape);
        let stored = gradient.stored(storage);
        masked_softmax_backward(on, rows, gradient.view(&stored), &mut score_gradients);
        vec![("weights", weights), ("gradient", score_gradients)]
    }
}

/// The kernels compute what the definition says, rows sum to 1 or are 0, and what is masked changes no bit.
pub(super) fn check<E: AttentionReal>(bytes: &[u8], level: Level) {
    let case = Case::from_bytes(bytes);
    let (element, on) = (std::any::type_name::<E>(), level.name());
    let what = format!("{element} on {on}: {:?}, {:?}", case.shape, case.mask);
    let found = case.run::<E>(level, Storage::Whole, None);
    let exact = case.solve();
    assert_close(&what, &found, &exact);
    for masked in [f64::NAN, f64::INFINITY, 1e30] {
        let poisoned = case.run(level, Storage::Whole, Some(masked));
        assert_same(&format!("{masked}, {what}"), &poisoned, &found);
    }
    for storage in [Storage::F16, Storage::Bf16] {
        let round = |elements: &[f64]| elements.iter().map(|x| storage.round(*x)).collect();
        let rounded = Case {
            scores: round(&case.scores),
            gradient: round(&case.gradient),
            ..case.clone()
        };
        let half = rounded.run::<E>(level, storage, Some(f64::NAN));
        let whole = rounded.run(level, Storage::Whole, None);
        assert_same(&format!("half precision, {what}"), &half, &whole);
    }
    let keys = case.shape[3].max(1);
    let rows = found[0].1.chunks(keys).zip(exact[0].1.chunks(keys));
    for (row, (weights, exact)) in rows.enumerate() {
        let sum: f64 = weights.iter().map(|weight| weight.to_f64()).sum();
        let is_empty = exact.iter().all(|weight| weight.wide() == 0.0);
        let (expected, rounding) = match (is_empty, size_of::<E>()) {
            (true, _) => (0.0, 0.0),
            (false, 4) => (1.0, 1e-6),
            (false, _) => (1.0, 1e-14),
        };
        let what = format!("{what}: row {row}");
        assert!((sum - expected).abs() <= rounding, "{what} sums to {sum}");
        for (weight, exact) in weights.iter().zip(exact) {
            let holds = exact.wide() != 0.0 || *weight == E::ZERO;
            assert!(holds, "{what}: a masked weight is {weight}");
        }
    }
}
