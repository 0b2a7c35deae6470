//! The expected alignment of monotonic walks.

use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::harness::wide::widened;

/// The probability that a walk over the keys stops at each key: it begins at key `k` with probability `previous_k`,
/// stops at a key `j` that it reaches with probability `p_j = choose_j`, and otherwise goes on to the next key.
///
/// `alpha_j = p_j q_j`, where `q_j = (1 - p_{j-1}) q_{j-1} + previous_j` is the probability to reach key `j`.
///
/// Raffel et al. 2017, "Online and Linear-Time Attention by Enforcing Monotonic Alignments", section 2.3. The paper
/// computes it in parallel as `p cumprod(1 - p) cumsum(previous / cumprod(1 - p))`, whose divisor vanishes after a few
/// certain stops and has to be clamped. Here it is a scan by doubling: in `log2(keys)` rounds, each key adds what the
/// keys `1, 2, 4, ..` before it have gathered, times the probability to get from there to it. All numbers are
/// probabilities and nothing is divided, so 0 and 1 need no special care, in gradients either.
///
/// If every `p` is 0 or 1 and there is one start, the result is 0 or 1: the hard walk.
///
/// TensorFlow Addons equivalent: `monotonic_attention(choose, previous, mode)` with the mode `recursive`, or `hard` for
/// `p` of 0 and 1. Its mode `parallel` is the paper's, with the clamped divisor.
///
/// Half precision is computed in f32, and the result has the type of `choose`.
///
/// # Shapes
/// - choose, previous and result `[batch, keys]`
///
/// # Panics
/// If the shapes differ.
pub fn expected_alignment(choose: Tensor<2>, previous: Tensor<2>) -> Tensor<2> {
    let [batch, num_keys] = choose.dims();
    assert_shape!(previous, [batch, num_keys]);
    let dtype = choose.dtype();
    let (choose, previous) = (widened(choose), widened(previous));
    if batch == 0 || num_keys <= 1 {
        return (choose * previous).cast(dtype);
    }
    // Invariant: `reached` counts the walks that began at most `span - 1` keys before, and `passed` is the probability
    // to get from `span` keys before to here. Before the first key there is nothing.
    let pass = 1.0 - choose.clone().narrow(1, 0, num_keys - 1);
    let nothing = choose.clone().detach().narrow(1, 0, 1).zeros_like();
    let mut passed = Tensor::cat(vec![nothing, pass], 1);
    let mut reached = previous;
    let mut span = 1;
    while span < num_keys {
        let rest = num_keys - span;
        let later = |tensor: &Tensor<2>| tensor.clone().narrow(1, span, rest);
        let earlier = |tensor: &Tensor<2>| tensor.clone().narrow(1, 0, rest);
        let first = |tensor: &Tensor<2>| tensor.clone().narrow(1, 0, span);
        let taken = later(&reached) + later(&passed) * earlier(&reached);
        reached = Tensor::cat(vec![first(&reached), taken], 1);
        if 2 * span < num_keys {
            let further = later(&passed) * earlier(&passed);
            passed = Tensor::cat(vec![first(&passed), further], 1);
        }
        span *= 2;
    }
    (choose * reached).cast(dtype)
}
