//! Sources in batches.

use crate::error::{Error, Result};

/// The number of sources translated at once, if outputs are short.
pub(super) const BATCH_SIZE: usize = 256;

/// The number of batches whose sources are sorted together. Ten thousand words take a twentieth longer in windows of
/// sixteen batches than in one. Batch by batch they take a third longer: each batch has few words of one length.
pub(super) const BATCHES_OF_WINDOW: usize = 16;

/// The largest number of tokens in the outputs of a window: half a gigabyte, including their strings.
pub(super) const BATCH_TOKENS: usize = 1 << 23;

/// Checks that every source has at least one token.
pub(super) fn check_sources(sources: &[&[String]]) -> Result<()> {
    match sources.iter().any(|source| source.is_empty()) {
        true => Err(Error::config("a source", "at least one token", "none")),
        false => Ok(()),
    }
}

/// The indices of sources of these lengths, in batches of at most `size` with equal lengths: padding would change the
/// last bits of sums in some attentions, and so results would depend on the other sources of a batch.
pub(super) fn of_one_length(lens: &[usize], size: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lens.len()).collect();
    order.sort_by_key(|&index| lens[index]);
    let of_length = order.chunk_by(|&a, &b| lens[a] == lens[b]);
    let batches = of_length.flat_map(|indices| indices.chunks(size));
    batches.map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_sources_of_one_length() {
        let lens = [3, 1, 3, 3, 2, 1];
        let expected = [vec![1, 5], vec![4], vec![0, 2], vec![3]];
        assert_eq!(of_one_length(&lens, 2), expected);
        assert_eq!(of_one_length(&[], 2), Vec::<Vec<usize>>::new());
    }
}
