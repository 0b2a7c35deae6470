//! The gradients that the steps of a decoder share: none is lost and none is counted twice, whatever becomes of a
//! memory.

use std::thread;

use attention_core::score::{AdditiveScoreConfig, DotProductScoreConfig, GaussianScoreConfig};
use attention_core::{
    Attention, Mask, Memory, MultiHeadAttention, MultiHeadAttentionConfig, Normalizer,
    ScoringFunction,
};
use attention_tests::{
    Array, Outcome, assert_all_close, assert_outcomes_close, device, parameters,
};
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};

const KEYS: usize = 6;
const SIZE: usize = 5;
const CLOSE: f64 = 4e-6;

/// A check of attention with any score.
trait Check {
    fn check<S: ScoringFunction>(&self, name: &str, attention: &Attention<S>, device: &Device);
}

/// Both fused kernels.
fn each_score(check: &impl Check) {
    device::each_training(|device| {
        let dot = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        check.check("dot product", &dot, device);
        let score = AdditiveScoreConfig::new(SIZE, SIZE, 7).init(device);
        check.check("additive", &Attention::new(score, 0.0), device);
    });
}

/// A test of attention with either of these scores.
macro_rules! test_each_score {
    ($test:ident, |$name:ident, $attention:ident, $device:ident| $body:block) => {
        #[test]
        fn $test() {
            struct It;

            impl Check for It {
                #[rustfmt::skip]
                fn check<S: ScoringFunction>(&self, $name: &str, $attention: &Attention<S>, $device: &Device) $body
            }
            each_score(&It);
        }
    };
}

fn draw(seed: u64, len: usize, device: &Device) -> Tensor<3> {
    Array::draw(seed, &[2, len, SIZE]).f32(device)
}

/// Keys and values whose gradients are asked for.
struct Leaves([Tensor<3>; 2]);

impl Leaves {
    fn new(seed: u64, device: &Device) -> Self {
        Self([seed, seed + 1].map(|seed| draw(seed, KEYS, device).require_grad()))
    }

    fn mask(device: &Device) -> Mask {
        Mask::valid_lens(Tensor::from_ints([4, KEYS as i64], device))
    }

    fn memory<S: ScoringFunction>(&self, attention: &Attention<S>, device: &Device) -> Memory {
        let [keys, values] = self.0.clone();
        attention.prepare(keys, values, Self::mask(device))
    }

    /// The context of a step, without a memory.
    fn whole<S: ScoringFunction>(&self, attention: &Attention<S>, query: Tensor<3>) -> Tensor<3> {
        let [keys, values] = self.0.clone();
        let mask = Self::mask(&query.device());
        attention.forward(query, keys, values, &mask)
    }

    /// The contexts, and the gradients of the leaves and of the parameters of `module` by the sum of their squares.
    fn gradients<M: Module>(&self, module: &M, contexts: Vec<Tensor<3>>) -> Outcome {
        let context = Tensor::cat(contexts, 1);
        let gradients = context.clone().powi_scalar(2).sum().backward();
        let mut found = parameters::gradients(module, Some(&gradients));
        found.insert("context".into(), Array::read(context));
        for (name, leaf) in ["keys", "values"].into_iter().zip(&self.0) {
            found.insert(name.into(), Array::read(leaf.grad(&gradients).unwrap()));
        }
        found
    }
}

// Some of the steps reach the loss, others do not; one memory is never read, one is gone before the backward pass.
test_each_score!(
    memories_may_be_used_in_part_or_dropped,
    |name, attention, device| {
        let leaves = Leaves::new(1, device);
        let query = |step: u64| draw(10 + step, 1, device);
        let memory = leaves.memory(attention, device);
        let _never_read = leaves.memory(attention, device);
        let dropped = leaves.memory(attention, device);
        let attend = |step| attention.attend(query(step), &memory, Mask::none());
        let mut contexts: Vec<_> = (0..4).map(attend).collect();
        contexts.push(attention.attend(query(4), &dropped, Mask::none()));
        drop(dropped);
        let unused = contexts.remove(1);
        let actual = leaves.gradients(attention, contexts);
        let expected = [0, 2, 3, 4].map(|step| leaves.whole(attention, query(step)));
        let expected = leaves.gradients(attention, expected.to_vec());
        assert_outcomes_close(name, &actual, &expected, CLOSE);

        // The step that was left out is of the same memory: its own backward pass finds nothing of the one before.
        let fresh = leaves.memory(attention, device);
        let step = attention.attend(query(1), &fresh, Mask::none());
        let alone = leaves.gradients(attention, vec![step]);
        let expected = leaves.gradients(attention, vec![leaves.whole(attention, query(1))]);
        assert_outcomes_close(name, &alone, &expected, CLOSE);
        drop(unused);
    }
);

