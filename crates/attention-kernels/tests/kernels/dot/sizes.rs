//! Sizes of 0 and 1, strides, and what gradients are added to.

use attention_kernels::{AttentionInputs, Mask, Rows, accumulate_deferred};
use cpu_kernels::Level;

use super::case::{Case, kernels};
use super::oracle::assert_precise;
use crate::modifiers::Modifiers;
use crate::run::run;

#[test]
fn every_axis_of_size_zero_or_one() {
    for small in [0, 1] {
        let one = |change: &dyn Fn(&mut Case)| {
            let mut case = Case::SMALL.with_modifiers(Modifiers::ALL);
            change(&mut case);
            let inputs = case.inputs::<f32>(1);
            for level in Level::available() {
                let got = kernels(level, &case, &inputs, Mask::none());
                let what = format!("{level:?} {case:?}");
                assert_precise(&what, &case, &got, &inputs, &|_| true);
            }
        };
        one(&|case| case.batch = small);
        one(&|case| (case.heads, case.key_heads) = (small, small));
        one(&|case| case.queries = small);
        one(&|case| case.keys = small);
        one(&|case| case.size = small);
        one(&|case| case.value_size = small);
        one(&|case| (case.queries, case.keys) = (small, small));
        one(&|case| (case.size, case.value_size) = (small, small));
    }
}

#[test]
fn without_keys_the_context_is_zero() {
    let case = Case::SMALL.with_keys(0);
    for level in Level::available() {
        let got = kernels(level, &case, &case.inputs::<f32>(1), Mask::none());
        assert!(got.context.iter().all(|&x| x == 0.0));
        assert!(got.lse.iter().all(|&x| x == f64::NEG_INFINITY));
        assert!(got.queries.iter().all(|&x| x == 0.0));
    }
}

/// `[batch, heads, rows, size]` to `[batch, rows, heads, size]` with a gap after each row.
fn interleaved(data: &[f32], [batch, heads, rows, size]: [usize; 4]) -> Vec<f32> {
    let mut out = vec![f32::NAN; batch * heads * rows * (size + 3)];
    for row in 0..batch * heads * rows {
        let (b, h, i) = (row / rows / heads, row / rows % heads, row % rows);
        let to = ((b * rows + i) * heads + h) * (size + 3);
        out[to..to + size].copy_from_slice(&data[row * size..][..size]);
    }
    out
}

#[test]
fn strides_do_not_matter() {
    for value_size in [13, 16] {
        let case = Case::SMALL.with_pairs(20, 70).with_value_size(value_size);
        let ([batch, heads, queries, keys], size) = (case.pairs(), case.size);
        let inputs = case.inputs::<f32>(2);
        let shapes = [
            [batch, heads, queries, size],
            [batch, heads, keys, size],
            [batch, heads, keys, value_size],
            [batch, heads, queries, value_size],
        ];
        let (queries, keys, values) = (&inputs.queries, &inputs.keys, &inputs.values);
        let data = [queries, keys, values, &inputs.context_gradient];
        let copies = data.iter().zip(shapes);
        let copies: Vec<Vec<f32>> = copies.map(|(d, s)| interleaved(d, s)).collect();
        let view = |n: usize| {
            let [_, heads, rows, size] = shapes[n];
            let strides = [rows * heads * (size + 3), size + 3, heads * (size + 3)];
            Rows::strided(&copies[n], shapes[n], strides)
        };
        for level in Level::available() {
            let attention = AttentionInputs {
                queries: view(0),
                keys: view(1),
                values: view(2),
                ..inputs.attention(&case, Mask::none())
            };
            let got = run(level, &attention, view(3), inputs.modifiers.zeros());
            let expected = kernels(level, &case, &inputs, Mask::none());
            assert_eq!(got, expected, "{level:?}");
        }
    }
}

#[test]
fn expanded_axes() {
    let case = Case::SMALL.with_pairs(9, 70).with_value_size(16);
    let [batch, heads, queries, keys] = case.pairs();
    let (size, value_size) = (case.size, case.value_size);
    let mut inputs = case.inputs::<f32>(2);
    // One key and one value row for all keys of an example; one query for all heads.
    let repeat = |data: &mut Vec<f32>, size: usize, same: &dyn Fn(usize) -> usize| {
        let row = |row| data[same(row) * size..][..size].to_vec();
        *data = (0..data.len() / size).flat_map(row).collect();
    };
    let first_key = |row| row / (heads * keys) * heads * keys;
    repeat(&mut inputs.keys, size, &first_key);
    repeat(&mut inputs.values, value_size, &first_key);
    let first_query = |row| row / (heads * queries) * heads * queries;
    repeat(&mut inputs.queries, size, &first_query);
    for level in Level::available() {
        let expand = |elements, rows: usize, size: usize| {
            let strides = [heads * rows * size, 0, 0];
            Rows::strided(elements, [batch, heads, rows, size], strides)
        };
        let attention = AttentionInputs {
            queries: expand(&inputs.queries, queries, size),
            keys: expand(&inputs.keys, keys, size),
            values: expand(&inputs.values, keys, value_size),
            ..inputs.attention(&case, Mask::none())
        };
        let gradient = case.of_queries(&inputs.context_gradient, value_size);
        let got = run(level, &attention, gradient, inputs.modifiers.zeros());
        let expected = kernels(level, &case, &inputs, Mask::none());
        assert_eq!(got, expected, "{level:?}");
    }
}

#[test]
fn deferred_pairs_are_added_without_leaving_the_range() {
    let rows = [3e38_f32, -3e38, 3e38, 3e38];
    let rows = Rows::contiguous(&rows, [1, 1, 2, 2]);
    for level in Level::available() {
        let mut sums = [1.0; 4];
        // The second key is masked for the second query.
        accumulate_deferred(level, 1e-38, &[2.0, 4.0, 2.0, 0.0], rows, &mut sums);
        let expected = [13.0, 1.0, 13.0, -11.0];
        for (sum, expected) in sums.iter().zip(expected) {
            assert!((sum - expected).abs() < 1e-5, "{level:?}: {sums:?}");
        }
    }
}

#[test]
fn gradients_are_added() {
    let case = Case::SMALL.with_modifiers(Modifiers::ALL);
    let inputs = case.inputs::<f32>(3);
    for level in Level::available() {
        let once = kernels(level, &case, &inputs, Mask::none());
        let attention = inputs.attention(&case, Mask::none());
        let mut twice = once.clone();
        let gradient = case.of_queries(&inputs.context_gradient, case.value_size);
        twice.backward(level, &attention, None, gradient);
        for ((name, twice), (_, once)) in twice.outcome().iter().zip(&once.outcome()).skip(2) {
            let is_close = |(a, b): (&f64, &f64)| (a - 2.0 * b).abs() <= 1e-6 * (1.0 + b.abs());
            assert!(twice.iter().zip(once).all(is_close), "{level:?}: {name}");
        }
    }
}
