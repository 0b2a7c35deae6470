//! The hypotheses of one example: those that go on, and the outputs.

use std::iter::repeat;

use super::BeamOutput;
use super::candidates::Extension;
use crate::vocab::Vocab;

/// The least that the weights of a source token add up to in the coverage penalty, whose logarithm would not be finite.
const LEAST_COVERAGE: f64 = 1e-6;

/// The order of outputs, and how many are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scoring {
    pub(super) length_penalty: f64,
    pub(super) coverage_penalty: f64,
    pub(super) max_len: usize,
    pub(super) n_best: usize,
}

impl Scoring {
    /// The score of an output of `len` tokens, its end included.
    fn score(&self, hypothesis: &Hypothesis, len: usize) -> f64 {
        let normalized = self.normalized(hypothesis.log_probability, len);
        if hypothesis.coverage.is_empty() {
            return normalized;
        }
        let sums = hypothesis.coverage.iter();
        let covered = sums.map(|sum| sum.clamp(LEAST_COVERAGE, 1.0).ln());
        normalized + self.coverage_penalty * covered.sum::<f64>()
    }

    /// The highest score that a hypothesis can still reach: with tokens of probability 1 up to the greatest length, and
    /// a source that is covered.
    fn reach(&self, hypothesis: &Hypothesis) -> f64 {
        self.normalized(hypothesis.log_probability, self.max_len)
    }

    fn normalized(&self, log_probability: f64, len: usize) -> f64 {
        log_probability / ((5.0 + len as f64) / 6.0).powf(self.length_penalty)
    }
}

/// The beginning of an output.
#[derive(Clone, Debug)]
struct Hypothesis {
    /// Its last token, among the nodes; none at the beginning.
    node: Option<usize>,
    log_probability: f64,
    /// The sum of the attention weights of each source token, if they count.
    coverage: Vec<f64>,
}

impl Hypothesis {
    /// The coverage after a step of these weights.
    fn covering(&self, weights: &[f32]) -> Vec<f64> {
        let before = self.coverage.iter().copied().chain(repeat(0.0));
        let weights = weights.iter().map(|&weight| f64::from(weight));
        weights
            .zip(before)
            .map(|(weight, sum)| sum + weight)
            .collect()
    }
}

/// A token and the one before it.
#[derive(Clone, Copy, Debug)]
struct Node {
    token: u32,
    previous: Option<usize>,
}

/// An output whose tokens are those up to a node.
#[derive(Clone, Debug)]
struct Found {
    node: Option<usize>,
    ended: bool,
    log_probability: f64,
    score: f64,
}

/// The hypotheses of one example.
#[derive(Debug)]
pub(super) struct Hypotheses {
    /// The tokens of all hypotheses, which share their beginnings.
    nodes: Vec<Node>,
    /// Those that go on, the most likely first; all of one length.
    live: Vec<Hypothesis>,
    len: usize,
    /// The outputs that ended, the best first; no more than are kept.
    ended: Vec<Found>,
    /// Those that no token can extend.
    cut_off: Vec<Hypothesis>,
}

impl Hypotheses {
    /// Before the first token.
    pub(super) fn new() -> Self {
        let beginning = Hypothesis {
            node: None,
            log_probability: 0.0,
            coverage: Vec::new(),
        };
        Self {
            nodes: Vec::new(),
            live: vec![beginning],
            len: 0,
            ended: Vec::new(),
            cut_off: Vec::new(),
        }
    }

    /// The number of hypotheses that go on.
    pub(super) fn live(&self) -> usize {
        self.live.len()
    }

    /// The last token of each hypothesis that goes on.
    pub(super) fn last_tokens(&self) -> impl Iterator<Item = u32> {
        let last = |hypothesis: &Hypothesis| hypothesis.node.map(|node| self.nodes[node].token);
        self.live
            .iter()
            .map(move |hypothesis| last(hypothesis).unwrap_or(Vocab::BOS))
    }

    /// The log-probability of each hypothesis that goes on.
    pub(super) fn log_probabilities(&self) -> Vec<f64> {
        let live = self.live.iter();
        live.map(|hypothesis| hypothesis.log_probability).collect()
    }

    /// Goes on with these extensions, the best first, and returns the parents of those that go on: none once the
    /// example is done. `weights` are those of each hypothesis at this step, if they count.
    pub(super) fn extend(
        &mut self,
        extensions: &[Extension],
        token: impl Fn(&Extension) -> u32,
        weights: Option<&[Vec<f32>]>,
        scoring: &Scoring,
    ) -> Vec<usize> {
        if self.live.is_empty() {
            return Vec::new();
        }
        let before = std::mem::take(&mut self.live);
        if extensions.is_empty() {
            self.cut_off = before;
            return Vec::new();
        }
        self.len += 1;
        let mut parents = Vec::with_capacity(extensions.len());
        for extension in extensions {
            let parent = &before[extension.parent];
            let mut extended = Hypothesis {
                node: parent.node,
                log_probability: extension.log_probability,
                coverage: match weights {
                    Some(weights) => parent.covering(&weights[extension.parent]),
                    None => Vec::new(),
                },
            };
            let token = token(extension);
            if token == Vocab::EOS {
                self.end(&extended, scoring);
                continue;
            }
            extended.node = Some(self.nodes.len());
            self.nodes.push(Node {
                token,
                previous: parent.node,
            });
            self.live.push(extended);
            parents.push(extension.parent);
        }
        if self.is_done(scoring) {
            self.live.clear();
            parents.clear();
        }
        parents
    }

    /// Takes up a hypothesis that the end has extended, behind those of its score.
    fn end(&mut self, hypothesis: &Hypothesis, scoring: &Scoring) {
        let found = self.found(hypothesis, true, scoring);
        let place = self.ended.partition_point(|it| it.score >= found.score);
        self.ended.insert(place, found);
        self.ended.truncate(scoring.n_best);
    }

    /// Whether no hypothesis can pass the last of the outputs that are kept: it would come behind those of its score.
    fn is_done(&self, scoring: &Scoring) -> bool {
        self.ended.len() == scoring.n_best
            && self.ended.last().is_some_and(|worst| {
                let mut live = self.live.iter();
                live.all(|hypothesis| scoring.reach(hypothesis) <= worst.score)
            })
    }

    fn found(&self, hypothesis: &Hypothesis, ended: bool, scoring: &Scoring) -> Found {
        Found {
            node: hypothesis.node,
            ended,
            log_probability: hypothesis.log_probability,
            score: scoring.score(hypothesis, self.len),
        }
    }

    /// The outputs, the best first: those that ended, then those that were cut off.
    pub(super) fn into_outputs(mut self, scoring: &Scoring) -> Vec<BeamOutput> {
        let cut_off = self.cut_off.iter().chain(&self.live);
        let mut cut_off: Vec<Found> = cut_off
            .map(|hypothesis| self.found(hypothesis, false, scoring))
            .collect();
        cut_off.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.ended.extend(cut_off);
        let best = self.ended.iter().take(scoring.n_best);
        best.map(|found| self.output(found)).collect()
    }

    fn output(&self, found: &Found) -> BeamOutput {
        let up_to = std::iter::successors(found.node, |&node| self.nodes[node].previous);
        let mut tokens: Vec<u32> = up_to.map(|node| self.nodes[node].token).collect();
        tokens.reverse();
        BeamOutput {
            tokens,
            ended: found.ended,
            log_probability: found.log_probability,
            score: found.score,
        }
    }
}
