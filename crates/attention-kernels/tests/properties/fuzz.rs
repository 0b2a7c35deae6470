//! What the fuzzer of `fuzz/` runs, on bytes that look random and are the same every time.

use crate::support::check_bytes;

#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn what_the_fuzzer_runs() {
    let mut state: u64 = 1;
    for len in 0..300 {
        let bytes: Vec<u8> = (0..len % 64)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect();
        check_bytes(&bytes);
    }
}
