//! The plain beam search: it drops no hypothesis, and knows no greedy output.

use attention_transformers::generate::search::{BeamOutput, BeamSearchConfig, Decoding};

/// The tokens of a hypothesis, and its log-probability.
type Hypothesis = (Vec<u32>, f64);

/// All outputs of each example that ended, the best first, without a coverage penalty.
pub(super) fn plain_search(
    config: &BeamSearchConfig,
    decoding: &mut dyn Decoding,
) -> Vec<Vec<BeamOutput>> {
    let mut live: Vec<Vec<Hypothesis>> = vec![vec![(Vec::new(), 0.0)]; decoding.rows()];
    let mut ended = vec![Vec::new(); live.len()];
    for len in 1..=config.max_len {
        if decoding.rows() == 0 {
            break;
        }
        let last = |(tokens, _): &Hypothesis| tokens.last().copied();
        let previous: Vec<u32> = live.iter().flatten().filter_map(last).collect();
        let next = decoding.step(&previous);
        let tokens = decoding.candidates().to_vec();
        let rows = next.log_probabilities.chunks_exact(tokens.len());
        let mut rows = rows.enumerate();
        let mut parents = Vec::new();
        for (live, ended) in live.iter_mut().zip(&mut ended) {
            let mut extended = Vec::new();
            for ((written, sum), (parent, row)) in live.drain(..).zip(rows.by_ref()) {
                for (token, log_probability) in tokens.iter().zip(row) {
                    let written = [&written[..], &[*token]].concat();
                    extended.push(((written, sum + log_probability), parent));
                }
            }
            extended.sort_by(|((_, a), _), ((_, b), _)| f64::total_cmp(b, a));
            extended.truncate(config.beam);
            for ((mut written, sum), parent) in extended {
                if written.last().is_none_or(|&token| !decoding.is_end(token)) {
                    live.push((written, sum));
                    parents.push(parent);
                    continue;
                }
                written.pop();
                let penalty = ((5.0 + len as f64) / 6.0).powf(config.length_penalty.exponent());
                ended.push(BeamOutput {
                    tokens: written,
                    ended: true,
                    log_probability: sum,
                    score: sum / penalty,
                });
            }
        }
        decoding.select(&parents);
    }
    for ended in &mut ended {
        ended.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
    ended
}
