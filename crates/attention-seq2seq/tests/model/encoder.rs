//! The encoder against PyTorch's GRU, and its panics.

use attention_core::DotProductAttentionConfig;
use attention_seq2seq::Seq2SeqConfig;
use attention_seq2seq::data::Source;
use attention_seq2seq::model::Encoder;
use attention_tests::{Array, RecurrentCase, recurrent_reference, refuses};
use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use burn_fused_layers::recurrent::RecurrentLayer;

use crate::support::{assert_close, device, read};

/// PyTorch keeps the weight of a linear layer as `[out, in]`, Burn as `[in, out]`.
fn transposed(weight: &Array) -> Tensor<2> {
    weight.f32::<2>(&device()).transpose()
}

/// The results of PyTorch's GRU.
fn pytorch() -> Vec<RecurrentCase> {
    let mut cases = recurrent_reference("gru");
    // An encoder has no initial states.
    cases.retain(|case| !case.inputs.contains_key("h_0"));
    // One or two directions, whole or with lengths.
    assert_eq!(cases.len(), 4);
    cases
}

/// Batch, steps and the size of an input.
fn sizes(case: &RecurrentCase) -> [usize; 3] {
    case.inputs["input"].shape.clone().try_into().unwrap()
}

/// `hidden_size`, of all directions together.
fn hidden_size(case: &RecurrentCase) -> usize {
    case.outputs["output"].shape[2]
}

fn lens(case: &RecurrentCase) -> Vec<usize> {
    let [batch, steps, _] = sizes(case);
    case.lengths.clone().unwrap_or(vec![steps; batch])
}

/// Sources whose tokens have the inputs as their embeddings, in order; padding has the one before.
fn source(case: &RecurrentCase) -> Source {
    let [_, steps, _] = sizes(case);
    let tokens = |(example, len): (usize, usize)| -> Vec<u32> {
        let first = 1 + example * steps;
        (first..first + len).map(|token| token as u32).collect()
    };
    let sources: Vec<Vec<u32>> = lens(case).into_iter().enumerate().map(tokens).collect();
    Source::new(sources.iter().map(Vec::as_slice), &device())
}

/// The encoder with these parameters, whose embeddings are these inputs.
fn encoder(case: &RecurrentCase) -> Encoder {
    let [batch, steps, size] = sizes(case);
    let config = Seq2SeqConfig::new(1 + batch * steps, 5)
        .with_embedding_size(size)
        .with_hidden_size(hidden_size(case))
        .with_layers(case.layers)
        .with_bidirectional(case.bidirectional);
    let mut encoder = new(&config);
    let inputs = case.inputs["input"].f32::<3>(&device());
    let inputs = inputs.reshape([batch * steps, size]);
    let padding = Tensor::full([1, size], 7.0, &device());
    encoder.embedding.weight = parameter(Tensor::cat(vec![padding, inputs], 0));
    for (gru, suffix) in grus(&mut encoder) {
        let input = |name: &str| &case.inputs[&format!("{name}{suffix}")];
        gru.input.weight = parameter(transposed(input("weight_ih")));
        gru.hidden.weight = parameter(transposed(input("weight_hh")));
        gru.input.bias = Some(parameter(input("bias_ih").f32(&device())));
        gru.hidden.bias = Some(parameter(input("bias_hh").f32(&device())));
    }
    encoder
}

fn new(config: &Seq2SeqConfig) -> Encoder {
    let attention = DotProductAttentionConfig::new().init();
    config.init(attention, &device()).encoder
}

fn parameter<const D: usize>(tensor: Tensor<D>) -> Param<Tensor<D>> {
    Param::from_tensor(tensor.detach()).set_require_grad(true)
}

