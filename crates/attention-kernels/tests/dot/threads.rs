//! Dot-product attention gives the same bits on any number of threads and every time.

use attention_kernels::{Dropout, Mask};
use cpu_kernels::Level;

use crate::case::Case;
use crate::modifiers::Modifiers;
use crate::run::kernels;

#[test]
fn bits_do_not_depend_on_the_threads() {
    if cfg!(miri) {
        return;
    }
    let few_heads = Case {
        batch: 1,
        heads: 1,
        key_heads: 1,
        queries: 401,
        keys: 1031,
        ..Case::SMALL
    };
    let many_heads = Case {
        batch: 7,
        heads: 4,
        key_heads: 2,
        queries: 67,
        keys: 129,
        ..Case::SMALL
    };
    for case in [
        few_heads,
        many_heads,
        Case {
            queries: 1,
            ..few_heads
        },
    ] {
        let case = Case {
            modifiers: Modifiers::ALL,
            dropout: Some(Dropout::new(0.1, 2)),
            ..case
        };
        let inputs = case.inputs::<f32>(1);
        let bounds: Vec<[usize; 2]> = (0..case.queries).map(|i| [i / 5, 60 + 2 * i]).collect();
        for mask in [
            Mask::none(),
            Mask::none().with_intervals(&bounds, [1, case.queries]),
        ] {
            let level = Level::current();
            let once = kernels(level, &case, &inputs, mask).bits();
            for threads in [1, 2, 3, 5] {
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .build()
                    .unwrap();
                for _ in 0..3 {
                    let again = pool.install(|| kernels(level, &case, &inputs, mask)).bits();
                    assert!(again == once, "{threads} threads: {case:?}");
                }
            }
        }
    }
}

#[test]
fn a_hundred_repeats() {
    let case = Case {
        dropout: Some(Dropout::new(0.5, 3)),
        ..Case::SMALL
    };
    let inputs = case.inputs::<f32>(1);
    let once = kernels(Level::current(), &case, &inputs, Mask::none()).bits();
    for _ in 0..if cfg!(miri) { 2 } else { 100 } {
        assert!(kernels(Level::current(), &case, &inputs, Mask::none()).bits() == once);
    }
}

/// The same seed drops the same weights, another one others, whatever the level.
#[test]
fn dropout_follows_the_seed() {
    let case = |seed| Case {
        dropout: Some(Dropout::new(0.5, seed)),
        ..Case::SMALL
    };
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
