//! Properties of all inputs, tried on random ones.

mod fuzz;
mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use support::{Kind, check_kind, check_softmax};

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "takes hours")]
    fn additive_scores(bytes in vec(any::<u8>(), 0..60)) {
        check_kind(&bytes, Kind::AdditiveScore);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes hours")]
    fn additive_attention(bytes in vec(any::<u8>(), 0..60)) {
        check_kind(&bytes, Kind::AdditiveAttention);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes hours")]
    fn dot_products(bytes in vec(any::<u8>(), 0..60)) {
        check_kind(&bytes, Kind::DotProduct);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes hours")]
    fn pairwise_terms(bytes in vec(any::<u8>(), 0..60)) {
        check_kind(&bytes, Kind::Pairwise);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes hours")]
    fn masked_softmax(bytes in vec(any::<u8>(), 0..30)) {
        check_softmax(&bytes);
    }
}

/// One example, two heads, 5 queries, 9 keys, rows of 3 and 5 elements, lengths and flags: Miri has the time for it.
#[test]
fn a_small_case_of_each_kernel() {
    let case = [0, 1, 4, 2, 0, 2, 1, 4, 0, 0, 3];
    check_kind(&case, Kind::AdditiveScore);
    check_kind(&case, Kind::AdditiveAttention);
    check_kind(&case, Kind::DotProduct);
    check_kind(&case, Kind::Pairwise);
    check_softmax(&[0, 1, 1, 4, 4, 0, 0, 3]);
}
