//! Other projects' cases, by this library, or named as out of scope with the reason.
//!
//! A case says its inputs in the layout of its suite. Splitting features into heads, giving a mask its missing axes and
//! naming parameters are the reader's; attention is the library's. [`By`] says how much of it one call does.
//! `docs/conformance.md` has the table.

mod onnx_attention;
mod onnx_rotary_embedding;
mod torch_attention;
mod torch_multi_head;

use attention_tests::conformance::{self, Attributes, Case};
use attention_tests::{Array, assert_close, assert_same, device};
use burn::tensor::DType;

/// Names of cases that no call computes, each with the reason.
type OutOfScope = &'static [(&'static str, &'static str)];

/// The cases with dropout in both suites of PyTorch.
const DROPOUT: OutOfScope = &[("dropout", "PyTorch's own draw of the dropped weights")];

/// How a case is computed from its inputs, whose axes alone were split, moved or added.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// One call; a mask, or a cache of the past keys, is made of one input, and a method of its result may read it.
    OneCall,
    /// Several calls of this library.
    Calls,
    /// Operations on tensors beside them.
    Tensors,
}

/// The cases of a suite that are in scope; `expected` of them are by one call, and by calls alone, as `by` says.
fn cases_in_scope<A: Attributes>(
    out_of_scope: OutOfScope,
    by: fn(&Case<A>) -> By,
    expected: [usize; 2],
) -> Vec<Case<A>> {
    let suite = A::SUITE;
    let mut cases = conformance::cases::<A>();
    let count = cases.len();
    for (name, reason) in out_of_scope {
        let at = cases.iter().position(|case| case.name == *name);
        let none = || panic!("{suite}: no case {name} to be out of scope: {reason}");
        cases.remove(at.unwrap_or_else(none));
    }
    let number = |of: By| cases.iter().filter(|case| by(case) == of).count();
    let one = number(By::OneCall);
    let alone = one + number(By::Calls);
    let done = cases.len();
    eprintln!("{suite}: {done} of {count} cases, {one} by one call, {alone} by calls alone");
    assert_eq!([one, alone], expected, "{suite}");
    cases
}

/// How near a result must come, relative to the largest element expected: nine digits are in a file.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-8,
        DType::F32 => 2e-6,
        // The suites round in between, too.
        _ => 4.0 * device::epsilon(dtype),
    }
}

/// [`assert_close`], and -inf exactly where -inf is expected.
fn assert_conforms(what: &str, actual: &Array, expected: &Array, tolerance: f64) {
    let minus_infinity = |array: &Array| array.map(|x| f64::from(x == f64::NEG_INFINITY));
    let others = |array: &Array| array.map(|x| if x == f64::NEG_INFINITY { 0.0 } else { x });
    assert_same(what, &minus_infinity(actual), &minus_infinity(expected));
    assert_close(what, &others(actual), &others(expected), tolerance);
}

/// [`assert_conforms`] for a gradient. Some are sums that cancel, as for the bias of keys: the largest gradient of the
/// case tells the size of the terms.
fn assert_gradient_conforms<A>(
    case: &Case<A>,
    name: &str,
    actual: &Array,
    expected: &Array,
    dtype: DType,
) {
    let magnitudes = case.gradients.values().map(|of| of.array.magnitude());
    let largest = magnitudes.fold(0.0, f64::max);
    let relative = (0.1 + largest) / (0.1 + expected.magnitude());
    let what = format!("{}: gradient of {name}, {dtype:?}", case.name);
    assert_conforms(&what, actual, expected, tolerance(dtype) * relative);
}

/// The array with axes of size 1 before its own, `axes` in all.
fn with_axes(array: &Array, axes: usize) -> Array {
    let missing = vec![1; axes - array.shape.len()];
    array.reshape(&[missing, array.shape.clone()].concat())
}

/// Four axes of `[batch, rows, heads * size]`.
fn split_heads(array: &Array, heads: Option<usize>) -> Array {
    match (&array.shape[..], heads) {
        (&[batch, rows, features], Some(heads)) => array
            .reshape(&[batch, rows, heads, features / heads])
            .permute(&[0, 2, 1, 3]),
        _ => array.clone(),
    }
}
