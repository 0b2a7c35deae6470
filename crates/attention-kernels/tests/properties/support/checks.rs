//! What must hold of every problem.

use attention_kernels::{Level, Real};

use super::case::{Case, Kind};
use super::exact::{Found, assert_close, assert_same};
use super::kernels::run;
use super::plain;
use super::tensor::reordered;

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
    // Dropout depends on the place of an example.
    let in_order: Vec<usize> = (0..case.order.len()).collect();
    let order = if case.dropout.is_some() {
        &in_order
    } else {
        &case.order
    };
    let mut moved = run::<E>(&case.reordered(order), level, false);
    let mut found: Found<E> = found
        .into_iter()
        .map(|(name, x)| (name, reordered(&x, order)))
        .collect();
    if order != &in_order {
        // A sum over the examples.
        moved.retain(|(name, _)| *name != "gradient of weight");
        found.retain(|(name, _)| *name != "gradient of weight");
    }
    assert_same(&what("reordered"), &moved, &found);
}
