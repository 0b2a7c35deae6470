//! Where the time of a training step goes.

use attention_benches::compare::{Candidate, Local, Measured, compare, timed};
use attention_benches::report::milliseconds;
use attention_benches::tensors::{finish_backward, random};
use attention_core::{AdditiveAttentionConfig, Mask};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::linear;

use crate::sizes::Sizes;
use crate::training::Training;

/// Measures the parts, and prints them.
pub(crate) fn profile(sizes: &Sizes, backend: &str, device: &Device, rounds: u32) -> Vec<Measured> {
    println!("\nwhere the time of ours, {backend} goes, in milliseconds");
    let boxed = |local| -> Box<dyn Candidate> { Box::new(local) };
    let mut parts: Vec<Box<dyn Candidate>> = Vec::new();
    parts.extend(model_parts(sizes, device).map(boxed));
    parts.extend(attention_parts(sizes, device).map(boxed));
    parts.extend(product_parts("matrix products", products(sizes), device).map(boxed));
    parts.extend(product_parts("projections", projections(sizes), device).map(boxed));
    let parts = compare(&mut parts, rounds);
    print_profile(&parts);
    parts
}

/// Forward, backward and optimiser: each runs what it needs before, and counts only itself.
///
/// Each part finishes its step: a graph that no backward pass goes through is freed by the next one that comes.
fn model_parts(sizes: &Sizes, device: &Device) -> [Local<'static>; 3] {
    let [forward, backward, mut optimiser] = [(); 3].map(|()| Training::new(sizes, device));
    [
        Local::part("whole, forward", move || {
            let (time, loss) = timed(|| forward.loss());
            forward.gradients(loss);
            time
        }),
        Local::part("whole, backward", move || {
            let loss = backward.loss();
            timed(|| backward.gradients(loss)).0
        }),
        Local::part("whole, optimiser", move || {
            let gradients = optimiser.gradients(optimiser.loss());
            timed(|| optimiser.update(gradients)).0
        }),
    ]
}

/// The attention of a step alone: keys projected once, then one query after the other.
fn attention_parts(sizes: &Sizes, device: &Device) -> [Local<'static>; 2] {
    let (batch, hidden) = (sizes.batch, sizes.hidden);
    let (source_len, target_len) = (sizes.source_len, sizes.target_len);
    let attention = AdditiveAttentionConfig::new(hidden, hidden, hidden).init(device);
    let score = &attention.score;
    let parameters = [&score.query, &score.key, &score.value].map(|linear| linear.weight.val());
    // Keys and values are the same states, and so one leaf.
    let states: Tensor<3> = random([batch, source_len, hidden], device);
    let query = |_| random([batch, 1, hidden], device);
    let queries: Vec<Tensor<3>> = (0..target_len).map(query).collect();
    let lens = Tensor::full([batch], source_len as i64, device);
    let gradient = random([batch, target_len, hidden], device).detach();
    let mut leaves = queries.clone();
    leaves.push(states.clone());
    let forward = move || {
        let mask = Mask::valid_lens(lens.clone());
        let memory = attention.prepare(states.clone(), states.clone(), mask);
        let attend = |query| attention.attend(query, &memory, Mask::none());
        Tensor::cat(queries.iter().cloned().map(attend).collect(), 1)
    };
    let backward =
        move |contexts| finish_backward(contexts, gradient.clone(), &leaves, &parameters);
    let (again, again_backward) = (forward.clone(), backward.clone());
    [
        Local::part("attention, forward", move || {
            let (time, contexts) = timed(&forward);
            backward(contexts);
            time
        }),
        Local::part("attention, backward", move || {
            let contexts = again();
            timed(|| again_backward(contexts)).0
        }),
    ]
}

/// How often a step has a product of `[rows, inner]` and `[inner, columns]`, and `[rows, inner, columns]`.
type Product = (usize, [usize; 3]);