// Steps through one memory from several threads, while other threads train with memories of their own.
test_each_score!(
    a_memory_may_be_read_from_several_threads,
    |name, attention, device| {
        let leaves = Leaves::new(1, device);
        let query = |step: u64| draw(20 + step, 1, device);
        let memory = leaves.memory(attention, device);
        // The first step joins memory and parameters to one graph. Burn (0.22.1) may lose what a thread adds to a graph
        // while another thread joins it to an older one.
        let first = attention.attend(query(0), &memory, Mask::none());
        let steps = 1..6;
        let [contexts, others] = thread::scope(|scope| {
            let attend = |step| {
                let (query, memory, attention) = (query(step), memory.clone(), attention.clone());
                scope.spawn(move || vec![attention.attend(query, &memory, Mask::none())])
            };
            let train = |seed| {
                // With parameters of its own: Burn (0.22.1) may deadlock where a thread adds to a graph while another
                // runs its backward pass (it takes two locks in either order).
                let attention = parameters::cast(attention.clone(), DType::F32);
                let device = device.clone();
                scope.spawn(move || {
                    let leaves = Leaves::new(seed, &device);
                    let memory = leaves.memory(&attention, &device);
                    let queries = (20..23).map(|seed| draw(seed, 1, &device));
                    let attend = |query| attention.attend(query, &memory, Mask::none());
                    let steps = queries.clone().map(attend).collect();
                    let gradients = leaves.gradients(&attention, steps);
                    let whole = queries.map(|query| leaves.whole(&attention, query));
                    let expected = leaves.gradients(&attention, whole.collect());
                    assert_outcomes_close("a thread of its own", &gradients, &expected, CLOSE);
                    Vec::new()
                })
            };
            let others: Vec<_> = [31, 41, 51].map(train).into();
            let steps: Vec<_> = steps.map(attend).collect();
            [steps, others].map(|threads| {
                let results = threads.into_iter().map(|thread| thread.join().unwrap());
                results.flatten().collect::<Vec<_>>()
            })
        });
        assert!(others.is_empty());
        let contexts = [vec![first], contexts].concat();
        let actual = leaves.gradients(attention, contexts);
        let expected = (0..6).map(|step| leaves.whole(attention, query(step)));
        let expected = leaves.gradients(attention, expected.collect());
        assert_outcomes_close(name, &actual, &expected, CLOSE);
    }
);

/// A module inside a module: the second attention's memory holds what the steps of the first computed.
#[derive(Module, Debug)]
struct Nested<S: ScoringFunction> {
    inner: Attention<S>,
    outer: Layer<S>,
}

#[derive(Module, Debug)]
struct Layer<S: ScoringFunction> {
    attention: Attention<S>,
}

test_each_score!(
    a_memory_may_hold_what_another_memory_gave,
    |name, attention, device| {
        let (inner, attention) = (attention.clone(), attention.clone());
        let outer = Layer { attention };
        let module = Nested { inner, outer };
        let leaves = Leaves::new(1, device);
        let query = |step: u64| draw(60 + step, 1, device);
        let contexts = |steps: Vec<Tensor<3>>, by_memory: bool| -> Vec<Tensor<3>> {
            let rows = Tensor::cat(steps, 1);
            let outer = &module.outer.attention;
            let memory = outer.prepare(rows.clone(), rows.clone(), Mask::none());
            let attend = |step| match by_memory {
                true => outer.attend(query(step), &memory, Mask::none()),
                false => outer.forward(query(step), rows.clone(), rows.clone(), Mask::none()),
            };
            (4..7).map(attend).collect()
        };
        let memory = leaves.memory(&module.inner, device);
        let steps = (0..4).map(|step| module.inner.attend(query(step), &memory, Mask::none()));
        let actual = leaves.gradients(&module, contexts(steps.collect(), true));
        let steps = (0..4).map(|step| leaves.whole(&module.inner, query(step)));
        let expected = leaves.gradients(&module, contexts(steps.collect(), false));
        assert_outcomes_close(name, &actual, &expected, CLOSE);
    }
);

