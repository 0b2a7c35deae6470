//! Pairs of source and target, and their division into training and validation.

use std::collections::{HashMap, HashSet};

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use crate::error::{Error, Result};

/// A source and the target that belongs to it, as tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The tokens that the encoder reads.
    pub source: Vec<String>,
    /// The tokens that the decoder learns to predict.
    pub target: Vec<String>,
}

/// Pairs for training, and others for validation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// The training pairs.
    pub train: Vec<Pair>,
    /// The validation pairs. [`Task::train_valid`](crate::Task::train_valid) and [`split_holdout`] take them from
    /// sources that are not in `train`.
    pub valid: Vec<Pair>,
}

/// Refuses an empty training or validation set.
pub(crate) fn check_counts(train: usize, valid: usize) -> Result<()> {
    for (name, count) in [("training", train), ("validation", valid)] {
        if count == 0 {
            let what = format!("there are no {name} pairs");
            return Err(Error::EmptyData { what });
        }
    }
    Ok(())
}

/// Holds out a fraction of the pairs for validation, by source: all pairs of one source are on the same side.
///
/// The fraction is of the distinct sources, rounded, with at least one source on each side. The same seed holds out the
/// same sources; both sides keep the order of `pairs`.
///
/// # Errors
/// [`Error::Config`] if `fraction` is not between 0 and 1, or there are fewer than two distinct sources;
/// [`Error::EmptyData`] without pairs.
pub fn split_holdout(pairs: Vec<Pair>, fraction: f64, seed: u64) -> Result<Pairs> {
    if pairs.is_empty() {
        let what = "there are no pairs to split".to_owned();
        return Err(Error::EmptyData { what });
    }
    let groups = group_by_source(&pairs);
    let held_out = held_out_groups(groups.len(), fraction, seed)?;
    let held_out = groups.iter().zip(held_out).filter(|(_, it)| *it);
    let held_out: HashSet<Vec<String>> = held_out.map(|(it, _)| it.source.to_vec()).collect();
    let is_held_out = |pair: &Pair| held_out.contains(&pair.source);
    let (valid, train) = pairs.into_iter().partition(is_held_out);
    Ok(Pairs { train, valid })
}

/// Which of `count` sources, in the order of their first pairs, are held out.
pub(crate) fn held_out_groups(count: usize, fraction: f64, seed: u64) -> Result<Vec<bool>> {
    if !(fraction > 0.0 && fraction < 1.0) {
        let what = "share of the pairs to hold out";
        let expected = "a number between 0 and 1, both excluded";
        return Err(Error::config(what, expected, fraction));
    }
    if count < 2 {
        let what = "pairs to split into training and validation";
        let expected = "at least two different sources";
        return Err(Error::config(what, expected, "one"));
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let number = (fraction * count as f64).round() as usize;
    let mut held_out = vec![false; count];
    for &group in &order[..number.clamp(1, count - 1)] {
        held_out[group] = true;
    }
    Ok(held_out)
}

/// A source with all its correct targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceGroup<'a> {
    /// The source.
    pub source: &'a [String],
    /// Its distinct targets, in the order of their pairs; at least one.
    pub targets: Vec<&'a [String]>,
}

/// Collects the targets of each source, such as the pronunciations of one word. Sources are in the order of their first
/// pair.
pub fn group_by_source(pairs: &[Pair]) -> Vec<SourceGroup<'_>> {
    let mut groups = Vec::<SourceGroup<'_>>::new();
    let mut places = HashMap::<&[String], usize>::new();
    for Pair { source, target } in pairs {
        let place = *places.entry(source).or_insert_with(|| {
            let targets = Vec::new();
            groups.push(SourceGroup { source, targets });
            groups.len() - 1
        });
        let targets = &mut groups[place].targets;
        if !targets.contains(&&target[..]) {
            targets.push(target);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::pair;

    /// 100 sources; every third has two targets.
    fn pairs() -> Vec<Pair> {
        let one = (0..100).map(|i| pair(&i.to_string(), "a"));
        one.chain((0..100).step_by(3).map(|i| pair(&i.to_string(), "b")))
            .collect()
    }

    fn sources(pairs: &[Pair]) -> HashSet<&[String]> {
        pairs.iter().map(|pair| &pair.source[..]).collect()
    }

    #[test]
    fn a_split_keeps_every_source_on_one_side() {
        let all = pairs();
        let split = split_holdout(all.clone(), 0.2, 7).unwrap();
        let sides = [&split.train, &split.valid].map(|side| sources(side).len());
        assert_eq!(sides, [80, 20]);
        assert!(sources(&split.train).is_disjoint(&sources(&split.valid)));
        assert_eq!(split.train.len() + split.valid.len(), all.len());
        let in_order = |part: &[Pair]| {
            let mut rest = all.iter();
            part.iter().all(|pair| rest.any(|other| other == pair))
        };
        assert!(in_order(&split.train) && in_order(&split.valid));
    }

    #[test]
    fn both_sides_get_something_or_it_is_an_error() {
        for fraction in [1e-9, 1.0 - 1e-9] {
            let split = split_holdout(vec![pair("a", "1"), pair("b", "2")], fraction, 0).unwrap();
            assert_eq!((split.train.len(), split.valid.len()), (1, 1));
        }
        let config_error = |pairs, fraction| {
            let error = split_holdout(pairs, fraction, 0);
            assert!(matches!(error, Err(Error::Config { .. })), "{fraction}");
        };
        for fraction in [0.0, 1.0, -0.5, f64::NAN, f64::INFINITY] {
            config_error(pairs(), fraction);
        }
        config_error(vec![pair("a", "1"), pair("a", "2")], 0.5);
        let none = split_holdout(vec![], 0.5, 0);
        assert!(matches!(none, Err(Error::EmptyData { .. })));
    }

    #[test]
    fn groups_keep_order_and_drop_repetition() {
        let pairs = [("b", "1"), ("a", "2"), ("b", "3"), ("b", "1")];
        let pairs = pairs.map(|(source, target)| pair(source, target));
        let groups = group_by_source(&pairs);
        let text = |group: &SourceGroup<'_>| {
            let targets: Vec<String> = group.targets.iter().map(|it| it.concat()).collect();
            format!("{}: {}", group.source.concat(), targets.join("|"))
        };
        let groups: Vec<String> = groups.iter().map(text).collect();
        assert_eq!(groups, ["b: 1|3", "a: 2"]);
    }
}
