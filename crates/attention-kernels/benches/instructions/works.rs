//! The works that are counted: small inputs, on one thread.

use std::hint::black_box;

use attention_kernels::{
    AdditiveScoreGradients, AdditiveScoreInputs, AttentionGradients, AttentionInputs,
    AttentionOutputs, KeyValueGradients, Mask, ModifierGradients, Rows, Score, ScoreModifiers,
    masked_softmax, masked_softmax_backward,
};
use cpu_kernels::{
    GruInputs, Level, Matrix, ProductStart, RecurrentGradients, RecurrentOutputs, product,
};

/// By name. Each makes its inputs, and has the call to count counted.
pub(crate) const WORKS: &[(&str, fn())] = &[
    ("additive score, forward", || additive_score(false)),
    ("additive score, backward", || additive_score(true)),
    ("additive attention, forward", || {
        additive_attention(16, false)
    }),
    ("additive attention, backward", || {
        additive_attention(16, true)
    }),
    ("additive decode, forward", || additive_attention(1, false)),
    ("additive decode, backward", || additive_attention(1, true)),
    ("dot product, forward", || dot_product(32, None, false)),
    ("dot product, backward", || dot_product(32, None, true)),
    ("dot product decode, forward", || {
        dot_product(1, None, false)
    }),
    ("dot product decode, backward", || {
        dot_product(1, None, true)
    }),
    ("dot product, bias, forward", || {
        dot_product(32, Some(Modifier::Bias), false)
    }),
    ("dot product, bias, backward", || {
        dot_product(32, Some(Modifier::Bias), true)
    }),
    ("dot product, relative bias, forward", || {
        dot_product(32, Some(Modifier::RelativeBias), false)
    }),
    ("dot product, relative bias, backward", || {
        dot_product(32, Some(Modifier::RelativeBias), true)
    }),
    ("dot product, soft-cap, forward", || {
        dot_product(32, Some(Modifier::SoftCap), false)
    }),
    ("dot product, soft-cap, backward", || {
        dot_product(32, Some(Modifier::SoftCap), true)
    }),
    ("dot product, sinks, forward", || {
        dot_product(32, Some(Modifier::Sinks), false)
    }),
    ("dot product, sinks, backward", || {
        dot_product(32, Some(Modifier::Sinks), true)
    }),
    ("masked softmax, forward", || softmax(false)),
    ("masked softmax, backward", || softmax(true)),
    ("gru, forward", || gru(false)),
    ("gru, backward", || gru(true)),
    ("product", large_product),
];

/// Sizes: `[batch, heads]`, keys, units and value size. No size is a multiple of a tile.
const HEADS: [usize; 2] = [2, 2];
const KEYS: usize = 83;
const SIZE: usize = 40;

/// Does the work of a name.
pub(crate) fn run(name: &str) {
    let work = WORKS.iter().find(|work| work.0 == name).map(|work| work.1);
    let work = work.unwrap_or_else(|| panic!("no work {name:?}"));
    // In the pool, so that what the kernels hand out stays on the thread that is watched.
    rayon::scope(|_| work());
}

/// The part that valgrind counts. Done twice, so that buffers and tables that are made once are there.
fn counted(mut work: impl FnMut()) {
    work();
    measured(&mut work);
}

#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
    black_box(());
}

/// Elements in `-1..1` that look random and are the same every time.
fn elements(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let element = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    };
    (0..count).map(element).collect()
}

/// The weight of the hidden units, as a layer is initialised.
fn weight(seed: u64) -> Vec<f32> {
    let factor = 1.0 / (SIZE as f32).sqrt();
    elements(seed, SIZE)
        .into_iter()
        .map(|x| factor * x)
        .collect()
}

/// A tensor `[batch, heads, rows, SIZE]`.
fn tensor(seed: u64, rows: usize) -> Vec<f32> {
    elements(seed, HEADS[0] * HEADS[1] * rows * SIZE)
}

fn view(elements: &[f32], rows: usize) -> Rows<'_, f32> {
    Rows::contiguous(elements, [HEADS[0], HEADS[1], rows, SIZE])
}

/// The lengths of the examples.
const LENGTHS: [[usize; 2]; HEADS[0]] = [[0, KEYS], [0, KEYS - 20]];

fn mask() -> Mask<'static> {
    Mask::none().with_intervals(&LENGTHS, [HEADS[0], 1])
}

