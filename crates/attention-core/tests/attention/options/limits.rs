//! Options that do not fit, and sizes of 0.

use attention_core::functional::{AttentionOptions, dot_product_attention};
use attention_core::score::DotProductScoreConfig;
use attention_core::{Attention, Mask, Normalizer};
use attention_tests::parameters::results;
use attention_tests::{Array, assert_close, assert_zero, device, refuses};
use burn::tensor::Tensor;

#[test]
fn options_that_do_not_fit_are_refused() {
    device::each(|device| {
        let zeros = |shape: [usize; 4]| Tensor::<4>::zeros(shape, device);
        let none = AttentionOptions::default;
        #[rustfmt::skip]
        let cases = [
            (
                "bias expected [2 or 1, 6 or 1, 5 or 1, 7 or 1], got [2, 3, 5, 7]",
                AttentionOptions { bias: Some(zeros([2, 3, 5, 7])), ..none() },
            ),
            (
                "relative_bias expected [2 or 1, 6 or 1, 1 or 1, 11], got [1, 6, 1, 12]",
                AttentionOptions { relative_bias: Some(zeros([1, 6, 1, 12])), ..none() },
            ),
            ("sinks expected [6], got [3]", AttentionOptions { sinks: Some(Tensor::zeros([3], device)), ..none() }),
            ("soft_cap expected a finite number above 0, got 0", AttentionOptions { soft_cap: Some(0.0), ..none() }),
            (
                "extra keys expected [2 or 1, 3, 1, 11], got [3, 3, 1, 11]",
                AttentionOptions { extra_keys: Some([(); 2].map(|()| zeros([3, 3, 1, 11]))), ..none() },
            ),
        ];
        for (expected, options) in cases {
            refuses(expected, || {
                let [queries, keys] = [zeros([2, 6, 5, 11]), zeros([2, 3, 7, 11])];
                dot_product_attention(queries, keys.clone(), keys, &options)
            });
        }
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0)
            .with_normalizer(Normalizer::Sparsemax);
        let message = "sinks or a zero key expected with Normalizer::Softmax";
        let mut options = none();
        options.zero_key = true;
        let [q, k, v] = [(); 3].map(|()| zeros([2, 3, 7, 11]));
        refuses(message, || attention.forward(q, k, v, options));
    });
}

/// The lowest number in a bias, as many models write where they mean minus infinity: beside other keys one gets
/// nothing, among its like it is no mask.
#[test]
fn the_lowest_number_masks_no_pair() {
    device::each(|device| {
        let rows = |of: u64| Array::draw(of, &[1, 2, 5, 3]);
        let [queries, keys, values] = [1, 2, 3].map(|n| rows(n).f32::<4>(device));
        let lowest = f64::from(f32::MIN);
        let of_pairs = Array::from_fn(&[1, 1, 5, 5], |at| match (at[2], at[3]) {
            (0, _) | (1, 4) => lowest,
            _ => 0.0,
        });
        let of_distances = Array::full(&[1, 1, 1, 9], lowest);
        let attend = |scale, bias: Option<&Array>, relative_bias: Option<&Array>| {
            let on_device = |bias: &Array| bias.f32::<4>(device);
            let options = AttentionOptions {
                scale,
                bias: bias.map(on_device),
                relative_bias: relative_bias.map(on_device),
                ..Default::default()
            };
            let [queries, keys, values] = [&queries, &keys, &values].map(Tensor::clone);
            dot_product_attention(queries, keys, values, &options)
        };
        let mean = attend(Some(0.0), None, None);
        let of_first = |context: Tensor<4>| Array::read(context.narrow(2, 0, 1));
        let biased = attend(None, Some(&of_pairs), None);
        let expected = of_first(mean.clone());
        assert_close("pairs", &of_first(biased.clone()), &expected, 1e-6);
        let infinite = of_pairs.masked_fill(f64::NEG_INFINITY, |at| of_pairs.at(at) == lowest);
        let masked = attend(None, Some(&infinite), None);
        let of_others = |context: Tensor<4>| Array::read(context.narrow(2, 1, 4));
        assert_close("others", &of_others(biased), &of_others(masked), 1e-6);
        let by_distance = attend(None, None, Some(&of_distances));
        assert_close("distances", by_distance, mean, 1e-6);
    });
}

/// Sizes of 0 with every option.
#[test]
fn sizes_of_zero_are_answered() {
    device::each(|device| {
        for [queries, keys] in [[0, 7], [5, 0]] {
            let rows = |rows| Tensor::<4>::zeros([2, 3, rows, 4], device);
            let options = AttentionOptions {
                mask: Mask::causal(),
                soft_cap: Some(3.0),
                bias: Some(Tensor::zeros([1, 1, queries, keys], device)),
                sinks: Some(Tensor::zeros([3], device)),
                ..Default::default()
            };
            let context = dot_product_attention(rows(queries), rows(keys), rows(keys), &options);
            assert_eq!(context.dims(), [2, 3, queries, 4]);
            assert_zero("context", context);
        }
    });
}

/// Beside a sink it counts, as the keys' scores all move.
#[test]
fn a_bias_of_a_query_is_that_of_each_of_its_keys() {
    device::each_training(|device| {
        let draw = |seed, shape: [usize; 4]| Array::draw(seed, &shape).f32::<4>(device);
        let run = |keys_of_bias: usize| {
            let bias = draw(4, [2, 1, 5, 1]).require_grad();
            let options = AttentionOptions {
                mask: Mask::causal(),
                bias: Some(bias.clone().repeat_dim(3, keys_of_bias)),
                sinks: Some(Array::draw(5, &[6]).f32::<1>(device)),
                ..Default::default()
            };
            let (keys, values) = (draw(2, [2, 3, 7, 4]), draw(3, [2, 3, 7, 4]));
            let context = dot_product_attention(draw(1, [2, 6, 5, 4]), keys, values, &options);
            results(context, [bias], 6)
        };
        for (one, each) in run(1).iter().zip(&run(7)) {
            assert!(one.magnitude() > 1e-2);
            assert_close("a bias of each query", one, each, 1e-6);
        }
    });
}
