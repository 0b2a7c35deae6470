//! Checks of every case.

use attention_kernels::{AttentionReal, HeadIndex};
use cpu_kernels::Level;

use super::case::{Case, Kind};
use super::exact::{assert_close, assert_same};
use super::kernels::{run, run_stored};
use super::plain;
use super::tensor::{Storage, reordered};

/// The kernels compute what the definition says; what is masked changes no bit of it, nor do the layouts of the inputs,
/// nor the order of the examples.
pub(super) fn check<E: AttentionReal>(case: &Case, level: Level) {
    let (element, on) = (std::any::type_name::<E>(), level.name());
    let what = |property| format!("{property}, {element} on {on}: {case:?}");
    assert_attended_keys(case);
    let found = run::<E>(case, level, false);
    assert_close(&what("as defined"), &found, &plain::solve(case));
    let same = |property, case: &Case, packed| {
        assert_same(&what(property), &run(case, level, packed), &found);
    };
    same("masked", &case.poisoned(), false);
    if case.kind == Kind::AdditiveAttention {
        same("packed keys", case, true);
        same("packed keys, masked", &case.poisoned(), true);
    }
    for storage in [Storage::F16, Storage::Bf16] {
        let rounded = case.rounded(storage);
        let found = run::<E>(&rounded, level, false);
        for packed in [false, true] {
            let half = run_stored(&rounded.poisoned(), storage, level, packed);
            assert_same(&what("half precision"), &half, &found);
        }
    }
    // Dropout depends on the place of an example.
    let in_order: Vec<usize> = (0..case.order.len()).collect();
    let order = match case.dropout {
        Some(_) => &in_order,
        None => &case.order,
    };
    let moved = run::<E>(&case.reordered(order), level, false);
    for ((name, moved), (_, found)) in moved.into_iter().zip(found) {
        let expected = match name {
            // A sum over the examples, the same if their order is.
            "gradient of weight" | "gradient of sinks" if order != &in_order => continue,
            "gradient of weight" | "gradient of sinks" => found,
            _ => reordered(&found, order),
        };
        let (moved, expected) = (vec![(name, moved)], vec![(name, expected)]);
        assert_same(&what("reordered"), &moved, &expected);
    }
}

/// The mask knows which keys of a key head some query attends to.
fn assert_attended_keys(case: &Case) {
    let ([batch, heads, queries, keys], key_heads) = (case.sizes.scores(), case.sizes.key_heads);
    let group = heads / key_heads.max(1);
    for at in 0..batch * key_heads {
        let at = HeadIndex {
            batch: at / key_heads,
            head: at % key_heads,
        };
        let is_attended = |key| {
            let mut group = (0..heads).filter(|head| case.sizes.key_head(*head) == at.head);
            group.any(|h| (0..queries).any(|i| case.mask.attends([at.batch, h, i, key])))
        };
        let expected: Vec<bool> = (0..keys).map(is_attended).collect();
        let found = case.mask.mask().attended_keys(at, group, queries, keys);
        assert_eq!(found, expected, "{at:?}: {case:?}");
    }
}
