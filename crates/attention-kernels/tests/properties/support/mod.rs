//! Random problems, what the kernels make of them, and what they must make of them.
//!
//! A string of bytes is a problem: the tests of this folder draw such strings, and so does the fuzzer of `fuzz/`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bytes;
mod case;
mod checks;
mod exact;
mod kernels;
mod mask;
mod misfits;
mod plain;
mod softmax;
mod tensor;

use attention_kernels::{Level, Real};

pub(crate) use case::Case;
pub(crate) use checks::{check_additive_attention, check_additive_score, check_dot_product};
pub(crate) use misfits::check_misfits;
pub(crate) use softmax::check_softmax;

/// Every check of the problem that `bytes` describe, on the level and with the type that they choose.
#[allow(dead_code, reason = "for the fuzzer, and the test that runs what it runs")]
pub(crate) fn check_bytes(bytes: &[u8]) {
    let (choice, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let case = Case::from_bytes(bytes);
    let levels = Level::available();
    let level = levels[usize::from(choice / 2) % levels.len()];
    match choice % 2 {
        0 => check_all::<f32>(&case, level),
        _ => check_all::<f64>(&case, level),
    }
}

fn check_all<E: Real>(case: &Case, level: Level) {
    check_additive_score::<E>(case, level);
    check_additive_attention::<E>(case, level);
    check_dot_product::<E>(case, level);
    check_softmax::<E>(case, level);
    check_misfits::<E>(case, level);
}
