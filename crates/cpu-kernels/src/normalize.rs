//! Normalization of rows, by mean and standard deviation or by the root mean square.
//!
//! Forward, `y = h gain + bias` with `h = (x - mean) / std`, where `std^2` is the mean of `(x - mean)^2` plus epsilon;
//! for the root mean square the mean is replaced by 0. Mean and `1 / std` of each row are saved. Backward, with the
//! gradient `g` of `y` and `d = g gain`, and means over the row:
//!
//! ```text
//! dx = (d - mean(d) - h mean(d h)) / std        dgain = sum of g h over the rows        dbias = sum of g
//! ```
//!
//! where the root mean square has no term `mean(d)`.

use crate::checks::check_len;
use crate::simd::{Job, Level, Simd};
use crate::slices::PartialSums;
use crate::threads::{TASK_ELEMENTS, for_each, for_each_with};
use crate::tiles::NORMALIZED_ROWS;
use crate::{LayerReal, Real};

const OPERATION: &str = "normalization";

/// Rows to be normalized, each by itself: `(x - mean) / sqrt(variance + epsilon) * gain + bias`, or `x / sqrt(mean
/// square + epsilon) * gain + bias`.
///
/// # Shapes
/// - rows `[rows, size]`, gain and bias `[size]`
#[derive(Clone, Copy, Debug)]
pub struct NormalizationInputs<'a, E> {
    /// The rows, contiguous.
    pub rows: &'a [E],
    /// The factor of each feature.
    pub gain: &'a [E],
    /// The number added to each feature.
    pub bias: Option<&'a [E]>,
    /// The number added to the variance, or to the mean square.
    pub epsilon: f64,
    /// Whether rows are normalized by mean and variance, instead of by the mean square.
    pub is_centered: bool,
}

/// The requested gradients, to write to; contiguous, with the shapes of the inputs.
#[derive(Debug)]
pub struct NormalizationGradients<'a, E> {
    /// The gradient of the rows.
    pub rows: Option<&'a mut [E]>,
    /// The gradient of the gain.
    pub gain: Option<&'a mut [E]>,
    /// The gradient of the bias.
    pub bias: Option<&'a mut [E]>,
}

impl<E: LayerReal> NormalizationInputs<'_, E> {
    /// Writes the normalized rows, and the statistics of each: the mean, which is 0 if rows are not centered, and `1 /
    /// sqrt(variance + epsilon)`.
    ///
    /// # Shapes
    /// - output `[rows, size]`, statistics `[rows, 2]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, level: Level, output: &mut [E], statistics: &mut [E]) {
        E::normalize(self, level, output, statistics);
    }

    /// Writes the requested gradients, from the statistics of the rows and the gradient of the normalized ones. The
    /// number of threads and the choice of gradients change no bit.
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn backward(
        &self,
        level: Level,
        statistics: &[E],
        gradient: &[E],
        gradients: NormalizationGradients<E>,
    ) {
        E::normalize_backward(self, level, statistics, gradient, gradients);
    }
}

impl<E: Real> NormalizationInputs<'_, E> {
    /// The number of rows.
    ///
    /// # Panics
    /// If the shapes do not fit together.
    fn check(&self) -> usize {
        let size = self.gain.len();
        let count = self.rows.len().checked_div(size).unwrap_or(0);
        check_len(OPERATION, "rows", [count, size], self.rows.len());
        if let Some(bias) = self.bias {
            check_len(OPERATION, "bias", [size], bias.len());
        }
        count
    }

    /// These inputs for some of the rows.
    fn of<'a>(&'a self, rows: &'a [E]) -> NormalizationInputs<'a, E> {
        NormalizationInputs { rows, ..*self }
    }
}

/// See [`NormalizationInputs::forward`].
pub(crate) fn forward<E: Real>(
    inputs: &NormalizationInputs<E>,
    level: Level,
    output: &mut [E],
    statistics: &mut [E],
) {
    let (count, size) = (inputs.check(), inputs.gain.len());
    check_len(OPERATION, "result", [count, size], output.len());
    check_len(OPERATION, "statistics", [count, 2], statistics.len());
    if count == 0 {
        return;
    }
    let task_rows = (TASK_ELEMENTS / size).max(1);
    let rows = inputs.rows.chunks(task_rows * size);
    let tasks = output.chunks_mut(task_rows * size).zip(rows);
    let tasks = tasks.zip(statistics.chunks_mut(2 * task_rows));
    for_each(tasks, |((output, rows), statistics)| {
        let job = Forward {
            inputs: inputs.of(rows),
            output,
            statistics,
        };
        E::dispatch(level, job);
    });
}

