//! Prepared keys: selecting and expanding them is selecting the inputs. `formulas.rs` has them attended to.

use std::any::type_name;

use attention_core::functional::AttentionOptions;
use attention_core::position::{AlibiConfig, RotaryConfig};
use attention_core::score::{
    AdditiveScoreConfig, Biased, DotProductScoreConfig, GaussianScore, GaussianScoreConfig,
};
use attention_core::stateful::{
    CoverageAttention, CoverageAttentionConfig, LocationAttention, LocationAttentionConfig,
    StatefulAttention,
};
use attention_core::{
    AdditiveAttentionConfig, Attention, DotProductAttentionConfig, Mask, Memory,
    MultiHeadAttentionConfig, ScoringFunction,
};
use attention_tests::{
    Array, Check, MaskSpec, Problem, SIZES, assert_all_close, assert_close, assert_zero, check,
    device, masks, panic_message,
};
use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor};

const SHAPE: [usize; 4] = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];

fn each(check: impl Check) {
    device::each(|device| {
        for (name, mask) in masks(SHAPE) {
            for (kind, problem) in Problem::both(SIZES, &mask) {
                eprintln!("{kind}: {name}");
                problem.with_attention(device, 0.0, &check);
            }
        }
    });
}

fn memory<S: ScoringFunction>(of: &Attention<S>, problem: &Problem, device: &Device) -> Memory {
    let [_, keys, values] = problem.f32::<4>(device);
    of.prepare(keys, values, problem.mask.mask(device))
}

/// Context and gradients of a step and of several queries, which `attend` to the same keys and values.
fn of_readers(
    heads: usize,
    device: &Device,
    attend: impl Fn([Tensor<4>; 2], [Tensor<4>; 2]) -> [Tensor<4>; 2],
) -> Vec<Array> {
    let leaf =
        |seed, heads, rows| Array::draw(seed, &[2, heads, rows, 5]).leaf::<4>(device, DType::F32);
    let queries = [leaf(1, heads, 1), leaf(2, heads, 4)];
    let rows = [leaf(3, 1, 7), leaf(4, 1, 7)];
    let contexts = attend(queries.clone(), rows.clone());
    let [of_step, of_several] = contexts.clone().map(|context| context.powi_scalar(2).sum());
    let gradients = (of_step + of_several).backward();
    let leaves = queries.into_iter().chain(rows);
    let of_leaves = leaves.map(|leaf| leaf.grad(&gradients).unwrap());
    contexts
        .into_iter()
        .chain(of_leaves)
        .map(Array::read)
        .collect()
}

fn check_axes<S: ScoringFunction>(attention: &Attention<S>, device: &Device) {
    for heads in [1, 3] {
        let expected = of_readers(heads, device, |queries, [k, v]| {
            queries.map(|q| attention.forward(q, k.clone(), v.clone(), Mask::none()))
        });
        let three = |rows: Tensor<4>| rows.squeeze_dim::<3>(1);
        let of_three = of_readers(heads, device, |queries, [k, v]| {
            let memory = attention.prepare(three(k), three(v), Mask::none());
            queries.map(|q| attention.attend(q, &memory, Mask::none()))
        });
        assert_all_close("a memory of three axes", &of_three, &expected, 2e-6);
        if heads == 1 {
            let of_four = of_readers(heads, device, |[step, several], [k, v]| {
                let memory = attention.prepare(k, v, Mask::none());
                let step = attention.attend(three(step), &memory, Mask::none());
                let several = attention.attend(several, &memory, Mask::none());
                [step.unsqueeze_dim(1), several]
            });
            assert_all_close("a step of three axes", &of_four, &expected, 2e-6);
        }
    }
}

#[test]
fn one_head_may_lack_its_axis() {
    device::each_training(|device| {
        check_axes(&DotProductAttentionConfig::new().init(), device);
        check_axes(&AdditiveAttentionConfig::new(5, 5, 6).init(device), device);
        let gaussian = GaussianScoreConfig::new().init(device);
        check_axes(&Attention::new(gaussian, 0.0), device);
    });
}

/// The examples `chosen` of a problem, with a mask that is the same for each.
fn examples(problem: &Problem, chosen: &[usize]) -> Problem {
    let attended = problem.mask.table(problem.scores_shape());
    let pick = |array: &Array| {
        let mut shape = array.shape.clone();
        shape[0] = chosen.len();
        Array::from_fn(&shape, |at| {
            let mut from = at.to_vec();
            from[0] = chosen[at[0]];
            array.at(&from)
        })
    };
    let mut picked = problem.clone();
    for name in ["queries", "keys", "values"] {
        picked.set(name, pick(&problem.inputs[name]));
    }
    picked.mask = MaskSpec::Keep(pick(&attended));
    picked
}

