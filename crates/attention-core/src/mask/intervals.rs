//! Masks that give the keys of each query by two numbers.

use std::ops::Range;

use burn::tensor::{Int, Tensor};

use super::{Mask, Parts, selected};
use crate::ops::Intervals;

impl Mask {
    /// Query `i` of example `b` attends to the keys `start .. end` of `bounds[b][i] = [start, end]`; to none if the
    /// interval is empty. A single example or query serves all.
    ///
    /// The mask fits calls with this number of queries.
    ///
    /// # Panics
    /// If examples differ in the number of queries, there is none, or, when the mask is used, their numbers do not fit.
    ///
    /// ```
    /// use attention_core::{DotProductAttentionConfig, Mask};
    /// use burn::prelude::*;
    ///
    /// let device = Device::flex();
    /// let rows = Tensor::<3>::ones([1, 3, 4], &device);
    /// let attention = DotProductAttentionConfig::new().init();
    /// let mask = Mask::intervals(&[[[0, 3], [1, 2], [0, 0]]]);
    /// let context = attention.forward(rows.clone(), rows.clone(), rows, &mask);
    /// assert_eq!(context.dims(), [1, 3, 4]);
    /// ```
    pub fn intervals(bounds: &[impl AsRef<[[usize; 2]]>]) -> Self {
        Self::intervals_among(bounds, None)
    }

    /// These intervals, among the given number of keys, if any.
    pub(super) fn intervals_among(
        bounds: &[impl AsRef<[[usize; 2]]>],
        num_keys: Option<usize>,
    ) -> Self {
        let batch = bounds.len();
        let queries = bounds.first().map_or(0, |of| of.as_ref().len());
        assert!(
            batch * queries > 0,
            "Mask::intervals: at least one example with a query expected, got {batch} with {queries}"
        );
        for of in bounds {
            let got = of.as_ref().len();
            assert!(
                got == queries,
                "Mask::intervals: {queries} queries expected, as in the first example, got {got}"
            );
        }
        let bounds = bounds.iter().flat_map(|of| of.as_ref().iter().copied());
        let intervals = Intervals {
            bounds: bounds.collect(),
            shape: [batch, queries],
        };
        Parts {
            intervals: Some(intervals),
            interval_keys: num_keys,
            ..Parts::default()
        }
        .into()
    }

    /// The intervals of some queries of example `b`, if the mask consists of intervals alone.
    pub(crate) fn of_example(&self, b: usize, queries: Range<usize>) -> Self {
        let bounds = self.parts().intervals.as_ref().map(|of| {
            let [_, num_queries] = of.shape;
            of.bounds[b * num_queries..][queries].to_vec()
        });
        bounds.map_or_else(Self::none, |bounds| Self::intervals(&[bounds]))
    }
}

impl Intervals {
    /// These intervals, clamped to `num_keys` keys.
    pub(super) fn within(&self, num_keys: usize) -> Self {
        let bounds = self.bounds.iter();
        Self {
            bounds: bounds.map(|of| of.map(|key| key.min(num_keys))).collect(),
            shape: self.shape,
        }
    }

    /// The keys that are in the intervals of both.
    ///
    /// # Panics
    /// If examples or queries differ in number, and neither is 1.
    pub(super) fn both(self, other: Self) -> Self {
        let pairs = self.shape.into_iter().zip(other.shape);
        let fits = pairs.into_iter().all(|(a, b)| a == b || a == 1 || b == 1);
        assert!(
            fits,
            "Mask::intervals combined with `&`: [batch, queries] = {:?} or 1 expected, got {:?}",
            self.shape, other.shape
        );
        self.intersect(&other)
    }

    /// The intervals of the examples `indices`, which are read to the host; a single example serves all.
    ///
    /// # Panics
    /// If an index is no example.
    pub(super) fn select(&self, indices: Tensor<1, Int>) -> Self {
        if self.shape[0] == 1 {
            return self.clone();
        }
        self.examples(selected(indices, self.shape[0]))
    }

    /// Repeats the intervals of every example `times` times, the copies next to each other.
    pub(super) fn expand(&self, times: usize) -> Self {
        let [batch, _] = self.shape;
        if batch == 1 {
            return self.clone();
        }
        self.examples((0..batch * times).map(|at| at / times))
    }

    fn examples(&self, examples: impl Iterator<Item = usize>) -> Self {
        let [_, queries] = self.shape;
        let of_example = |at: usize| &self.bounds[at * queries..][..queries];
        let bounds: Vec<_> = examples.flat_map(of_example).copied().collect();
        Self {
            // Without examples, one that nobody reads.
            shape: [(bounds.len() / queries).max(1), queries],
            bounds,
        }
    }
}
