use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, TensorData, try_read_sync};
use burn_cubecl::cubecl::{Device, wgpu::WgpuDevice};
use burn_cubecl::{CubeBackend, CubeDevice};
use burn_fused_layers::paths::{Fastest, Operation};

use super::check::agrees;
use super::*;
use crate::ops::call::{MaskForm, ModifierForms};

const PAIRS: [Operation; 4] = [
    Operation::DotProductAttention,
    Operation::AdditiveAttention,
    Operation::AdditiveScore,
    Operation::MaskedSoftmax,
];

const ROOMY: Limits = Limits {
    largest_buffer: 128 << 20,
    memory: Some(16 << 30),
    has_tf32: false,
    composes_scores: false,
};

fn device() -> CubeDevice {
    Device::Wgpu(WgpuDevice::default())
}

fn call(operation: Operation, [queries, keys]: [usize; 2]) -> Call {
    Call {
        operation,
        dtype: DType::F32,
        batch: 1,
        heads: 8,
        key_heads: 8,
        queries,
        keys,
        size: 64,
        value_size: 64,
        mask: MaskForm::default(),
        modifiers: ModifierForms::default(),
        has_dropout: false,
        wanted: Vec::new(),
    }
}

fn training(call: Call) -> Call {
    let count = match call.operation {
        Operation::DotProductAttention => 6,
        Operation::AdditiveAttention => 7,
        Operation::AdditiveScore => 3,
        _ => 1,
    };
    Call {
        wanted: vec![true; count],
        ..call
    }
}

#[test]
fn a_definition_is_tried_where_its_tensors_fit() {
    use Candidate::{Definition, Kernel};

    let of = |call: &Call, limits: &Limits| Candidate::of(call, limits);
    let dot = |rows| call(Operation::DotProductAttention, rows);
    // 8 heads: 128 MiB of f32 are the pairs of 2,048 queries and keys.
    assert_eq!(of(&dot([2048, 2048]), &ROOMY), [Kernel, Definition]);
    assert_eq!(of(&dot([2048, 2049]), &ROOMY), [Kernel]);
    assert_eq!(of(&training(dot([512, 512])), &ROOMY), [Kernel, Definition]);
    assert_eq!(of(&training(dot([2048, 2048])), &ROOMY), [Kernel]);
    let small = Limits {
        memory: Some(1 << 30),
        ..ROOMY
    };
    assert_eq!(of(&training(dot([128, 128])), &small), [Kernel, Definition]);
    assert_eq!(of(&training(dot([512, 512])), &small), [Kernel]);
    assert_eq!(of(&dot([512, 512]), &small), [Kernel, Definition]);
    // Few pairs, and 4 MiB of keys and values, which heads may share.
    let decoding = training(dot([1, 2048]));
    assert_eq!(of(&decoding, &ROOMY), [Kernel, Definition]);
    assert_eq!(of(&decoding, &small), [Kernel]);
    // A gibibyte is assumed where the device states none.
    let unstated = Limits {
        memory: None,
        ..ROOMY
    };
    assert_eq!(
        of(&training(dot([128, 128])), &unstated),
        [Kernel, Definition]
    );
    assert_eq!(of(&training(dot([512, 512])), &unstated), [Kernel]);
    assert_eq!(of(&dot([2048, 2048]), &unstated), [Kernel, Definition]);
    // 8 MiB of pairs are an eighth.
    let tight = Limits {
        memory: Some(64 << 20),
        ..ROOMY
    };
    assert_eq!(of(&dot([512, 512]), &tight), [Kernel, Definition]);
    assert_eq!(of(&dot([512, 513]), &tight), [Kernel]);
    // 64 hidden units a pair.
    let score = |rows| call(Operation::AdditiveScore, rows);
    assert_eq!(of(&score([256, 256]), &ROOMY), [Kernel, Definition]);
    assert_eq!(of(&score([256, 257]), &ROOMY), [Kernel]);
    let additive = call(Operation::AdditiveAttention, [256, 257]);
    assert_eq!(of(&additive, &ROOMY), [Kernel, Definition]);
    let composing = Limits {
        composes_scores: true,
        ..ROOMY
    };
    assert_eq!(of(&additive, &composing), [Kernel]);
    let dropped = Call {
        has_dropout: true,
        ..dot([8, 8])
    };
    assert_eq!(of(&dropped, &ROOMY), [Kernel]);
}