check!(Selects, |attention, problem, device| {
    let memory = memory(&attention, problem, device);
    for chosen in [&[1, 0][..], &[1], &[0, 0, 1], &[1, 1, 0, 1, 0]] {
        let indices: Vec<i64> = chosen.iter().map(|&at| at as i64).collect();
        let indices = Tensor::<1, Int>::from_data(&indices[..], device);
        let selected = memory.select(indices);
        assert_eq!(selected.batch_size(), chosen.len());
        assert_eq!(selected.num_keys(), SIZES.keys);
        let chosen = examples(problem, chosen);
        let (expected, [queries, ..]) = (chosen.solve(), chosen.f32::<4>(device));
        let output = attention.attend_with_weights(queries.clone(), &selected, Mask::none());
        assert_close("weights", output.weights, &expected["weights"], 4e-6);
        assert_close("context", output.context, &expected["context"], 4e-6);
        let context = attention.attend(queries, &selected, Mask::none());
        assert_close("context", context, &expected["context"], 4e-6);
    }
});

#[test]
fn selecting_examples_is_selecting_the_inputs() {
    each(Selects);
}

check!(Expands, |attention, problem, device| {
    let memory = memory(&attention, problem, device);
    for beam in [1, 2, 3] {
        let chosen: Vec<usize> = (0..SIZES.batch * beam).map(|at| at / beam).collect();
        let expanded = memory.expand(beam);
        assert_eq!(expanded.batch_size(), chosen.len());
        let mut expected = examples(problem, &chosen);
        // Other queries for each copy.
        let [_, heads, queries, _] = SHAPE;
        let shape = [chosen.len(), heads, queries, SIZES.query_size];
        expected.set("queries", Array::draw(9, &shape));
        let ([queries, ..], expected) = (expected.f32::<4>(device), expected.solve());
        let output = attention.attend_with_weights(queries, &expanded, Mask::none());
        assert_close("weights", output.weights, &expected["weights"], 4e-6);
        assert_close("context", output.context, &expected["context"], 4e-6);
        // And a beam that survives.
        let last = Tensor::<1, Int>::from_ints([chosen.len() as i64 - 1], device);
        assert_eq!(expanded.select(last).batch_size(), 1);
    }
});

#[test]
fn expanding_examples_is_repeating_the_inputs() {
    each(Expands);
}

#[test]
fn a_mask_of_positions_is_aligned_with_the_queries_of_each_call() {
    device::each(|device| {
        for mask in [MaskSpec::Causal, MaskSpec::window(2, 0)] {
            let problem = Problem::dot_product(SIZES, mask);
            let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
            let memory = memory(&attention, &problem, device);
            for queries in [1, 4, 5, 9] {
                let mut problem = problem.clone();
                let shape = [SIZES.batch, SIZES.heads, queries, SIZES.query_size];
                problem.set("queries", Array::draw(8, &shape));
                let [queries, ..] = problem.f32::<4>(device);
                let context = attention.attend(queries, &memory, Mask::none());
                assert_close("context", context, &problem.solve()["context"], 4e-6);
            }
        }
    });
}

#[test]
fn prepared_keys_may_be_none_at_all() {
    device::each(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let queries = || Array::draw(1, &[4, 5, 11]).f32::<3>(device);
        let keys = Tensor::<3>::zeros([2, 0, 11], device);
        let masks = [
            Mask::none(),
            MaskSpec::lens(&[3, 4]).mask(device),
            MaskSpec::drawn(1, &[2, 5, 0], 0.5).mask(device),
        ];
        for mask in masks {
            let memory = attention.prepare(keys.clone(), keys.clone(), mask);
            let memory = memory.expand(2);
            assert_eq!((memory.batch_size(), memory.num_keys()), (4, 0));
            let context = attention.attend(queries(), &memory, Mask::none());
            assert_eq!(context.dims(), [4, 5, 11]);
            assert_zero("context", context);
            let chosen = memory.select(Tensor::from_ints([3, 3, 0], device));
            assert_eq!((chosen.batch_size(), chosen.num_keys()), (3, 0));
        }
    });
}

/// `-|q - k|`, by a user who knows nothing of memories.
#[derive(Module, Debug)]
struct Distance {}

impl ScoringFunction for Distance {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        let difference = queries.unsqueeze_dim::<5>(3) - keys.unsqueeze_dim::<5>(2);
        -difference.abs().sum_dim(4).squeeze_dim::<4>(4)
    }
}

/// A module, with two examples that it prepared.
struct Reader {
    /// Its name in panics.
    name: &'static str,
    memory: Memory,
    read: Box<dyn Fn(&Memory)>,
}

