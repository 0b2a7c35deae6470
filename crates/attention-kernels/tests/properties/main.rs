//! What holds of every problem, tried on random ones.

mod fuzz;
mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use support::{Kind, check_kind, check_softmax};

/// Problems for each test.
const CASES: u32 = if cfg!(miri) { 4 } else { 200 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn additive_scores(bytes in vec(any::<u8>(), 0..60)) {
        check_kind(&bytes, Kind::AdditiveScore);
    }

    #[test]
    fn additive_attention(bytes in vec(any::<u8>(), 0..60)) {
        check_kind(&bytes, Kind::AdditiveAttention);
    }

    #[test]
    fn dot_products(bytes in vec(any::<u8>(), 0..60)) {
        check_kind(&bytes, Kind::DotProduct);
    }

    #[test]
    fn masked_softmax(bytes in vec(any::<u8>(), 0..30)) {
        check_softmax(&bytes);
    }
}