#[test]
fn a_definition_that_rounds_is_tried_where_it_computes_in_f32() {
    let tf32 = Limits {
        has_tf32: true,
        ..ROOMY
    };
    for (dtype, limits) in [
        (DType::F16, ROOMY),
        (DType::BF16, ROOMY),
        (DType::F32, tf32),
    ] {
        for operation in PAIRS {
            let inference = Call {
                dtype,
                ..call(operation, [8, 8])
            };
            for call in [inference.clone(), training(inference)] {
                let is_tried = Candidate::of(&call, &limits).contains(&Candidate::Definition);
                assert_eq!(is_tried, operation == Operation::MaskedSoftmax, "{call:?}");
            }
        }
    }
}

/// A shape that does not fit has no key in common with one that does, and its definition is refused.
#[test]
fn a_definition_that_does_not_fit_is_not_run() {
    let call = call(Operation::DotProductAttention, [3, 5]);
    let fits_not = Limits {
        largest_buffer: 8 * 3 * 5 * 4 - 1,
        ..ROOMY
    };
    let candidates = Candidate::of(&call, &fits_not);
    assert_eq!(candidates, [Candidate::Kernel]);
    let key = key::of(&call, &candidates);
    assert_ne!(key, key::of(&call, &Candidate::of(&call, &ROOMY)));
    let trial = Trial::new(key, &call, candidates, &device()).with_tensors();
    assert_eq!(trial.clone().run(Candidate::Kernel), Ok(()));
    assert!(trial.run(Candidate::Definition).is_err());
}

#[test]
fn whatever_a_candidate_depends_on_is_in_the_key() {
    let base = call(Operation::DotProductAttention, [100, 200]);
    let key = |call: &Call| key::of(call, &Candidate::of(call, &ROOMY));
    let change = |change: fn(&mut Call)| {
        let mut call = base.clone();
        change(&mut call);
        key(&call)
    };
    let bias = |shape| Some((shape, DType::F32));
    let mut keys = vec![
        key(&base),
        change(|call| call.operation = Operation::AdditiveAttention),
        change(|call| call.dtype = DType::F16),
        change(|call| call.batch = 8),
        change(|call| call.key_heads = 2),
        change(|call| call.queries = 1),
        change(|call| call.queries = 300),
        change(|call| call.keys = 300),
        change(|call| call.size = 65),
        change(|call| call.value_size = 65),
        change(|call| call.mask.intervals = Some([1, 100])),
        change(|call| call.mask.keep = Some([1, 8, 100, 200])),
        change(|call| call.mask.keep = Some([1, 1, 100, 200])),
        change(|call| call.modifiers.soft_cap = Some(2.0)),
        change(|call| call.modifiers.sinks = Some(DType::F32)),
        change(|call| call.has_dropout = true),
        key(&training(base.clone())),
    ];
    for form in [bias([1, 8, 100, 200]), bias([1, 1, 1, 200])] {
        for (bias, relative_bias) in [(form, None), (None, form)] {
            let modifiers = ModifierForms {
                bias,
                relative_bias,
                ..ModifierForms::default()
            };
            keys.push(key(&Call {
                modifiers,
                ..base.clone()
            }));
        }
    }
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count);
    // One choice for about as many.
    assert_eq!(change(|call| call.queries = 128), key(&base));
    assert_eq!(change(|call| call.keys = 129), key(&base));
}