impl Reader {
    fn new<Owner>(module: impl StatefulAttention + 'static, device: &Device) -> Self {
        let rows = |shape: [usize; 3]| Array::draw(1, &shape).f32::<3>(device);
        let memory = module.prepare(rows([2, 6, 8]), rows([2, 6, 5]), Mask::none());
        let query = rows([1, 1, 8]);
        let read = move |memory: &Memory| {
            let query = || query.clone().repeat_dim(0, memory.batch_size());
            let (_, state) = module.step(query(), memory, module.initial_state(memory));
            module.step_with_weights(query(), memory, state);
        };
        Self {
            name: type_name::<Owner>(),
            memory,
            read: Box::new(read),
        }
    }

    fn of_score<S: ScoringFunction>(score: S, device: &Device) -> Self {
        Self::new::<S>(Attention::new(score, 0.0), device)
    }

    fn all(device: &Device) -> Vec<Self> {
        let dot = DotProductScoreConfig::new().init();
        let biased = Biased::new(dot.clone(), AlibiConfig::new(1).init());
        let turned = RotaryConfig::new(8, 6).init_with(dot.clone(), device);
        let gaussian = GaussianScoreConfig::new().init(device);
        let heads = MultiHeadAttentionConfig::new(10, 2).with_query_size(Some(8));
        let heads = heads.with_key_size(Some(8)).with_value_size(Some(5));
        let heads = heads.init_with(gaussian, device);
        let location = LocationAttentionConfig::new(8, 8, 8).init(device);
        let coverage = CoverageAttentionConfig::new(8, 8, 8).init(device);
        vec![
            Self::of_score(AdditiveScoreConfig::new(8, 8, 8).init(device), device),
            Self::of_score(dot, device),
            Self::of_score(biased, device),
            Self::of_score(turned, device),
            Self::of_score(Distance {}, device),
            Self::new::<GaussianScore>(heads, device),
            Self::new::<LocationAttention>(location, device),
            Self::new::<CoverageAttention>(coverage, device),
        ]
    }
}

#[test]
fn a_memory_of_another_score_is_refused() {
    device::each(|device| {
        let readers = Reader::all(device);
        let reversed = Tensor::<1, Int>::from_ints([1, 0], device);
        for Reader { name, memory, read } in &readers {
            let selected = memory.select(reversed.clone());
            for memory in [memory.clone(), memory.expand(3), selected] {
                read(&memory);
                for other in readers.iter().filter(|other| other.name != *name) {
                    let to = other.name;
                    let expected = format!("to be prepared for {to}, got one for {name}");
                    let message = panic_message(|| (other.read)(&memory));
                    assert_eq!(message, format!("memory expected {expected}"));
                }
            }
        }
    });
}

#[test]
fn keys_that_came_projected_are_for_any_score() {
    device::each(|device| {
        let [keys, values] = [8, 5].map(|size| Array::draw(1, &[2, 1, 6, size]).f32(device));
        let memory = Memory::of_projected(keys, values, Mask::none());
        let readers = Reader::all(device);
        // Heads expect keys of their own.
        for reader in readers.iter().filter(|r| r.memory.keys().dims()[1] == 1) {
            (reader.read)(&memory);
        }
    });
}

/// Options beside a memory act as beside keys and values, both masks joined.
#[test]
fn options_of_a_call_go_with_the_memory() {
    device::each(|device| {
        let draw = |seed, rows| Array::draw(seed, &[2, rows, 8]).f32::<3>(device);
        let (queries, keys, values) = (draw(1, 5), draw(2, 7), draw(3, 7));
        let lens = || Mask::valid_lens(Tensor::from_ints([6, 4], device));
        let options = |mask| AttentionOptions {
            mask,
            bias: Some(Array::draw(4, &[2, 1, 5, 7]).f32(device)),
            soft_cap: Some(2.0),
            ..Default::default()
        };
        macro_rules! check {
            ($what:literal, $attention:expr) => {
                let attention = $attention;
                for known in [Mask::none(), lens(), Mask::causal()] {
                    for own in [Mask::none(), Mask::window(2, 1)] {
                        let [q, k, v] = [&queries, &keys, &values].map(Tensor::clone);
                        let both = options(known.clone() & own.clone());
                        let memory = attention.prepare(k.clone(), v.clone(), known.clone());
                        let whole = attention.forward_with_weights(q.clone(), k, v, both);
                        let got = attention.attend(q.clone(), &memory, options(own.clone()));
                        assert_close($what, got, whole.context.clone(), 1e-6);
                        let got = attention.attend_with_weights(q, &memory, options(own));
                        assert_close($what, got.context, whole.context, 1e-6);
                        assert_close($what, got.weights, whole.weights, 1e-6);
                    }
                }
            };
        }
        let dot = DotProductScoreConfig::new().init();
        check!("dot", Attention::new(dot, 0.0));
        let additive = AdditiveScoreConfig::new(8, 8, 6).init(device);
        check!("additive", Attention::new(additive, 0.0));
        check!("heads", MultiHeadAttentionConfig::new(8, 2).init(device));
    });
}
