//! Random inputs, what the kernels make of them, and what they must make of them.
//!
//! A string of bytes is a case: the tests of this folder draw such strings, and so does the fuzzer of `fuzz/`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "the fuzzer calls a part")]

mod bytes;
mod case;
mod checks;
mod exact;
mod kernels;
mod mask;
mod misfits;
#[path = "../../support/owned_mask.rs"]
mod owned_mask;
mod plain;
#[path = "../../../../cpu-kernels/tests/support/random.rs"]
mod random;
mod sizes;
mod softmax;
mod tensor;
mod terms;

use attention_kernels::AttentionReal;
use cpu_kernels::Level;

use case::Case;

pub(crate) use case::Kind;

/// Every check of the case that `bytes` describe, with the kernel, level and type that they choose.
pub(crate) fn check_bytes(bytes: &[u8]) {
    let (choice, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let choice = usize::from(*choice);
    let kinds = [
        Kind::AdditiveScore,
        Kind::AdditiveAttention,
        Kind::DotProduct,
        Kind::Pairwise,
    ];
    let levels = Level::available();
    let level = levels[choice / 10 % levels.len()];
    let single = choice / 5 % 2 == 0;
    match kinds.get(choice % 5) {
        Some(kind) if single => check_case::<f32>(&Case::from_bytes(rest, *kind), level),
        Some(kind) => check_case::<f64>(&Case::from_bytes(rest, *kind), level),
        None if single => softmax::check::<f32>(rest, level),
        None => softmax::check::<f64>(rest, level),
    }
}

fn check_case<E: AttentionReal>(case: &Case, level: Level) {
    checks::check::<E>(case, level);
    misfits::check::<E>(case, level);
}

/// Checks the kernels of a kind, on every level and with both types.
pub(crate) fn check_kind(bytes: &[u8], kind: Kind) {
    let case = Case::from_bytes(bytes, kind);
    for level in Level::available() {
        checks::check::<f32>(&case, level);
        checks::check::<f64>(&case, level);
    }
}

/// As [`check_kind`], of the masked softmax.
pub(crate) fn check_softmax(bytes: &[u8]) {
    for level in Level::available() {
        softmax::check::<f32>(bytes, level);
        softmax::check::<f64>(bytes, level);
    }
}
