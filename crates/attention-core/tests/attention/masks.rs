//! Masks against plain loops, through `Mask`'s own constructors and combinators.

use attention_core::score::DotProductScoreConfig;
use attention_core::{Attention, DotProductAttentionConfig, Mask, Memory, masked_softmax};
use attention_tests::{Array, MaskSpec, assert_same, device, refuses};
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};

/// The pairs that `mask` keeps: with equal scores, those with a weight.
pub(super) fn kept(mask: &Mask, shape: [usize; 4], device: &Device) -> Array {
    let weights = masked_softmax(Tensor::<4>::zeros(shape, device), mask);
    Array::read(weights).map(|weight| f64::from(weight > 0.0))
}

pub(super) fn check(what: &str, spec: &MaskSpec, shape: [usize; 4]) {
    device::each_both_ways(|device| {
        let kept = kept(&spec.mask(device), shape, device);
        assert_same(format!("{what} {shape:?}"), &kept, &spec.table(shape));
    });
}

#[test]
fn queries_are_kept_whole_or_masked() {
    for dims in [[2, 5], [1, 5], [2, 1]] {
        let keep = Array::from_fn(&dims, |at| f64::from((at[0] + at[1]) % 2 == 1));
        check("queries", &MaskSpec::Queries(keep), [2, 3, 5, 7]);
    }
}

#[test]
fn lengths_are_clamped_and_broadcast() {
    let shape = [3, 2, 5, 7];
    let [most, least] = [i32::MAX, i32::MIN].map(i64::from);
    for lens in [&[0, 7, 3][..], &[-1, 8, most], &[1, 2, least], &[4]] {
        check("lens", &MaskSpec::lens(lens), shape);
    }
    let all = &[0, 1, 2, 3, 4, 7, 6, 5, 4, 3, -2, 9, 1, 0, 7][..];
    for (what, examples, lens) in [
        ("all", 3, all),
        ("one example", 1, &[0, 1, 7, 3, 9]),
        ("per example as a column", 3, &[6, 0, 2]),
    ] {
        let what = format!("lens per query, {what}");
        check(&what, &MaskSpec::lens_per_query(examples, lens), shape);
    }
}

#[test]
fn a_function_says_what_is_kept() {
    type Attends = fn(usize, usize, usize, usize) -> bool;
    let functions: [(&str, [usize; 4], Attends); 4] = [
        ("intervals", [2, 3, 5, 7], |b, _, i, j| {
            (i..i + 2 + b).contains(&j)
        }),
        ("one example", [1, 1, 5, 7], |_, _, i, j| j < 2 || j <= i),
        ("of heads", [2, 3, 5, 7], |_, h, i, j| j % (h + 2) == i % 2),
        ("gaps", [1, 3, 5, 7], |_, h, i, j| (h + i + j) % 3 > 0),
    ];
    device::each_both_ways(|device| {
        for (what, of, attends) in functions {
            let shape = [2, 3, 5, 7];
            let kept = kept(&Mask::from_fn(of, device, attends), shape, device);
            let expected = Array::from_fn(&shape, |at| {
                let [b, h] = [0, 1].map(|axis| at[axis].min(of[axis] - 1));
                f64::from(attends(b, h, at[2], at[3]))
            });
            assert_same(what, &kept, &expected);
        }
    });
}

/// Intervals or flags: a mask of other queries or keys than the call's is refused.
#[test]
fn a_function_of_another_shape_is_refused() {
    device::each(|device| {
        let neighbours = |shape| Mask::from_fn(shape, device, |_, _, i, j| j <= i);
        let gaps = |shape| Mask::from_fn(shape, device, |_, _, i, j| i != j);
        let shapes = [
            ([3, 1, 5, 7], "axis `batch` expected 2 or 1, got 3"),
            ([2, 1, 4, 7], "axis `queries` expected 5 or 1, got 4"),
            ([2, 1, 5, 6], "axis `keys` expected 7 or 1, got 6"),
            ([2, 1, 5, 8], "axis `keys` expected 7 or 1, got 8"),
        ];
        let attention = DotProductAttentionConfig::new().init();
        let [queries, rows] = [5, 7].map(|len| Tensor::<3>::ones([2, len, 4], device));
        for (shape, message) in shapes {
            for mask in [neighbours(shape), gaps(shape)] {
                let [q, k, v] = [&queries, &rows, &rows].map(Tensor::clone);
                refuses(["Mask::from_fn", message], || {
                    attention.forward(q, k, v, mask)
                });
            }
        }
        let prepare = |mask: Mask| attention.prepare(rows.clone(), rows.clone(), mask);
        for mask in [neighbours([2, 1, 5, 6]), gaps([2, 1, 5, 6])] {
            refuses("axis `keys` expected 7 or 1, got 6", || prepare(mask));
        }
        let [five, six] = [5, 6].map(|keys| neighbours([1, 1, 4, keys]));
        refuses("5 keys expected, got 6", || five & six);
        // A memory of rows of five queries.
        let memory = prepare(neighbours([2, 1, 5, 7]));
        let (last, none) = (queries.clone().narrow(1, 4, 1), Mask::none());
        let expected = "axis `queries` expected 1 or 1, got 5";
        refuses(expected, || attention.attend(last, &memory, none));
        let (beams, six) = (memory.expand(2), neighbours([1, 1, 5, 6]));
        refuses("7 keys expected, got 6", || {
            attention.attend(queries, &beams, six)
        });
    });
}

