//! The cost of small calls, such as toy tasks and decoders make, before their arithmetic counts. Beside them the same
//! call of Burn's operations, Burn's multi-head attention, and PyTorch.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench calls`; see benches/README.md.

use std::io;

use attention_benches::baselines::Baselines;
use attention_benches::compare::{Candidate, Local};
use attention_benches::composed;
use attention_benches::machine::{among_threads, limit_threads};
use attention_benches::options::Options;
use attention_benches::report::Report;
use attention_benches::tensors::{Call, call, call_of, finish, random};
use attention_core::{
    AdditiveAttentionConfig, DotProductAttentionConfig, KeyValueCache, Mask, MultiHeadAttention,
    NewRows, drop_in,
};
use burn::nn::attention::{MhaInput, MultiHeadAttentionConfig};
use burn::tensor::{Device, Tensor};
use serde_json::json;

const HEADS: usize = 4;
const KEYS: usize = 10;
/// Batch and queries.
const CALLS: [[usize; 2]; 2] = [[1, 1], [1, 8]];
/// Examples of a cache.
const BATCH: usize = 32;
const UNITS: [usize; 2] = [8, 32];
const KINDS: [&str; 5] = [
    "additive",
    "dot product",
    "multi-head",
    "cached step",
    "cached batch",
];

fn main() -> io::Result<()> {
    let threads = limit_threads();
    among_threads(threads, || run(threads))
}

fn run(threads: usize) -> io::Result<()> {
    let options = Options::from_command_line();
    let mut baselines = Baselines::start("calls.py", threads);
    let mut report = Report::start(threads);
    report.add_baselines(&baselines);
    for kind in KINDS {
        for [batch, queries] in CALLS {
            for units in UNITS {
                for pass in ["forward", "forward + backward"] {
                    // A cache is for inference, and a step is of one token.
                    let is_step = kind.starts_with("cached");
                    let batch = if kind == "cached batch" { BATCH } else { batch };
                    let title = format!("{kind} b{batch} q{queries} k{KEYS} units {units}, {pass}");
                    if is_step && (pass != "forward" || queries > 1) || !options.wants(&title) {
                        continue;
                    }
                    println!("{title}");
                    let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
                    for (backend, device) in options.devices() {
                        let device = match pass {
                            "forward" => device,
                            _ => device.autodiff(),
                        };
                        for (name, call) in calls(kind, [batch, queries, units], &device) {
                            let local = Local::new(format!("{name}, {backend}"), call);
                            candidates.push(Box::new(local.on(&device)));
                        }
                    }
                    if kind != "cached batch"
                        && let Ok(baselines) = &mut baselines
                    {
                        let setup = json!({
                            "kind": kind,
                            "pass": pass,
                            "batch": batch,
                            "queries": queries,
                            "keys": KEYS,
                            "units": units,
                            "heads": HEADS,
                        });
                        baselines.add_to(&mut candidates, "PyTorch eager", setup);
                    }
                    let work = [title.as_str(), pass];
                    report.measure(work, candidates, &mut baselines, options.rounds)?;
                }
            }
        }
    }
    report.write(options.json.as_deref())
}