// Queries that were themselves read from the memory.
test_each_score!(
    a_step_may_ask_with_what_the_step_before_read,
    |name, attention, device| {
        let leaves = Leaves::new(1, device);
        let first = || draw(70, 1, device);
        let memory = leaves.memory(attention, device);
        let run = |step: &dyn Fn(Tensor<3>) -> Tensor<3>| {
            let contexts = std::iter::successors(Some(first()), |query| Some(step(query.clone())));
            leaves.gradients(attention, contexts.skip(1).take(4).collect())
        };
        let actual = run(&|query| attention.attend(query, &memory, Mask::none()));
        let expected = run(&|query| leaves.whole(attention, query));
        assert_outcomes_close(name, &actual, &expected, CLOSE);
    }
);

/// Leaves that a dot product reads as they are: any number of backward passes, whatever the order in which graphs are
/// made and used, as for the leaves themselves.
struct SeveralPasses;

impl Check for SeveralPasses {
    fn check<S: ScoringFunction>(&self, name: &str, attention: &Attention<S>, device: &Device) {
        let leaves = Leaves::new(1, device);
        let memory = leaves.memory(attention, device);
        let with_weights = |query| attention.attend_with_weights(query, &memory, Mask::none());
        let steps = |from: u64, whole: bool| {
            let step = |at: u64| {
                let query = draw(from + at, 1, device);
                match (whole, at % 3) {
                    (true, _) => leaves.whole(attention, query),
                    (_, 1) => with_weights(query).context,
                    _ => attention.attend(query, &memory, Mask::none()),
                }
            };
            (0..4).map(step).collect::<Vec<_>>()
        };
        let check = |contexts, from| {
            let actual = leaves.gradients(attention, contexts);
            let expected = leaves.gradients(attention, steps(from, true));
            assert_outcomes_close(name, &actual, &expected, CLOSE);
        };
        // One after the other, and two graphs at once, the later first.
        check(steps(100, false), 100);
        let [second, third] = [200, 300].map(|from| steps(from, false));
        check(third, 300);
        check(second, 200);
        // Queries of one call, not of a decoder.
        let rows = || draw(400, KEYS, device);
        for _ in 0..2 {
            let context = attention.attend(rows(), &memory, Mask::none());
            let actual = leaves.gradients(attention, vec![context]);
            let expected = leaves.gradients(attention, vec![leaves.whole(attention, rows())]);
            assert_outcomes_close(name, &actual, &expected, CLOSE);
        }
    }
}

#[test]
fn a_memory_of_leaves_takes_several_backward_passes() {
    device::each_training(|device| {
        let dot = DotProductScoreConfig::new().init();
        SeveralPasses.check("dot product", &Attention::new(dot, 0.0), device);
        // Its key bias is computed of the keys.
        let gaussian = GaussianScoreConfig::new().with_width(1.5).init(device);
        SeveralPasses.check("Gaussian", &Attention::new(gaussian, 0.0), device);
        let sparse = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let sparse = sparse.with_normalizer(Normalizer::Sparsemax);
        SeveralPasses.check("sparsemax", &sparse, device);
    });
}

/// Once a backward pass has taken leaves off its graph, passes of several threads may run at once.
#[test]
fn threads_may_run_backward_passes_through_one_memory_of_leaves() {
    device::each_training(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let leaves = Leaves::new(1, device);
        let memory = leaves.memory(&attention, device);
        let attend = |seed| attention.attend(draw(seed, 1, device), &memory, Mask::none());
        leaves.gradients(&attention, vec![attend(500)]);
        thread::scope(|scope| {
            for thread in 0..2 {
                let (leaves, attention, attend) = (&leaves, &attention, &attend);
                scope.spawn(move || {
                    for pass in 0..20 {
                        let seed = 600 + 100 * thread + pass;
                        let actual = leaves.gradients(attention, vec![attend(seed)]);
                        let whole = leaves.whole(attention, draw(seed, 1, device));
                        let expected = leaves.gradients(attention, vec![whole]);
                        assert_outcomes_close("a thread", &actual, &expected, CLOSE);
                    }
                });
            }
        });
    });
}

