//! Several models that decode as one.

use std::collections::HashMap;

use super::{Decoding, NextTokens};

/// Several models that decode as one: the probability of a token is the mean over the models.
pub(crate) struct EnsembleDecoding<'a> {
    members: Vec<Member<'a>>,
}

struct Member<'a> {
    decoding: Box<dyn Decoding + 'a>,
    /// This member's token ids, by the ids of the first member, if they may differ.
    ids: Option<&'a [u32]>,
    /// The column of each candidate of the first member.
    columns: Vec<usize>,
}

/// A member, with its ids for the tokens of the first member, if they may differ.
type DecodingWithIds<'a> = (Box<dyn Decoding + 'a>, Option<&'a [u32]>);

impl<'a> EnsembleDecoding<'a> {
    /// # Panics
    /// If there is no member, or members differ in rows or candidates.
    pub(crate) fn new(members: Vec<DecodingWithIds<'a>>) -> Self {
        let first = members.first();
        let (first, _) = first.expect("EnsembleDecoding: at least one member expected, got none");
        let (rows, candidates) = (first.rows(), first.candidates().to_vec());
        let members = members.into_iter().map(|(decoding, ids)| {
            let places: HashMap<u32, usize> = decoding.candidates().iter().copied().zip(0..).collect();
            let id = |token: &u32| ids.map_or(*token, |ids| ids[*token as usize]);
            let columns = candidates.iter().map(|token| places.get(&id(token)).copied());
            let columns: Option<Vec<usize>> = columns.collect();
            let columns = columns.filter(|columns| columns.len() == places.len() && decoding.rows() == rows);
            let Some(columns) = columns else {
                panic!(
                    "EnsembleDecoding: members of the same rows and candidates expected, got {rows} and {} rows of {} \
                     and {}",
                    decoding.rows(),
                    candidates.len(),
                    places.len()
                )
            };
            Member {
                decoding,
                ids,
                columns,
            }
        });
        let members = members.collect();
        Self { members }
    }
}

impl Member<'_> {
    /// The step after these tokens of the first member, with log-probabilities in the order of its candidates.
    fn step(&mut self, previous: &[u32]) -> NextTokens {
        let Some(ids) = self.ids else {
            return self.decoding.step(previous);
        };
        let own: Vec<u32> = previous.iter().map(|&token| ids[token as usize]).collect();
        let next = self.decoding.step(&own);
        let rows = next.log_probabilities.chunks_exact(self.columns.len());
        let in_order = rows.flat_map(|row| self.columns.iter().map(|&column| row[column]));
        NextTokens {
            log_probabilities: in_order.collect(),
            weights: next.weights,
        }
    }
}

impl Decoding for EnsembleDecoding<'_> {
    fn candidates(&self) -> &[u32] {
        self.members[0].decoding.candidates()
    }

    fn is_end(&self, token: u32) -> bool {
        self.members[0].decoding.is_end(token)
    }

    fn rows(&self) -> usize {
        self.members[0].decoding.rows()
    }

    fn step(&mut self, previous: &[u32]) -> NextTokens {
        let steps = self.members.iter_mut();
        let steps: Vec<NextTokens> = steps.map(|member| member.step(previous)).collect();
        let of_element = |index: usize| {
            let all = steps.iter().map(move |step| step.log_probabilities[index]);
            log_mean(all)
        };
        let elements = 0..steps[0].log_probabilities.len();
        let log_probabilities = elements.map(of_element).collect();
        let weights: Option<Vec<&Vec<Vec<f32>>>> =
            steps.iter().map(|step| step.weights.as_ref()).collect();
        NextTokens {
            log_probabilities,
            weights: weights.and_then(|weights| mean_weights(&weights)),
        }
    }

    fn select(&mut self, rows: &[usize]) {
        for member in &mut self.members {
            member.decoding.select(rows);
        }
    }

    fn restart(&mut self, examples: &[usize]) {
        for member in &mut self.members {
            member.decoding.restart(examples);
        }
    }
}

/// The logarithm of the mean of probabilities that are given as logarithms; NaN if one is NaN.
fn log_mean(all: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = all.clone().fold(f64::NEG_INFINITY, f64::max);
    let (sum, count) = all.fold((0.0, 0.0), |(sum, count), it| {
        // This includes the case that all probabilities are 0.
        let share = match it == largest {
            true => 1.0,
            false => (it - largest).exp(),
        };
        (sum + share, count + 1.0)
    });
    let mean = largest + (sum / count).ln();
    // Rounding may give a probability above 1.
    if mean > 0.0 { 0.0 } else { mean }
}

/// The mean of the members' weights, if all have the same number of keys.
fn mean_weights(members: &[&Vec<Vec<f32>>]) -> Option<Vec<Vec<f32>>> {
    let (first, others) = members.split_first()?;
    let keys = |member: &Vec<Vec<f32>>| member.iter().map(Vec::len).collect::<Vec<_>>();
    if others.iter().any(|other| keys(other) != keys(first)) {
        return None;
    }
    let of_row = |row: usize| {
        let of_key = |key: usize| {
            let sum: f32 = members.iter().map(|member| member[row][key]).sum();
            sum / members.len() as f32
        };
        (0..first[row].len()).map(of_key).collect()
    };
    Some((0..first.len()).map(of_row).collect())
}
