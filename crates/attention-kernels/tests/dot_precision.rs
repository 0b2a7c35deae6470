//! Dot-product attention against plain loops in `f64`.

mod dot_support;

use attention_kernels::{Level, Mask, Real};
use dot_support::{Case, assert_precise, kernels};

fn precise<E: Real>(case: &Case) {
    let inputs = case.inputs::<E>(1);
    for level in Level::available() {
        let got = kernels(level, case, &inputs, Mask::none());
        assert_precise(
            &format!("{level:?} {case:?}"),
            case,
            &got,
            &inputs,
            &|_, _, _, _| true,
        );
    }
}

#[test]
fn unequal_prime_sizes() {
    precise::<f32>(&Case::SMALL);
    precise::<f64>(&Case::SMALL);
}

#[test]
fn above_every_tile() {
    precise::<f32>(&Case::LARGE);
    precise::<f64>(&Case::LARGE);
}