/// Ours and its peers; on a device that trains, with the gradients of inputs and weights.
fn calls(
    kind: &str,
    [batch, queries, units]: [usize; 3],
    device: &Device,
) -> Vec<(&'static str, Call)> {
    let inputs = [queries, KEYS, KEYS].map(|rows| random([batch, rows, units], device));
    match kind {
        "additive" => {
            let ours = AdditiveAttentionConfig::new(units, units, units).init(device);
            let score = ours.score.clone();
            let layers = [&score.query, &score.key, &score.value];
            let parameters = layers.map(|layer| layer.weight.val());
            let attend = move |[q, k, v]: [Tensor<3>; 3]| ours.forward(q, k, v, Mask::none());
            let by_operations = move |inputs| composed::additive(inputs, &score);
            vec![
                ("ours", call(inputs.clone(), &parameters, attend)),
                ("composed", call(inputs, &parameters, by_operations)),
            ]
        }
        "dot product" => {
            let ours = DotProductAttentionConfig::new().init();
            let inputs = inputs.map(|rows| random([batch, 1, rows.dims()[1], units], device));
            let attend = move |[q, k, v]: [Tensor<4>; 3]| ours.forward(q, k, v, Mask::none());
            vec![
                ("ours", call(inputs.clone(), &[], attend)),
                ("composed", call(inputs, &[], composed::dot_product)),
            ]
        }
        "multi-head" => {
            let burns = MultiHeadAttentionConfig::new(units, HEADS)
                .with_dropout(0.0)
                .init(device);
            let ours = MultiHeadAttention::from(drop_in::MultiHeadAttention::from(burns.clone()));
            let layers = [&burns.query, &burns.key, &burns.value, &burns.output];
            let parameters = layers.map(|layer| layer.weight.val());
            let attend = move |[q, k, v]: [Tensor<3>; 3]| ours.forward(q, k, v, Mask::none());
            let theirs =
                move |[q, k, v]: [Tensor<3>; 3]| burns.forward(MhaInput::new(q, k, v)).context;
            vec![
                ("ours", call(inputs.clone(), &parameters, attend)),
                ("Burn", call(inputs, &parameters, theirs)),
            ]
        }
        "cached step" => steps(inputs, device),
        _ => [("even", vec![KEYS; BATCH]), ("ragged", ragged_lengths())]
            .map(|(name, lengths)| (name, step_of_batch(&inputs, &lengths)))
            .into(),
    }
}

/// Half of [`KEYS`] to all of them.
fn ragged_lengths() -> Vec<usize> {
    (0..BATCH).map(|b| KEYS - b % (KEYS / 2)).collect()
}

/// A token of each example beside its keys in a cache, `lengths` of them.
fn step_of_batch([token, keys, _]: &[Tensor<3>; 3], lengths: &[usize]) -> Call {
    let [_, _, units] = token.dims();
    let heads = attention_core::MultiHeadAttentionConfig::new(units, HEADS).init(&token.device());
    let mut cache = KeyValueCache::with_capacity(KEYS + 1);
    let step = move |rows: &Tensor<3>, new: NewRows, cache: &mut KeyValueCache| {
        let [q, k, v] = [(); 3].map(|()| rows.clone());
        finish(heads.forward_cached(q, k, v, new, cache));
    };
    step(keys, NewRows::First(lengths), &mut cache);
    let (token, lengths) = (token.clone(), lengths.to_vec());
    Box::new(move || {
        step(&token, NewRows::All, &mut cache);
        cache.truncate(&lengths);
    })
}

/// A token beside the [`KEYS`] that a cache holds, and by Burn's module, which projects all keys anew.
fn steps([token, keys, _]: [Tensor<3>; 3], device: &Device) -> Vec<(&'static str, Call)> {
    let [batch, _, units] = token.dims();
    let burns = MultiHeadAttentionConfig::new(units, HEADS)
        .with_dropout(0.0)
        .init(device);
    let ours = MultiHeadAttention::from(drop_in::MultiHeadAttention::from(burns.clone()));
    let mut cache = KeyValueCache::with_capacity(KEYS + 1);
    let step = move |rows: &Tensor<3>, cache: &mut KeyValueCache| {
        let [q, k, v] = [(); 3].map(|()| rows.clone());
        finish(ours.forward_cached(q, k, v, NewRows::All, cache));
    };
    step(&keys, &mut cache);
    let lengths = vec![KEYS; batch];
    let row = token.clone();
    let cached = move || {
        step(&row, &mut cache);
        cache.truncate(&lengths);
    };
    let whole = Tensor::cat(vec![keys, token.clone()], 1);
    let without = call_of(device, move || {
        let input = MhaInput::new(token.clone(), whole.clone(), whole.clone());
        burns.forward(input).context
    });
    vec![("ours", Box::new(cached)), ("Burn, all keys", without)]
}