fn additive_score(backward: bool) {
    const QUERIES: usize = 16;
    let (queries, keys, weight) = (tensor(1, QUERIES), tensor(2, KEYS), weight(3));
    let score = AdditiveScoreInputs {
        queries: view(&queries, QUERIES),
        keys: view(&keys, KEYS),
        weight: &weight,
        mask: mask(),
    };
    let level = Level::current();
    let shape = [HEADS[0], HEADS[1], QUERIES, KEYS];
    let len = shape.iter().product();
    if !backward {
        let mut scores = vec![0.0; len];
        return counted(|| score.forward(level, &mut scores));
    }
    let gradient = elements(4, len);
    let (mut to_queries, mut to_keys, mut to_weight) =
        (tensor(5, QUERIES), tensor(6, KEYS), elements(7, SIZE));
    counted(|| {
        let gradients = AdditiveScoreGradients {
            queries: Some(&mut to_queries),
            keys: Some(&mut to_keys),
            weight: Some(&mut to_weight),
        };
        score.backward(level, Rows::contiguous(&gradient, shape), gradients);
    });
}

fn additive_attention(num_queries: usize, backward: bool) {
    let (queries, keys, values) = (tensor(1, num_queries), tensor(2, KEYS), tensor(3, KEYS));
    let weight = weight(4);
    let level = Level::current();
    let packed = AdditiveScoreInputs::packed_keys(view(&keys, KEYS), mask(), num_queries, level);
    let attention = AttentionInputs {
        queries: view(&queries, num_queries),
        keys: view(&keys, KEYS),
        values: view(&values, KEYS),
        score: Score::Additive {
            weight: &weight,
            packed_keys: Some(&packed),
        },
        mask: mask(),
        modifiers: ScoreModifiers::NONE,
        dropout: None,
    };
    let (mut context, mut lse) = (
        tensor(5, num_queries),
        vec![[0.0; 2]; HEADS[0] * HEADS[1] * num_queries],
    );
    if !backward {
        return counted(|| attention.forward(level, &mut context, &mut lse));
    }
    attention.forward(level, &mut context, &mut lse);
    let gradient = tensor(7, num_queries);
    let outputs = AttentionOutputs {
        context: view(&context, num_queries),
        lse: &lse,
        weights: None,
        context_gradient: view(&gradient, num_queries),
    };
    let (mut to_queries, mut to_keys, mut to_values) =
        (tensor(8, num_queries), tensor(9, KEYS), tensor(10, KEYS));
    let mut to_weight = elements(11, SIZE);
    counted(|| {
        let gradients = AttentionGradients {
            queries: Some(&mut to_queries),
            keys_and_values: KeyValueGradients::Added {
                keys: Some(&mut to_keys),
                values: Some(&mut to_values),
            },
            modifiers: ModifierGradients::NONE,
            weight: Some(&mut to_weight),
        };
        attention.backward(level, &outputs, gradients);
    });
}

/// One change to the scores.
#[derive(Clone, Copy, PartialEq)]
enum Modifier {
    /// A bias of each head and pair.
    Bias,
    /// A bias of each head and distance.
    RelativeBias,
    SoftCap,
    Sinks,
}

