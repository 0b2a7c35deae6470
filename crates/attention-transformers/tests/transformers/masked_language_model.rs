//! Masked language models: types of tokens, padding and the head.

use attention_core::position::Positions;
use attention_core::{DotProductScore, NewRows};
use attention_tests::{Array, assert_close, assert_same, assert_zero, device};
use attention_transformers::layer::NormConfig;
use attention_transformers::{
    FeedForwardActivation, MaskedLanguageModel, MaskedLanguageModelConfig, NormOrder,
    PositionEmbeddingConfig, TokenEmbeddingConfig, TransformerEncoderConfig,
};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Int, Tensor};

use super::models::{
    HIDDENS, VOCAB, drawn, every_parameter_learns, half_is_near, layer, new_rows, padded, tensor,
    text,
};

const LENS: [usize; 2] = [5, 3];

/// A small BERT.
fn config() -> MaskedLanguageModelConfig {
    let layer = layer()
        .with_norm_order(NormOrder::Post)
        .with_activation(FeedForwardActivation::Gelu);
    let embedding = TokenEmbeddingConfig::new(VOCAB, HIDDENS)
        .with_positions(PositionEmbeddingConfig::Learned { max_positions: 9 })
        .with_num_types(Some(2))
        .with_norm(Some(NormConfig::layer()));
    MaskedLanguageModelConfig::new(embedding, TransformerEncoderConfig::new(layer, 2))
}

fn models(device: &Device) -> [(&'static str, MaskedLanguageModel<DotProductScore>); 2] {
    let [tied, own] = [config(), config().with_tied(false)].map(|it| drawn(it.init(device)));
    [("tied", tied), ("own", own)]
}

fn texts() -> [Vec<u32>; 2] {
    [text(1, [1, 5]).concat(), text(2, [1, 3]).concat()]
}

fn types() -> [Vec<u32>; 2] {
    [vec![0, 0, 1, 1, 1], vec![0, 1, 1]]
}

#[test]
fn each_text_is_as_it_is_alone() {
    device::each(|device| {
        for (name, model) in models(device) {
            for is_left in [false, true] {
                let rows = new_rows(&LENS, is_left);
                // The padding is no token and no type.
                let ids = [texts(), types()];
                let [tokens, of_types] = ids.map(|ids| padded(&ids, 6, is_left, device));
                let logits = model.forward(tokens.clone(), Some(of_types.clone()), rows);
                let features = model.features(tokens, Some(of_types), rows);
                let [logits, features] = [logits, features].map(Array::read);
                for (b, len) in LENS.into_iter().enumerate() {
                    let [own, padding] = if is_left { [6 - len, 0] } else { [0, len] };
                    let [tokens, of_types] =
                        [texts(), types()].map(|ids| tensor(&ids[b..=b], device));
                    let expected = model.forward(tokens, Some(of_types), NewRows::All);
                    let got =
                        Array::from_fn(&[1, len, VOCAB], |at| logits.at(&[b, own + at[1], at[2]]));
                    let what = format!("{name}, text {b}, padding at the left: {is_left}");
                    assert_close(&what, &got, expected, 1e-5);
                    let zeros = Array::from_fn(&[6 - len, HIDDENS], |at| {
                        features.at(&[b, padding + at[0], at[1]])
                    });
                    assert_zero(&what, &zeros);
                }
            }
        }
    });
}

#[test]
fn types_are_rows_that_are_added() {
    device::each(|device| {
        let mut embedding = drawn(config().embedding.with_norm(None).init(device));
        let tokens = || tensor(&texts()[..1], device);
        let of_types = || tensor(&types()[..1], device);
        let positions = Positions::consecutive(2);
        let typed = Array::read(embedding.forward_with_types(tokens(), of_types(), &positions));
        let first = Array::read(embedding.forward(tokens(), &positions));
        let of_first = tokens().zeros_like();
        let of_first = embedding.forward_with_types(tokens(), of_first, &positions);
        assert_same("the first type", &first, of_first);
        let table = embedding.types.take().unwrap();
        let table = Array::read(table.weight.val());
        let plain = Array::read(embedding.forward(tokens(), &positions));
        for (got, of_types) in [(typed, &types()[0]), (first, &vec![0; 5])] {
            let expected = Array::from_fn(&[1, 5, HIDDENS], |at| {
                plain.at(at) + table.at(&[of_types[at[1]] as usize, at[2]])
            });
            assert_close("types", &got, &expected, 1e-6);
        }
    });
}

/// `W norm(gelu(W_t x + b_t)) + b`, written out.
#[test]
fn a_head_is_what_its_formula_says() {
    device::each(|device| {
        for (name, model) in models(device) {
            let tokens = || tensor(&text(1, [2, 5]), device);
            let features = model.features(tokens(), None, NewRows::All);
            let head = &model.head;
            let bias = head.transform.bias.as_ref().unwrap().val();
            let rows = features.matmul(head.transform.weight.val().unsqueeze());
            let rows = gelu(rows + bias.unsqueeze());
            let centered = rows.clone() - rows.mean_dim(2);
            let variance = centered.clone().square().mean_dim(2);
            let gamma = head.norm.gamma.val().unsqueeze::<3>();
            let beta = head.norm.beta.as_ref().unwrap().val().unsqueeze::<3>();
            let rows = centered / (variance + 1e-5).sqrt() * gamma + beta;
            let weight = match &head.output {
                Some(output) => output.weight.val(),
                None => model.embedding.tokens.weight.val().transpose(),
            };
            let expected = rows.matmul(weight.unsqueeze()) + head.bias.val().unsqueeze();
            let logits = model.forward(tokens(), None, NewRows::All);
            assert_close(name, logits, expected, 1e-5);
        }
    });
}

#[test]
fn half_precision_is_near() {
    device::each(|device| {
        for model in models(device) {
            half_is_near(model, device, 16.0, |model, _| {
                let ids = [texts(), types()].map(|ids| padded(&ids, 5, false, device));
                let [tokens, of_types] = ids;
                model.logits(model.features(tokens, Some(of_types), NewRows::First(&LENS)))
            });
        }
    });
}

#[test]
fn all_parameters_learn() {
    device::each_training(|device| {
        for (name, model) in models(device) {
            let [tokens, of_types] = [texts(), types()].map(|ids| padded(&ids, 6, false, device));
            let features = model.features(tokens, Some(of_types), NewRows::First(&LENS));
            every_parameter_learns(name, &model, model.logits(features));
        }
    });
}

#[test]
fn an_empty_batch_has_no_logits() {
    device::each(|device| {
        let (_, model) = &models(device)[0];
        for shape in [[0, 5], [2, 0]] {
            let logits = model.forward(Tensor::<2, Int>::zeros(shape, device), None, NewRows::All);
            assert_eq!(logits.dims(), [shape[0], shape[1], VOCAB]);
        }
    });
}
