//! The model by plain loops, one example at a time: the reference for batches, tables and split gates.

use attention_seq2seq::{Example, Seq2SeqConfig, Vocab};
use attention_tests::Outcome;

/// The logits of each step of `example`, under teacher forcing.
pub(crate) fn logits(model: &Outcome, config: &Seq2SeqConfig, example: &Example) -> Vec<f64> {
    let (keys, last) = encode(model, config, &example.source);
    let start = |(layer, state): (usize, &Vec<f64>)| -> Vec<f64> {
        let state = linear(model, &format!("decoder.start.{layer}"), state);
        state.into_iter().map(f64::tanh).collect()
    };
    let mut states: Vec<Vec<f64>> = last.iter().enumerate().map(start).collect();
    let previous = [Vocab::BOS]
        .into_iter()
        .chain(example.target.iter().copied());
    let mut all = Vec::new();
    for token in previous {
        let query = &states[config.layers - 1];
        let scores: Vec<f64> = keys.iter().map(|key| score(model, query, key)).collect();
        let total: f64 = scores.iter().map(|score| score.exp()).sum();
        let mut context = vec![0.0; config.hidden_size];
        for (key, score) in keys.iter().zip(&scores) {
            for (sum, value) in context.iter_mut().zip(key) {
                *sum += score.exp() / total * value;
            }
        }
        let embedded = row(model, "decoder.embedding", token, config.embedding_size);
        let mut input = [embedded, context.clone()].concat();
        for (layer, state) in states.iter_mut().enumerate() {
            *state = gru(model, &format!("decoder.layers.{layer}"), &input, state);
            input = state.clone();
        }
        let features = [input, context].concat();
        all.extend(linear(model, "decoder.output", &features));
    }
    all
}

/// The top layer's states, and every layer's last.
fn encode(
    model: &Outcome,
    config: &Seq2SeqConfig,
    source: &[u32],
) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let embedded = |&token: &u32| row(model, "encoder.embedding", token, config.embedding_size);
    let mut states: Vec<Vec<f64>> = source.iter().map(embedded).collect();
    let mut last = Vec::new();
    for layer in 0..config.layers {
        let read = |direction: &str, inputs: &mut dyn Iterator<Item = &Vec<f64>>| {
            let path = format!("encoder.{direction}.{layer}");
            let size = model[&format!("{path}.hidden.bias")].data.len() / 3;
            let mut hidden = vec![0.0; size];
            let step = |input: &Vec<f64>| {
                hidden = gru(model, &path, input, &hidden);
                hidden.clone()
            };
            inputs.map(step).collect::<Vec<_>>()
        };
        let mut outputs = read("forward", &mut states.iter());
        let mut end = outputs[outputs.len() - 1].clone();
        if config.bidirectional {
            let backward = read("backward", &mut states.iter().rev());
            end.extend(&backward[backward.len() - 1]);
            for (output, backward) in outputs.iter_mut().zip(backward.iter().rev()) {
                output.extend(backward);
            }
        }
        last.push(end);
        states = outputs;
    }
    (states, last)
}

fn score(model: &Outcome, query: &[f64], key: &[f64]) -> f64 {
    let path = "decoder.attention.score";
    if !model.contains_key(&format!("{path}.query.weight")) {
        return dot(query, key) / (query.len() as f64).sqrt();
    }
    let query = linear(model, &format!("{path}.query"), query);
    let key = linear(model, &format!("{path}.key"), key);
    let hidden: Vec<f64> = query
        .iter()
        .zip(&key)
        .map(|(q, k)| (q + k).tanh())
        .collect();
    linear(model, &format!("{path}.value"), &hidden)[0]
}

fn gru(model: &Outcome, path: &str, input: &[f64], hidden: &[f64]) -> Vec<f64> {
    let size = hidden.len();
    let from_input = linear(model, &format!("{path}.input"), input);
    let from_hidden = linear(model, &format!("{path}.hidden"), hidden);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let unit = |unit: usize| {
        let [r, z, n] = [unit, size + unit, 2 * size + unit];
        let reset = sigmoid(from_input[r] + from_hidden[r]);
        let update = sigmoid(from_input[z] + from_hidden[z]);
        let new = (from_input[n] + reset * from_hidden[n]).tanh();
        (1.0 - update) * new + update * hidden[unit]
    };
    (0..size).map(unit).collect()
}

fn linear(model: &Outcome, path: &str, input: &[f64]) -> Vec<f64> {
    let weight = &model[&format!("{path}.weight")].data;
    let size = weight.len() / input.len();
    let column =
        |at: usize| -> Vec<f64> { weight.iter().skip(at).step_by(size).copied().collect() };
    let bias = model.get(&format!("{path}.bias"));
    let bias = |at: usize| bias.map_or(0.0, |bias| bias.data[at]);
    (0..size)
        .map(|at| dot(input, &column(at)) + bias(at))
        .collect()
}

fn row(model: &Outcome, path: &str, token: u32, size: usize) -> Vec<f64> {
    model[&format!("{path}.weight")].data[token as usize * size..][..size].to_vec()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