#[test]
fn dense_masks_broadcast_over_every_axis() {
    let shape = [2, 3, 5, 7];
    for axes in 0..16 {
        let dims = [0, 1, 2, 3].map(|axis| [1, shape[axis]][axes as usize >> axis & 1]);
        check("dense", &MaskSpec::drawn(axes, &dims, 0.6), shape);
    }
    for (seed, dims) in [(20, &[2, 5, 7][..]), (21, &[2, 1, 7]), (22, &[5, 7])] {
        let what = format!("dense, {dims:?}");
        check(&what, &MaskSpec::drawn(seed, dims, 0.6), shape);
    }
}

#[test]
fn drop_is_the_opposite_of_keep() {
    let shape = [2, 3, 5, 7];
    let spec = MaskSpec::drawn(1, &shape, 0.5);
    let MaskSpec::Keep(keep) = &spec else {
        unreachable!()
    };
    device::each(|device| {
        let masked: Tensor<4, Bool> = keep.map(|keep| 1.0 - keep).bool(device);
        let kept = kept(&Mask::drop(masked), shape, device);
        assert_same("drop", &kept, &spec.table(shape));
    });
}

/// Burn's three masks: of keys, of pairs, and of the pairs of each head.
#[test]
fn from_takes_what_burn_masks() {
    // Five examples and five queries: two axes are examples and keys nonetheless.
    let shape = [5, 2, 5, 7];
    device::each(|device| {
        let [pad, attn, heads] = [&[5, 7][..], &[5, 5, 7], &shape]
            .map(|dims| Array::draw(4, dims).map(|x| f64::from(x > 0.0)));
        let masks = [
            Mask::from(pad.bool::<2>(device)),
            Mask::from(attn.bool::<3>(device)),
            Mask::from(heads.bool::<4>(device)),
        ];
        let expected = [
            Array::from_fn(&shape, |at| 1.0 - pad.at(&[at[0], at[3]])),
            Array::from_fn(&shape, |at| 1.0 - attn.at(&[at[0], at[2], at[3]])),
            heads.map(|masked| 1.0 - masked),
        ];
        for (mask, expected) in masks.iter().zip(&expected) {
            assert_same("from", &kept(mask, shape, device), expected);
        }
    });
}

#[test]
fn padding_is_of_the_keys_of_each_example() {
    // Examples and queries equal in number, and not.
    for shape in [[5, 2, 5, 7], [3, 2, 5, 7]] {
        let [batch, _, _, keys] = shape;
        let table = Array::draw(3, &[batch, keys]).map(|x| f64::from(x > 0.0));
        let expected = Array::from_fn(&shape, |at| table.at(&[at[0], at[3]]));
        device::each(|device| {
            let keep = table.bool::<2>(device);
            let padding = Mask::padding(keep.clone().bool_not());
            for mask in [Mask::not_padding(keep), padding] {
                assert_same("padding", &kept(&mask, shape, device), &expected);
            }
        });
    }
}

