//! Tensors whose storage is not in order: transposed, sliced, expanded, of size one.

use std::any::type_name;
use std::collections::BTreeMap;

use attention_core::{Attention, Mask, ScoringFunction, masked_softmax};
use attention_tests::{Array, MaskSpec, Problem, SIZES, assert_close, check, device};
use burn::tensor::{Bool, DType, Device, Int, Tensor};

type Lay = fn(&Array, &Device) -> (Tensor<4>, Tensor<4>);

/// A leaf, and the elements of the array as a view of the leaf.
const LAYOUTS: [(&str, Lay); 5] = [
    ("sequence and features swapped", |array, device| {
        let leaf = leaf(&array.permute(&[0, 1, 3, 2]), device);
        (leaf.clone(), leaf.swap_dims(2, 3))
    }),
    ("heads behind the sequence", |array, device| {
        let leaf = leaf(&array.permute(&[0, 2, 1, 3]), device);
        (leaf.clone(), leaf.swap_dims(1, 2))
    }),
    ("all axes reversed", |array, device| {
        let leaf = leaf(&array.permute(&[3, 2, 1, 0]), device);
        (leaf.clone(), leaf.permute([3, 2, 1, 0]))
    }),
    ("sliced out of NaN", |array, device| {
        let shape = [0, 1, 2, 3].map(|axis| array.shape[axis]);
        let inside = |at: &[usize]| (0..4).all(|axis| (1..=shape[axis]).contains(&at[axis]));
        let whole = Array::from_fn(&shape.map(|size| size + 3), |at| match inside(at) {
            true => array.at(&[at[0] - 1, at[1] - 1, at[2] - 1, at[3] - 1]),
            false => f64::NAN,
        });
        let leaf = leaf(&whole, device);
        let [a, b, c, d] = shape.map(|size| 1..size + 1);
        (leaf.clone(), leaf.slice([a, b, c, d]))
    }),
    ("sliced with a step", |array, device| {
        let mut shape = array.shape.clone();
        shape[2] *= 2;
        let whole = Array::from_fn(&shape, |at| match at[2] % 2 {
            0 => array.at(&[at[0], at[1], at[2] / 2, at[3]]),
            _ => f64::NAN,
        });
        let leaf = leaf(&whole, device);
        let slice = burn::tensor::s![.., .., 0..;2, ..];
        (leaf.clone(), leaf.slice(slice))
    }),
];

fn leaf(array: &Array, device: &Device) -> Tensor<4> {
    array.leaf(device, DType::F32)
}

/// Context, weights and the gradients of queries, keys and values as the views that they are; with one head, the
/// context comes from inputs of three axes.
fn run<S: ScoringFunction>(
    attention: &Attention<S>,
    problem: &Problem,
    lay: [Lay; 3],
    device: &Device,
) -> BTreeMap<&'static str, Array> {
    let names = ["queries", "keys", "values"];
    let laid = names.iter().zip(lay);
    let (leaves, views): (Vec<_>, Vec<_>) = laid
        .map(|(name, lay)| lay(&problem.inputs[*name], device))
        .unzip();
    let [queries, keys, values] = [0, 1, 2].map(|at: usize| views[at].clone());
    let mask = problem.mask.mask(device);
    let (q, k, v) = (queries.clone(), keys.clone(), values.clone());
    let output = attention.forward_with_weights(q, k, v, &mask);
    let context = match queries.dims() {
        [_, 1, ..] => {
            let [q, k, v] = [queries, keys, values].map(|view| view.squeeze_dim::<3>(1));
            attention.forward(q, k, v, &mask).unsqueeze_dim(1)
        }
        _ => attention.forward(queries, keys, values, &mask),
    };
    let received = problem.grad_context.as_ref().unwrap();
    let gradients = (context.clone() * received.f32(device)).sum().backward();
    let mut results = BTreeMap::from([
        ("context", Array::read(context)),
        ("context beside weights", Array::read(output.context)),
        ("weights", Array::read(output.weights)),
    ]);
    for ((name, leaf), lay) in names.iter().zip(leaves).zip(lay) {
        // Carry the gradient through the same view.
        let gradient = Array::read(leaf.grad(&gradients).unwrap());
        let finite = gradient.map(|number| if number.is_finite() { number } else { 1e9 });
        results.insert(name, view_of(&finite, &problem.inputs[*name], lay, device));
    }
    results
}

/// The view that `lay` takes of a leaf, of a gradient in the shape of the leaf.
fn view_of(gradient: &Array, array: &Array, lay: Lay, device: &Device) -> Array {
    // Lay out the indices of the elements, and look up the gradient of each.
    let numbers: Vec<f64> = (0..array.data.len()).map(|at| at as f64).collect();
    let (leaf, _) = lay(&Array::new(&array.shape, numbers), device);
    let indices = Array::read(leaf);
    let mut result = Array::full(&array.shape, f64::NAN);
    for (index, gradient) in indices.data.iter().zip(&gradient.data) {
        if index.is_nan() {
            assert_eq!(*gradient, 0.0, "a gradient outside the slice")
        } else {
            result.data[*index as usize] = *gradient
        }
    }
    result
}

