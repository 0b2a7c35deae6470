//! The score with a location term against plain loops in `f64`.

use attention_kernels::{AttentionReal, Level, LocationScoreGradients, LocationScoreInputs, Rows};

use crate::calls::on_threads;
use crate::owned_mask::OwnedMask;
use crate::random::Random;

/// `[batch, keys, units, channels, width]` and inputs, exact in `f32`.
struct Case {
    sizes: [usize; 5],
    queries: Vec<f64>,
    keys: Vec<f64>,
    weight: Vec<f64>,
    alignments: Vec<f64>,
    filters: Vec<f64>,
    score_gradients: Vec<f64>,
    mask: OwnedMask,
}

/// Scores, and the gradients of queries, keys, weight, alignments and filters.
type Outcome<E> = [Vec<E>; 6];

impl Case {
    /// Queries, keys, weight, alignments and filters.
    fn leaves(&self) -> [(&'static str, &[f64]); 5] {
        [
            ("queries", &self.queries),
            ("keys", &self.keys),
            ("weight", &self.weight),
            ("alignments", &self.alignments),
            ("filters", &self.filters),
        ]
    }

    fn new(sizes: [usize; 5], spread: f64) -> Self {
        let [batch, keys, units, channels, width] = sizes;
        let mut random = Random::new(sizes.iter().sum::<usize>() as u64);
        let mut elements = |len: usize, spread: f64| -> Vec<f64> {
            let element = |_| f64::from((spread * random.element()) as f32);
            (0..len).map(element).collect()
        };
        Self {
            sizes,
            queries: elements(batch * units, spread),
            keys: elements(batch * keys * units, spread),
            weight: elements(units, 1.0),
            alignments: elements(batch * channels * keys, 0.7),
            filters: elements(channels * width * units, spread),
            score_gradients: elements(batch * keys, 1.0),
            mask: OwnedMask::default(),
        }
    }

    /// Example `b` attends to some keys in the middle, and the last to none.
    fn masked(mut self) -> Self {
        let [batch, keys, ..] = self.sizes;
        let of_example = |b: usize| [b % 3, keys.saturating_sub(b).max(b % 3)];
        let mut bounds: Vec<_> = (0..batch).map(of_example).collect();
        bounds[batch - 1] = [0, 0];
        self.mask.intervals = Some((bounds, [batch, 1]));
        self
    }

    fn attends(&self, b: usize, key: usize) -> bool {
        self.mask.attends([b, 0, 0, key])
    }

    /// By loops, with sums of type `E`: in `f32` the error of a plain composition.
    fn solve(&self, round: impl Fn(f64) -> f64) -> Outcome<f64> {
        let [batch, keys, units, channels, width] = self.sizes;
        let mut scores = vec![0.0; batch * keys];
        let [mut dq, mut dk, mut dw, mut da, mut df] =
            self.leaves().map(|(_, like)| vec![0.0; like.len()]);
        for b in 0..batch {
            for j in (0..keys).filter(|j| self.attends(b, *j)) {
                let taps = || {
                    (0..channels).flat_map(move |c| {
                        (0..width).filter_map(move |t| {
                            let at = (j + t).checked_sub(width / 2).filter(|at| *at < keys)?;
                            Some(((b * channels + c) * keys + at, (c * width + t) * units))
                        })
                    })
                };
                for u in 0..units {
                    let key = self.keys[(b * keys + j) * units + u];
                    let mut x = round(self.queries[b * units + u] + key);
                    for (a, f) in taps() {
                        x = round(x + self.alignments[a] * self.filters[f + u]);
                    }
                    let (t, g) = (round(x.tanh()), self.score_gradients[b * keys + j]);
                    let w = self.weight[u];
                    let d = round(g * w * (1.0 - t * t));
                    scores[b * keys + j] = round(scores[b * keys + j] + w * t);
                    dq[b * units + u] = round(dq[b * units + u] + d);
                    dk[(b * keys + j) * units + u] = d;
                    dw[u] = round(dw[u] + g * t);
                    for (a, f) in taps() {
                        da[a] = round(da[a] + d * self.filters[f + u]);
                        df[f + u] = round(df[f + u] + d * self.alignments[a]);
                    }
                }
            }
        }
        [scores, dq, dk, dw, da, df]
    }

    /// By the kernel, with the gradients that are wanted.
    fn run<E: AttentionReal>(&self, level: Level, wanted: [bool; 5]) -> Outcome<E> {
        let [batch, keys, units, channels, width] = self.sizes;
        let narrow = |from: &[f64]| -> Vec<E> { from.iter().map(|x| E::from_f64(*x)).collect() };
        let [queries, key_rows, weight, alignments, filters] =
            self.leaves().map(|(_, from)| narrow(from));
        let gradients = narrow(&self.score_gradients);
        let inputs = LocationScoreInputs {
            queries: Rows::contiguous(&queries, [batch, 1, 1, units]),
            keys: Rows::contiguous(&key_rows, [batch, 1, keys, units]),
            weight: &weight,
            alignments: Rows::contiguous(&alignments, [batch, 1, channels, keys]),
            filters: Rows::contiguous(&filters, [1, channels, width, units]),
            mask: self.mask.mask(),
        };
        let mut scores = vec![E::from_f64(f64::NAN); batch * keys];
        inputs.forward(level, &mut scores);
        let [mut dq, mut dk, mut dw, mut da, mut df] =
            self.leaves().map(|(_, like)| vec![E::ZERO; like.len()]);
        let to = LocationScoreGradients {
            queries: wanted[0].then_some(&mut dq),
            keys: wanted[1].then_some(&mut dk),
            weight: wanted[2].then_some(&mut dw),
            alignments: wanted[3].then_some(&mut da),
            filters: wanted[4].then_some(&mut df),
        };
        inputs.backward(level, Rows::contiguous(&gradients, [batch, 1, 1, keys]), to);
        [scores, dq, dk, dw, da, df]
    }

    /// At most twice (gradients: three times) as far from the oracle as loops in `f32`, or 1e-6 of the largest.
    fn assert_precise(&self) {
        let [expected, plain] = [self.solve(|x| x), self.solve(|x| f64::from(x as f32))];
        for level in Level::available() {
            let got = self.run::<f32>(level, [true; 5]);
            let exact = self.run::<f64>(level, [true; 5]);
            let names = self.leaves().map(|(name, _)| name);
            for (n, name) in ["scores"].iter().chain(&names).enumerate() {
                let elements = expected[n].iter();
                let largest = elements.fold(1.0, |most: f64, x| most.max(x.abs()));
                let error = |of: &dyn Fn(usize) -> f64| {
                    let errors = expected[n]
                        .iter()
                        .enumerate()
                        .map(|(at, x)| (of(at) - x).abs());
                    let infinite = errors.map(|x| if x.is_nan() { f64::INFINITY } else { x });
                    infinite.fold(0.0, f64::max)
                };
                let reference = error(&|at| plain[n][at]);
                let limit = (if n == 0 { 2.0 } else { 3.0 } * reference).max(1e-6 * largest);
                let single = error(&|at| f64::from(got[n][at]));
                let double = error(&|at| exact[n][at]);
                let what = format!("{name} of {:?} at {level:?}", self.sizes);
                assert!(single <= limit, "{what}: {single:e} beyond {limit:e}");
                assert!(double <= 1e-12 * largest, "{what} in f64: {double:e}");
            }
        }
    }
}

#[test]
fn as_precise_as_loops_around_every_tile() {
    for sizes in [
        [3, 7, 11, 2, 5],
        [1, 1, 1, 1, 1],
        [2, 5, 3, 1, 31],
        [17, 33, 16, 2, 3],
        [2, 31, 17, 1, 7],
        [2, 257, 33, 2, 31],
        [35, 32, 128, 1, 17],
    ] {
        Case::new(sizes, 1.0).assert_precise();
        Case::new(sizes, 1.0).masked().assert_precise();
    }
    Case::new([3, 40, 24, 2, 9], 30.0).masked().assert_precise();
}

#[test]
fn sizes_of_zero_give_nothing() {
    for axis in 0..4 {
        let mut sizes = [2, 3, 5, 1, 3];
        sizes[axis] = 0;
        let case = Case::new(sizes, 1.0);
        let outcome = case.run::<f32>(Level::current(), [true; 5]);
        if axis < 3 {
            assert!(outcome.iter().flatten().all(|x| *x == 0.0), "{sizes:?}");
        } else {
            case.assert_precise();
        }
    }
}

#[test]
fn masked_keys_are_not_read() {
    let clean = Case::new([4, 37, 19, 2, 5], 1.0).masked();
    let mut poisoned = Case::new([4, 37, 19, 2, 5], 1.0).masked();
    let [_, keys, units, ..] = poisoned.sizes;
    for (row, to) in poisoned.keys.chunks_exact_mut(units).enumerate() {
        if !clean.attends(row / keys, row % keys) {
            to.fill(f64::NAN);
            poisoned.score_gradients[row] = f64::NAN;
        }
    }
    for level in Level::available() {
        let [clean, poisoned] = [&clean, &poisoned].map(|case| case.run::<f32>(level, [true; 5]));
        assert_eq!(clean, poisoned, "{level:?}");
    }
}

#[test]
fn wanted_gradients_and_threads_change_no_bit() {
    let case = Case::new([37, 70, 20, 2, 7], 1.0).masked();
    for level in Level::available() {
        let all = case.run::<f32>(level, [true; 5]);
        for threads in [1, 3] {
            let again = on_threads(threads, || case.run::<f32>(level, [true; 5]));
            assert_eq!(again, all);
        }
        for (n, (name, _)) in case.leaves().into_iter().enumerate() {
            let one = case.run::<f32>(level, std::array::from_fn(|other| other == n));
            for (other, gradient) in one[1..].iter().enumerate() {
                if other == n {
                    assert_eq!(gradient, &all[n + 1], "{name} alone");
                } else {
                    assert!(gradient.iter().all(|x| *x == 0.0));
                }
            }
        }
    }
}
