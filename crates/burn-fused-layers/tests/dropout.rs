//! Dropout: the share that it drops, what it does to the others, and its mask. A process of its own: what other tests
//! draw from the generator of a device would change it.
#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, PoisonError};

use attention_tests::{Array, device};
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::recurrent::{CellKind, RecurrentConfig, Steps};
use burn_fused_layers::{dropout, is_in_host_memory};

/// Runs a test on each device that trains, alone.
fn each_training(test: impl Fn(&Device)) {
    static GENERATOR: Mutex<()> = Mutex::new(());
    let _alone = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    device::each_training(test);
}

fn layer(probability: f64) -> Dropout {
    DropoutConfig::new(probability).init()
}

/// The factors that elements are multiplied with, of masks over several chunks.
fn factors(probability: f64, shape: [usize; 2], device: &Device) -> Vec<f32> {
    let dropped = dropout(&layer(probability), Tensor::<2>::ones(shape, device));
    assert_eq!(dropped.dims(), shape);
    dropped.into_data().iter().collect()
}

#[test]
fn as_many_as_asked_for_are_dropped_and_the_others_scaled() {
    each_training(|device| {
        device.seed(3);
        let shape = [211, 307];
        for probability in [0.1, 0.5, 0.9] {
            let factors = factors(probability, shape, device);
            let count = factors.len() as f64;
            let kept = factors.iter().filter(|&&factor| factor != 0.0);
            for &factor in kept.clone() {
                let expected = 1.0 / (1.0 - probability);
                let is_near = (f64::from(factor) - expected).abs() < 1e-6 * expected;
                assert!(is_near, "{factor}");
            }
            if !is_in_host_memory(device) {
                continue; // Drawn by Burn.
            }
            let deviation = (count * probability * (1.0 - probability)).sqrt();
            let difference = kept.count() as f64 - count * (1.0 - probability);
            let is_near = difference.abs() < 5.0 * deviation;
            assert!(is_near, "{probability}: {difference}");
            // Neighbours in either axis are dropped independently of each other.
            for distance in [1, shape[1], 1 << 14] {
                let pairs = factors.iter().zip(&factors[distance..]);
                let equal = pairs.filter(|(a, b)| (**a == 0.0) == (**b == 0.0)).count() as f64;
                let count = count - distance as f64;
                let share = probability * probability + (1.0 - probability) * (1.0 - probability);
                let deviation = (count * share * (1.0 - share)).sqrt();
                let is_near = (equal - count * share).abs() < 8.0 * deviation;
                assert!(is_near, "{probability} {distance}");
            }
        }
    });
}

#[test]
fn a_seed_draws_the_same_mask_and_the_next_call_another() {
    each_training(|device| {
        let draw = || factors(0.5, [73, 509], device);
        device.seed(7);
        let (first, second) = (draw(), draw());
        device.seed(7);
        assert!(draw() == first && draw() == second && first != second);
        device.seed(8);
        assert_ne!(draw(), first);
    });
}

#[test]
fn gradients_go_to_what_was_kept() {
    each_training(|device| {
        let input = Array::draw(1, &[37, 41]).leaf::<2>(device, DType::F32);
        let output = dropout(&layer(0.4), input.clone());
        let received = Array::draw(2, &[37, 41]).tensor::<2>(device, DType::F32);
        let gradients = (output.clone() * received.clone()).sum().backward();
        let gradient = input.grad(&gradients).unwrap();
        let scale = 1.0 / 0.6;
        let all = [input.inner(), output.inner(), received.inner(), gradient];
        let [input, output, received, gradient] = all.map(|tensor| Array::read(tensor).data);
        for at in (0..input.len()).filter(|&at| input[at] != 0.0) {
            let factor = if output[at] == 0.0 { 0.0 } else { scale };
            assert!((output[at] - factor * input[at]).abs() < 1e-5);
            assert!((gradient[at] - factor * received[at]).abs() < 1e-5);
        }
    });
}

#[test]
fn nothing_is_dropped_without_training_or_probability() {
    each_training(|device| {
        let plain = &device.clone().inner();
        let ones = |device: &Device| Tensor::<2>::ones([5, 7], device);
        let is_whole = |tensor: Tensor<2>| tensor.into_data().iter::<f32>().all(|it| it == 1.0);
        assert!(is_whole(dropout(&layer(0.9), ones(plain))));
        assert!(is_whole(dropout(&layer(0.0), ones(device))));
        if is_in_host_memory(device) {
            let empty = Tensor::<2>::ones([0, 7], device);
            assert_eq!(dropout(&layer(0.9), empty).dims(), [0, 7]);
        }
    });
}

#[test]
fn a_stack_drops_if_a_layer_on_either_side_trains() {
    each_training(|training| {
        let plain = &training.clone().inner();
        let config = RecurrentConfig::new(CellKind::Gru, 3, 11).with_layers(2);
        let config = config.with_dropout(0.5);
        for (below, above) in [(training, plain), (plain, training), (plain, plain)] {
            let mut stack = config.init(below);
            stack.layers[1] = config.init(above).layers.remove(1);
            let input = Array::draw(1, &[2, 5, 3]).tensor::<3>(plain, DType::F32);
            let run = || {
                let (outputs, _) = stack.forward(input.clone(), None, &Steps::all());
                outputs.into_data().iter().collect::<Vec<f32>>()
            };
            let trains = below.is_autodiff() || above.is_autodiff();
            assert_eq!(run() != run(), trains);
        }
    });
}
