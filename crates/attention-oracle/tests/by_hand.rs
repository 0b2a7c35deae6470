//! Results of the loops that are worked out by hand.

use attention_oracle::{
    Axes, Bias, Cell, CrossEntropy, Modifiers, Pairs, Recurrent, Score, softmax, weighted_sum,
};

#[test]
fn attention() {
    let axes = Axes {
        batch: 1,
        heads: 2,
        key_heads: 1,
        queries: 1,
        keys: 3,
    };
    // The last key is masked, and the second head reads the keys of the only one.
    let pairs = Pairs::new(axes, |[_, _, _, j]| j < 2);
    let nan = f64::NAN;
    let scores = [0.0, 3_f64.ln(), nan, 1.0, 1.0, nan];
    let weights = softmax(&pairs, &scores);
    assert_close(&weights, &[0.25, 0.75, 0.0, 0.5, 0.5, 0.0]);
    let context = weighted_sum(&pairs, [&weights, &[4.0, 8.0, nan]]);
    assert_close(&context, &[7.0, 6.0]);
    // tanh(ln 2) is 3/5.
    let (queries, keys) = ([0.0, 2_f64.ln()], [2_f64.ln(), -(2_f64.ln()), nan]);
    let additive = Score::Additive { weight: &[5.0] };
    let scores = additive.forward(&pairs, [&queries, &keys]);
    assert_close(&scores, &[3.0, -3.0, 0.0, 5.0 * 15.0 / 17.0, 0.0, 0.0]);
    let dot = Score::Dot { scale: 0.5 };
    let scores = dot.forward(&pairs, [&[2.0, 3.0], &[5.0, 7.0, nan]]);
    assert_close(&scores, &[5.0, 7.0, 0.0, 7.5, 10.5, 0.0]);
}

/// Scores of 0 with biases, beside sinks; the second sink is none.
#[test]
fn modified_attention() {
    let axes = Axes {
        batch: 1,
        heads: 2,
        key_heads: 2,
        queries: 1,
        keys: 2,
    };
    let pairs = Pairs::new(axes, |_| true);
    let bias = Bias {
        elements: &[0.0, 3_f64.ln()],
        shape: [1, 1, 1, 2],
    };
    let attention = attention_oracle::Attention {
        pairs: &pairs,
        score: Score::Dot { scale: 1.0 },
        queries: &[0.0; 2],
        keys: &[1.0; 4],
        values: &[5.0, 10.0, 4.0, 8.0],
        value_size: 1,
        modifiers: Modifiers {
            soft_cap: Some(1.0),
            bias: Some(bias),
            sinks: Some(&[0.0, f64::NEG_INFINITY]),
            ..Modifiers::NONE
        },
        factors: None,
    };
    let outputs = attention.forward();
    assert_close(&outputs.context, &[1.0 + 6.0, 1.0 + 6.0]);
    assert_close(&outputs.log_sum_exp, &[5_f64.ln(), 4_f64.ln()]);
    let gradients = attention.backward(&outputs, &[1.0, 0.0]);
    assert_close(&gradients.values, &[0.2, 0.6, 0.0, 0.0]);
    // Weight times what differs from the mean, 7.
    assert_close(&gradients.bias, &[0.2 * -2.0, 0.6 * 3.0]);
    assert_close(&gradients.sinks, &[0.2 * -7.0, 0.0]);
}

#[test]
fn losses() {
    let smoothed = |label_smoothing| CrossEntropy {
        targets: &[1, 0],
        factors: &[2.0, 1.0],
        label_smoothing,
    };
    let logits = [0.0, 3_f64.ln(), 5.0, 5.0];
    let loss = 2.0 * (4.0_f64 / 3.0).ln() + 2_f64.ln();
    assert_close(&[smoothed(0.0).loss(&logits)], &[loss]);
    // Half of what the classes of the first row lose.
    let loss = (4.0_f64 / 3.0).ln() + 4_f64.ln() + 2_f64.ln();
    assert_close(&[smoothed(1.0).loss(&logits)], &[loss]);
    assert_eq!(smoothed(0.0).predictions(&logits), [1, 0]);
}

/// Where all gates are 0, sigmoids are 1/2: half of the state stays, and nothing comes in.
#[test]
fn recurrent_layers() {
    let zeros = [0.0; 8];
    let states = |cell: Cell, lens: [usize; 1], initial: &[f64]| {
        let width = cell.gates();
        let layer = Recurrent {
            cell,
            sizes: [1, 2, 1],
            lens: Some(&lens),
            is_reversed: false,
            gates: &zeros[..2 * width],
            weight: &zeros[..width],
            bias: &zeros[..width],
            initial,
        };
        layer.forward()
    };
    assert_close(&states(Cell::Gru, [2], &[8.0]), &[4.0, 2.0]);
    assert_close(&states(Cell::Gru, [1], &[8.0]), &[4.0, 4.0]);
    let cells = [2_f64.ln(), 0.5 * 2_f64.ln()];
    let [first, second] = cells.map(|cell| 0.5 * cell.tanh());
    let initial = [8.0, 2.0 * 2_f64.ln()];
    let expected = [first, second, cells[0], cells[1]];
    assert_close(&states(Cell::Lstm, [2], &initial), &expected);
}

fn assert_close(actual: &[f64], expected: &[f64]) {
    assert_eq!(actual.len(), expected.len());
    for (actual, expected) in actual.iter().zip(expected) {
        let bound = 1e-14 * expected.abs().max(1.0);
        assert!((actual - expected).abs() < bound, "{actual} {expected}");
    }
}