/// See [`NormalizationInputs::backward`].
pub(crate) fn backward<E: Real>(
    inputs: &NormalizationInputs<E>,
    level: Level,
    statistics: &[E],
    gradient: &[E],
    gradients: NormalizationGradients<E>,
) {
    let (count, size) = (inputs.check(), inputs.gain.len());
    check_len(OPERATION, "statistics", [count, 2], statistics.len());
    let shape = [count, size];
    check_len(OPERATION, "gradient of the result", shape, gradient.len());
    if let Some(rows) = &gradients.rows {
        check_len(OPERATION, "gradient of the rows", shape, rows.len());
    }
    let mut parameters = [
        (gradients.gain, "gradient of the gain"),
        (gradients.bias, "gradient of the bias"),
    ];
    for (sums, name) in &mut parameters {
        if let Some(sums) = sums {
            check_len(OPERATION, name, [size], sums.len());
            sums.fill(E::ZERO);
        }
    }
    if count == 0 {
        return;
    }
    // Gradients of parameters are summed over few rows at a time, so that the addends are not small beside the sum.
    let [fewest, most] = NORMALIZED_ROWS;
    let task_rows = (TASK_ELEMENTS / size).clamp(fewest, most);
    let tasks = count.div_ceil(task_rows);
    let mut sums = parameters.map(|(sums, _)| sums.map(|sums| PartialSums::new(sums, tasks)));
    let [mut of_gain, mut of_bias] = sums
        .each_mut()
        .map(|sums| sums.as_mut().map(|sums| sums.split(1).into_iter()));
    let mut of_rows = gradients.rows.map(|rows| rows.chunks_mut(task_rows * size));
    let operands = inputs.rows.chunks(task_rows * size);
    let operands = operands.zip(gradient.chunks(task_rows * size));
    let operands = operands.zip(statistics.chunks(2 * task_rows));
    let jobs: Vec<_> = operands
        .map(|((rows, gradient), statistics)| Backward {
            inputs: inputs.of(rows),
            statistics,
            gradient,
            gradients: NormalizationGradients {
                rows: of_rows.as_mut().and_then(Iterator::next),
                gain: of_gain.as_mut().and_then(Iterator::next),
                bias: of_bias.as_mut().and_then(Iterator::next),
            },
        })
        .collect();
    let least = TASK_ELEMENTS / (task_rows * size);
    let run = |(): &mut (), job| E::dispatch(level, job);
    for_each_with(jobs.into_iter(), least, || (), run);
    for sums in sums.into_iter().flatten() {
        sums.add_up(1);
    }
}

struct Forward<'a, E> {
    inputs: NormalizationInputs<'a, E>,
    output: &'a mut [E],
    statistics: &'a mut [E],
}

impl<E: Real> Job<E> for Forward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let NormalizationInputs { gain, bias, .. } = self.inputs;
        let size = gain.len();
        let rows = self.inputs.rows.chunks_exact(size);
        let outputs = self.output.chunks_exact_mut(size);
        let outputs = outputs.zip(self.statistics.chunks_exact_mut(2));
        for (row, (output, statistics)) in rows.zip(outputs) {
            let of_row @ [mean, scale] = self.inputs.statistics(simd, row);
            statistics.copy_from_slice(&of_row);
            let (mean, scale) = (simd.splat(mean), simd.splat(scale));
            for first in (0..size).step_by(S::LANES) {
                let lanes = first..size.min(first + S::LANES);
                let x = simd.load_partial(&row[lanes.clone()]);
                let normal = simd.mul(simd.sub(x, mean), scale);
                let gain = simd.load_partial(&gain[lanes.clone()]);
                let result = match bias {
                    Some(bias) => {
                        simd.mul_add(normal, gain, simd.load_partial(&bias[lanes.clone()]))
                    }
                    None => simd.mul(normal, gain),
                };
                simd.store_partial(result, &mut output[lanes]);
            }
        }
    }
}

struct Backward<'a, E> {
    inputs: NormalizationInputs<'a, E>,
    statistics: &'a [E],
    gradient: &'a [E],
    /// The gradients of rows are written; the gradients of parameters are added to.
    gradients: NormalizationGradients<'a, E>,
}

