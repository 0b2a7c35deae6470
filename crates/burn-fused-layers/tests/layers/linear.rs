//! `linear` against Burn's own operations.

use attention_tests::{Array, assert_all_close, assert_close, device};
use burn::tensor::{DType, Tensor};
use burn_fused_layers::{Activation, activate_linear, linear};

/// With contiguous, transposed and sliced operands.
#[test]
fn linear_is_the_product_and_its_gradients() {
    device::each_training(|device| {
        let (rows, size, to) = (37, 21, 70);
        for layout in ["contiguous", "transposed", "sliced"] {
            let leaf = |seed: u64, [rows, columns]: [usize; 2]| {
                let stored = match layout {
                    "contiguous" => [rows, columns],
                    "transposed" => [columns, rows],
                    _ => [rows + 2, columns + 3],
                };
                Array::draw(seed, &stored).leaf::<2>(device, DType::F32)
            };
            let view = |leaf: &Tensor<2>, [rows, columns]: [usize; 2]| match layout {
                "contiguous" => leaf.clone(),
                "transposed" => leaf.clone().transpose(),
                _ => leaf.clone().slice([1..rows + 1, 2..columns + 2]),
            };
            let (input, weight) = (leaf(1, [rows, size]), leaf(2, [size, to]));
            let bias = Array::draw(3, &[to]).leaf::<1>(device, DType::F32);
            let gradient = Array::draw(4, &[rows, to]).tensor::<2>(device, DType::F32);
            let run = |is_ours: bool| {
                let (x, w) = (view(&input, [rows, size]), view(&weight, [size, to]));
                let output = match is_ours {
                    true => linear(x, w, Some(bias.clone())),
                    false => x.matmul(w) + bias.clone().unsqueeze::<2>(),
                };
                let gradients = (output.clone() * gradient.clone()).sum().backward();
                [
                    Array::read(output),
                    Array::read(input.grad(&gradients).unwrap()),
                    Array::read(weight.grad(&gradients).unwrap()),
                    Array::read(bias.grad(&gradients).unwrap()),
                ]
            };
            assert_all_close(layout, &run(true), &run(false), 1e-6);
        }
    });
}

/// Inputs of one axis, and of four as a view.
#[test]
fn linear_takes_any_number_of_axes() {
    device::each_training(|device| {
        let weight = Array::draw(1, &[6, 5]).leaf::<2>(device, DType::F32);
        let leaf = Array::draw(2, &[4, 3, 2, 6]).leaf::<4>(device, DType::F32);
        let view = || leaf.clone().slice([1..4, 0..3, 0..1]).swap_dims(0, 1);
        let run = |output: Tensor<4>| {
            let gradients = (output.clone() * output.clone()).sum().backward();
            let of_input = leaf.grad(&gradients).unwrap();
            let of_weight = weight.grad(&gradients).unwrap().unsqueeze();
            [output, of_input, of_weight].map(Array::read)
        };
        let ours = run(linear(view(), weight.clone(), None));
        let burns = run(view().matmul(weight.clone().unsqueeze()));
        assert_all_close("four axes", &ours, &burns, 1e-6);
        let ours = activate_linear(view(), Activation::Relu, weight.clone(), None);
        let relu = burn::tensor::activation::relu(view()).matmul(weight.clone().unsqueeze());
        assert_all_close("activated", &run(ours), &run(relu), 1e-6);
        let row = Array::draw(3, &[6]).tensor::<1>(device, DType::F32);
        let of_row = row.clone().unsqueeze::<2>().matmul(weight.clone());
        let ours = linear(row, weight, None).unsqueeze::<2>();
        assert_close("one axis", ours, of_row, 1e-6);
    });
}

/// A tensor that is both operands gets both gradients; one that is not tracked costs none.
#[test]
fn linear_of_itself_and_of_constants() {
    device::each_training(|device| {
        let square = Array::draw(1, &[20, 20]).leaf::<2>(device, DType::F32);
        let constant = Array::draw(2, &[3, 20]).tensor::<2>(device, DType::F32);
        for (what, input, weight) in [
            ("both", square.clone(), square.clone()),
            ("weight", constant.clone(), square.clone()),
            ("input", square.clone(), constant.transpose()),
        ] {
            let ours = linear(input.clone(), weight.clone(), None);
            let [ours, burns] = [ours, input.matmul(weight)]
                .map(|output| square.grad(&output.sum().backward()).unwrap());
            assert_close(what, ours, burns, 1e-6);
        }
    });
}