fn dot_product(num_queries: usize, modifier: Option<Modifier>, backward: bool) {
    let bias_shape = [1, HEADS[1], num_queries, KEYS];
    let relative_shape = [1, HEADS[1], 1, num_queries + KEYS - 1];
    let bias = elements(10, bias_shape.iter().product());
    let relative_bias = elements(11, relative_shape.iter().product());
    let sinks = elements(12, HEADS[1]);
    let has = |which| modifier == Some(which);
    let (queries, keys, values) = (tensor(1, num_queries), tensor(2, KEYS), tensor(3, KEYS));
    let attention = AttentionInputs {
        queries: view(&queries, num_queries),
        keys: view(&keys, KEYS),
        values: view(&values, KEYS),
        modifiers: ScoreModifiers {
            soft_cap: has(Modifier::SoftCap).then_some(2.0),
            bias: has(Modifier::Bias).then(|| Rows::contiguous(&bias, bias_shape)),
            relative_bias: has(Modifier::RelativeBias)
                .then(|| Rows::contiguous(&relative_bias, relative_shape)),
            sinks: has(Modifier::Sinks).then_some(&sinks),
            score_mod: None,
        },
        mask: mask(),
        score: Score::DotProduct { scale: 0.2 },
        dropout: None,
    };
    let level = Level::current();
    let (mut context, mut lse) = (
        tensor(4, num_queries),
        vec![[0.0; 2]; HEADS[0] * HEADS[1] * num_queries],
    );
    if !backward {
        return counted(|| attention.forward(level, &mut context, &mut lse));
    }
    attention.forward(level, &mut context, &mut lse);
    let gradient = tensor(6, num_queries);
    let outputs = AttentionOutputs {
        context: view(&context, num_queries),
        lse: &lse,
        weights: None,
        context_gradient: view(&gradient, num_queries),
    };
    let (mut to_queries, mut to_keys, mut to_values) =
        (tensor(7, num_queries), tensor(8, KEYS), tensor(9, KEYS));
    let (mut to_bias, mut to_relative_bias) = (bias.clone(), relative_bias.clone());
    let mut to_sinks = sinks.clone();
    counted(|| {
        let gradients = AttentionGradients {
            queries: Some(&mut to_queries),
            keys_and_values: KeyValueGradients::Added {
                keys: Some(&mut to_keys),
                values: Some(&mut to_values),
            },
            modifiers: ModifierGradients {
                bias: has(Modifier::Bias).then_some(&mut to_bias),
                relative_bias: has(Modifier::RelativeBias).then_some(&mut to_relative_bias),
                sinks: has(Modifier::Sinks).then_some(&mut to_sinks),
            },
            weight: None,
        };
        attention.backward(level, &outputs, gradients);
    });
}

fn softmax(backward: bool) {
    let shape = [HEADS[0], HEADS[1], 16, KEYS];
    let len = shape.iter().product();
    let (scores, mut weights) = (elements(1, len), elements(2, len));
    let rows = |elements| Rows::contiguous(elements, shape);
    let level = Level::current();
    if !backward {
        return counted(|| masked_softmax(level, &mask(), rows(&scores), &mut weights));
    }
    masked_softmax(level, &mask(), rows(&scores), &mut weights);
    let (gradient, mut to_scores) = (elements(3, len), elements(4, len));
    counted(|| masked_softmax_backward(level, rows(&weights), rows(&gradient), &mut to_scores));
}

fn gru(backward: bool) {
    let sizes @ [batch, steps, size] = [7, 5, SIZE];
    let rows = batch * steps;
    let mut gates = elements(1, rows * 3 * size);
    let (weight, bias) = (elements(2, size * 3 * size), elements(3, 3 * size));
    let initial = elements(4, batch * size);
    let layer = GruInputs {
        hidden_weight: &weight,
        hidden_bias: &bias,
        initial: &initial,
        lens: None,
        is_reversed: false,
        packings: None,
        sizes,
    };
    let level = Level::current();
    let mut states = vec![0.0; rows * size];
    let mut saved = vec![0.0; rows * GruInputs::<f32>::SAVED * size];
    if !backward {
        return counted(|| layer.forward_saving(level, &mut gates, &mut saved, &mut states));
    }
    layer.forward_saving(level, &mut gates, &mut saved, &mut states);
    let outputs = RecurrentOutputs {
        states: &states,
        saved: &saved,
        gradient: [&elements(5, rows * size)],
        last_gradient: [&[]],
    };
    let mut to_hidden = gates.clone();
    let (mut to_initial, mut to_weight) = (initial.clone(), weight.clone());
    counted(|| {
        let gradients = RecurrentGradients {
            gates: &mut gates,
            hidden: Some(&mut to_hidden),
            initial: Some(&mut to_initial),
        };
        layer.backward(level, &outputs, gradients);
        let mut before = vec![0.0; rows * size];
        layer.outputs_before(&states, &mut before);
        let before = Matrix::new(&before, [rows, size]).transposed();
        let of_hidden = Matrix::new(&to_hidden, [rows, 3 * size]);
        product(level, before, of_hidden, ProductStart::Zero, &mut to_weight);
    });
}

fn large_product() {
    let [rows, steps, columns] = [KEYS, 2 * SIZE, KEYS];
    let (left, right) = (elements(1, rows * steps), elements(2, columns * steps));
    let left = Matrix::new(&left, [rows, steps]);
    let right = Matrix::new(&right, [columns, steps]).transposed();
    let mut out = vec![0.0; rows * columns];
    counted(|| product(Level::current(), left, right, ProductStart::Zero, &mut out));
}