/// The layers, with PyTorch's suffix for the names of their parameters.
fn grus(encoder: &mut Encoder) -> impl Iterator<Item = (&mut RecurrentLayer, String)> {
    let suffixed = |suffix: &'static str| move |(index, gru)| (gru, format!("_l{index}{suffix}"));
    let recurrent = &mut encoder.recurrent;
    let layers = recurrent.layers.iter_mut().enumerate().map(suffixed(""));
    let reversed = recurrent.reversed.iter_mut().enumerate();
    layers.chain(reversed.map(suffixed("_reverse")))
}

#[test]
fn the_encoder_is_pytorchs_gru() {
    const TOLERANCE: f64 = 1e-5;
    for case in &pytorch() {
        let what = |of: &str| format!("{}: {of}", case.name);
        let [batch, steps, size] = sizes(case);
        let hidden = hidden_size(case);
        let mut encoder = encoder(case);
        let encoded = encoder.forward(&source(case));
        assert_eq!(encoded.states.dims(), [batch, steps, hidden]);

        let states = read(encoded.states.clone());
        for (example, len) in lens(case).into_iter().enumerate() {
            let rows = |values: &[f64]| values[example * steps * hidden..][..len * hidden].to_vec();
            let expected = rows(&case.outputs["output"].data);
            assert_close(&what("states"), &rows(&states), &expected, TOLERANCE);
        }
        let ends = case.outputs["hidden"].f32::<3>(&device());
        let directions = ends.dims()[0] / case.layers;
        assert_eq!(encoded.last.len(), case.layers);
        for (layer, last) in encoded.last.into_iter().enumerate() {
            let ends = (0..directions).map(|at| {
                let end = ends.clone().narrow(0, layer * directions + at, 1);
                end.squeeze_dim::<2>(0)
            });
            let ends = Tensor::cat(ends.collect(), 1);
            assert_close(&what("last"), &read(last.hidden), &read(ends), TOLERANCE);
        }

        // States at padding are arbitrary: only states of tokens receive a gradient.
        let lens = lens(case);
        let mut output_gradients = case.inputs["grad_output"].data.clone();
        for (row, gradients) in output_gradients.chunks_mut(hidden).enumerate() {
            if row % steps >= lens[row / steps] {
                gradients.fill(0.0);
            }
        }
        let output_gradients = TensorData::new(output_gradients, [batch, steps, hidden]);
        let loss = (encoded.states * Tensor::from_data(output_gradients, &device())).sum();
        let gradients = loss.backward();
        let gradient = |parameter: &Param<Tensor<2>>| parameter.val().grad(&gradients).unwrap();

        let rows = gradient(&encoder.embedding.weight);
        let padding = read(rows.clone().narrow(0, 0, 1));
        assert_eq!(padding, vec![0.0; size], "{}", what("gradient of padding"));
        let inputs = read(rows.narrow(0, 1, batch * steps));
        let expected = &case.gradients["input"].data;
        assert_close(&what("gradient of inputs"), &inputs, expected, TOLERANCE);

        for (gru, suffix) in grus(&mut encoder) {
            let check = |name: &str, actual: Vec<f64>, expected: Vec<f64>| {
                let of = format!("gradient of {name}{suffix}");
                assert_close(&what(&of), &actual, &expected, TOLERANCE);
            };
            let expected = |name: &str| &case.gradients[&format!("{name}{suffix}")];
            for (name, linear) in [("ih", &gru.input), ("hh", &gru.hidden)] {
                let weight = format!("weight_{name}");
                let actual = read(gradient(&linear.weight));
                check(&weight, actual, read(transposed(expected(&weight))));
                let bias = format!("bias_{name}");
                let actual = linear.bias.as_ref().unwrap().val().grad(&gradients);
                check(&bias, read(actual.unwrap()), expected(&bias).data.clone());
            }
        }
    }
}

#[test]
fn sizes_that_no_encoder_has_are_refused() {
    let config = || Seq2SeqConfig::new(5, 5);
    let message = "hidden_size of a bidirectional encoder expected even, got 7";
    refuses(message, || new(&config().with_hidden_size(7)));
    let message = "layers expected at least 1, got 0";
    refuses(message, || new(&config().with_layers(0)));
}
