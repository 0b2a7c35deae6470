//! Language models: embeddings of positions, heads, and what padding holds.

use attention_core::NewRows;
use attention_core::position::Positions;
use attention_tests::{Array, assert_close, assert_same, assert_zero, device, parameters};
use attention_transformers::{
    LanguageModelConfig, PositionEmbeddingConfig, TokenEmbeddingConfig, TransformerEncoderConfig,
};
use burn::tensor::{DType, Int, Tensor};

use super::models::{HIDDENS, VOCAB, drawn, layer, models, padded, sinusoidal, tensor, text};

#[test]
fn sinusoids_are_those_of_the_formula() {
    device::each(|device| {
        let config = TokenEmbeddingConfig::new(VOCAB, HIDDENS)
            .with_positions(PositionEmbeddingConfig::Sinusoidal { max_positions: 64 });
        let starts = [0, 40];
        let tokens = || tensor(&text(1, [2, 5]), device);
        for scaled in [false, true] {
            let embedding = drawn(config.clone().with_scaled(scaled).init(device));
            let got = embedding.forward(tokens(), &Positions::per_example(starts));
            let table = Array::read(embedding.tokens.weight.val());
            let ids = text(1, [2, 5]);
            let expected = Array::from_fn(&[2, 5, HIDDENS], |at| {
                let [b, row, feature] = at[..] else { panic!() };
                let position = (starts[b] + row as i64) as f64;
                let exponent = (feature / 2 * 2) as f64 / HIDDENS as f64;
                let angle = position / 10_000_f64.powf(exponent);
                let of_position = [angle.sin(), angle.cos()][feature % 2];
                let factor = if scaled { (HIDDENS as f64).sqrt() } else { 1.0 };
                table.at(&[ids[b][row] as usize, feature]) * factor + of_position
            });
            // The angles are f32.
            assert_close("sinusoids", got, &expected, 4e-6);
        }
    });
}

#[test]
fn learned_positions_are_rows_of_a_table() {
    device::each(|device| {
        let config = TokenEmbeddingConfig::new(VOCAB, HIDDENS)
            .with_positions(PositionEmbeddingConfig::Learned { max_positions: 9 });
        let embedding = drawn(config.init(device));
        let mut plain = embedding.clone();
        plain.positions = None;
        let tokens = || tensor(&text(1, [2, 5]), device);
        let positions = || Positions::per_example([4, 0]);
        let got = embedding.forward(tokens(), &positions()) - plain.forward(tokens(), &positions());
        let mut tables = parameters::values(&embedding);
        tables.retain(|path, _| path.starts_with("positions"));
        let table = tables.values().next().unwrap();
        let expected = Array::from_fn(&[2, 5, HIDDENS], |at| {
            table.at(&[[4, 0][at[0]] + at[1], at[2]])
        });
        assert_close("positions", got, &expected, 1e-6);
    });
}

/// Features times the embedding, and a head of its own with a bias.
#[test]
fn a_head_is_the_embedding_or_its_own() {
    device::each(|device| {
        let embedding = TokenEmbeddingConfig::new(VOCAB, HIDDENS);
        let stack = TransformerEncoderConfig::new(layer(), 1);
        let tied = drawn(LanguageModelConfig::new(embedding, stack).init(device));
        let own = sinusoidal(device, layer());
        let tokens = || tensor(&text(1, [2, 5]), device);
        let head = own.head.as_ref().unwrap();
        let cases = [
            (
                tied.forward(tokens(), NewRows::All),
                tied.features(tokens(), NewRows::All),
                tied.embedding.tokens.weight.val().transpose(),
                Tensor::zeros([VOCAB], device),
            ),
            (
                own.forward(tokens(), NewRows::All),
                own.features(tokens(), NewRows::All),
                head.weight.val(),
                head.bias.as_ref().unwrap().val(),
            ),
        ];
        for (logits, features, weight, bias) in cases {
            let expected = features.matmul(weight.unsqueeze()) + bias.unsqueeze();
            assert_close("logits", logits, expected, 1e-6);
        }
    });
}

#[test]
fn a_later_token_changes_nothing_before_it() {
    device::each(|device| {
        for (name, model) in models(device, DType::F32) {
            let mut texts = text(1, [2, 6]);
            let before = Array::read(model.whole(tensor(&texts, device), NewRows::All));
            texts[0][4] = (texts[0][4] + 1) % VOCAB as u32;
            let after = Array::read(model.whole(tensor(&texts, device), NewRows::All));
            let first =
                |array: &Array| Array::from_fn(&[4, VOCAB], |at| array.at(&[0, at[0], at[1]]));
            assert_same(name, &first(&after), &first(&before));
            let last = |array: &Array| Array::from_fn(&[VOCAB], |at| array.at(&[0, 5, at[0]]));
            assert_ne!(last(&after), last(&before), "{name}");
        }
    });
}

/// The gradients of a loss of some rows, whatever tokens the others have.
#[test]
fn tokens_of_padding_are_not_learned() {
    device::each_training(|device| {
        let model = sinusoidal(device, layer());
        let texts = [text(1, [1, 5]), text(2, [1, 3])].concat();
        let run = |tokens: Tensor<2, Int>| {
            let features = model.features(tokens, NewRows::First(&[5, 3]));
            let received = Array::draw(3, &[2, 5, HIDDENS]).f32(device);
            let gradients = (features.clone() * received).sum().backward();
            let mut outcome = parameters::gradients(&model, Some(&gradients));
            outcome.insert("features".into(), Array::read(features));
            outcome
        };
        // 999, which is no token, and one that is.
        let none = padded(&texts, 5, false, device);
        let other = none.clone().mask_fill(none.clone().equal_elem(999), 7);
        let (of_none, of_other) = (run(none), run(other));
        for (name, expected) in &of_other {
            assert_same(name, &of_none[name], expected);
        }
        let features = &of_none["features"];
        let padding = Array::from_fn(&[2, HIDDENS], |at| features.at(&[1, 3 + at[0], at[1]]));
        assert_zero("padding", &padding);
        let embedding = &of_none["embedding.tokens.weight"];
        assert!(embedding.magnitude() > 0.0);
        let unused = (0..VOCAB as u32).filter(|token| !texts.concat().contains(token));
        for token in unused {
            let row = Array::from_fn(&[HIDDENS], |at| embedding.at(&[token as usize, at[0]]));
            assert_zero("a token that is nowhere", &row);
        }
    });
}
