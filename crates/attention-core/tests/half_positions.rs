//! Positions on a device whose float type is bf16: neighbours stay apart, however far out. In a program of its own,
//! since a device's float type can be set but once, before its first tensor.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used)]

use attention_core::position::{Alibi, AlibiConfig, Positions, RotaryConfig, RotaryLayout};
use attention_core::score::{Biased, DotProductScoreConfig};
use attention_core::{Attention, DotProductScore, Mask, ScoringFunction};
use attention_tests::{Array, assert_all_close, assert_close, oracle};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use std::sync::OnceLock;

fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    let new = || {
        let mut device = Device::flex();
        device.configure(FloatDType::BF16).unwrap();
        assert_eq!(Tensor::<1>::zeros([1], &device).dtype(), DType::BF16);
        device
    };
    DEVICE.get_or_init(new).clone()
}

const POSITIONS: usize = 4_200;
const SIZE: usize = 16;

const LAYOUTS: [RotaryLayout; 2] = [RotaryLayout::Interleaved, RotaryLayout::HalfSplit];

/// Rows of length 1, turned, one for each position.
fn turned(dtype: DType, layout: RotaryLayout, positions: &Positions, rows: usize) -> Array {
    let device = device();
    let config = RotaryConfig::new(SIZE, POSITIONS).with_layout(layout);
    let rotary = config.init_with(DotProductScoreConfig::new().init(), &device);
    let length = 1.0 / (SIZE as f64).sqrt();
    let rows = Array::full(&[1, 1, rows, SIZE], length).tensor::<4>(&device, dtype);
    let turned = rotary.project_keys(rows, positions);
    assert_eq!(turned.dtype(), dtype);
    Array::read(turned)
}

/// The rows of [`turned`], from the first position on, in f64.
fn expected(layout: RotaryLayout) -> Array {
    let length = 1.0 / (SIZE as f64).sqrt();
    let positions = Array::from_fn(&[1, POSITIONS], |at| at[1] as f64);
    let angles = oracle::angles(&positions, &oracle::frequencies(10_000.0, SIZE));
    let rows = Array::full(&[1, 1, POSITIONS, SIZE], length);
    oracle::rotated(&rows, &angles, layout, 1.0)
}

#[test]
fn rows_are_turned_by_f32_angles_whatever_their_type() {
    for layout in LAYOUTS {
        let half = [(DType::F16, 2f64.powi(-11)), (DType::BF16, 2f64.powi(-8))];
        for (dtype, rounding) in [(DType::F32, 2e-7)].into_iter().chain(half) {
            let what = format!("{dtype:?} {layout:?}");
            let turned = |positions: &Positions, rows| turned(dtype, layout, positions, rows);
            let all = turned(&Positions::consecutive(0), POSITIONS);
            assert_close(&what, &all, &expected(layout), rounding);
            // Where all of them, or all but the last bits, were the same.
            let first_of_two = [256, 511, 2_048, 4_096, 4_098];
            let row = |at: usize| &all.data[at * SIZE..(at + 1) * SIZE];
            for position in first_of_two {
                assert_ne!(row(position), row(position + 1), "{what} {position}");
                let squared: f64 = row(position).iter().map(|x| x * x).sum();
                assert!((squared - 1.0).abs() < 8.0 * rounding, "{what}: {squared}");
            }
            // The same rows at positions that come as integers of a tensor.
            let pairs = first_of_two.map(|at| [at, at + 1]).concat();
            let ids = Array::from_fn(&[1, pairs.len()], |at| pairs[at[1]] as f64);
            let picked = turned(&Positions::per_token(ids.int(&device())), pairs.len());
            for (picked, position) in picked.data.chunks(SIZE).zip(pairs) {
                assert_eq!(picked, row(position), "{what} {position}");
            }
        }
    }
}

#[test]
fn contexts_with_turned_rows_are_those_of_f32() {
    let device = device();
    let dot = DotProductScoreConfig::new().init();
    let score = RotaryConfig::new(SIZE, POSITIONS).init_with(dot, &device);
    let attention = Attention::new(score, 0.0);
    let contexts = |dtype| {
        let rows = |seed, len| {
            let rows = Array::draw(seed, &[1, 1, len, SIZE]);
            rows.tensor::<4>(&device, DType::BF16).cast(dtype)
        };
        let (q, k, v) = (rows(1, 3), rows(2, 300), rows(3, 300));
        let mask = Mask::causal();
        let output = attention.forward_with_weights(q.clone(), k.clone(), v.clone(), &mask);
        [attention.forward(q, k, v, &mask), output.context].map(Array::read)
    };
    let [half, wide] = [DType::BF16, DType::F32].map(contexts);
    assert_all_close("context", &half, &wide, 2f64.powi(-6));
}

/// A dot product with ALiBi of 8 heads.
fn biased(is_bidirectional: bool) -> Biased<DotProductScore, Alibi> {
    let alibi = AlibiConfig::new(8).with_bidirectional(is_bidirectional);
    Biased::new(DotProductScoreConfig::new().init(), alibi.init())
}

/// The score that is stored where weights are asked for: no two neighbouring keys are as far from a query.
#[test]
fn neighbouring_keys_have_biases_of_their_own() {
    let device = device();
    let keys = 6_000;
    for is_bidirectional in [false, true] {
        let score = biased(is_bidirectional);
        let rows = |len| Tensor::<4>::zeros([1, 8, len, 2], &device);
        for queries in [1, 2] {
            let scores = Array::read(score.score(rows(queries), rows(keys), &Mask::none()));
            let equal = scores.data.windows(2).filter(|pair| pair[0] == pair[1]);
            assert_eq!(equal.count(), 0, "{is_bidirectional} {queries}");
        }
    }
}

/// With weights and without, for one query and for several.
#[test]
fn contexts_under_a_bias_are_those_of_f32() {
    let device = device();
    for is_bidirectional in [false, true] {
        let attention = Attention::new(biased(is_bidirectional), 0.0);
        for queries in [1, 2] {
            // Values: one sign for the nearer keys, the other for the farther ones.
            let values = Array::from_fn(&[1, 8, 600, 1], |at| if at[2] < 580 { -1.0 } else { 1.0 });
            let contexts = |dtype| {
                let rows = |len| Tensor::<4>::zeros([1, 8, len, 2], (&device, dtype));
                let (q, k, v) = (rows(queries), rows(600), values.tensor::<4>(&device, dtype));
                let mask = Mask::causal();
                let output = attention.forward_with_weights(q.clone(), k.clone(), v.clone(), &mask);
                [attention.forward(q, k, v, &mask), output.context].map(Array::read)
            };
            let [half, wide] = [DType::BF16, DType::F32].map(contexts);
            assert_all_close("context", &half, &wide, 2f64.powi(-7));
        }
    }
}
