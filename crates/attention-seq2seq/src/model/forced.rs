//! Decoding of given outputs (teacher forcing), step by step.

use super::decoding::Decoding;
use crate::vocab::Vocab;

/// The steps of one given output.
pub(crate) struct ForcedSteps {
    /// The log-probability of each token, and of the end.
    pub(crate) log_probabilities: Vec<f64>,
    /// The attention weights of these steps, `[keys]` each; none if the decoding has none.
    pub(crate) weights: Vec<Vec<f32>>,
}

/// Decodes the target of each row. Its tokens are candidates of `decoding`.
pub(crate) fn forced_steps(decoding: &mut dyn Decoding, targets: &[Vec<u32>]) -> Vec<ForcedSteps> {
    let candidates = decoding.candidates();
    let columns = candidates.len();
    // Those of the data follow each other.
    let column = |token: u32| match token {
        Vocab::EOS => 0,
        token => token as usize - Vocab::SPECIAL_TOKENS + 1,
    };
    debug_assert!(
        candidates
            .iter()
            .enumerate()
            .all(|(at, &token)| column(token) == at)
    );
    let of_target = |target: &Vec<u32>| ForcedSteps {
        log_probabilities: Vec::with_capacity(target.len() + 1),
        weights: Vec::new(),
    };
    let mut outputs: Vec<ForcedSteps> = targets.iter().map(of_target).collect();
    let steps = targets.iter().map(|target| target.len() + 1).max();
    for step in 0..steps.unwrap_or(0) {
        // After the end of a target, its row goes on with what does not matter.
        let token = |target: &Vec<u32>, at: usize| target.get(at).copied().unwrap_or(Vocab::EOS);
        let previous = targets.iter().map(|target| match step {
            0 => Vocab::BOS,
            _ => token(target, step - 1),
        });
        let previous: Vec<u32> = previous.collect();
        let next = decoding.step(&previous);
        let mut weights = next.weights;
        let rows = next.log_probabilities.chunks_exact(columns);
        for (row, ((of_tokens, target), output)) in rows.zip(targets).zip(&mut outputs).enumerate()
        {
            if step <= target.len() {
                output
                    .log_probabilities
                    .push(of_tokens[column(token(target, step))]);
                let of_row = weights.as_mut().map(|all| std::mem::take(&mut all[row]));
                output.weights.extend(of_row);
            }
        }
    }
    outputs
}
