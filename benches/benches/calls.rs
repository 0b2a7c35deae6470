//! The cost of small calls, such as toy tasks and decoders make, before their arithmetic counts. Beside them the same
//! call of Burn's operations, Burn's multi-head attention, and PyTorch. Last a step of location-sensitive attention,
//! and 100 of them, at the sizes of a Tacotron 2.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench calls`; see benches/README.md.

use std::io;

use attention_benches::bench::{Bench, PASSES};
use attention_benches::composed;
use attention_benches::tensors::{Call, call, call_of, finish, random};
use attention_core::stateful::{LocationAttentionConfig, LocationFeatures, StatefulAttention};
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
/// Steps of location-sensitive attention and keys.
const LOCATION_STEPS: [[usize; 2]; 4] = [[1, 100], [1, 200], [1, 400], [100, 200]];
const FILTERS: usize = 32;
/// Keys under a filter.
const WIDTH: usize = 31;

fn main() -> io::Result<()> {
    Bench::run("calls.py", |bench| {
        works().iter().try_for_each(|work| work.time(bench))
    })
}

/// A call to time.
struct Work {
    kind: &'static str,
    batch: usize,
    queries: usize,
    keys: usize,
    units: usize,
}

impl Work {
    fn time(&self, bench: &mut Bench) -> io::Result<()> {
        // A cache is for inference.
        let is_cached = self.kind.starts_with("cached");
        let passes = if is_cached { &PASSES[..1] } else { &PASSES };
        for pass in passes {
            let title = format!("{}, {pass}", self.title());
            let calls = |device: &Device| calls(self, device);
            bench.time([&title, pass], calls, self.baselines(), |candidate| {
                json!({
                    "candidate": candidate,
                    "kind": self.kind,
                    "pass": pass,
                    "batch": self.batch,
                    "queries": self.queries,
                    "keys": self.keys,
                    "units": self.units,
                    "heads": HEADS,
                })
            })?;
        }
        Ok(())
    }

    fn title(&self) -> String {
        let (kind, batch, units) = (self.kind, self.batch, self.units);
        let (queries, keys) = (self.queries, self.keys);
        format!("{kind} b{batch} q{queries} k{keys} units {units}")
    }

    fn baselines(&self) -> &'static [&'static str] {
        match self.kind {
            "cached batch" => &[],
            "location step" => &[
                "PyTorch eager",
                "torch.compile",
                "ESPnet",
                "ESPnet, compiled",
                "Coqui",
                "Coqui, compiled",
            ],
            _ => &["PyTorch eager"],
        }
    }
}

fn works() -> Vec<Work> {
    let mut works = Vec::new();
    for kind in KINDS {
        for [batch, queries] in CALLS {
            // A step is of one token.
            if kind.starts_with("cached") && queries > 1 {
                continue;
            }
            works.extend(UNITS.map(|units| Work {
                kind,
                batch: if kind == "cached batch" { BATCH } else { batch },
                queries,
                keys: KEYS,
                units,
            }));
        }
    }
    works.extend(LOCATION_STEPS.map(|[queries, keys]| Work {
        kind: "location step",
        batch: BATCH,
        queries,
        keys,
        units: 128,
    }));
    works
}

/// Ours and its peers; on a device that trains, with the gradients of inputs and weights.
fn calls(work: &Work, device: &Device) -> Vec<(&'static str, Call)> {
    let (batch, units) = (work.batch, work.units);
    let rows = [work.queries, work.keys, work.keys];
    let inputs = rows.map(|rows| random([batch, rows, units], device));
    match work.kind {
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
            let attend = move |[q, k, v]: [Tensor<3>; 3]| ours.forward(q, k, v, Mask::none());
            vec![
                ("ours", call(inputs.clone(), &[], attend)),
                ("composed", call(inputs, &[], composed::dot_product::<3>)),
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
        "location step" => location_steps(&inputs, units),
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
        finish(heads.forward_cached(q, k, v, new, cache, Mask::none()));
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
        finish(ours.forward_cached(q, k, v, NewRows::All, cache, Mask::none()));
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

/// A step as Tacotron 2 has it, whose filters run over two channels; and its floor, the same step without the location,
/// which is measured rather than counted: most of it is `tanh`.
fn location_steps(inputs: &[Tensor<3>; 3], units: usize) -> Vec<(&'static str, Call)> {
    let device = inputs[0].device();
    let ours = LocationAttentionConfig::new(units, units, units)
        .with_filters(FILTERS)
        .with_kernel_size(WIDTH)
        .with_features(LocationFeatures::Both)
        .init(&device);
    let of_ours =
        [&ours.query, &ours.key, &ours.value, &ours.location].map(|layer| layer.weight.val());
    let without = AdditiveAttentionConfig::new(units, units, units).init(&device);
    let score = &without.score;
    let of_floor = [&score.query, &score.key, &score.value].map(|layer| layer.weight.val());
    vec![
        ("ours", steps_of(ours, inputs, &of_ours)),
        ("floor", steps_of(without, inputs, &of_floor)),
    ]
}

/// The steps of all queries. Keys are projected before, but where the gradients go through the projection.
fn steps_of<A: StatefulAttention + 'static>(
    attention: A,
    inputs: &[Tensor<3>; 3],
    parameters: &[Tensor<2>],
) -> Call {
    let prepare = |attention: &A, keys, values| attention.prepare(keys, values, Mask::none());
    let [query, keys, values] = inputs.clone();
    let trains = query.device().is_autodiff();
    let prepared = (!trains).then(|| prepare(&attention, keys, values));
    call(inputs.clone(), parameters, move |[query, keys, values]| {
        let memory = prepared.clone();
        let memory = memory.unwrap_or_else(|| prepare(&attention, keys, values));
        let mut state = attention.initial_state(&memory);
        let mut contexts = Vec::new();
        let steps = query.dims()[1];
        for query in query.chunk(steps, 1) {
            let (context, next) = attention.step(query, &memory, state);
            contexts.push(context);
            state = next;
        }
        Tensor::cat(contexts, 1)
    })
}
