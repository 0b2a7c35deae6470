//! Objects that contain each other, or are looked at under names without end.

use attention_tests::assert_says;
use attention_tests::checkpoint::{call, int, text, tuple};

use super::{Checkpoint, expected, state_dict, view};

#[test]
fn objects_that_contain_themselves_end() {
    let file = Checkpoint::new();
    // d = {}; d["a"] = d
    let own = b"}q\x00X\x01\x00\x00\x00ah\x00s".to_vec();
    let loaded = file.load(&state_dict(view().pickled(), vec![("own", own)]));
    assert_eq!(loaded.unwrap().data, expected());

    // l = []; 40 times: l = (l, l)
    let doubled = b"h\x00h\x00\x86q\x000".repeat(40);
    let twice = [&b"]q\x000"[..], &doubled, b"h\x00"].concat();
    let loaded = file.load(&state_dict(view().pickled(), vec![("twice", twice)]));
    assert_says(loaded.unwrap_err(), "contain each other without end");
}

#[test]
fn deep_nesting_ends() {
    let file = Checkpoint::new();
    let lists = [b"]".repeat(100_000), b"a".repeat(99_999)].concat();
    let loaded = file.load(&state_dict(view().pickled(), vec![("deep", lists)]));
    assert_eq!(loaded.unwrap().data, expected());

    let mut parameter = view().pickled();
    for _ in 0..1_000 {
        parameter = call("torch._utils\n_rebuild_parameter", &tuple(&[parameter]));
    }
    assert_says(file.error(parameter), "a parameter of parameters");
}

/// Few bytes that make many long names: one long key, used again and again, and below it many tensors.
#[test]
fn names_without_end_are_an_error() {
    let file = Checkpoint::new();
    let key = text(&"k".repeat(1 << 16));
    let open = |key: &[u8]| [b"}(", key].concat();
    // The key is put into the memo at its first use, and the tensor of the innermost dict at its own.
    let mut nested = open(&[&key[..], b"q\x01"].concat());
    for _ in 1..40 {
        nested.extend(open(b"h\x01"));
    }
    let innermost = [int(0), view().pickled(), b"q\x02".to_vec()].concat();
    nested.extend(open(&innermost));
    for index in 1..2_000 {
        nested.extend([int(index), b"h\x02".to_vec()].concat());
    }
    nested.extend(b"u".repeat(41));
    assert!(nested.len() < 100_000, "{}", nested.len());
    let loaded = file.load(&state_dict(view().pickled(), vec![("more", nested)]));
    assert_says(loaded.unwrap_err(), "contain each other without end");
}

/// Few bytes that list many elements which are no pairs, to be looked through under each of many names.
#[test]
fn ordered_dicts_of_what_are_no_pairs_are_an_error() {
    let file = Checkpoint::new();
    let nothing = [b"(", &b"N".repeat(10_000)[..], b"l"].concat();
    let ordered = call("collections\nOrderedDict", &tuple(&[nothing]));
    let mut many = [b"(", &ordered[..], b"q\x01"].concat();
    many.extend(b"h\x01".repeat(10_000));
    many.extend(b"l");
    let loaded = file.load(&state_dict(view().pickled(), vec![("more", many)]));
    assert_says(loaded.unwrap_err(), "contain each other without end");
}