/// The gradients of leaves with four axes and of what was computed of them are the same.
#[test]
fn leaves_and_what_is_computed_of_them_get_the_same_gradients() {
    device::each_training(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let draw = |seed, len| Array::draw(seed, &[2, 3, len, SIZE]).f32::<4>(device);
        let gradients = |is_leaf: bool| {
            let leaves = [1, 2].map(|seed| draw(seed, KEYS).require_grad());
            let [keys, values] = leaves.clone().map(|leaf| match is_leaf {
                true => leaf,
                false => leaf * 1.0,
            });
            let memory = attention.prepare(keys, values, Leaves::mask(device));
            let step = |at: u64| attention.attend(draw(10 + at, 1), &memory, Mask::none());
            let context = Tensor::cat((0..3).map(step).collect(), 2);
            let gradients = context.powi_scalar(2).sum().backward();
            leaves.map(|leaf| Array::read(leaf.grad(&gradients).unwrap()))
        };
        assert_all_close("gradient", &gradients(true), &gradients(false), CLOSE);
    });
}

/// Heads that share keys and values share the gradients of their steps, too.
#[test]
fn steps_of_grouped_heads_add_up() {
    device::each_training(|device| {
        let config = MultiHeadAttentionConfig::new(12, 6).with_num_key_value_heads(Some(2));
        let dot = config.init(device);
        let additive = config.init_with(AdditiveScoreConfig::new(2, 2, 5).init(device), device);
        check_heads("dot product", &dot, device);
        check_heads("additive", &additive, device);
    });
}

fn check_heads<S: ScoringFunction>(name: &str, module: &MultiHeadAttention<S>, device: &Device) {
    let draw = |seed, len| Array::draw(seed, &[2, len, 12]).f32::<3>(device);
    let [keys, values] = [1, 2].map(|seed| draw(seed, KEYS).require_grad());
    let queries = draw(3, 4);
    let mask = || Leaves::mask(device);
    let gradients = |contexts: Tensor<3>| {
        let gradients = contexts.clone().powi_scalar(2).sum().backward();
        let mut found = parameters::gradients(module, Some(&gradients));
        found.insert("context".into(), Array::read(contexts));
        for (name, leaf) in [("keys", &keys), ("values", &values)] {
            found.insert(name.into(), Array::read(leaf.grad(&gradients).unwrap()));
        }
        found
    };
    let memory = module.prepare(keys.clone(), values.clone(), mask());
    let step = |at| module.attend(queries.clone().narrow(1, at, 1), &memory, Mask::none());
    let actual = gradients(Tensor::cat((0..4).map(step).collect(), 1));
    let whole = module.forward(queries.clone(), keys.clone(), values.clone(), mask());
    assert_outcomes_close(name, &actual, &gradients(whole), 4.0 * CLOSE);

    // The attention inside reads the same memory, with a head of queries for each of keys.
    let inner = || Array::draw(4, &[2, 2, 1, 2]).f32::<4>(device);
    let of_inner = |memory: &Memory| {
        let context = module.attention.attend(inner(), memory, Mask::none());
        context.swap_dims(1, 2).reshape([2, 1, 4])
    };
    let both = |memories: [&Memory; 2]| {
        let outer = module.attend(queries.clone().narrow(1, 0, 1), memories[0], Mask::none());
        gradients(Tensor::cat(vec![outer, of_inner(memories[1])], 2))
    };
    let memory = || module.prepare(keys.clone(), values.clone(), mask());
    let (one, other) = (memory(), memory());
    let (shared, apart) = (both([&one, &one]), both([&memory(), &other]));
    assert_outcomes_close(name, &shared, &apart, CLOSE);
}
