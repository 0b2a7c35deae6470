//! A linear layer to classes with its loss, some rows at a time: the logits of all rows are never there at once, nor
//! are their probabilities.
//!
//! The loss is a sum, so that the gradients of logits follow from the logits alone. They are made in the place of
//! these, and multiplied into the gradients of input and weight before the next rows come.

use std::ops::Range;

use crate::checks::{check_len, check_shape};
use crate::simd::{Job, Level, Simd};
use crate::slices::add;
use crate::softmax::{largest, softmax};
use crate::threads::for_each;
use crate::tiles::{CROSS_ENTROPY_LOGITS, CROSS_ENTROPY_ROWS, TASK_ELEMENTS};
use crate::{Buffer, Matrix, Packing, ProductStart, Real, column_sums, product, product_packed};

const OPERATION: &str = "cross-entropy";

/// `sum_r factors[r] (log sum_c exp logits[r, c] - logits[r, targets[r]])` with `logits = input weight + bias`.
///
/// PyTorch: `F.cross_entropy(F.linear(input, weight.T, bias), targets)`, where all factors are `1 / rows`.
///
/// The features of a row may come in several parts of the same size: the first of all rows, then the second of all
/// rows, and so on.
///
/// # Shapes
/// - input `[parts * rows, size]`, weight `[parts * size, classes]`, bias `[classes]`
/// - targets, factors `[rows]`
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyInputs<'a, E> {
    /// The features of each row, part by part.
    pub input: Matrix<'a, E>,
    /// The weight of the layer.
    pub weight: Matrix<'a, E>,
    /// The bias of the layer.
    pub bias: Option<&'a [E]>,
    /// The class of each row.
    pub targets: &'a [usize],
    /// What the loss of each row is multiplied with; a row with 0 does not count, whatever its logits are.
    pub factors: &'a [E],
}

/// Where gradients are written; contiguous, in the shapes of the inputs.
#[derive(Debug)]
pub struct CrossEntropyGradients<'a, E> {
    /// Of the input.
    pub input: &'a mut [E],
    /// Of the weight.
    pub weight: &'a mut [E],
    /// Of the bias.
    pub bias: Option<&'a mut [E]>,
}

impl<E: Real> CrossEntropyInputs<'_, E> {
    /// The loss; the class with the greatest logit of each row, the first of them, is written to `predictions`, and the
    /// gradients where they are asked for. The number of threads changes no bit.
    ///
    /// # Panics
    /// If the shapes do not fit together, or a target is no class.
    pub fn compute(
        &self,
        level: Level,
        predictions: &mut [usize],
        gradients: Option<CrossEntropyGradients<E>>,
    ) -> f64 {
        E::cross_entropy(self, level, predictions, gradients)
    }

    /// Rows, parts of their features, the size of a part, and classes.
    ///
    /// # Panics
    /// If the shapes do not fit together, or a target is no class.
    fn check(&self) -> [usize; 4] {
        let ([input_rows, size], [weight_rows, classes]) =
            (self.input.sizes(), self.weight.sizes());
        let rows = self.targets.len();
        let parts = weight_rows.checked_div(size).unwrap_or(1).max(1);
        let shape = [parts * size, classes];
        check_shape(OPERATION, "weight", shape, self.weight.sizes());
        let shape = [parts * rows, size];
        check_shape(OPERATION, "input", shape, [input_rows, size]);
        if let Some(bias) = self.bias {
            check_len(OPERATION, "bias", [classes], bias.len());
        }
        check_len(OPERATION, "factors", [rows], self.factors.len());
        let greatest = self.targets.iter().copied().max().unwrap_or(0);
        assert!(
            rows == 0 || greatest < classes,
            "{OPERATION}: targets expected below {classes}, got {greatest}"
        );
        [rows, parts, size, classes]
    }
}

