//! The hypotheses of one example: those that continue, and the outputs.

use std::iter::repeat;

use super::extensions::{Columns, Extension};
use super::{BeamOutput, EarlyStopping, Rules, Search};

/// The beginning of an output.
#[derive(Clone, Debug)]
struct Hypothesis {
    /// Its last token, as the index of a node; `None` at the beginning.
    node: Option<usize>,
    log_probability: f64,
    /// The sum of the attention weights of each source token, if they count.
    coverage: Vec<f64>,
    /// Whether it is the beginning of the greedy output.
    is_greedy: bool,
    /// Whether it continues only as the beginning of the greedy output, crowded out of the beam.
    is_outside: bool,
}

impl Hypothesis {
    fn beginning() -> Self {
        Self {
            node: None,
            log_probability: 0.0,
            coverage: Vec::new(),
            is_greedy: true,
            is_outside: false,
        }
    }

    /// The coverage after a step with these weights.
    fn covering(&self, weights: &[f32]) -> Vec<f64> {
        let before = self.coverage.iter().copied().chain(repeat(0.0));
        let weights = weights.iter().map(|&weight| f64::from(weight));
        weights
            .zip(before)
            .map(|(weight, sum)| sum + weight)
            .collect()
    }
}

/// A token, and the node of the token before it.
#[derive(Clone, Copy, Debug)]
struct Node {
    token: u32,
    previous: Option<usize>,
}

/// An output, with the node of its last token.
#[derive(Clone, Debug)]
struct Found {
    node: Option<usize>,
    /// The number of its tokens, including the end token.
    len: usize,
    ended: bool,
    is_greedy: bool,
    log_probability: f64,
    score: f64,
}

/// The greedy output of an example, which was found first.
#[derive(Debug)]
struct Greedy {
    /// Its tokens, including the end token.
    tokens: Vec<u32>,
    /// The highest score that other extensions can reach, for each length of its beginning.
    others: Vec<f64>,
}

/// Which extensions continue.
#[derive(Debug)]
enum Phase {
    /// All of them.
    Beam,
    /// All of them, and the beginning of the greedy output, even if it is crowded out of the beam.
    WithGreedy,
    /// Only the best one, to find the greedy output.
    FindsGreedy(Greedy),
    /// All of them, with the greedy output already among the outputs.
    AfterGreedy(Greedy),
}

/// The hypotheses of one example.
#[derive(Debug)]
pub(super) struct Hypotheses {
    /// The tokens of all hypotheses; common beginnings are shared.
    nodes: Vec<Node>,
    /// Hypotheses that continue, the most likely first; all of the same length.
    live: Vec<Hypothesis>,
    len: usize,
    /// The outputs that ended, the best first; only those that are kept.
    ended: Vec<Found>,
    /// Hypotheses that no token can extend.
    cut_off: Vec<Hypothesis>,
    phase: Phase,
}

