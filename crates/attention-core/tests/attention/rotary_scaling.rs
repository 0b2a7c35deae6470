//! The angles of rotary embedding for longer contexts: what Hugging Face's formulas give, step by step in f64.

use std::f64::consts::PI;

use attention_core::ScoringFunction;
use attention_core::position::{
    Llama3ScalingConfig, Positions, RotaryConfig, RotaryLayout, RotaryScaling, YarnScalingConfig,
};
use attention_core::score::DotProductScoreConfig;
use attention_tests::{Array, assert_close, assert_says, device, oracle, panic_message};

const THETA: f64 = 10_000.0;
/// An odd number of features; all but one turn: pairs for each range of a scaling.
const SIZE: usize = 63;
const ROTATED: usize = 62;

fn config(scaling: RotaryScaling) -> RotaryConfig {
    RotaryConfig::new(SIZE, 200)
        .with_rotated_size(Some(ROTATED))
        .with_scaling(scaling)
}

fn assert_frequencies(what: &str, config: &RotaryConfig, expected: &[f64], factor: f64) {
    let got = config.frequencies();
    assert_eq!(got.len(), expected.len(), "{what}");
    for (pair, (got, expected)) in got.iter().zip(expected).enumerate() {
        let difference = (got / expected - 1.0).abs();
        assert!(difference < 1e-13, "{what} {pair}: {got} {expected}");
    }
    let difference = (config.attention_factor() - factor).abs();
    assert!(difference < 1e-15, "{what}: {}", config.attention_factor());
    // The last positions of the tables have these angles.
    let shape @ [_, _, num_rows, _] = [1, 2, 3, SIZE];
    let rows = Array::draw(1, &shape);
    let positions = Array::from_fn(&[1, num_rows], |at| (200 - num_rows + at[1]) as f64);
    let angles = oracle::angles(&positions, expected);
    let turned = oracle::rotated(&rows, &angles, RotaryLayout::Interleaved, 1.0);
    let turned = Array::from_fn(&shape, |at| {
        turned.at(at) * if at[3] < ROTATED { factor } else { 1.0 }
    });
    device::each(|device| {
        let rotary = config.init_with(DotProductScoreConfig::new().init(), device);
        let positions = Positions::consecutive(200 - num_rows as i64);
        let keys = rotary.project_keys(rows.f32::<4>(device), &positions);
        assert_close(what, keys, &turned, 1e-6);
    });
}

#[test]
fn angles_are_plain_or_of_interpolated_positions() {
    let plain = oracle::frequencies(THETA, ROTATED);
    assert_frequencies("none", &config(RotaryScaling::None), &plain, 1.0);
    let other = config(RotaryScaling::None).with_theta(5e5);
    assert_frequencies("theta", &other, &oracle::frequencies(5e5, ROTATED), 1.0);
    let linear = config(RotaryScaling::Linear { factor: 2.5 });
    let expected: Vec<f64> = plain.iter().map(|f| f / 2.5).collect();
    assert_frequencies("linear", &linear, &expected, 1.0);
}

#[test]
fn the_base_grows_with_ntk_aware_scaling() {
    let dim = ROTATED as f64;
    let base = THETA * 4_f64.powf(dim / (dim - 2.0));
    let ntk = config(RotaryScaling::Ntk { factor: 4.0 });
    assert_frequencies("ntk", &ntk, &oracle::frequencies(base, ROTATED), 1.0);
    // The first angle stays, and the last is as for interpolated positions.
    let (got, plain) = (ntk.frequencies(), oracle::frequencies(THETA, ROTATED));
    assert_eq!(got[0], 1.0);
    let last = got[30] * 4.0 / plain[30];
    assert!((last - 1.0).abs() < 1e-13, "{last}");
}

/// `_compute_yarn_parameters`.
fn yarn(config: &YarnScalingConfig, base: f64) -> Vec<f64> {
    let dim = ROTATED as f64;
    let correction_dim = |rotations: f64| {
        let context = config.original_max_positions as f64;
        (dim * (context / (rotations * 2.0 * PI)).ln()) / (2.0 * base.ln())
    };
    let mut low = correction_dim(config.beta_fast);
    let mut high = correction_dim(config.beta_slow);
    if config.truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(dim - 1.0));
    if low == high {
        high += 0.001;
    }
    let frequency = |n: usize| {
        let of_position = base.powf((2 * n) as f64 / dim);
        let extrapolation = 1.0 / of_position;
        let interpolation = 1.0 / (config.factor * of_position);
        let ramp = ((n as f64 - low) / (high - low)).clamp(0.0, 1.0);
        let share = 1.0 - ramp;
        interpolation * (1.0 - share) + extrapolation * share
    };
    (0..ROTATED / 2).map(frequency).collect()
}

