//! A step of generation: one token is appended to a cache of keys and values, and attends to all of it. Beside the same
//! by hand, with keys and values written into space that is there, by concatenation, and in PyTorch.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench generate`; see benches/README.md.

use std::io;

use attention_benches::bench::Bench;
use attention_benches::tensors::{Call, finish, random};
use attention_core::score::DotProductScoreConfig;
use attention_core::{Attention, DotProductScore, KeyValueCache, Mask, Memory, NewRows};
use burn::tensor::{Device, Tensor};
use serde_json::json;

const HEADS: usize = 8;
const SIZE: usize = 32;
const BATCHES: [usize; 2] = [1, 8];
const KEYS: [usize; 3] = [256, 1024, 4096];

fn main() -> io::Result<()> {
    Bench::run("generate.py", |bench| {
        for batch in BATCHES {
            for keys in KEYS {
                time(bench, batch, keys)?;
            }
        }
        Ok(())
    })
}

fn time(bench: &mut Bench, batch: usize, keys: usize) -> io::Result<()> {
    let title = format!("append and attend b{batch} heads {HEADS} d{SIZE} cached {keys}");
    let calls = |device: &Device| {
        vec![
            ("cache", by_cache(device, batch, keys)),
            ("by hand", by_hand(device, batch, keys)),
            ("concatenated", by_concatenation(device, batch, keys)),
        ]
    };
    let device = bench.options.baselines_device();
    let setup =
        json!({"device": device, "batch": batch, "heads": HEADS, "size": SIZE, "keys": keys});
    bench.time([&title, "step"], calls, &["PyTorch SDPA"], |_| {
        setup.clone()
    })
}

fn attention() -> Attention<DotProductScore> {
    Attention::new(DotProductScoreConfig::new().init(), 0.0)
}

/// Query, key and value of a token.
fn token(device: &Device, batch: usize) -> [Tensor<4>; 3] {
    [(); 3].map(|()| random([batch, HEADS, 1, SIZE], device))
}

/// Keys and values that are there.
fn prompt(device: &Device, batch: usize, keys: usize) -> [Tensor<4>; 2] {
    [(); 2].map(|()| random([batch, HEADS, keys, SIZE], device))
}

fn by_cache(device: &Device, batch: usize, len: usize) -> Call {
    let attention = attention();
    let mut cache = KeyValueCache::with_capacity(2 * len);
    let [keys, values] = prompt(device, batch, len);
    let (query, mask) = (keys.clone(), Mask::none());
    attention.forward_cached(query, keys, values, NewRows::All, &mut cache, mask);
    let [query, key, value] = token(device, batch);
    let lengths = vec![len; batch];
    Box::new(move || {
        let (query, key, value) = (query.clone(), key.clone(), value.clone());
        let context =
            attention.forward_cached(query, key, value, NewRows::All, &mut cache, Mask::none());
        cache.truncate(&lengths);
        finish(context);
    })
}

fn by_hand(device: &Device, batch: usize, len: usize) -> Call {
    let attention = attention();
    let space = [batch, HEADS, 2 * len, SIZE];
    let mut stored = prompt(device, batch, len)
        .map(|rows| Tensor::zeros(space, device).slice_assign([0..batch, 0..HEADS, 0..len], rows));
    let [query, key, value] = token(device, batch);
    Box::new(move || {
        let new = [key.clone(), value.clone()];
        for (stored, new) in stored.iter_mut().zip(new) {
            let taken = std::mem::replace(stored, Tensor::empty([1; 4], &new.device()));
            *stored = taken.slice_assign([0..batch, 0..HEADS, len..len + 1], new);
        }
        let [keys, values] = stored
            .each_ref()
            .map(|rows| rows.clone().narrow(2, 0, len + 1));
        let memory = Memory::of_projected(keys, values, Mask::none());
        finish(attention.attend(query.clone(), &memory, Mask::none()));
    })
}

fn by_concatenation(device: &Device, batch: usize, len: usize) -> Call {
    let attention = attention();
    let [keys, values] = prompt(device, batch, len);
    let [query, key, value] = token(device, batch);
    Box::new(move || {
        let keys = Tensor::cat(vec![keys.clone(), key.clone()], 2);
        let values = Tensor::cat(vec![values.clone(), value.clone()], 2);
        finish(attention.forward(query.clone(), keys, values, Mask::none()));
    })
}
