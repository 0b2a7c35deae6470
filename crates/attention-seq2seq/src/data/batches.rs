//! Examples of similar length as batches.

use rand::Rng;
use rand::seq::SliceRandom;

use crate::data::examples::{Example, Examples};

/// Examples, and their assignment to batches.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    examples: Examples,
    /// Indices ordered by length, so that batches have little padding.
    order: Vec<u32>,
    batch_size: usize,
}

impl Batches {
    /// The number of batches whose examples are sorted by length together. More of them give less padding; fewer give
    /// batches with more different lengths.
    const POOL: usize = 64;

    /// Groups examples of similar length, `batch_size` at a time.
    ///
    /// # Panics
    /// If there are 2^32 examples.
    pub(crate) fn new(examples: Examples, batch_size: usize) -> Self {
        let count = u32::try_from(examples.len()).expect("fewer than 2^32 examples");
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_unstable_by_key(|&index| (examples.lens(index as usize), index));
        Self {
            examples,
            order,
            batch_size: batch_size.max(1),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len().div_ceil(self.batch_size)
    }

    pub(crate) fn get(&self, batch: usize) -> Vec<Example> {
        let order = self.order.chunks(self.batch_size).nth(batch);
        self.examples(order.unwrap_or_default())
    }

    /// Deals the examples anew to the same number of batches, in random order: each has random examples of similar
    /// length. Neighbours in a sorted file would have almost the same gradients.
    pub(crate) fn deal(&self, random: &mut impl Rng) -> Vec<Vec<u32>> {
        let mut order = self.order.clone();
        order.shuffle(random);
        for pool in order.chunks_mut(Self::POOL.saturating_mul(self.batch_size)) {
            pool.sort_by_key(|&index| self.examples.lens(index as usize));
        }
        let mut batches: Vec<Vec<u32>> =
            order.chunks(self.batch_size).map(<[u32]>::to_vec).collect();
        batches.shuffle(random);
        batches
    }

    /// The number of target tokens of a dealt batch, including end tokens.
    pub(crate) fn target_tokens(&self, batch: &[u32]) -> usize {
        let indices = batch.iter();
        let lens = indices.map(|&index| self.examples.lens(index as usize));
        lens.map(|(_, target)| target + 1).sum()
    }

    /// The examples of a dealt batch.
    pub(crate) fn examples(&self, batch: &[u32]) -> Vec<Example> {
        let example = |&index: &u32| self.examples.get(index as usize);
        batch.iter().map(example).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;

    use super::*;
    use crate::data::examples::example;

    #[test]
    fn batches_hold_every_example_once_by_length() {
        let of_lens = |at: u32| {
            let lens = [1 + (7 * at as usize) % 9, at as usize % 4];
            let [source, target] = lens.map(|len| vec![at; len]);
            example(&source, &target)
        };
        let examples: Vec<Example> = (0..50).map(of_lens).collect();
        let examples = Examples::from(examples);
        for size in [1, 7, 50, 99] {
            let batches = Batches::new(examples.clone(), size);
            assert_eq!(batches.len(), 50_usize.div_ceil(size));
            let all: Vec<Vec<Example>> = (0..batches.len()).map(|at| batches.get(at)).collect();
            assert!(all.iter().rev().skip(1).all(|batch| batch.len() == size));
            let flat: Vec<Example> = all.into_iter().flatten().collect();
            assert!(flat.is_sorted_by_key(|it| (it.source.len(), it.target.len())));
            let mut names: Vec<u32> = flat.iter().map(|it| it.source[0]).collect();
            names.sort_unstable();
            assert_eq!(names, (0..50).collect::<Vec<_>>());
        }
        let none = Batches::new(Examples::default(), 3);
        assert_eq!(none.len(), 0);
        assert_eq!(none.deal(&mut random(1)), [[0; 0]; 0]);
        assert_eq!(Batches::new(examples, 0).len(), 50, "as if it were 1");
    }

    fn random(seed: u64) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(seed)
    }

    #[test]
    fn batches_dealt_hold_every_example_once_with_others_each_time() {
        // Five lengths, sorted.
        let of_len = |at: u32| example(&vec![at; 1 + at as usize / 400], &[]);
        let examples: Vec<Example> = (0..2000).map(of_len).collect();
        let batches = Batches::new(Examples::from(examples), 10);
        let dealt = batches.deal(&mut random(1));
        assert_eq!(dealt.len(), batches.len());
        let mut all: Vec<u32> = dealt.concat();
        assert!(!all.is_sorted());
        all.sort_unstable();
        assert!(all.into_iter().eq(0..2000));
        // Pools of 160 have some 32 of a length: most batches are of one, some of two.
        let lens = |batch: &Vec<u32>| {
            let lens = batches.examples(batch).into_iter();
            let lens: BTreeSet<usize> = lens.map(|it| it.source.len()).collect();
            lens.len()
        };
        assert!(dealt.iter().all(|batch| lens(batch) <= 2));
        let neighbours = |batch: &&Vec<u32>| {
            let (least, most) = (batch.iter().min(), batch.iter().max());
            most.unwrap() - least.unwrap() < 100
        };
        assert_eq!(dealt.iter().filter(neighbours).count(), 0);
        assert_eq!(batches.deal(&mut random(1)), dealt);
        let others = batches.deal(&mut random(2));
        let same = others.iter().filter(|batch| dealt.contains(batch));
        assert_eq!(same.count(), 0);
    }
}
