//! Times of dot-product attention: `dot_time [level] [repeats] [shape]`, where a shape is `b,h,queries,keys,size`.
//! The variables `CAUSAL`, `KEEP` (a mask of flags) and `DROPOUT` (a probability) add what they say.

#![allow(clippy::unwrap_used, reason = "a program for developers")]

use std::time::Instant;

use attention_kernels::{
    AttentionGradients, AttentionOutputs, DotProductAttentionInputs, Dropout, KeyValueGradients,
    Mask, ModifierGradients, Rows, ScoreModifiers,
};
use cpu_kernels::Level;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let level = match args.get(1).map(String::as_str) {
        None | Some("best") => Level::available()[0],
        Some(name) => *Level::available()
            .iter()
            .find(|level| level.name() == name)
            .unwrap(),
    };
    let repeats: usize = args.get(2).map_or(0, |n| n.parse().unwrap());
    let shapes: Vec<[usize; 5]> = match args.get(3) {
        Some(shape) => {
            let sizes: Vec<usize> = shape.split(',').map(|n| n.parse().unwrap()).collect();
            vec![sizes.try_into().unwrap()]
        }
        None => vec![
            [8, 8, 128, 128, 64],
            [2, 8, 1024, 1024, 64],
            [1, 8, 4096, 4096, 64],
        ],
    };
    let causal = std::env::var("CAUSAL").is_ok();
    let dropout = std::env::var("DROPOUT")
        .ok()
        .map(|p| Dropout::new(p.parse().unwrap(), 1));
    for shape in shapes {
        time(level, repeats, shape, causal, dropout);
    }
}

/// Milliseconds that the threads of this process have run; on a busy machine a better measure than the clock.
fn cpu() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let run = |path: std::path::PathBuf| -> Option<f64> {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    threads
        .filter_map(|thread| run(thread.unwrap().path()))
        .sum::<f64>()
        / 1e6
}

fn time(
    level: Level,
    repeats: usize,
    [batch, heads, queries, keys, size]: [usize; 5],
    causal: bool,
    dropout: Option<Dropout>,
) {
    let element = |i: usize| {
        ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let tensor = |rows: usize, seed: usize| -> Vec<f32> {
        (0..batch * heads * rows * size)
            .map(|i| 1.7 * element(i + seed))
            .collect()
    };
    let (q, k, v) = (
        tensor(queries, 1),
        tensor(keys, 2_000_003),
        tensor(keys, 4_000_037),
    );
    let bounds: Vec<[usize; 2]> = (0..queries)
        .map(|i| [0, (i + 1 + keys).saturating_sub(queries)])
        .collect();
    let mut mask = Mask::none();
    if causal {
        mask = mask.with_intervals(&bounds, [1, queries]);
    }
    let keep: Vec<bool> = (0..batch * queries * keys)
        .map(|i| element(i) < 0.5)
        .collect();
    if std::env::var("KEEP").is_ok() {
        mask = mask.with_keep(&keep, [batch, 1, queries, keys]);
    }
    let inputs = DotProductAttentionInputs {
        queries: Rows::contiguous(&q, [batch, heads, queries, size]),
        keys: Rows::contiguous(&k, [batch, heads, keys, size]),
        values: Rows::contiguous(&v, [batch, heads, keys, size]),
        modifiers: ScoreModifiers::NONE,
        mask,
        scale: 1.0 / (size as f32).sqrt(),
        dropout,
    };
    let mut context = vec![0.0; q.len()];
    let mut lse = vec![[0.0; 2]; batch * heads * queries];
    let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
    let work = 4.0 * (batch * heads * queries * keys * size) as f64;
    let repeats = if repeats > 0 {
        repeats
    } else {
        (2e11 / work / 3.5).clamp(5.0, 300.0) as usize
    };
    // The products that each computes, relative to the forward pass.
    let passes = [
        ("forward", 1.0),
        ("with backward", 3.5),
        ("with backward of the queries alone", 2.5),
    ];
    let mut times = [const { (Vec::new(), Vec::new()) }; 3];
    for _ in 0..repeats {
        for (pass, (clock, processor)) in times.iter_mut().enumerate() {
            let start_cpu = cpu();
            let start = Instant::now();
            inputs.forward(level, &mut context, &mut lse);
            if pass > 0 {
                let are_all_wanted = pass == 1;
                dq.fill(0.0);
                if are_all_wanted {
                    dk.fill(0.0);
                    dv.fill(0.0);
                }
                let gradients = AttentionGradients {
                    queries: Some(&mut dq),
                    keys_and_values: KeyValueGradients::Added {
                        keys: are_all_wanted.then_some(&mut dk),
                        values: are_all_wanted.then_some(&mut dv),
                    },
                    modifiers: ModifierGradients::NONE,
                    weight: None,
                };
                let shape = inputs.queries.shape();
                let outputs = AttentionOutputs {
                    context: Rows::contiguous(&context, shape),
                    lse: &lse,
                    weights: None,
                    context_gradient: Rows::contiguous(&context, shape),
                };
                inputs.backward(level, &outputs, gradients);
            }
            clock.push(start.elapsed().as_secs_f64() * 1e3);
            processor.push(cpu() - start_cpu);
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        (times[repeats / 2], times[0])
    };
    for ((what, products), (clock, processor)) in passes.into_iter().zip(&mut times) {
        let ((clock, best), (cpu, best_cpu)) = (median(clock), median(processor));
        println!(
            "{} b{batch} h{heads} q{queries} k{keys} d{size} {what}: {clock:.2} ms (best {best:.2}), \
             processor {cpu:.2} ms (best {best_cpu:.2}, {:.0} GFLOP/s each)",
            level.name(),
            products * work / best_cpu / 1e6,
        );
    }
}