const CONTIGUOUS: Lay = |array, device| {
    let leaf = leaf(array, device);
    (leaf.clone(), leaf)
};

check!(EachLayout, |attention, problem, device| {
    let kind = type_name::<S>();
    let expected = run(&attention, problem, [CONTIGUOUS; 3], device);
    for (name, lay) in LAYOUTS {
        let choices = [
            [lay, CONTIGUOUS, CONTIGUOUS],
            [CONTIGUOUS, lay, CONTIGUOUS],
            [CONTIGUOUS, CONTIGUOUS, lay],
            [lay; 3],
        ];
        for (which, choice) in choices.into_iter().enumerate() {
            let actual = run(&attention, problem, choice, device);
            for (result, expected) in &expected {
                let what = format!("{kind}: {name} ({which}): {result}");
                assert_close(&what, &actual[result], expected, 2e-6);
            }
        }
    }
});

#[test]
fn do_not_matter_forward_or_backward() {
    let masks = [MaskSpec::None, MaskSpec::lens(&[3, 6]), MaskSpec::Causal];
    device::each_training(|device| {
        for mask in &masks {
            for sizes in [SIZES, SIZES.with_heads(1)] {
                for (_, problem) in Problem::both(sizes, mask) {
                    problem.with_attention(device, 0.0, &EachLayout);
                }
            }
        }
    });
}

#[test]
fn do_not_matter_to_masked_softmax() {
    device::each_training(|device| {
        let scores = Array::draw(1, &[2, 3, 5, 7]);
        let dense = MaskSpec::drawn(2, &[2, 3, 5, 7], 0.6);
        for mask in [MaskSpec::lens(&[3, 6]), dense] {
            let mask = mask.mask(device);
            let expected = Array::read(masked_softmax(scores.f32::<4>(device), &mask));
            for (name, lay) in LAYOUTS {
                let (_, view) = lay(&scores, device);
                assert_close(name, masked_softmax(view, &mask), &expected, 1e-6);
            }
        }
    });
}

#[test]
fn axes_of_size_one_may_come_from_anywhere() {
    // The stride of an axis of size 1 may be anything: take it out of a larger tensor.
    let sizes = SIZES.with_batch(1).with_heads(1).with_queries(1);
    device::each_training(|device| {
        let additive = Problem::additive(sizes, MaskSpec::lens(&[4]));
        additive.with_attention(device, 0.0, &EachLayout);
        let dot_product = Problem::dot_product(sizes.with_keys(1), MaskSpec::None);
        dot_product.with_attention(device, 0.0, &EachLayout);
    });
}

#[test]
fn masks_may_be_views() {
    let shape = [2, 3, 5, 7];
    device::each(|device| {
        let scores: Tensor<4> = Array::draw(1, &shape).f32(device);
        let check = |what: &str, view: Mask, spec: &MaskSpec| {
            let actual = Array::read(masked_softmax(scores.clone(), &view));
            let expected = Array::read(masked_softmax(scores.clone(), &spec.mask(device)));
            assert_close(what, &actual, &expected, 1e-7);
        };

        let lens = Tensor::<1, Int>::from_ints([9, 3, 9, 6, 9], device);
        let every_second = lens.slice(burn::tensor::s![1..4;2]);
        let mask = Mask::valid_lens(every_second);
        check("lens", mask, &MaskSpec::lens(&[3, 6]));

        let columns = Tensor::<2, Int>::from_ints([[1, 2], [3, 7], [0, 4], [7, 0], [5, 6]], device);
        let per_query = MaskSpec::lens_per_query(2, &[1, 3, 0, 7, 5, 2, 7, 4, 0, 6]);
        let mask = Mask::valid_lens_per_query(columns.transpose());
        check("lens per query", mask, &per_query);

        let keep = |spec: &MaskSpec| match spec {
            MaskSpec::Keep(keep) => keep.clone(),
            _ => unreachable!(),
        };
        let spec = MaskSpec::drawn(3, &shape, 0.6);
        let reversed: Tensor<4, Bool> = keep(&spec).permute(&[3, 2, 1, 0]).bool(device);
        check("dense", Mask::keep(reversed.permute([3, 2, 1, 0])), &spec);

        let spec = MaskSpec::drawn(4, &[5, 1], 0.6);
        let column = keep(&spec).reshape(&[1, 1, 5, 1]).bool::<4>(device);
        check("expanded", Mask::keep(column.expand(shape)), &spec);
    });
}