/// Each candidate of each operation, in inference and in training, with everything that a call may have.
#[test]
fn every_candidate_runs() {
    let full = |operation| {
        let mut call = call(operation, [3, 5]);
        call.batch = 2;
        call.size = 4;
        call.value_size = 4;
        call.mask = MaskForm {
            intervals: Some([2, 3]),
            keep: Some([1, 8, 3, 5]),
        };
        if matches!(
            operation,
            Operation::DotProductAttention | Operation::AdditiveAttention
        ) {
            call.key_heads = 4;
            call.modifiers = ModifierForms {
                bias: Some(([1, 8, 3, 5], DType::F32)),
                relative_bias: Some(([1, 1, 1, 7], DType::F32)),
                sinks: Some(DType::F32),
                soft_cap: Some(2.0),
            };
        }
        call
    };
    for operation in PAIRS {
        for call in [full(operation), training(full(operation))] {
            let candidates = Candidate::of(&call, &ROOMY);
            assert_eq!(candidates, [Candidate::Kernel, Candidate::Definition]);
            let trial = Trial::new(String::new(), &call, candidates.clone(), &device());
            let trial = trial.with_tensors();
            for candidate in candidates {
                let ran = trial.clone().result(candidate);
                let result = ran.unwrap_or_else(|why| panic!("{candidate} {call:?}: {why}"));
                let result = result.expect("there are tensors");
                // Only who reads learns of a kernel that did not run.
                let data = try_read_sync(CubeBackend::float_into_data(result));
                let data = data.expect("at once").expect("computed");
                let element = data.iter::<f32>().next().expect("an element");
                assert!(element.is_finite(), "{candidate} {call:?}: {element}");
            }
        }
    }
}

/// A choice holds for calls of its key alone, in either order.
#[test]
fn choices_are_those_of_their_keys() {
    let small = |rows| Call {
        heads: 2,
        key_heads: 2,
        size: 4,
        value_size: 4,
        ..call(Operation::DotProductAttention, rows)
    };
    let calls = [small([3, 5]), training(small([3, 5])), small([1, 40])];
    let ask = |call: &Call| fastest(&device(), call).expect("a choice");
    let first: Vec<_> = calls.iter().map(ask).collect();
    let again: Vec<_> = calls.iter().rev().map(ask).collect();
    for (call, (first, again)) in calls.iter().zip(first.iter().zip(again.iter().rev())) {
        let limits = Limits::of(&device().client());
        assert_eq!(first.calls, key::of(call, &Candidate::of(call, &limits)));
        assert_eq!(first.calls, again.calls);
        assert_eq!(first.fastest, again.fastest);
    }
}

#[test]
fn a_result_agrees_with_the_kernels_up_to_rounding() {
    let tensor = |elements: [f32; 3]| {
        CubeBackend::float_from_data(TensorData::new(elements.to_vec(), [1, 3]), &device())
    };
    let expected = || tensor([0.25, -2.0, 0.0]);
    assert!(agrees(expected(), expected()));
    assert!(agrees(tensor([0.250_02, -2.0, 0.0]), expected()));
    let others = [
        [0.250_1, -2.0, 0.0],
        [0.25, 2.0, 0.0],
        [0.0; 3],
        [0.25, -2.0, f32::NAN],
    ];
    for other in others {
        assert!(!agrees(tensor(other), expected()), "{other:?}");
    }
    // A kernel that did not run.
    assert!(!agrees(tensor([0.0; 3]), tensor([0.0; 3])));
    let shorter = TensorData::new(vec![0.25_f32, -2.0], [1, 2]);
    let shorter = CubeBackend::float_from_data(shorter, &device());
    assert!(!agrees(shorter, expected()));
}

/// A bias has more elements than a `usize` counts, so its tensor cannot be made.
#[test]
fn a_trial_that_fails_leaves_its_calls_to_the_kernel() {
    let failing = Call {
        modifiers: ModifierForms {
            bias: Some(([usize::MAX, 2, 1, 1], DType::F32)),
            ..ModifierForms::default()
        },
        ..call(Operation::DotProductAttention, [3, 5])
    };
    let client = device().client();
    for _ in 0..2 {
        let tried = fastest(&device(), &failing).expect("a choice");
        assert_eq!(tried.fastest, Fastest::Kernel);
        assert!(TUNER.has_failed((&client, &device()), &tried.calls));
    }
}
