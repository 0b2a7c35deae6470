//! Models on a device whose float type is f16. In a program of its own, since a device's float type can be set but
//! once, before its first tensor.
#![cfg(all(feature = "flex", feature = "pytorch"))]
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use attention_core::{DotProductScore, NewRows};
use attention_tests::{Array, assert_close, parameters, reference_path};
use attention_transformers::hub::{load_t5, load_t5_encoder};
use attention_transformers::layer::NormConfig;
use attention_transformers::text_encoder::Pooling;
use attention_transformers::{
    EncoderDecoder, NormOrder, TextEncoder, TokenEmbeddingConfig, TransformerEncoderConfig,
    TransformerLayerConfig,
};
use burn::tensor::{DType, Device, FloatDType, Int, Tensor};

/// 32 roundings of f16.
const TOLERANCE: f64 = 32.0 / 1024.0;

fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    let new = || {
        let mut device = Device::flex();
        device.configure(FloatDType::F16).unwrap();
        device
    };
    DEVICE.get_or_init(new).clone()
}

fn tokens(rows: usize) -> Tensor<2, Int> {
    let all: Vec<i64> = (0..2 * rows as i64).map(|at| at * at % 29).collect();
    Tensor::<1, Int>::from_ints(all.as_slice(), &device()).reshape([2, rows])
}

/// The squares of such sums and features are beyond f16.
#[test]
fn embeddings_have_length_1() {
    let device = device();
    for (norm, order, pooling) in [
        (NormConfig::layer(), NormOrder::Post, Pooling::Mean),
        (NormConfig::rms(), NormOrder::Pre, Pooling::Last),
        (NormConfig::rms(), NormOrder::Pre, Pooling::First),
    ] {
        let layer = TransformerLayerConfig::new(48, 4, 64).with_norm_order(order);
        let model = TextEncoder {
            embedding: TokenEmbeddingConfig::new(29, 48).init(&device),
            stack: TransformerEncoderConfig::new(layer.with_norm(norm), 2).init(&device),
            causal: false,
        };
        // Means, or lengths, far from 0.
        let half = parameters::changed(model, |path, value| match path.rsplit('.').next() {
            Some("beta") => value.map(|_| 7.0),
            // Of the last norm: larger scores would make a softmax that rounding turns over.
            Some("gamma") if order == NormOrder::Pre && !path.contains("layers") => {
                value.map(|_| 48.0)
            }
            _ => value,
        });
        let single = parameters::cast(half.clone(), DType::F32);
        for rows in [64, 128] {
            let embed = |model: &TextEncoder<DotProductScore>| {
                Array::read(model.embeddings(tokens(rows), None, NewRows::All, pooling))
            };
            let (got, expected) = (embed(&half), embed(&single));
            let what = format!("{pooling:?}");
            assert_close(what, &got, &expected, TOLERANCE);
            for vector in got.data.chunks(48) {
                let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
                assert!((length - 1.0).abs() < 2e-3, "{pooling:?}: {length}");
            }
        }
    }
}

/// A T5 whose feed-forward networks write rows beyond f16, with parameters that f16 has.
fn large_t5(name: &str) -> [EncoderDecoder<DotProductScore>; 2] {
    let model = load_t5(reference_path(&format!("hugging_face/{name}")), &device()).unwrap();
    let half = parameters::changed(model, |path, value| match path {
        path if path.ends_with("feed_forward.output.weight") => value.map(|x| 4e4 * x),
        _ => value,
    });
    let wo = &half.encoder.layers[0].feed_forward.output;
    assert_eq!(wo.weight.val().dtype(), DType::F32);
    assert_eq!(half.embedding.tokens.weight.val().dtype(), DType::F16);
    let single = parameters::cast(half.clone(), DType::F32);
    [half, single]
}

#[test]
fn t5_may_write_rows_beyond_f16() {
    for name in ["t5", "mt5"] {
        let models = large_t5(name);
        let layer = &models[1].encoder.layers[0].feed_forward;
        let [size, _] = layer.input.weight.dims();
        let rows = Tensor::<3>::ones([1, 1, size], (&device(), DType::F32));
        let largest = Array::read(layer.forward(rows)).magnitude();
        assert!(largest > 65_504.0, "{largest}");
        let run = |model: &EncoderDecoder<DotProductScore>| {
            let memory = model.encode(tokens(5), NewRows::First(&[5, 3]));
            let whole = model.features(tokens(4), NewRows::All, &memory);
            let mut state = model.state(memory);
            let logits = model.forward_cached(tokens(4), NewRows::All, &mut state);
            [Array::read(whole), Array::read(logits)]
        };
        let [half, single] = models.each_ref().map(run);
        for (got, expected) in half.iter().zip(&single) {
            assert!(got.data.iter().all(|x| x.is_finite()), "{name}: {got:?}");
            assert_close(name, got, expected, TOLERANCE);
        }
    }
    let encoder = load_t5_encoder(reference_path("hugging_face/t5"), &device()).unwrap();
    let wo = &encoder.stack.layers[0].feed_forward.output;
    assert_eq!(wo.weight.val().dtype(), DType::F32);
}
