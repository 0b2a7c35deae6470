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

    fn check(&self) {
        let inputs = self.inputs();
        let (context, gradients) = self.expected(&inputs);
        let kernel = self.kernel_inputs(&inputs);
        let outputs = kernel.forward();
        assert_close("context", outputs.context.clone(), &context);
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
            assert_eq!(found.is_some(), expected.is_some(), "{name}");
            if let Some((found, expected)) = found.zip(expected.as_ref()) {
                assert_close(name, found, expected);
            }
        }
    }
}

fn assert_close(name: &str, found: CubeTensor, expected: &Array) {
    assert_eq!(found.shape().as_slice(), expected.shape, "{name}");
    let bytes = found.client.clone().read_one_unchecked(found.handle);
    let largest = expected
        .elements
        .iter()
        .fold(0.0_f64, |most, x| most.max(x.abs()));
    assert!(largest > 0.0, "{name}");
    for (n, (found, expected)) in f32::from_bytes(&bytes)
        .iter()
        .zip(&expected.elements)
        .enumerate()
    {
        let error = (f64::from(*found) - expected).abs();
        assert!(
            error <= 4e-6 * largest.max(1.0),
            "{name}[{n}]: expected {expected}, got {found}"
        );
    }
}

#[test]
fn a_bias_of_pairs_of_dot_products() {
    Case {
        sizes: [2, 4, 2, 37, 71],
        bias: Some([1, 4, 37]),
        ..PLAIN
    }
    .check();
}

#[test]
fn a_bias_of_pairs_of_additive_scores_that_many_examples_share() {
    Case {
        sizes: [9, 2, 1, 3, 7],
        is_additive: true,
        bias: Some([1, 1, 3]),
        ..PLAIN
    }
    .check();
}

#[test]
fn a_soft_cap_with_a_bias_of_keys_of_dot_products() {
    Case {
        sizes: [2, 2, 1, 37, 71],
        has_cap: true,
        bias: Some([1, 2, 1]),
        is_causal: true,
        ..PLAIN
    }
    .check();
}

#[test]
fn a_soft_cap_of_additive_scores() {
    Case {
        sizes: [1, 2, 1, 11, 13],
        is_additive: true,
        has_cap: true,
        ..PLAIN
    }
    .check();
}

#[test]
fn a_bias_of_distances_of_dot_products() {
    Case {
        sizes: [2, 4, 2, 37, 150],
        relative_bias: Some([2, 1]),
        ..PLAIN
    }
    .check();
}

#[test]
fn a_bias_of_distances_of_additive_scores_of_many_queries() {
    Case {
        sizes: [3, 2, 1, 101, 7],
        is_additive: true,
        relative_bias: Some([1, 2]),
        is_causal: true,
        ..PLAIN
    }
    .check();
}

#[test]
fn sinks_of_dot_products() {
    Case {
        sizes: [2, 4, 2, 5, 7],
        bias: Some([2, 1, 5]),
        has_sinks: true,
        ..PLAIN
    }
    .check();
}

#[test]
fn all_together_of_one_query_whose_keys_are_split() {
    Case {
        sizes: [1, 4, 2, 1, 700],
        has_cap: true,
        bias: Some([1, 1, 1]),
        relative_bias: Some([1, 4]),
        has_sinks: true,
        ..PLAIN
    }
    .check();
}

#[test]
fn all_together_of_additive_scores() {
    Case {
        sizes: [2, 4, 2, 37, 71],
        is_additive: true,
        has_cap: true,
        bias: Some([2, 1, 1]),
        relative_bias: Some([1, 4]),
        has_sinks: true,
        is_causal: true,
    }
    .check();
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
