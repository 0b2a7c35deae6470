//! A training that shares its batches among devices, and ends as one on a single device does.
//!
//! By default the devices are the CPU twice. Those of workers on this machine or others, each started by
//! `seq2seq worker`, are named as the program names them:
//!
//! ```text
//! cargo run -p attention-examples --example several_devices --features remote -- ws://127.0.0.1:3000,ws://HOST:3000
//! ```

use std::error::Error;

use attention_core::AdditiveAttentionConfig;
use attention_seq2seq::{
    Example, Interrupter, RunDir, Seq2SeqConfig, TrainConfig, TrainEvent, Training, open_devices,
};
use burn::prelude::*;

mod common;
use common::println;

const TOKENS: usize = 12;
const HIDDENS: usize = 32;

/// Tokens, and the same in reverse order. A token of the data is a number from 4 on.
fn examples(count: usize) -> Vec<Example> {
    let example = |at: usize| {
        let source = (0..2 + at % 4).map(|place| 4 + (at * (3 + place) % 8) as u32);
        let source: Vec<u32> = source.collect();
        let target = source.iter().rev().copied().collect();
        Example { source, target }
    };
    (0..count).map(example).collect()
}

/// The loss on validation examples after each epoch.
fn losses(devices: &[Device]) -> Result<Vec<f64>, Box<dyn Error>> {
    let devices: Vec<Device> = devices.iter().cloned().map(Device::autodiff).collect();
    let (first, further) = devices.split_first().ok_or("no device")?;
    // The same parameters each time.
    first.seed(3);
    let attention = AdditiveAttentionConfig::new(HIDDENS, HIDDENS, HIDDENS).init(first);
    let model = Seq2SeqConfig::new(TOKENS, TOKENS)
        .with_hidden_size(HIDDENS)
        .init(attention, first);
    let folder = tempfile::tempdir()?;
    let mut losses = Vec::new();
    let training = Training {
        model,
        train: examples(500).into(),
        valid: examples(50).into(),
        config: TrainConfig {
            epochs: 4,
            batch_size: 32,
            learning_rate: 0.01,
            ..TrainConfig::default()
        },
        run: RunDir::new(folder.path()),
        resume_from: None,
        further_devices: further.to_vec(),
        interrupter: Interrupter::new(),
        observer: |event: &TrainEvent| {
            if let TrainEvent::EpochEnded(epoch) = event {
                losses.push(epoch.valid.loss);
            }
        },
    };
    training.launch()?;
    Ok(losses)
}

fn main() -> Result<(), Box<dyn Error>> {
    let devices = match std::env::args().nth(1) {
        Some(names) => open_devices(&names)?,
        None => vec![Device::default(); 2],
    };
    let alone = losses(&devices[..1])?;
    let together = losses(&devices)?;
    println!("epoch  one device  {} devices", devices.len());
    for (epoch, (alone, together)) in (1..).zip(alone.iter().zip(&together)) {
        println!("{epoch:>5}  {alone:>10.4}  {together:>9.4}");
        // Sums are added up in another order.
        assert!((alone - together).abs() < 1e-2 * alone);
    }
    Ok(())
}
