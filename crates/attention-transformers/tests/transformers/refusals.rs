//! Inputs that do not fit are refused in words that name both sides.

use attention_core::position::{Positions, RelativePositionBiasConfig};
use attention_core::{KeyValueCache, Mask, NewRows};
use attention_tests::{device, refuses};
use attention_transformers::layer::{FeedForwardConfig, NormConfig};
use attention_transformers::{
    EncoderDecoderConfig, FeedForwardActivation, LanguageModelConfig, MaskedLanguageModelConfig,
    PositionEmbeddingConfig, TokenEmbeddingConfig, TransformerCache, TransformerDecoderConfig,
    TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::tensor::Tensor;

use super::models::{HIDDENS, POSITIONS, VOCAB, layer, models, tensor, text};

#[test]
fn sizes_that_do_not_fit() {
    let device = &device::plain()[0];
    let new = TransformerLayerConfig::new;
    #[rustfmt::skip]
    let cases = [
        ("num_heads expected to divide num_hiddens 12, got 5", new(12, 5, 17)),
        ("num_key_value_heads expected to divide num_heads 2, got 3", layer().with_num_key_value_heads(Some(3))),
        ("hidden_size expected at least 1, got 0", new(12, 2, 0)),
        ("window expected at least 1, the row itself, got 0", layer().with_window(Some(0))),
    ];
    for (message, layer) in cases {
        refuses(message, || layer.init_encoder(device));
    }
    let headless = layer().with_head_size(Some(0));
    let message = "head_size expected at least 1, got 0";
    refuses(message, || headless.init_decoder(device));
    let message = "num_layers expected at least 1, got 0";
    let encoder = TransformerEncoderConfig::new(layer(), 0);
    refuses(message, || encoder.init(device));
    let decoder = TransformerDecoderConfig::new(layer(), 0);
    refuses(message, || decoder.init(device));
    let norm = NormConfig::Rms { epsilon: 0.0 };
    refuses("epsilon expected above 0, got 0", || norm.init(3, device));
    let nothing = FeedForwardConfig::new(0, 3);
    refuses("size expected at least 1, got 0", || nothing.init(device));
    for (message, max_positions) in [
        ("size expected to be even, for sines and cosines, got 5", 9),
        ("expected in 1 ..= 10000, got 10001", 10_001),
    ] {
        let positions = PositionEmbeddingConfig::Sinusoidal { max_positions };
        let embedding = TokenEmbeddingConfig::new(7, 5).with_positions(positions);
        refuses(message, || embedding.init(device));
    }
    let config = |size| {
        let stack = TransformerEncoderConfig::new(layer(), 1);
        LanguageModelConfig::new(TokenEmbeddingConfig::new(VOCAB, size), stack)
    };
    let message = "embedding of size 12 expected, as the num_hiddens of the layers, got 8";
    refuses(message, || config(8).init(device));
    let biased = config(HIDDENS).with_head_bias(true);
    let message = "head_bias expected with a head of its own";
    refuses(message, || biased.init(device));
    for cap in [0.0, -30.0, f64::NAN] {
        let capped = config(HIDDENS).with_logit_soft_cap(Some(cap));
        let message = "logit_soft_cap expected a finite number above 0";
        refuses(message, || capped.init(device));
    }
}

#[test]
fn models_whose_parts_do_not_fit() {
    let device = &device::plain()[0];
    let encoder = || TransformerEncoderConfig::new(layer(), 1);
    let biased = encoder().with_position_bias(Some(RelativePositionBiasConfig::new(3)));
    let message = "position_bias of 2 heads expected, as the layers have, got 3";
    refuses(message, || biased.init(device));
    let masked = |size| {
        let embedding = TokenEmbeddingConfig::new(VOCAB, size);
        MaskedLanguageModelConfig::new(embedding, encoder())
    };
    let message = "embedding of size 12 expected, as the num_hiddens of the layers, got 8";
    refuses(message, || masked(8).init(device));
    let message = "head_activation expected without a gate, got SwiGlu";
    let gated = masked(HIDDENS).with_head_activation(FeedForwardActivation::SwiGlu);
    refuses(message, || gated.init(device));
    let embedding = |size| TokenEmbeddingConfig::new(VOCAB, size);
    let translator = |size| {
        let decoder = TransformerDecoderConfig::new(layer(), 1);
        EncoderDecoderConfig::new(embedding(size), encoder(), decoder)
    };
    let of_source = translator(HIDDENS).with_source_embedding(Some(embedding(8)));
    let mut of_memory = translator(HIDDENS);
    of_memory.decoder.layer.memory_size = Some(8);
    let scale = translator(HIDDENS).with_feature_scale(0.0);
    #[rustfmt::skip]
    let cases = [
        ("embedding of size 12 expected, as the num_hiddens of the decoder, got 8", translator(8)),
        ("embedding of the source of size 12 expected, as the num_hiddens of the encoder, got 8", of_source),
        ("memory of size 12 expected, as the num_hiddens of the encoder, got 8", of_memory),
        ("feature_scale expected a finite number above 0, got 0", scale),
    ];
    for (message, config) in cases {
        refuses(message, || config.init(device));
    }
}

#[test]
fn types_of_tokens_that_do_not_fit() {
    let device = &device::plain()[0];
    let config = TokenEmbeddingConfig::new(VOCAB, HIDDENS);
    let tokens = || tensor(&text(1, [2, 5]), device);
    let positions = Positions::consecutive(0);
    let none = config.clone().with_num_types(Some(0));
    refuses("num_types expected at least 1, got 0", || none.init(device));
    let types = || tokens().zeros_like();
    let message = "no types expected, as the embedding has no `num_types`";
    let embedding = config.init(device);
    refuses(message, || {
        embedding.forward_with_types(tokens(), types(), &positions)
    });
    let message = "types of [batch, rows] = [2, 5] expected, as tokens, got [2, 4]";
    let embedding = config.with_num_types(Some(2)).init(device);
    let types = types().narrow(1, 0, 4);
    refuses(message, || {
        embedding.forward_with_types(tokens(), types, &positions)
    });
}

#[test]
fn rows_that_do_not_fit() {
    device::each(|device| {
        let stack = TransformerEncoderConfig::new(layer(), 2).init(device);
        let rows = |shape: [usize; 3]| Tensor::<3>::zeros(shape, device);
        refuses("11", || stack.forward(rows([2, 5, 11]), Mask::none()));
        refuses("axis `batch` expected 2 or 1, got 3", || {
            let mask = Mask::valid_lens(Tensor::from_ints([1, 2, 3], device));
            stack.forward(rows([2, 5, HIDDENS]), &mask)
        });
        #[rustfmt::skip]
        let cases = [
            ("a cache of 2 layers expected, as many as the stack has, got one of 1", vec![KeyValueCache::new()]),
            ("at most 4 tokens expected, the capacity, got 5", vec![KeyValueCache::with_capacity(4); 2]),
        ];
        for (message, layers) in cases {
            let (rows, mut cache) = (rows([2, 5, HIDDENS]), TransformerCache { layers });
            refuses(message, || {
                stack.forward_cached(rows, NewRows::All, &mut cache)
            });
        }
        let decoder = TransformerDecoderConfig::new(layer(), 2).init(device);
        let other = TransformerDecoderConfig::new(layer(), 3).init(device);
        let message = "a memory of 2 layers expected, as many as the stack has, got one of 3";
        refuses(message, || {
            let memory = other.prepare(rows([2, 7, HIDDENS]), Mask::none());
            decoder.forward(rows([2, 5, HIDDENS]), Mask::none(), &memory)
        });
        refuses("a cache of 2 layers expected", || {
            let memory = decoder.prepare(rows([2, 7, HIDDENS]), Mask::none());
            let mut cache = other.cache();
            decoder.forward_cached(rows([2, 5, HIDDENS]), NewRows::All, &memory, &mut cache)
        });
        refuses("got queries of 2 examples and keys of 3", || {
            let memory = decoder.prepare(rows([3, 7, HIDDENS]), Mask::none());
            decoder.forward(rows([2, 5, HIDDENS]), Mask::none(), &memory)
        });
    });
}

#[test]
fn positions_beyond_a_table() {
    device::each(|device| {
        for (name, model) in models(device, burn::tensor::DType::F32) {
            let tokens = tensor(&text(1, [2, POSITIONS]), device);
            let mut cache = model.cache();
            model.cached(tokens.clone(), NewRows::All, &mut cache);
            let message = "within 0 .. 32 expected, as configured, got 32 ..= 32";
            refuses(message, || {
                model.cached(tokens.clone().narrow(1, 0, 1), NewRows::All, &mut cache)
            });
            refuses("got 0 ..= 32", || {
                let tokens = tensor(&text(1, [2, POSITIONS + 1]), device);
                model.whole(tokens, NewRows::All)
            });
            assert_eq!(cache.lengths(), [POSITIONS; 2], "{name}");
        }
        let config = TokenEmbeddingConfig::new(VOCAB, HIDDENS)
            .with_positions(PositionEmbeddingConfig::Sinusoidal { max_positions: 4 });
        let embedding = config.init(device);
        refuses("within 0 .. 4 expected, as configured, got 2 ..= 4", || {
            let tokens = tensor(&text(1, [2, 3]), device);
            embedding.forward(tokens, &Positions::consecutive(2))
        });
    });
}

/// Sizes of 0 have an answer.
#[test]
fn nothing_comes_of_nothing() {
    device::each(|device| {
        let stack = TransformerEncoderConfig::new(layer(), 2).init(device);
        for shape in [[0, 3, HIDDENS], [2, 0, HIDDENS]] {
            let rows = || Tensor::<3>::zeros(shape, device);
            assert_eq!(stack.forward(rows(), Mask::causal()).dims(), shape);
        }
        for (name, model) in models(device, burn::tensor::DType::F32) {
            let tokens = tensor(&text(1, [2, 3]), device);
            let mut cache = model.cache();
            model.cached(tokens.clone(), NewRows::First(&[3, 2]), &mut cache);
            let token = tokens.clone().narrow(1, 0, 1);
            let none = model.cached(token, NewRows::First(&[0, 0]), &mut cache);
            assert_eq!(none.dims(), [2, 1, VOCAB], "{name}");
            assert_eq!(cache.lengths(), [3, 2], "{name}");
        }
    });
}
