//! The caches of all layers of a stack.

use attention_core::KeyValueCache;
use burn::tensor::{Int, Tensor};

use crate::generate::SelectTexts;

/// The keys and values of a growing text in each layer of a stack: the state of generation, created by
/// [`TransformerEncoder::cache`](super::TransformerEncoder::cache) and similar methods.
///
/// ```
/// use attention_core::NewRows;
/// use attention_transformers::{TransformerEncoderConfig, TransformerLayerConfig};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let stack = TransformerEncoderConfig::new(TransformerLayerConfig::new(12, 3, 17), 2).init(&device);
/// let mut cache = stack.cache();
/// stack.forward_cached(Tensor::ones([2, 5, 12], &device), NewRows::First(&[5, 3]), &mut cache);
/// // Beam search: three beams of each example, then the ones that a step keeps.
/// cache.expand(3);
/// cache.select(Tensor::from_ints([0, 0, 1, 5, 4, 4], &device));
/// assert_eq!(cache.lengths(), [5, 5, 5, 3, 3, 3]);
/// ```
#[derive(Clone, Debug)]
pub struct TransformerCache {
    /// One cache for each layer, empty or with the same tokens; with a capacity, if needed.
    pub layers: Vec<KeyValueCache>,
}

impl TransformerCache {
    /// The number of tokens that each example has seen; empty before the first call.
    pub fn lengths(&self) -> Vec<usize> {
        let first = self.layers.first();
        first.map(KeyValueCache::lengths).unwrap_or_default()
    }

    /// Keeps the examples `indices`, in that order, as beam search does after a step. An empty cache stays empty.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    ///
    /// # Panics
    /// As [`KeyValueCache::select`].
    pub fn select(&mut self, indices: Tensor<1, Int>) {
        if self.lengths().is_empty() {
            return;
        }
        for layer in &mut self.layers {
            layer.select(indices.clone());
        }
    }

    /// Repeats every example `beam` times, the copies next to each other.
    pub fn expand(&mut self, beam: usize) {
        for layer in &mut self.layers {
            layer.expand(beam);
        }
    }

    /// Forgets the last tokens of each example; the first `lengths[b]` of example `b` remain.
    ///
    /// # Panics
    /// As [`KeyValueCache::truncate`].
    pub fn truncate(&mut self, lengths: &[usize]) {
        for layer in &mut self.layers {
            layer.truncate(lengths);
        }
    }

    /// An empty cache for layers with these windows.
    pub(crate) fn of_windows(windows: impl Iterator<Item = Option<usize>>) -> Self {
        let layers = windows.map(KeyValueCache::of_window).collect();
        Self { layers }
    }

    /// # Panics
    /// If it has another number of layers.
    pub(crate) fn check(&self, stack: &str, layers: usize) {
        assert!(
            self.layers.len() == layers,
            "{stack}: a cache of {layers} layers expected, as many as the stack has, got one of {}",
            self.layers.len()
        );
    }
}

impl SelectTexts for TransformerCache {
    fn select(&mut self, indices: Tensor<1, Int>) {
        Self::select(self, indices);
    }
}
