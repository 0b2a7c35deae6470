//! Times the additive kernels on every level, without anything around them: best of thirty, in milliseconds.
//!
//! `cargo run --release -p attention-kernels --example additive_time`

use std::time::Instant;

use attention_kernels::{
    AdditiveAttentionInputs, AdditiveScoreGradients, AdditiveScoreInputs, AttentionGradients,
    AttentionOutputs, KeyValueGradients, Mask, ModifierGradients, Rows, ScoreModifiers,
};
use cpu_kernels::Level;

fn main() {
    for shape in [
        [8, 128, 128, 256],
        [64, 1, 64, 256],
        [128, 1, 32, 256],
        [1, 512, 512, 256],
    ] {
        let [batch, queries, keys, units] = shape;
        println!("batch {batch}, {queries} queries, {keys} keys, {units} units");
        for level in Level::available() {
            time(level, shape);
        }
    }
}

fn time(level: Level, [batch, num_queries, num_keys, units]: [usize; 4]) {
    let elements = |count: usize| -> Vec<f32> {
        (0..count)
            .map(|i| ((i * 7919 % 1009) as f32) / 504.5 - 1.0)
            .collect()
    };
    let queries = elements(batch * num_queries * units);
    let (keys, values) = (
        elements(batch * num_keys * units),
        elements(batch * num_keys * units),
    );
    let weight: Vec<f32> = elements(units)
        .into_iter()
        .map(|x| x / (units as f32).sqrt()) // as a layer is initialised
        .collect();
    let key_rows = Rows::contiguous(&keys, [batch, 1, num_keys, units]);
    let score = AdditiveScoreInputs {
        queries: Rows::contiguous(&queries, [batch, 1, num_queries, units]),
        keys: key_rows,
        weight: &weight,
        mask: Mask::none(),
    };
    let mut scores = vec![0.0; batch * num_queries * num_keys];
    let grad = elements(scores.len());
    let (mut dq, mut dk) = (vec![0.0; queries.len()], vec![0.0; keys.len()]);
    let (mut dv, mut dw) = (vec![0.0; values.len()], vec![0.0; units]);
    let score_forward = best(|| score.forward(level, &mut scores));
    let grad = Rows::contiguous(&grad, [batch, 1, num_queries, num_keys]);
    let score_backward = best(|| {
        let gradients = AdditiveScoreGradients {
            queries: Some(&mut dq),
            keys: Some(&mut dk),
            weight: Some(&mut dw),
        };
        score.backward(level, grad, gradients);
    });
    let of_keys = best(|| score.backward_keys(level, grad, &mut dk));
    let packed = AdditiveScoreInputs::packed_keys(key_rows, Mask::none(), num_queries, level);
    let attention = AdditiveAttentionInputs {
        score,
        values: Rows::contiguous(&values, [batch, 1, num_keys, units]),
        packed_keys: Some(&packed),
        modifiers: ScoreModifiers::NONE,
        dropout: None,
    };
    let (mut context, mut lse) = (
        vec![0.0; queries.len()],
        vec![[0.0; 2]; batch * num_queries],
    );
    let forward = best(|| attention.forward(level, &mut context, &mut lse));
    let context_gradient = Rows::contiguous(&queries, [batch, 1, num_queries, units]);
    let outputs = AttentionOutputs {
        context: Rows::contiguous(&context, context_gradient.shape()),
        lse: &lse,
        weights: None,
        context_gradient,
    };
    let backward = best(|| {
        let gradients = AttentionGradients {
            queries: Some(&mut dq),
            keys_and_values: KeyValueGradients::Added {
                keys: Some(&mut dk),
                values: Some(&mut dv),
            },
            modifiers: ModifierGradients::NONE,
            weight: Some(&mut dw),
        };
        attention.backward(level, &outputs, gradients);
    });
    let of_queries = best(|| {
        let gradients = AttentionGradients {
            queries: Some(&mut dq),
            keys_and_values: KeyValueGradients::Added {
                keys: None,
                values: None,
            },
            modifiers: ModifierGradients::NONE,
            weight: None,
        };
        attention.backward(level, &outputs, gradients);
    });
    println!(
        "  {:<9} score {score_forward:.3}, backward {score_backward:.3}, of the keys alone {of_keys:.3}; \
         fused with packed keys {forward:.3}, backward {backward:.3}, of the queries alone {of_queries:.3}",
        level.name()
    );
}

fn best(mut run: impl FnMut()) -> f64 {
    let times = (0..30).map(|_| {
        let started = Instant::now();
        run();
        started.elapsed().as_secs_f64() * 1e3
    });
    times.fold(f64::INFINITY, f64::min)
}