#[test]
fn combined_masks_keep_the_keys_that_all_of_them_keep() {
    let shape = [2, 3, 5, 7];
    let queries = Array::from_fn(&[2, 5], |at| f64::from((at[0] + at[1]) % 3 > 0));
    let masks = [
        MaskSpec::None,
        MaskSpec::lens(&[3, 6]),
        MaskSpec::lens_per_query(2, &[1, 3, 0, 7, 5, 2, 7, 4, 0, 6]),
        MaskSpec::lens_per_query(1, &[7, 5, 3, 6, 1]),
        MaskSpec::Causal,
        MaskSpec::window(1, 2),
        MaskSpec::window(3, 0),
        MaskSpec::CausalTopLeft,
        MaskSpec::window_top_left(1, 3),
        MaskSpec::Queries(queries),
        MaskSpec::drawn(1, &shape, 0.7),
        MaskSpec::drawn(2, &[2, 1, 1, 7], 0.7),
        MaskSpec::drawn(3, &[1, 3, 5, 1], 0.7),
    ];
    for (i, one) in masks.iter().enumerate() {
        for (j, other) in masks.iter().enumerate() {
            let both = one.clone().and(other.clone());
            check(&format!("{i} & {j}"), &both, shape);
        }
    }
    let [a, b, c, d] = [1, 5, 11, 4].map(|at: usize| masks[at].clone());
    check("three", &a.clone().and(b).and(c.clone()), shape);
    check("three, nested to the right", &c.and(a.and(d)), shape);
}

#[test]
fn lengths_may_have_any_integer_type() {
    let shape = [2, 1, 3, 300];
    let spec = MaskSpec::lens(&[100, 3]);
    let window = MaskSpec::window(260, 20);
    use DType::{I8, I16, I32, I64, U8, U16, U32};
    device::each(|device| {
        let types = [I64, I32, I16, I8, U32, U16, U8].into_iter();
        for dtype in types.filter(|&dtype| device.supports_dtype(dtype)) {
            let mask = Mask::valid_lens(Tensor::from_data([100, 3], (device, dtype)));
            let what = format!("{dtype:?}");
            assert_same(&what, &kept(&mask, shape, device), &spec.table(shape));
            let both = kept(&(mask & Mask::window(260, 20)), shape, device);
            assert_same(&what, &both, &spec.clone().and(window.clone()).table(shape));
        }
    });
}

/// The largest of a type is every key, beside lengths of any other type.
#[test]
fn lengths_are_clamped_whatever_their_type_holds() {
    use DType::{I8, I32, I64, U8, U32, U64};
    let shape = [3, 1, 2, 7];
    let lens = |device: &Device, dtype, numbers: [i64; 3]| {
        let data = TensorData::from(numbers).convert_dtype(dtype);
        Tensor::<1, Int>::from_data(data, (device, dtype))
    };
    let largest = |device: &Device, dtype| match dtype {
        U64 => Tensor::from_data([u64::MAX, (1 << 32) + 3, 5], (device, dtype)),
        U32 => lens(device, dtype, [i64::from(u32::MAX), 1 << 31, 5]),
        I64 => lens(device, dtype, [i64::MAX, 1 << 32, 5]),
        I32 => lens(device, dtype, [i64::from(i32::MAX), 1 << 30, 5]),
        U8 => lens(device, dtype, [255, 128, 5]),
        _ => lens(device, dtype, [127, 126, 5]),
    };
    let expected = MaskSpec::lens(&[7, 7, 5]).table(shape);
    device::each(|device| {
        let types = [U64, U32, I64, I32, U8, I8];
        let types = || types.into_iter().filter(|of| device.supports_dtype(*of));
        for dtype in types() {
            let what = format!("{dtype:?}");
            let whole = || Mask::valid_lens(largest(device, dtype));
            assert_same(&what, &kept(&whole(), shape, device), &expected);
            let per_query = largest(device, dtype).unsqueeze_dim::<2>(1);
            let per_query = Mask::valid_lens_per_query(per_query.repeat_dim(1, 2));
            assert_same(&what, &kept(&per_query, shape, device), &expected);
            for other in types() {
                let what = format!("{dtype:?} & {other:?}");
                let both = whole() & Mask::valid_lens(largest(device, other));
                assert_same(&what, &kept(&both, shape, device), &expected);
                let short = Mask::valid_lens(lens(device, other, [3, 0, 6]));
                let both = whole() & Mask::queries(Tensor::full([1, 2], true, device)) & short;
                let expected = MaskSpec::lens(&[3, 0, 5]).table(shape);
                assert_same(&what, &kept(&both, shape, device), &expected);
                let selected = both.select(Tensor::from_ints([0, 1, 2], device)).expand(1);
                assert_same(&what, &kept(&selected, shape, device), &expected);
            }
        }
    });
}

#[test]
fn a_mask_may_be_made_with_autodiff_or_without() {
    let shape = [2, 3, 5, 7];
    let spec = MaskSpec::lens(&[3, 6]).and(MaskSpec::window(3, 2));
    let spec = spec.and(MaskSpec::drawn(1, &shape, 0.7));
    device::each(|plain| {
        let training = plain.clone().autodiff();
        for (of_mask, of_scores) in [(plain, &training), (&training, plain)] {
            let kept = kept(&spec.mask(of_mask), shape, of_scores);
            assert_same("mask of another context", &kept, &spec.table(shape));
        }
    });
}

