//! The weights with which a decoder attends to its memory.

use attention_core::Mask;
use attention_core::score::{AdditiveScoreConfig, DotProductScoreConfig};
use attention_tests::{Array, assert_close, device};
use attention_transformers::TransformerDecoderConfig;

use super::models::{HEADS, HIDDENS, drawn, layer, lens};

/// The weights of the first layer, from its parts: of the rows after the attention to each other.
#[test]
fn weights_are_those_of_each_layer_and_change_no_row() {
    device::each(|device| {
        let score = |_| DotProductScoreConfig::new().init();
        let cross = |_| AdditiveScoreConfig::new(6, 6, 5).init(device);
        let config = TransformerDecoderConfig::new(layer(), 2);
        let stack = drawn(config.init_with(score, cross, device));
        let rows = Array::draw(1, &[2, 5, HIDDENS]).f32::<3>(device);
        let encoded = Array::draw(2, &[2, 7, HIDDENS]).f32::<3>(device);
        let memory = stack.prepare(encoded, Mask::valid_lens(lens(&[7, 4], device)));

        let output = stack.forward_with_weights(rows.clone(), Mask::none(), &memory);
        let expected = stack.forward(rows.clone(), Mask::none(), &memory);
        assert_close("rows", output.rows, expected, 1e-5);

        assert_eq!(output.weights.len(), 2);
        let first = &stack.layers[0];
        let rows = first.attention_residual.forward(rows, |rows| {
            let attention = &first.attention;
            attention.forward(rows.clone(), rows.clone(), rows, Mask::causal())
        });
        let queries = first.cross_attention_residual.norm.forward(rows);
        let attention = &first.cross_attention;
        let expected = attention.attend_with_weights(queries, &memory.layers[0], Mask::none());
        let [first, second] = [0, 1].map(|at| Array::read(output.weights[at].clone()));
        assert_close("the first layer", &first, expected.weights, 1e-5);
        assert_eq!(second.shape, [2, HEADS, 5, 7]);
        for (at, weights) in second.data.chunks(7).enumerate() {
            let len = if at < HEADS * 5 { 7 } else { 4 };
            let sum: f64 = weights.iter().sum();
            assert!((sum - 1.0).abs() < 1e-5, "row {at}: {sum}");
            assert!(weights[len..].iter().all(|weight| *weight == 0.0));
        }
        assert_ne!(first.data, second.data);
    });
}
