//! The kernels against plain loops.

use burn_backend::Shape;
use cubecl::wgpu::WgpuDevice;

use super::cases::{Array, Arrays, CAP, Case, PLAIN, SCALE};
use super::*;
use crate::{AttentionInputs, DeviceMask, Score, Wanted};

fn on_device(array: &Array) -> CubeTensor {
    let elements: Vec<f32> = array.elements.iter().map(|x| *x as f32).collect();
    tensor(&array.shape, f32::as_bytes(&elements), DType::F32)
}

fn tensor(shape: &[usize], bytes: &[u8], dtype: DType) -> CubeTensor {
    let device = cubecl::Device::Wgpu(WgpuDevice::default());
    let client = device.client();
    let buffer = client.create_from_slice(bytes);
    CubeTensor::new_contiguous(client, device, Shape::from(shape.to_vec()), buffer, dtype)
}

impl Case {
    fn kernel_inputs(&self, inputs: &Arrays) -> AttentionInputs {
        let [_, _, _, queries, keys] = self.sizes;
        let [query, key, value, weight, bias, relative_bias, sinks] =
            inputs.each_ref().map(|input| input.as_ref().map(on_device));
        let mut mask = DeviceMask::new(queries);
        if self.is_causal {
            let bounds = |bound: fn(usize, usize) -> usize| {
                let bounds: Vec<i32> = (0..queries).map(|i| bound(i, keys) as i32).collect();
                tensor(&[1, 1, queries, 1], i32::as_bytes(&bounds), DType::I32)
            };
            mask = mask.with_intervals(bounds(|_, _| 0), bounds(|i, keys| keys.min(i + 1)));
        }
        AttentionInputs {
            queries: query.expect("there"),
            keys: key.expect("there"),
            values: value.expect("there"),
            score: match weight {
                Some(weight) => Score::Additive { weight },
                None => Score::DotProduct { scale: SCALE },
            },
            modifiers: ScoreModifiers {
                soft_cap: self.has_cap.then_some(CAP),
                bias,
                relative_bias,
                sinks,
            },
            mask,
            dropout: None,
        }
    }

    fn check(&self, what: &str) {
        let inputs = self.inputs();
        let (context, gradients) = self.expected(&inputs);
        let kernel = self.kernel_inputs(&inputs);
        let outputs = kernel.forward();
        let name = format!("{what}: context");
        assert_close(&name, outputs.context.clone(), &context);
        let wanted = Wanted {
            queries: true,
            keys: true,
            values: true,
            weight: true,
            bias: true,
            relative_bias: true,
            sinks: true,
        };
        let found = kernel.backward(&outputs, on_device(&self.output_gradient()), wanted);
        let found = [
            ("queries", found.queries),
            ("keys", found.keys),
            ("values", found.values),
            ("weight", found.weight),
            ("bias", found.bias),
            ("relative bias", found.relative_bias),
            ("sinks", found.sinks),
        ];
        for ((name, found), expected) in found.into_iter().zip(&gradients) {
            let name = format!("{what}: {name}");
            assert_eq!(found.is_some(), expected.is_some(), "{name}");
            if let Some((found, expected)) = found.zip(expected.as_ref()) {
                assert_close(&name, found, expected);
            }
        }
    }
}

fn assert_close(name: &str, found: CubeTensor, expected: &Array) {
    assert_eq!(found.shape().as_slice(), expected.shape, "{name}");
    let bytes = found.client.clone().read_one_unchecked(found.handle);
    let elements = &expected.elements;
    let largest = elements.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    assert!(largest > 0.0, "{name}");
    for (n, (found, expected)) in f32::from_bytes(&bytes).iter().zip(elements).enumerate() {
        let is_near = (f64::from(*found) - expected).abs() <= 4e-6 * largest.max(1.0);
        assert!(is_near, "{name}[{n}]: expected {expected}, got {found}");
    }
}

#[test]
fn modified_scores_are_those_of_plain_loops() {
    let additive = |sizes| Case {
        sizes,
        is_additive: true,
        ..PLAIN
    };
    let dot = |sizes| Case { sizes, ..PLAIN };
    #[rustfmt::skip]
    let cases = [
        ("a bias of pairs of dot products", Case { bias: Some([1, 4, 37]), ..dot([2, 4, 2, 37, 71]) }),
        ("a bias of pairs that many examples share", Case { bias: Some([1, 1, 3]), ..additive([9, 2, 1, 3, 7]) }),
        (
            "a soft cap with a bias of keys",
            Case { has_cap: true, bias: Some([1, 2, 1]), is_causal: true, ..dot([2, 2, 1, 37, 71]) },
        ),
        ("a soft cap of additive scores", Case { has_cap: true, ..additive([1, 2, 1, 11, 13]) }),
        ("a bias of distances of dot products", Case { relative_bias: Some([2, 1]), ..dot([2, 4, 2, 37, 150]) }),
        (
            "a bias of distances of many queries",
            Case { relative_bias: Some([1, 2]), is_causal: true, ..additive([3, 2, 1, 101, 7]) },
        ),
        ("sinks of dot products", Case { bias: Some([2, 1, 5]), has_sinks: true, ..dot([2, 4, 2, 5, 7]) }),
    ];
    for (what, case) in cases {
        case.check(what);
    }
}

#[test]
fn all_modifiers_together_are_those_of_plain_loops() {
    let all = |bias| Case {
        has_cap: true,
        bias: Some(bias),
        relative_bias: Some([1, 4]),
        has_sinks: true,
        ..PLAIN
    };
    let one_query = Case {
        sizes: [1, 4, 2, 1, 700],
        ..all([1, 1, 1])
    };
    one_query.check("one query whose keys are split");
    let additive = Case {
        sizes: [2, 4, 2, 37, 71],
        is_additive: true,
        is_causal: true,
        ..all([2, 1, 1])
    };
    additive.check("additive scores");
}

#[test]
#[should_panic(
    expected = "relative bias expected contiguous, [1, 2, 1, 11] of F32, got [1, 2, 1, 10] of F32"
)]
fn a_bias_of_distances_that_does_not_fit_is_refused() {
    let case = Case {
        sizes: [3, 2, 1, 5, 7],
        ..PLAIN
    };
    let mut inputs = case.kernel_inputs(&case.inputs());
    inputs.modifiers.relative_bias = Some(on_device(&Array::zeros(&[1, 2, 1, 10])));
    inputs.forward();
}