impl<E: Real> Job<E> for Backward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let NormalizationGradients {
            rows: mut of_rows,
            gain: mut of_gain,
            bias: mut of_bias,
        } = self.gradients;
        let gain = self.inputs.gain;
        let size = gain.len();
        let rows = self.inputs.rows.chunks_exact(size);
        let rows = rows.zip(self.gradient.chunks_exact(size));
        let rows = rows.zip(self.statistics.chunks_exact(2)).enumerate();
        for (n, ((row, gradient), statistics)) in rows {
            let (mean, scale) = (simd.splat(statistics[0]), simd.splat(statistics[1]));
            let [mut sum, mut product] = [simd.zero(); 2];
            for first in (0..size).step_by(S::LANES) {
                let lanes = first..size.min(first + S::LANES);
                let x = simd.load_partial(&row[lanes.clone()]);
                let normal = simd.mul(simd.sub(x, mean), scale);
                let g = simd.load_partial(&gradient[lanes.clone()]);
                if let Some(of_gain) = &mut of_gain {
                    let of_gain = &mut of_gain[lanes.clone()];
                    let before = simd.load_partial(of_gain);
                    simd.store_partial(simd.mul_add(g, normal, before), of_gain);
                }
                if let Some(of_bias) = &mut of_bias {
                    let of_bias = &mut of_bias[lanes.clone()];
                    simd.store_partial(simd.add(simd.load_partial(of_bias), g), of_bias);
                }
                let d = simd.mul(g, simd.load_partial(&gain[lanes]));
                sum = simd.add(sum, d);
                product = simd.mul_add(d, normal, product);
            }
            let Some(of_rows) = &mut of_rows else {
                continue;
            };
            let mut means = [simd.zero(); 2];
            for (mean, sum) in means.iter_mut().zip([sum, product]) {
                *mean = simd.splat(E::from_f64(simd.sum(sum).to_f64() / size as f64));
            }
            let [mut mean_d, mean_product] = means;
            if !self.inputs.is_centered {
                mean_d = simd.zero();
            }
            for first in (0..size).step_by(S::LANES) {
                let lanes = first..size.min(first + S::LANES);
                let x = simd.load_partial(&row[lanes.clone()]);
                let normal = simd.mul(simd.sub(x, mean), scale);
                let g = simd.load_partial(&gradient[lanes.clone()]);
                let gain = simd.load_partial(&gain[lanes.clone()]);
                let rest = simd.sub(simd.mul(g, gain), mean_d);
                let rest = simd.neg_mul_add(normal, mean_product, rest);
                let part = n * size + lanes.start..n * size + lanes.end;
                simd.store_partial(simd.mul(rest, scale), &mut of_rows[part]);
            }
        }
    }
}

impl<E: Real> NormalizationInputs<'_, E> {
    /// The statistics of a row. The mean is corrected by the mean excess of the elements over it, and the variance by
    /// its square: then neither depends on the rounding of the first sum.
    #[inline(always)]
    fn statistics<S: Simd<E>>(&self, simd: S, row: &[E]) -> [E; 2] {
        let size = row.len() as f64;
        let mut mean = E::ZERO;
        let mut excess = 0.0;
        if self.is_centered {
            mean = E::from_f64(sums(simd, row, E::ZERO)[0] / size);
        }
        let [sum, squares] = sums(simd, row, mean);
        if self.is_centered {
            excess = sum / size;
        }
        let variance = squares / size - excess * excess;
        // Rounding may give less than 0 if all elements are equal. NaN stays.
        let variance = if variance < 0.0 { 0.0 } else { variance };
        [
            E::from_f64(mean.to_f64() + excess),
            E::from_f64(1.0 / (variance + self.epsilon).sqrt()),
        ]
    }
}

/// The number of vectors of sums: enough to hide the latency of an addition, and sums of fewer elements are more
/// accurate.
const CHAINS: usize = 4;

/// The sum of the elements minus `center`, and the sum of the squares of these differences.
#[inline(always)]
fn sums<E: Real, S: Simd<E>>(simd: S, row: &[E], center: E) -> [f64; 2] {
    let shift = simd.splat(center);
    let [mut sums, mut squares] = [[simd.zero(); CHAINS]; 2];
    let mut blocks = row.chunks_exact(CHAINS * S::LANES);
    for block in blocks.by_ref() {
        for (chain, vector) in block.chunks_exact(S::LANES).enumerate() {
            let x = simd.sub(simd.load(vector), shift);
            sums[chain] = simd.add(sums[chain], x);
            squares[chain] = simd.mul_add(x, x, squares[chain]);
        }
    }
    let mut vectors = blocks.remainder().chunks_exact(S::LANES);
    for vector in vectors.by_ref() {
        let x = simd.sub(simd.load(vector), shift);
        sums[0] = simd.add(sums[0], x);
        squares[0] = simd.mul_add(x, x, squares[0]);
    }
    let mut total = [0.0; 2];
    for (&sum, &square) in sums.iter().zip(&squares) {
        total[0] += simd.sum(sum).to_f64();
        total[1] += simd.sum(square).to_f64();
    }
    for &x in vectors.remainder() {
        let x = x.to_f64() - center.to_f64();
        total[0] += x;
        total[1] += x * x;
    }
    total
}