#[test]
fn yarn_interpolates_the_pairs_that_turn_slowly() {
    let new = || YarnScalingConfig::new(4.0, 2_048);
    let default = 0.1 * 4_f64.ln() + 1.0;
    let deepseek = (0.1 * 0.707 * 4_f64.ln() + 1.0) / (0.1 * 0.5 * 4_f64.ln() + 1.0);
    #[rustfmt::skip]
    let cases = [
        ("yarn", new(), default),
        ("not truncated", new().with_truncate(false), default),
        ("other turns", new().with_beta_fast(16.0).with_beta_slow(2.0), default),
        ("an empty ramp", YarnScalingConfig::new(4.0, 6), default),
        ("a short context", YarnScalingConfig::new(4.0, 3), default),
        ("its own factor", new().with_attention_factor(Some(1.25)), 1.25),
        ("scales", new().with_mscale(Some(0.707)).with_mscale_all_dim(Some(0.5)), deepseek),
        ("shorter", YarnScalingConfig::new(0.5, 2_048), 1.0),
    ];
    for (what, yarn_config, factor) in cases {
        let expected = yarn(&yarn_config, THETA);
        let config = config(RotaryScaling::Yarn(yarn_config));
        assert_frequencies(what, &config, &expected, factor);
    }
    // Some pairs are untouched, some are interpolated, some are between.
    let got = config(RotaryScaling::Yarn(new())).frequencies();
    let plain = oracle::frequencies(THETA, ROTATED);
    let ratios: Vec<f64> = got.iter().zip(plain).map(|(got, f)| got / f).collect();
    assert_eq!(ratios[0], 1.0);
    assert!((ratios[30] - 0.25).abs() < 1e-14, "{}", ratios[30]);
    assert!(ratios.iter().any(|ratio| *ratio > 0.3 && *ratio < 0.9));
}

#[test]
fn llama_3_interpolates_long_wavelengths() {
    let (factor, context, low, high) = (8.0, 512, 1.0, 4.0);
    // `_compute_llama3_parameters`.
    let scaled = |frequency: f64| {
        let wavelength = 2.0 * PI / frequency;
        if wavelength < f64::from(context) / high {
            frequency
        } else if wavelength > f64::from(context) / low {
            frequency / factor
        } else {
            let smooth = (f64::from(context) / wavelength - low) / (high - low);
            (1.0 - smooth) * frequency / factor + smooth * frequency
        }
    };
    let plain = oracle::frequencies(5e5, ROTATED);
    let expected: Vec<f64> = plain.iter().map(|frequency| scaled(*frequency)).collect();
    let scaling = Llama3ScalingConfig::new(factor, context as usize);
    let config = config(RotaryScaling::Llama3(scaling)).with_theta(5e5);
    assert_frequencies("llama 3", &config, &expected, 1.0);
    let ratios: Vec<f64> = expected.iter().zip(plain).map(|(got, f)| got / f).collect();
    assert_eq!([ratios[0], ratios[30]], [1.0, 0.125]);
    assert!(ratios.iter().any(|ratio| *ratio > 0.2 && *ratio < 0.9));
}

#[test]
fn angles_may_be_of_ones_own() {
    let drawn = Array::draw(1, &[ROTATED / 2]).map(|x| 0.01 * (x + 2.5));
    let frequencies = drawn.data;
    let custom = config(RotaryScaling::Custom {
        frequencies: frequencies.clone(),
        attention_factor: 1.19,
    });
    assert_frequencies("custom", &custom, &frequencies, 1.19);
}

#[test]
fn bad_scalings_are_named() {
    let yarn = || YarnScalingConfig::new(4.0, 2_048);
    let refused = |scaling| panic_message(|| config(scaling).frequencies());
    let one_pair = RotaryConfig::new(2, 8).with_scaling(RotaryScaling::Ntk { factor: 2.0 });
    #[rustfmt::skip]
    let cases = [
        (refused(RotaryScaling::Linear { factor: 0.0 }), ["factor", "got 0"]),
        (refused(RotaryScaling::Ntk { factor: f64::NAN }), ["factor", "got NaN"]),
        (panic_message(|| one_pair.frequencies()), ["more than one pair", "size of 2"]),
        (refused(RotaryScaling::Yarn(yarn().with_beta_slow(40.0))), ["at least beta_slow, 40", "got 32"]),
        (refused(RotaryScaling::Yarn(yarn().with_mscale(Some(1.0)))), ["expected together", "Some(1.0) and None"]),
        (
            refused(RotaryScaling::Llama3(Llama3ScalingConfig::new(8.0, 512).with_low_freq_factor(4.0))),
            ["above low_freq_factor, 4", "got 4"],
        ),
        (
            refused(RotaryScaling::Custom { frequencies: vec![1.0], attention_factor: 1.0 }),
            ["31 frequencies expected", "got 1"],
        ),
    ];
    for (message, parts) in cases {
        assert_says(message, parts);
    }
}