impl Hypotheses {
    /// The hypotheses before the first token.
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            live: vec![Hypothesis::beginning()],
            len: 0,
            ended: Vec::new(),
            cut_off: Vec::new(),
            phase: Phase::Beam,
        }
    }

    /// The hypotheses before the first token. The greedy output will be one of the outputs.
    pub(super) fn with_greedy() -> Self {
        Self {
            phase: Phase::WithGreedy,
            ..Self::new()
        }
    }

    /// The hypotheses before the first token, for the greedy output: only the best extension continues.
    pub(super) fn of_greedy() -> Self {
        let greedy = Greedy {
            tokens: Vec::new(),
            others: Vec::new(),
        };
        Self {
            phase: Phase::FindsGreedy(greedy),
            ..Self::new()
        }
    }

    /// The hypotheses before the first token again, with the greedy output as the first that ended; done if no other
    /// can be better. If the greedy output was cut off, the same as [`new`](Self::new).
    pub(super) fn after_greedy(self, search: &Search<'_>) -> Self {
        let greedy = match self.phase {
            Phase::FindsGreedy(greedy) if !self.ended.is_empty() => greedy,
            _ => return Self::new(),
        };
        let mut again = Self {
            live: vec![Hypothesis::beginning()],
            len: 0,
            phase: Phase::AfterGreedy(greedy),
            ..self
        };
        if again.is_done(search) {
            again.live.clear();
        }
        again
    }

    /// The number of hypotheses that continue.
    pub(super) fn live(&self) -> usize {
        self.live.len()
    }

    /// The number of these that are in the beam; they come first.
    pub(super) fn in_beam(&self) -> usize {
        let live = self.live.iter();
        live.filter(|hypothesis| !hypothesis.is_outside).count()
    }

    /// The index of the greedy output's beginning, if it must continue even if others crowd it out.
    pub(super) fn greedy(&self) -> Option<usize> {
        let mut live = self.live.iter();
        match self.phase {
            Phase::WithGreedy => live.position(|hypothesis| hypothesis.is_greedy),
            _ => None,
        }
    }

    /// The last token of each hypothesis that continues; empty at the beginning.
    pub(super) fn last_tokens(&self) -> impl Iterator<Item = u32> {
        let nodes = self.live.iter().filter_map(|hypothesis| hypothesis.node);
        nodes.map(|node| self.nodes[node].token)
    }

    /// The tokens of each hypothesis that continues.
    pub(super) fn texts(&self) -> impl Iterator<Item = Vec<u32>> {
        self.live
            .iter()
            .map(|hypothesis| self.tokens(hypothesis.node))
    }

    /// The log-probability of each hypothesis that continues.
    pub(super) fn log_probabilities(&self) -> Vec<f64> {
        let live = self.live.iter();
        live.map(|hypothesis| hypothesis.log_probability).collect()
    }

    /// Continues with these extensions, the best first, and with the extension of the [greedy](Self::greedy) output, if
    /// there is one. Returns the parents of the hypotheses that continue: none once the example is done. `weights` are
    /// those of each hypothesis in this step, if they count.
    pub(super) fn extend(
        &mut self,
        extensions: &[Extension],
        of_greedy: Option<&Extension>,
        columns: &Columns,
        weights: Option<&[Vec<f32>]>,
        search: &Search<'_>,
    ) -> Vec<usize> {
        if self.live.is_empty() {
            return Vec::new();
        }
        let before = std::mem::take(&mut self.live);
        // If only the greedy output continues, outside the beam, the beam has no extension.
        let is_stuck = extensions.is_empty();
        if is_stuck && before.iter().any(|hypothesis| !hypothesis.is_outside) {
            self.cut_off = before;
            return Vec::new();
        }
        self.len += 1;
        let token = |extension: &Extension| columns.tokens[extension.column];
        let extensions = match &mut self.phase {
            Phase::FindsGreedy(greedy) => {
                let (best, others) = extensions.split_at(1);
                greedy.tokens.push(token(&best[0]));
                let reach = others
                    .first()
                    .map(|other| search.reach(other.log_probability));
                greedy.others.push(reach.unwrap_or(f64::NEG_INFINITY));
                best
            }
            Phase::Beam | Phase::WithGreedy | Phase::AfterGreedy(_) => extensions,
        };
        let outside = of_greedy.filter(|extension| !extensions.contains(extension));
        let (beam, is_full) = (search.config.beam, search.keeps_beam_full());
        let (mut parents, mut is_top_ended) = (Vec::with_capacity(extensions.len()), false);
        for (rank, extension) in extensions.iter().chain(outside).enumerate() {
            let parent = &before[extension.parent];
            let (token, is_end) = (token(extension), columns.ends.contains(&extension.column));
            let is_cut_off = search.rules != Rules::Bounded && self.len == search.config.max_len;
            let ends = is_end || is_cut_off;
            is_top_ended |= ends && rank == 0;
            // Outputs and continuing hypotheses are counted separately.
            if is_full && (if ends { rank } else { parents.len() }) >= beam {
                continue;
            }
            let mut extended = Hypothesis {
                node: parent.node,
                log_probability: extension.log_probability,
                coverage: match weights {
                    Some(weights) => parent.covering(&weights[extension.parent]),
                    None => Vec::new(),
                },
                is_greedy: of_greedy == Some(extension),
                is_outside: outside == Some(extension),
            };
            if let Phase::AfterGreedy(greedy) = &self.phase {
                extended.is_greedy = parent.is_greedy && greedy.tokens[self.len - 1] == token;
            }
            if !is_end || is_full {
                extended.node = Some(self.nodes.len());
                self.nodes.push(Node {
                    token,
                    previous: parent.node,
                });
            }
            if ends {
                let is_known = extended.is_greedy && matches!(self.phase, Phase::AfterGreedy(_));
                if !is_known {
                    self.end(&extended, is_end || is_full, search);
                }
                continue;
            }
            self.live.push(extended);
            parents.push(extension.parent);
        }
        let live = std::mem::take(&mut self.live);
        let pairs = live.into_iter().zip(parents);
        let (live, parents) = pairs
            .filter(|(hypothesis, _)| {
                let reach = search.reach(hypothesis.log_probability);
                self.can_pass(reach, self.len + 1, search)
            })
            .unzip();
        self.live = live;
        let is_enough = self.ended.len() == search.config.n_best;
        let ends_with_top = search.rules == Rules::OpenNmt && is_top_ended && is_enough;
        if ends_with_top || self.is_done(search) {
            self.live.clear();
            return Vec::new();
        }
        parents
    }

    /// Adds a hypothesis that was extended by the end token, or cut off if that makes an output; it comes after outputs
    /// of equal score and at most equal length. The greedy output comes before others of equal score and length, as in
    /// a search for one output, which finds it first.
    fn end(&mut self, hypothesis: &Hypothesis, ended: bool, search: &Search<'_>) {
        let found = self.found(hypothesis, ended, search);
        let is_as_short =
            |it: &Found| it.len < found.len || it.len == found.len && !found.is_greedy;
        let comes_first =
            |it: &Found| it.score > found.score || it.score == found.score && is_as_short(it);
        let place = self.ended.partition_point(comes_first);
        self.ended.insert(place, found);
        self.ended.truncate(search.config.n_best);
    }

    /// Whether an output of at least `len` tokens, whose score is at most `reach`, can beat the last of the kept
    /// outputs; of equal scores the shorter one wins.
    fn can_pass(&self, reach: f64, len: usize, search: &Search<'_>) -> bool {
        let worst = self.ended.get(search.config.n_best - 1);
        worst.is_none_or(|worst| reach > worst.score || reach == worst.score && len < worst.len)
    }

    /// Whether no continuing hypothesis can beat the last of the kept outputs. As the greedy output is already known,
    /// its beginning continues only for its other extensions. With the rules of `transformers`, [`EarlyStopping`]
    /// decides.
    fn is_done(&self, search: &Search<'_>) -> bool {
        if let Rules::Transformers { early_stopping } = search.rules {
            let worst = self.ended.get(search.config.n_best - 1);
            return self
                .live
                .first()
                .zip(worst)
                .map_or(self.live.is_empty(), |(best, worst)| {
                    let len = match early_stopping {
                        EarlyStopping::AtOnce => return true,
                        EarlyStopping::Never if search.config.length_penalty.exponent() > 0.0 => {
                            search.config.max_len
                        }
                        _ => self.len,
                    };
                    search.normalized(best.log_probability, len) <= worst.score
                });
        }
        let Phase::AfterGreedy(greedy) = &self.phase else {
            return self.live.is_empty();
        };
        let mut others = greedy.others.iter().zip(1..).skip(self.len);
        self.live.iter().all(|hypothesis| hypothesis.is_greedy)
            && others.all(|(&reach, len)| !self.can_pass(reach, len, search))
    }

    fn found(&self, hypothesis: &Hypothesis, ended: bool, search: &Search<'_>) -> Found {
        Found {
            node: hypothesis.node,
            len: self.len,
            ended,
            log_probability: hypothesis.log_probability,
            is_greedy: hypothesis.is_greedy,
            score: search.score(hypothesis.log_probability, self.len, &hypothesis.coverage),
        }
    }

    /// The outputs, the best first: those that ended, then those that were cut off.
    pub(super) fn into_outputs(mut self, search: &Search<'_>) -> Vec<BeamOutput> {
        let cut_off = self.cut_off.iter().chain(&self.live);
        let mut cut_off: Vec<Found> = cut_off
            .filter(|hypothesis| !hypothesis.is_outside)
            .map(|hypothesis| self.found(hypothesis, false, search))
            .collect();
        cut_off.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.ended.extend(cut_off);
        let best = self.ended.iter().take(search.config.n_best);
        best.map(|found| self.output(found)).collect()
    }

    /// The tokens up to a node.
    fn tokens(&self, node: Option<usize>) -> Vec<u32> {
        let up_to = std::iter::successors(node, |&node| self.nodes[node].previous);
        let mut tokens: Vec<u32> = up_to.map(|node| self.nodes[node].token).collect();
        tokens.reverse();
        tokens
    }

    fn output(&self, found: &Found) -> BeamOutput {
        BeamOutput {
            tokens: self.tokens(found.node),
            ended: found.ended,
            log_probability: found.log_probability,
            score: found.score,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::search::BeamSearchConfig;

    /// It keeps its outputs while other examples go on.
    #[test]
    fn an_example_that_is_stuck_keeps_what_it_has() {
        let config = BeamSearchConfig::new(4);
        let (config, rules) = (&config, Rules::Bounded);
        let search = Search { config, rules };
        let columns = Columns::new(vec![2, 4], |token| token == 2);
        let mut hypotheses = Hypotheses::new();
        for _ in 0..3 {
            let parents = hypotheses.extend(&[], None, &columns, None, &search);
            assert!(parents.is_empty());
        }
        assert_eq!(hypotheses.into_outputs(&search).len(), 1);
    }
}
