//! Decoding of given outputs (teacher forcing), step by step.

use super::Decoding;
use crate::error::Result;
use crate::stop::StopSignal;
use crate::text::vocab::Vocab;

/// A step of one given output.
pub(crate) struct ForcedStep<'a> {
    /// The row of the output.
    pub(crate) row: usize,
    /// The column of its token, or of the end token, among the candidates.
    pub(crate) column: usize,
    /// The log-probability of each candidate.
    pub(crate) log_probabilities: &'a [f64],
    /// The attention weights, `[keys]`; `None` if the decoding has none.
    pub(crate) weights: Option<Vec<f32>>,
}

/// The log-probability of each token and of the end token, for the target of each row, decoded unless `stop` signals.
/// Its tokens are candidates of `decoding`.
pub(crate) fn forced_log_probabilities(
    decoding: &mut dyn Decoding,
    targets: &[Vec<u32>],
    stop: StopSignal<'_>,
) -> Result<Vec<Vec<f64>>> {
    let mut outputs = vec![Vec::new(); targets.len()];
    each_forced_step(decoding, targets, stop, |step| {
        outputs[step.row].push(step.log_probabilities[step.column]);
    })?;
    Ok(outputs)
}

/// Decodes the target of each row and passes its steps, including the end token's, to `take`: the first step of all
/// rows, then the second, and so on, unless `stop` signals. The tokens are candidates of `decoding`.
pub(crate) fn each_forced_step(
    decoding: &mut dyn Decoding,
    targets: &[Vec<u32>],
    stop: StopSignal<'_>,
    mut take: impl FnMut(ForcedStep<'_>),
) -> Result<()> {
    let candidates = decoding.candidates();
    let columns = candidates.len();
    // The columns of the data's tokens are consecutive.
    let column = |token: u32| match token {
        Vocab::EOS => 0,
        token => token as usize - Vocab::SPECIAL_TOKENS + 1,
    };
    let mut all = candidates.iter().enumerate();
    debug_assert!(all.all(|(at, &token)| column(token) == at));
    let steps = targets.iter().map(|target| target.len() + 1).max();
    for step in 0..steps.unwrap_or(0) {
        // After the end of a target, its row continues with tokens that do not matter.
        let token = |target: &Vec<u32>, at: usize| target.get(at).copied().unwrap_or(Vocab::EOS);
        let before = targets.iter().filter(|_| step > 0);
        let previous: Vec<u32> = before.map(|target| token(target, step - 1)).collect();
        stop.check()?;
        let next = decoding.step(&previous);
        let mut weights = next.weights;
        let rows = next.log_probabilities.chunks_exact(columns);
        for (row, (log_probabilities, target)) in rows.zip(targets).enumerate() {
            if step <= target.len() {
                take(ForcedStep {
                    row,
                    column: column(token(target, step)),
                    log_probabilities,
                    weights: weights.as_mut().map(|all| std::mem::take(&mut all[row])),
                });
            }
        }
    }
    Ok(())
}
