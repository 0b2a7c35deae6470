//! Dot-product attention gives the same bits on any number of threads and every time.

use attention_kernels::{Dropout, Mask};
use cpu_kernels::Level;

use super::case::{Case, kernels};
use crate::calls::on_threads;
use crate::modifiers::Modifiers;

#[test]
fn bits_do_not_depend_on_the_threads() {
    let few_heads = Case::SMALL.alone().with_pairs(401, 1031);
    let many_heads = Case::SMALL.with_heads(4, 2).with_batch(7);
    let many_heads = many_heads.with_pairs(67, 129);
    for case in [few_heads, many_heads, few_heads.with_queries(1)] {
        let case = case.with_modifiers(Modifiers::ALL);
        let case = case.with_dropout(Some(Dropout::new(0.1, 2)));
        let inputs = case.inputs::<f32>(1);
        let bounds: Vec<[usize; 2]> = (0..case.queries).map(|i| [i / 5, 60 + 2 * i]).collect();
        let none = Mask::none();
        for mask in [none, none.with_intervals(&bounds, [1, case.queries])] {
            let level = Level::current();
            let once = kernels(level, &case, &inputs, mask).bits();
            for threads in [1, 2, 3, 5] {
                on_threads(threads, || {
                    for _ in 0..3 {
                        let again = kernels(level, &case, &inputs, mask).bits();
                        assert!(again == once, "{threads} threads: {case:?}");
                    }
                });
            }
        }
    }
}

#[test]
fn a_hundred_repeats() {
    let case = Case::SMALL.with_dropout(Some(Dropout::new(0.5, 3)));
    let inputs = case.inputs::<f32>(1);
    let once = kernels(Level::current(), &case, &inputs, Mask::none()).bits();
    for _ in 0..100 {
        assert!(kernels(Level::current(), &case, &inputs, Mask::none()).bits() == once);
    }
}

/// The same seed drops the same weights, another one others, whatever the level.
#[test]
fn dropout_follows_the_seed() {
    let case = |seed| Case::SMALL.with_dropout(Some(Dropout::new(0.5, seed)));
    let inputs = Case::SMALL.inputs::<f64>(1);
    let context = |level, seed| kernels(level, &case(seed), &inputs, Mask::none()).context;
    let first = context(Level::PORTABLE, 1);
    assert_ne!(context(Level::PORTABLE, 2), first);
    for level in Level::available() {
        for (a, b) in context(level, 1).iter().zip(&first) {
            assert!((a - b).abs() < 1e-12, "{level:?}");
        }
    }
}
