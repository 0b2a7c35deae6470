//! Options that do not fit, and sizes of 0.

use attention_core::functional::{AttentionOptions, dot_product_attention};
use attention_core::{Attention, DotProductScoreConfig, Mask, Normalizer};
use attention_tests::{Array, assert_zero, device, panic_message};
use burn::tensor::Tensor;

#[test]
fn options_that_do_not_fit_are_refused() {
    device::each(|device| {
        let zeros = |shape: [usize; 4]| Tensor::<4>::zeros(shape, device);
        let refuses = |expected: &str, options: AttentionOptions| {
            let message = panic_message(|| {
                let [queries, keys] = [zeros([2, 6, 5, 11]), zeros([2, 3, 7, 11])];
                dot_product_attention(queries, keys.clone(), keys, &options)
            });
            assert!(
                message.contains(expected),
                "{expected:?} not in {message:?}"
            );
        };
        let none = AttentionOptions::default;
        refuses(
            "bias expected [2 or 1, 6 or 1, 5 or 1, 7], got [2, 3, 5, 7]",
            AttentionOptions {
                bias: Some(zeros([2, 3, 5, 7])),
                ..none()
            },
        );
        refuses(
            "relative_bias expected [2 or 1, 6 or 1, 1 or 1, 11], got [1, 6, 1, 12]",
            AttentionOptions {
                relative_bias: Some(zeros([1, 6, 1, 12])),
                ..none()
            },
        );
        refuses(
            "sinks expected [6], got [3]",
            AttentionOptions {
                sinks: Some(Tensor::zeros([3], device)),
                ..none()
            },
        );
        refuses(
            "soft_cap expected a finite number above 0, got 0",
            AttentionOptions {
                soft_cap: Some(0.0),
                ..none()
            },
        );
        refuses(
            "extra keys expected [2 or 1, 3, 1, 11], got [3, 3, 1, 11]",
            AttentionOptions {
                extra_keys: Some([(); 2].map(|()| zeros([3, 3, 1, 11]))),
                ..none()
            },
        );
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0)
            .with_normalizer(Normalizer::Sparsemax);
        let message = panic_message(|| {
            let options = AttentionOptions {
                zero_key: true,
                ..none()
            };
            let rows = zeros([2, 3, 7, 11]);
            attention.forward(rows.clone(), rows.clone(), rows, options)
        });
        assert!(
            message.contains("sinks or a zero key expected with Normalizer::Softmax"),
            "{message}"
        );
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
            assert_zero("context", &Array::read(context));
        }
    });
}
