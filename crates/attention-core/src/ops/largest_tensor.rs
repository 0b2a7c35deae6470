//! The largest tensor of a definition, which must fit into one buffer of the device: 128 MiB if the device promises no
//! more than WebGPU. No kernel makes a tensor of all pairs.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;

use super::attention_ops::AttentionBackend;

/// Checks that a definition's tensor of pairs, with some elements per pair, fits.
///
/// # Panics
/// If it does not fit.
pub(super) fn assert_fits<B: AttentionBackend>(
    operation: &str,
    queries: &FloatTensor<B>,
    keys: &FloatTensor<B>,
    elements_of_pair: usize,
) {
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    // Half precision is computed in f32.
    let size = queries.dtype().size().max(size_of::<f32>());
    let limit = B::largest_buffer(&queries.device());
    let pairs = [batch, heads, num_queries, num_keys];
    let fits = check(operation, pairs, elements_of_pair * size, limit);
    fits.unwrap_or_else(|message| panic!("{message}"));
}

fn check(
    operation: &str,
    pairs: [usize; 4],
    bytes_of_pair: usize,
    limit: usize,
) -> Result<(), String> {
    let bytes = pairs.into_iter().fold(bytes_of_pair, usize::saturating_mul);
    if bytes <= limit {
        return Ok(());
    }
    let [batch, heads, queries, keys] = pairs;
    Err(format!(
        "{operation}: without its kernel, a tensor of {batch} x {heads} x {queries} queries and {keys} keys takes \
         {bytes} bytes, and a buffer of the device holds {limit}: expected fewer examples or queries at a time, or the \
         kernel (f32, and ATTENTION_KERNELS not off)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_beyond_a_buffer_are_refused_with_their_size() {
        let pairs = [3, 2, 5, 7];
        assert_eq!(check("additive_score", pairs, 44, 9_240), Ok(()));
        let message = check("additive_score", pairs, 44, 9_239).expect_err("a byte too many");
        let expected = "additive_score: without its kernel, a tensor of 3 x 2 x 5 queries and 7 keys takes 9240 bytes, \
                        and a buffer of the device holds 9239";
        assert!(message.starts_with(expected), "{message}");
        let overflow = check("additive_score", [usize::MAX, 2, 5, 7], 44, usize::MAX - 1);
        assert!(overflow.is_err());
    }
}