pub(crate) fn compute<E: Real>(
    inputs: &CrossEntropyInputs<E>,
    level: Level,
    predictions: &mut [usize],
    mut gradients: Option<CrossEntropyGradients<E>>,
) -> f64 {
    let [rows, parts, size, classes] = inputs.check();
    check_len(OPERATION, "predictions", [rows], predictions.len());
    if let Some(gradients) = &mut gradients {
        let CrossEntropyGradients {
            input,
            weight,
            bias,
        } = gradients;
        check_len(
            OPERATION,
            "gradient of the input",
            [parts * rows, size],
            input.len(),
        );
        check_len(
            OPERATION,
            "gradient of the weight",
            [parts * size, classes],
            weight.len(),
        );
        weight.fill(E::ZERO);
        if let Some(bias) = bias {
            check_len(OPERATION, "gradient of the bias", [classes], bias.len());
            bias.fill(E::ZERO);
        }
    }
    if rows == 0 {
        return 0.0;
    }
    let rows_at_once = (CROSS_ENTROPY_LOGITS / classes)
        .max(CROSS_ENTROPY_ROWS)
        .min(rows);
    let mut logits = Buffer::for_overwrite(rows_at_once * classes);
    let mut losses = vec![0.0; rows];
    let parts: Vec<_> = (0..parts)
        .map(|index| Part {
            input: inputs.input.rows(index * rows..(index + 1) * rows),
            weight: inputs.weight.rows(index * size..(index + 1) * size),
            packings: [Packing::default(), Packing::default()],
        })
        .collect();
    let bias = match inputs.bias {
        Some(bias) => ProductStart::Row(bias),
        None => ProductStart::Zero,
    };
    for first in (0..rows).step_by(rows_at_once) {
        let of_rows = first..rows.min(first + rows_at_once);
        let logits = &mut logits[..of_rows.len() * classes];
        let mut start = bias;
        for part in &parts {
            let input = part.input.rows(of_rows.clone());
            product_packed(
                level,
                input,
                (part.weight, &part.packings[0]),
                start,
                logits,
            );
            start = ProductStart::Sum;
        }
        let predictions = &mut predictions[of_rows.clone()];
        of_logits(
            inputs,
            level,
            of_rows.clone(),
            logits,
            predictions,
            &mut losses[of_rows.clone()],
        );
        let Some(gradients) = &mut gradients else {
            continue;
        };
        let of_logits = Matrix::new(logits, [of_rows.len(), classes]);
        let inputs = gradients.input.chunks_exact_mut((rows * size).max(1));
        let weights = gradients.weight.chunks_exact_mut((size * classes).max(1));
        for ((part, of_input), of_weight) in parts.iter().zip(inputs).zip(weights) {
            let transposed = (part.weight.transposed(), &part.packings[1]);
            let of_input = &mut of_input[of_rows.start * size..of_rows.end * size];
            product_packed(level, of_logits, transposed, ProductStart::Zero, of_input);
            let input = part.input.rows(of_rows.clone()).transposed();
            product(level, input, of_logits, ProductStart::Sum, of_weight);
        }
        if let Some(bias) = &mut gradients.bias {
            let mut sums = Buffer::for_overwrite(classes);
            column_sums(logits, &mut sums);
            add(&sums, bias);
        }
    }
    losses.iter().sum()
}

/// A part of the features of all rows, and what they are multiplied with.
struct Part<'a, E> {
    /// `[rows, size]`
    input: Matrix<'a, E>,
    /// `[size, classes]`
    weight: Matrix<'a, E>,
    /// Of the weight, and of its transpose.
    packings: [Packing<E>; 2],
}

/// The losses and predictions of some rows, and the gradients of their logits in the place of these.
fn of_logits<E: Real>(
    inputs: &CrossEntropyInputs<E>,
    level: Level,
    rows: Range<usize>,
    logits: &mut [E],
    predictions: &mut [usize],
    losses: &mut [f64],
) {
    let classes = logits.len() / rows.len();
    let rows_of_task = (TASK_ELEMENTS / classes).max(1);
    let tasks = logits.chunks_mut(rows_of_task * classes);
    let results = predictions
        .chunks_mut(rows_of_task)
        .zip(losses.chunks_mut(rows_of_task));
    let operands = inputs.targets[rows.clone()].chunks(rows_of_task);
    let operands = operands.zip(inputs.factors[rows].chunks(rows_of_task));
    let tasks = tasks.zip(results).zip(operands);
    for_each(tasks, |((logits, results), operands)| {
        let (predictions, losses) = results;
        let (targets, factors) = operands;
        let task = Task {
            classes,
            targets,
            factors,
            logits,
            predictions,
            losses,
        };
        E::dispatch(level, task);
    });
}

struct Task<'a, E> {
    classes: usize,
    targets: &'a [usize],
    factors: &'a [E],
    logits: &'a mut [E],
    predictions: &'a mut [usize],
    losses: &'a mut [f64],
}

impl<E: Real> Job<E> for Task<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let rows = self.logits.chunks_exact_mut(self.classes).enumerate();
        for (row, logits) in rows {
            let (target, factor) = (self.targets[row], self.factors[row]);
            let greatest = largest(simd, logits);
            let is_greatest = |logit: &E| *logit == greatest;
            self.predictions[row] = logits.iter().position(is_greatest).unwrap_or(0);
            if factor == E::ZERO {
                logits.fill(E::ZERO);
                self.losses[row] = 0.0;
                continue;
            }
            let logit = logits[target].to_f64();
            let log_sum_exp = softmax(simd, logits).log_sum_exp();
            self.losses[row] = factor.to_f64() * (log_sum_exp - logit);
            logits[target] = logits[target] - E::ONE;
            for x in logits {
                *x = *x * factor;
            }
        }
    }
}
