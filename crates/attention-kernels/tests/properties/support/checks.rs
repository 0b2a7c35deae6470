//! What must hold of every problem.

use attention_kernels::{HeadIndex, Level, Real};

use super::case::{Case, Kind};
use super::exact::{assert_close, assert_same};
use super::kernels::{run, run_stored};
use super::plain;
use super::sizes::Sizes;
use super::tensor::{Storage, reordered};

/// The kernels compute what the definition says; what is hidden changes no bit of it, and neither do the layouts of
/// the inputs, nor the order of the examples that of each.
pub(super) fn check<E: Real>(case: &Case, level: Level) {
    let what = |property| {
        format!(
            "{property}, {} on {}: {case:?}",
            std::any::type_name::<E>(),
            level.name()
        )
    };
    assert_seen_keys(case);
    let found = run::<E>(case, level, false);
    assert_close(&what("as defined"), &found, &plain::solve(case));
    assert_same(
        &what("hidden"),
        &run(&case.poisoned(), level, false),
        &found,
    );
    if case.kind == Kind::AdditiveAttention {
        assert_same(&what("packed keys"), &run(case, level, true), &found);
        assert_same(
            &what("packed keys, hidden"),
            &run(&case.poisoned(), level, true),
            &found,
        );
    }
    for storage in [Storage::F16, Storage::Bf16] {
        let rounded = case.rounded(storage);
        let found = run::<E>(&rounded, level, false);
        for packed in [false, true] {
            assert_same(
                &what("half precision"),
                &run_stored(&rounded.poisoned(), storage, level, packed),
                &found,
            );
        }
    }
    // Dropout depends on the place of an example.
    let in_order: Vec<usize> = (0..case.order.len()).collect();
    let order = if case.dropout.is_some() {
        &in_order
    } else {
        &case.order
    };
    let moved = run::<E>(&case.reordered(order), level, false);
    for ((name, moved), (_, found)) in moved.into_iter().zip(found) {
        let expected = match name {
            // A sum over the examples, the same if their order is.
            "gradient of weight" if order != &in_order => continue,
            "gradient of weight" => found,
            _ => reordered(&found, order),
        };
        assert_same(
            &what("reordered"),
            &vec![(name, moved)],
            &vec![(name, expected)],
        );
    }
}

/// The mask knows which keys some query sees.
fn assert_seen_keys(case: &Case) {
    let Sizes {
        batch,
        heads,
        queries,
        keys,
        ..
    } = case.sizes;
    for [b, h] in (0..batch * heads).map(|at| [at / heads, at % heads]) {
        let is_seen = |j| (0..queries).any(|i| case.mask.sees([b, h, i, j]));
        let expected: Vec<bool> = (0..keys).map(is_seen).collect();
        let found =
            case.mask
                .mask()
                .attended_keys(HeadIndex { batch: b, head: h }, 1, queries, keys);
        assert_eq!(found, expected, "example {b}, head {h}: {case:?}");
    }
}