#[test]
fn the_first_keys_may_be_masked_and_later_ones_not() {
    // On and off the edges that tiles of 8, 16, 32 and 64 keys would have.
    let shape = [1, 1, 2, 67];
    for first in [1, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 66] {
        let keep = Array::from_fn(&[1, 67], |at| f64::from(at[1] >= first));
        check("first keys masked", &MaskSpec::Keep(keep), shape);
        let hole = Array::from_fn(&[1, 67], |at| f64::from(at[1] < 3 || at[1] >= first));
        check("a hole", &MaskSpec::Keep(hole), shape);
        check("window at the end", &MaskSpec::window(66 - first, 0), shape);
    }
}

#[test]
fn masks_are_selected_and_expanded_like_memories() {
    // A mask of one example stands for all.
    let shape = [3, 2, 5, 7];
    let one_for_all = [
        MaskSpec::lens(&[4]),
        MaskSpec::drawn(1, &[1, 2, 5, 7], 0.6),
        MaskSpec::drawn(2, &[5, 7], 0.6),
        MaskSpec::Causal,
        MaskSpec::CausalTopLeft,
        MaskSpec::lens_per_query(1, &[1, 2, 3, 4, 7]).and(MaskSpec::window(1, 1)),
    ];
    device::each(|device| {
        let scores: Tensor<4> = Array::draw(1, &shape).f32(device);
        let soft = |mask: &Mask| Array::read(masked_softmax(scores.clone(), mask));
        for spec in &one_for_all {
            let mask = spec.mask(device);
            let expected = soft(&mask);
            let indices = Tensor::<1, Int>::from_ints([0, 0, 0], device);
            assert_same("select", &soft(&mask.select(indices)), &expected);
            assert_same("expand", &soft(&mask.expand(3)), &expected);
        }
        let mask = MaskSpec::lens(&[1, 5, 3]).mask(device);
        let chosen = mask.select(Tensor::from_ints([2, 0, 1], device));
        let expected = MaskSpec::lens(&[3, 1, 5]).mask(device);
        assert_same("select", &soft(&chosen), &soft(&expected));
        let queries = |examples: [usize; 3]| {
            let keep = |at: &[usize]| f64::from(!(examples[at[0]] + at[1]).is_multiple_of(3));
            MaskSpec::Queries(Array::from_fn(&[3, 5], keep)).mask(device)
        };
        let chosen = queries([0, 1, 2]).select(Tensor::from_ints([2, 0, 1], device));
        assert_same("select", &soft(&chosen), &soft(&queries([2, 0, 1])));
    });
}

/// A mask that was accepted stays accepted, however many examples there are later.
#[test]
fn a_mask_of_two_axes_is_read_once() {
    device::each(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let rows = |batch, len| Array::draw(1, &[batch, 2, len, 4]).f32::<4>(device);
        let mask = || Mask::keep(Array::draw(2, &[3, 7]).map(f64::abs).bool::<2>(device));
        for memory in [
            attention.prepare(rows(1, 7), rows(1, 7), mask()),
            Memory::of_projected(rows(1, 7), rows(1, 7), mask()),
            attention.prepare(rows(1, 7), rows(1, 7), mask() & Mask::causal()),
        ] {
            let context = attention.attend(rows(3, 3), &memory.expand(3), Mask::none());
            assert_eq!(context.dims(), [3, 2, 3, 4]);
        }
    });
}

#[test]
fn masks_tell_their_parts_and_compare() {
    let device = Device::flex();
    let lens = |lens: [i32; 2]| Mask::valid_lens(Tensor::<1, Int>::from_ints(lens, &device));
    let keep = Tensor::<2, Bool>::from_data([[true, false]], &device);
    let mask = lens([2, 1]) & Mask::causal() & Mask::window_top_left(1, 3);
    let mask = mask & Mask::not_padding(keep) & Mask::segments(&[[2]]);
    let expected = "valid lengths [2, 1] & causal & window (1, 3), top left & segments of 1 rows & Mask::not_padding \
                    [1, 1, 1, 2]";
    assert_eq!(mask.to_string(), expected);
    assert_eq!(Mask::none().to_string(), "none");
    assert_eq!(lens([2, 1]) & Mask::causal(), Mask::causal() & lens([2, 1]));
    assert_ne!(lens([2, 1]), lens([2, 2]));
    assert_ne!(Mask::causal(), Mask::causal_top_left());
    assert_ne!(Mask::causal(), Mask::none());
}
