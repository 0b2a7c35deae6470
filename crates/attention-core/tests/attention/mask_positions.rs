//! Masks of positions, aligned bottom-right and top-left.

use attention_core::score::DotProductScoreConfig;
use attention_core::{Attention, Mask};
use attention_tests::{Array, MaskSpec, assert_close, assert_same, device};

use crate::masks::{check, kept};

#[rustfmt::skip]
const SHAPES: [[usize; 4]; 5] = [[2, 3, 5, 7], [2, 3, 7, 5], [2, 3, 5, 5], [1, 1, 1, 7], [1, 1, 7, 1]];

#[test]
fn causal_is_aligned_bottom_right_whether_queries_or_keys_are_more() {
    for shape in SHAPES {
        let expected = Array::from_fn(&shape, |at| f64::from(at[3] + shape[2] <= at[2] + shape[3]));
        device::each(|device| {
            assert_same("causal", &kept(&Mask::causal(), shape, device), &expected);
        });
    }
}

#[test]
fn causal_top_left_counts_queries_from_the_first_key() {
    for shape in SHAPES {
        let expected = Array::from_fn(&shape, |at| f64::from(at[3] <= at[2]));
        device::each(|device| {
            let mask = Mask::causal_top_left();
            assert_same("top-left", &kept(&mask, shape, device), &expected);
            let both = kept(&(mask & Mask::causal()), shape, device);
            let expected = Array::from_fn(&shape, |at| {
                f64::from(at[3] <= at[2] && at[3] + shape[2] <= at[2] + shape[3])
            });
            assert_same("both diagonals", &both, &expected);
        });
    }
}

/// A query that comes alone, as a decoder's does, is the last under a bottom-right mask and the first under a top-left
/// one.
#[test]
fn the_query_of_a_step_stands_where_the_mask_is_aligned() {
    device::each(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let [query, keys, values] = [1, 7, 7].map(|len| Array::draw(len, &[2, len as usize, 4]));
        let attend = |mask: Mask| {
            let memory = attention.prepare(keys.f32::<3>(device), values.f32::<3>(device), mask);
            Array::read(attention.attend(query.f32::<3>(device), &memory, Mask::none()))
        };
        let all = attend(Mask::none());
        assert_close("bottom-right", &attend(Mask::causal()), &all, 1e-6);
        let first = Array::from_fn(&[2, 1, 4], |at| values.at(&[at[0], 0, at[2]]));
        for top_left in [Mask::causal_top_left(), Mask::window_top_left(3, 0)] {
            assert_close("top-left", &attend(top_left), &first, 1e-6);
        }
    });
}

#[test]
fn windows_follow_the_position_of_the_query() {
    for shape in [[2, 3, 5, 7], [2, 3, 7, 5], [1, 2, 11, 11], [1, 1, 1, 7]] {
        const MAX: usize = usize::MAX;
        let widths = [(0, 0), (1, 2), (3, 0), (0, 4), (100, 1), (MAX, 0), (2, MAX)];
        for (before, after) in widths {
            check("window", &MaskSpec::window(before, after), shape);
            let top_left = MaskSpec::window_top_left(before, after);
            check("window, top-left", &top_left, shape);
        }
    }
}
