//! The model by plain loops, one example at a time: the reference for batches, tables and split gates.

use attention_seq2seq::{Example, Seq2SeqConfig, Vocab};
use attention_tests::Outcome;

/// The logits of each step of `example`, under teacher forcing.
pub(crate) fn logits(model: &Outcome, config: &Seq2SeqConfig, example: &Example) -> Vec<f64> {
    let (keys, last) = encode(model, config, &example.source);
    let start = |(layer, state): (usize, State)| {
        let hidden = linear(model, &format!("decoder.start.{layer}"), &state.hidden);
        let hidden = hidden.into_iter().map(f64::tanh).collect();
        State { hidden, ..state }
    };
    let mut states: Vec<State> = last.into_iter().enumerate().map(start).collect();
    let previous = std::iter::once(&Vocab::BOS).chain(&example.target);
    let mut all = Vec::new();
    for &token in previous {
        let query = &states[config.layers - 1].hidden;
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
            let path = format!("decoder.recurrent.layers.{layer}");
            *state = step(model, &path, &input, state);
            input = state.hidden.clone();
        }
        all.extend(linear(model, "decoder.output", &[input, context].concat()));
    }
    all
}

/// The state of a recurrent layer; a GRU has no cell.
#[derive(Clone)]
struct State {
    hidden: Vec<f64>,
    cell: Vec<f64>,
}

/// The top layer's outputs, and every layer's last state.
fn encode(model: &Outcome, config: &Seq2SeqConfig, source: &[u32]) -> (Vec<Vec<f64>>, Vec<State>) {
    let embedded = |&token: &u32| row(model, "encoder.embedding", token, config.embedding_size);
    let mut states: Vec<Vec<f64>> = source.iter().map(embedded).collect();
    let mut last = Vec::new();
    for layer in 0..config.layers {
        let read = |direction: &str, inputs: &mut dyn Iterator<Item = &Vec<f64>>| {
            let path = format!("encoder.recurrent.{direction}.{layer}");
            let zeros = || vec![0.0; model[&format!("{path}.hidden.weight")].shape[0]];
            let [hidden, cell] = [zeros(), zeros()];
            let mut state = State { hidden, cell };
            let outputs = inputs.map(|input| {
                state = step(model, &path, input, &state);
                state.hidden.clone()
            });
            (outputs.collect::<Vec<_>>(), state)
        };
        let (mut outputs, mut end) = read("layers", &mut states.iter());
        if config.bidirectional {
            let (reversed, reversed_end) = read("reversed", &mut states.iter().rev());
            end.hidden.extend(reversed_end.hidden);
            end.cell.extend(reversed_end.cell);
            for (output, reversed) in outputs.iter_mut().zip(reversed.iter().rev()) {
                output.extend(reversed);
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
    let units = query.iter().zip(&key);
    let hidden: Vec<f64> = units.map(|(q, k)| (q + k).tanh()).collect();
    linear(model, &format!("{path}.value"), &hidden)[0]
}

/// A step of a GRU or an LSTM, which has a fourth gate.
fn step(model: &Outcome, path: &str, input: &[f64], state: &State) -> State {
    let State { hidden, cell } = state;
    let size = hidden.len();
    let from_input = linear(model, &format!("{path}.input"), input);
    let from_hidden = linear(model, &format!("{path}.hidden"), hidden);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let sum = |gate: usize, unit: usize| {
        let at = gate * size + unit;
        from_input[at] + from_hidden[at]
    };
    let gru = |unit: usize| {
        let [reset, update] = [0, 1].map(|gate| sigmoid(sum(gate, unit)));
        let n = 2 * size + unit;
        let new = (from_input[n] + reset * from_hidden[n]).tanh();
        ((1.0 - update) * new + update * hidden[unit], 0.0)
    };
    let lstm = |unit: usize| {
        let [take, keep, give] = [0, 1, 3].map(|gate| sigmoid(sum(gate, unit)));
        let cell = keep * cell[unit] + take * sum(2, unit).tanh();
        (give * cell.tanh(), cell)
    };
    let is_lstm = from_input.len() == 4 * size;
    let units = (0..size).map(|unit| if is_lstm { lstm(unit) } else { gru(unit) });
    let (hidden, cell) = units.unzip();
    State { hidden, cell }
}

fn linear(model: &Outcome, path: &str, input: &[f64]) -> Vec<f64> {
    let weight = &model[&format!("{path}.weight")].data;
    let size = weight.len() / input.len();
    let column =
        |at: usize| -> Vec<f64> { weight.iter().skip(at).step_by(size).copied().collect() };
    let bias = model.get(&format!("{path}.bias"));
    let bias = |at: usize| bias.map_or(0.0, |bias| bias.data[at]);
    let units = (0..size).map(|at| dot(input, &column(at)) + bias(at));
    units.collect()
}

fn row(model: &Outcome, path: &str, token: u32, size: usize) -> Vec<f64> {
    model[&format!("{path}.weight")].data[token as usize * size..][..size].to_vec()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
