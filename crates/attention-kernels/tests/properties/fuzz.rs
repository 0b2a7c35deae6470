//! The checks of the fuzzer of `fuzz/`, on bytes that look random and are the same every time.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

use crate::support::check_bytes;

#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn what_the_fuzzer_runs() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for len in 0..300 {
        let mut bytes = vec![0; len % 64];
        random.fill_bytes(&mut bytes);
        check_bytes(&bytes);
    }
}
