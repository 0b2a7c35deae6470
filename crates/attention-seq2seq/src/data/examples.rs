//! Examples: pairs as token ids.

use crate::text::vocab::Vocab;

/// A pair of source and target as token ids: see [`Vocabs::encode`](crate::Vocabs::encode).
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The source tokens, at least one.
    pub source: Vec<u32>,
    /// The target tokens, without begin and end.
    pub target: Vec<u32>,
}

impl Example {
    /// The number of target tokens, the end included.
    pub(crate) fn target_len(&self) -> usize {
        self.target.len() + 1
    }

    pub(crate) fn ended_target(&self) -> impl Iterator<Item = u32> + '_ {
        self.target.iter().copied().chain([Vocab::EOS])
    }
}

/// Examples, contiguous in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examples {
    tokens: Vec<u32>,
    /// The ends of the source and the target of each example.
    ends: Vec<[u32; 2]>,
}

impl Examples {
    /// The largest number of tokens of all examples together.
    pub(crate) const MAX_TOKENS: usize = u32::MAX as usize;

    /// Capacity for `examples` examples with `tokens` tokens together.
    pub(crate) fn with_capacity(examples: usize, tokens: usize) -> Self {
        Self {
            tokens: Vec::with_capacity(tokens),
            ends: Vec::with_capacity(examples),
        }
    }

    /// # Panics
    /// If there are more than [`MAX_TOKENS`](Self::MAX_TOKENS).
    pub(crate) fn push(
        &mut self,
        source: impl Iterator<Item = u32>,
        target: impl Iterator<Item = u32>,
    ) {
        let mut end_of = |part: &mut dyn Iterator<Item = u32>| {
            self.tokens.extend(part);
            u32::try_from(self.tokens.len()).expect("fewer than 2^32 tokens")
        };
        let ends = [end_of(&mut { source }), end_of(&mut { target })];
        self.ends.push(ends);
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The example at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn get(&self, index: usize) -> Example {
        let [start, source_end, end] = self.range(index);
        Example {
            source: self.tokens[start..source_end].to_vec(),
            target: self.tokens[source_end..end].to_vec(),
        }
    }

    /// The lengths of source and target.
    pub(crate) fn lens(&self, index: usize) -> (usize, usize) {
        let [start, source_end, end] = self.range(index);
        (source_end - start, end - source_end)
    }

    /// The CRC-32 of all tokens and of the ends of each example.
    pub(crate) fn checksum(&self) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        let numbers = self.tokens.iter().chain(self.ends.as_flattened());
        numbers.for_each(|number| sum.update(&number.to_le_bytes()));
        sum.finalize()
    }

    pub(crate) fn longest_target(&self) -> usize {
        let targets = (0..self.len()).map(|index| self.lens(index).1);
        targets.max().unwrap_or(0)
    }

    /// The number of distinct source tokens that occur once, and of such target tokens, without special tokens.
    pub fn once(&self) -> [usize; 2] {
        let mut counts = [Vec::<u8>::new(), Vec::new()];
        let mut start = 0;
        for &[source_end, end] in &self.ends {
            let (source_end, end) = (source_end as usize, end as usize);
            let sides = [start..source_end, source_end..end];
            for (counts, side) in counts.iter_mut().zip(sides) {
                for &token in &self.tokens[side] {
                    let token = token as usize;
                    if counts.len() <= token {
                        counts.resize(token + 1, 0);
                    }
                    counts[token] = counts[token].saturating_add(1);
                }
            }
            start = end;
        }
        let is_once = |count: &&u8| **count == 1;
        counts.map(|counts| {
            let of_data = counts.iter().skip(Vocab::SPECIAL_TOKENS);
            of_data.filter(is_once).count()
        })
    }

    fn range(&self, index: usize) -> [usize; 3] {
        let before = index.checked_sub(1);
        let start = before.map_or(0, |before| self.ends[before][1]);
        let [source_end, end] = self.ends[index];
        [start, source_end, end].map(|at| at as usize)
    }
}

impl From<Vec<Example>> for Examples {
    /// # Panics
    /// If there are 2^32 tokens or more.
    fn from(examples: Vec<Example>) -> Self {
        let each = examples.iter();
        let tokens = each.map(|example| example.source.len() + example.target.len());
        let mut all = Self::with_capacity(examples.len(), tokens.sum());
        for Example { source, target } in examples {
            all.push(source.into_iter(), target.into_iter());
        }
        all
    }
}

/// An example with these tokens.
#[cfg(test)]
pub(crate) fn example(source: &[u32], target: &[u32]) -> Example {
    Example {
        source: source.to_vec(),
        target: target.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_occur_once_are_counted_by_side() {
        let one = example(&[4, 5, 7, Vocab::UNK], &[4, 4]);
        let examples = Examples::from(vec![one, example(&[5, 9], &[6])]);
        // The sources' 4, 7 and 9; the target's 6.
        assert_eq!(examples.once(), [3, 1]);
        assert_eq!(Examples::default().once(), [0, 0]);
    }
}