/// The products with `W_q`, in every step, and `W_k`.
fn projections(sizes: &Sizes) -> Vec<Product> {
    let hidden = sizes.hidden;
    vec![
        (sizes.target_len, [sizes.batch, hidden, hidden]),
        (1, [sizes.batch * sizes.source_len, hidden, hidden]),
    ]
}

/// The matrix products of a model of one layer, all gates at once, but for the [`projections`] of attention.
fn products(sizes: &Sizes) -> Vec<Product> {
    let (batch, embedding, hidden) = (sizes.batch, sizes.embedding, sizes.hidden);
    let half = hidden / 2;
    let tokens = batch * sizes.target_len;
    vec![
        // Encoder, both directions: the table of embedded tokens, and a step.
        (2, [sizes.source_vocab, embedding, 3 * half]),
        (2 * sizes.source_len, [batch, half, 3 * half]),
        // Decoder: the first state, the table, a step's context and state.
        (1, [batch, hidden, hidden]),
        (1, [sizes.target_vocab, embedding, 3 * hidden]),
        (2 * sizes.target_len, [batch, hidden, 3 * hidden]),
        // The logits of all steps.
        (1, [tokens, 2 * hidden, sizes.target_vocab]),
    ]
}

/// The matrix products of a step alone, each by itself, with a weight of its own: one for each forward, two for its
/// gradients. In the step, those with the same weight pack it once, and its gradient is one product.
fn product_parts(name: &str, products: Vec<Product>, device: &Device) -> [Local<'static>; 2] {
    let operands = products.into_iter().map(|(count, [rows, inner, columns])| {
        let input: Tensor<2> = random([rows, inner], device);
        let weight: Tensor<2> = random([inner, columns], device);
        let gradient = random([rows, columns], device).detach();
        (count, input, weight, gradient)
    });
    let operands: Vec<_> = operands.collect();
    let forward = move || -> Vec<_> {
        let mut products = Vec::new();
        for (count, input, weight, gradient) in &operands {
            products.extend((0..*count).map(|_| {
                let output = linear(input.clone(), weight.clone(), None);
                (output, input.clone(), weight.clone(), gradient.clone())
            }));
        }
        products
    };
    let backward = |products: Vec<(Tensor<2>, _, _, _)>| {
        for (output, input, weight, gradient) in products {
            finish_backward(output, gradient, &[input], &[weight]);
        }
    };
    let again = forward.clone();
    [
        Local::part(format!("{name}, forward"), move || {
            let (time, products) = timed(&forward);
            backward(products);
            time
        }),
        Local::part(format!("{name}, backward"), move || {
            let products = again();
            timed(|| backward(products)).0
        }),
    ]
}

/// The parts in the order of [`model_parts`], [`attention_parts`], [`product_parts`].
fn print_profile(parts: &[Measured]) {
    let time = |at: usize| milliseconds(parts[at].median());
    let whole = [time(0), time(1), time(2)];
    let pair = |at| [time(at), time(at + 1), 0.0];
    let (with_projections, others, projections) = (pair(3), pair(5), pair(7));
    let sum = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|at| a[at] + b[at]);
    let less = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|at| a[at] - b[at]);
    // Element by element, and the bookkeeping of tensors and graph.
    let rest = less(less(whole, with_projections), others);
    println!(
        "  {:<20}{:>10}{:>10}{:>11}{:>10}{:>9}",
        "part", "forward", "backward", "optimiser", "total", "share"
    );
    for (name, [forward, backward, optimiser]) in [
        ("whole", whole),
        ("matrix products", sum(others, projections)),
        ("attention", less(with_projections, projections)),
        ("  and projections", with_projections),
        ("rest", rest),
    ] {
        let total = forward + backward + optimiser;
        let share = 1e2 * total / whole.iter().sum::<f64>();
        println!(
            "  {name:<20}{forward:>10.1}{backward:>10.1}{optimiser:>11.1}{total:>10.1}{share:>7.0} %"
        );
    }
}
