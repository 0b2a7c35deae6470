//! Attention on a GPU by the kernel in each tiling, in the tiling that the device finds fastest, and by the definition.
//!
//! In a process of its own: the ways are the process's, as is `Device::seed`.

#![cfg(all(feature = "autotune", feature = "cubecl-backend"))]

use std::sync::{Mutex, MutexGuard, PoisonError};

use attention_core::backend::{OPERATIONS, device_limits};
use attention_core::score::{AdditiveScoreConfig, DotProductScoreConfig};
use attention_core::{Attention, Mask, ScoringFunction};
use attention_tests::{
    Array, MaskSpec, Outcome, Path, Problem, SIZES, Sizes, assert_all_close, assert_close,
    assert_outcomes_same, assert_same, contract::Contract, device,
};
use burn::tensor::{DType, Device, Distribution, Tensor};
use burn_fused_layers::paths::set_kernel;

/// A way to run all operations of attention.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The kernels in one of their tilings.
    Kernel(usize),
    Definition,
    /// The kernels in the tiling that the device chooses.
    Auto,
}

const WAYS: [Way; 5] = [
    Way::Kernel(0),
    Way::Kernel(1),
    Way::Kernel(2),
    Way::Definition,
    Way::Auto,
];

const NAMES: [&str; 4] = [
    "dot_product_attention",
    "additive_attention",
    "additive_score",
    "masked_softmax",
];

impl Way {
    fn choose(self) {
        let tiling = match self {
            Self::Kernel(tiling) => Some(tiling),
            _ => None,
        };
        assert!(attention_gpu::force_tiling(tiling));
        for name in NAMES {
            set_kernel(OPERATIONS.named(name), self != Self::Definition);
        }
    }
}

static WAY: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test on every GPU with autodiff.
fn each_gpu(test: impl Fn(&Device)) {
    let _alone = alone();
    device::each_training(|device| {
        if device_limits(device).is_some() {
            test(device);
        }
    });
    Way::Auto.choose();
}

/// More queries than the tilings for few of them take at once.
const MANY: Sizes = Sizes::new([2, 2, 11, 13], [4, 4, 0, 3]);

/// A NaN in a query has the kernel of additive scores compute the tile of its neighbours by another formula, `tanh`
/// itself, whose rounding reaches the keys: there the bits of `queries_are_apart` hold for the definition alone.
fn keeps_the_contract<S: ScoringFunction>(
    score: S,
    name: &str,
    device: &Device,
    queries_are_apart: &[Way],
) {
    let attention = Attention::new(score, 0.0);
    for way in WAYS {
        way.choose();
        let name = format!("{name}, {way:?}");
        let contract = Contract(&name, &attention, MANY, device);
        contract.paths_agree();
        contract.padding_is_ignored();
        contract.a_key_reaches_only_the_queries_that_attend_to_it();
        if queries_are_apart.contains(&way) {
            contract.a_query_reaches_only_the_keys_that_it_attends_to();
        }
    }
}

#[test]
fn dot_product_attention_keeps_the_contract_in_every_way() {
    each_gpu(|device| {
        keeps_the_contract(DotProductScoreConfig::new().init(), "dot", device, &WAYS)
    });
}

#[test]
fn additive_attention_keeps_the_contract_in_every_way() {
    each_gpu(|device| {
        let score = AdditiveScoreConfig::new(4, 4, 5).init(device);
        keeps_the_contract(score, "additive", device, &[Way::Definition]);
    });
}

/// The kinds of mask that a device has.
fn masks() -> [MaskSpec; 4] {
    [
        MaskSpec::None,
        MaskSpec::lens(&[7, 2]),
        MaskSpec::Causal,
        MaskSpec::Causal.and(MaskSpec::lens(&[5, 7])),
    ]
}

#[test]
fn every_way_gives_the_same() {
    each_gpu(|device| {
        for queries in [1, 5, 11] {
            let sizes = SIZES.with_queries(queries);
            for mask in masks() {
                for (name, problem) in Problem::both(sizes, &mask) {
                    let solved = &problem.solve()["context"];
                    let run = |way: Way| -> Outcome {
                        way.choose();
                        problem.run(device, DType::F32, Path::Forward)
                    };
                    let expected = run(Way::Kernel(0));
                    for way in WAYS {
                        let what = format!("{name}, {queries} queries, {mask:?}, {way:?}");
                        let results = run(way);
                        assert_close(&what, &results["context"], solved, 4e-6);
                        for (result, expected) in &expected {
                            let what = format!("{what}: {result}");
                            assert_close(&what, &results[result], expected, 2e-5);
                        }
                    }
                }
            }
        }
    });
}

/// Two shapes, whose choices may differ, in both orders; and the same bits whenever one comes again.
#[test]
fn a_choice_is_that_of_its_shape() {
    each_gpu(|device| {
        Way::Auto.choose();
        let sizes = [SIZES, SIZES.with_queries(19).with_keys(70)];
        for mask in [MaskSpec::None, MaskSpec::Causal] {
            let [one, other] = sizes.map(|sizes| Problem::dot_product(sizes, mask.clone()));
            let run = |problem: &Problem| {
                let outcome = problem.run(device, DType::F32, Path::Forward);
                let solved = &problem.solve()["context"];
                assert_close("context", &outcome["context"], solved, 4e-6);
                outcome
            };
            let first = [run(&one), run(&other)];
            let again = [run(&other), run(&one)];
            assert_outcomes_same("the other first", &again[0], &first[1]);
            assert_outcomes_same("one after the other", &again[1], &first[0]);
        }
    });
}

/// The same weights are dropped, and the generator is where it would be, whether or not a device tried.
#[test]
fn no_way_changes_what_is_dropped() {
    each_gpu(|device| {
        let problem = Problem::dot_product(
            SIZES.with_queries(9).with_keys(23),
            MaskSpec::lens(&[19, 23]),
        );
        let mask = problem.mask.mask(device);
        let run = |way: Way| {
            way.choose();
            device.seed(7);
            let [queries, keys, values] = problem.f32::<4>(device);
            let attend = |dropout: f64, mask: &Mask| {
                let score = DotProductScoreConfig::new().init();
                let attention = Attention::new(score, dropout);
                let tensors = [queries.clone(), keys.clone(), values.clone()];
                let [queries, keys, values] = tensors.map(|tensor| tensor.require_grad());
                let context = attention.forward(queries, keys, values.clone(), mask);
                let gradients = context.clone().sum().backward();
                let gradient = values.grad(&gradients).expect("a leaf");
                [context, gradient].map(Array::read)
            };
            let dropped = attend(0.3, &mask);
            let kept = attend(0.0, &mask);
            let dropped_later = attend(0.3, &Mask::none());
            let next = Tensor::<1>::random([5], Distribution::Default, device);
            ([dropped, dropped_later].concat(), kept, Array::read(next))
        };
        let (dropped, kept, next) = run(Way::Kernel(1));
        assert_ne!(dropped[0], kept[0], "nothing is dropped");
        for way in [Way::Kernel(0), Way::Kernel(2), Way::Auto] {
            let (dropped_now, kept_now, next_now) = run(way);
            let what = format!("{way:?}");
            assert_all_close(&what, &dropped_now, &dropped, 4e-6);
            assert_all_close(&what, &kept_now, &kept, 2e-5);
            assert_same(&what, &next_now, &next);
        }
    });
}
