//! Rotary embedding: both layouts, partial, around normalized rows, at any positions.

use attention_core::position::{Positions, Rotary, RotaryConfig, RotaryLayout};
use attention_core::score::{DotProductScoreConfig, QkNormScore, QkNormScoreConfig};
use attention_core::{Attention, DotProductScore, Mask, ScoringFunction};
use attention_tests::{
    Array, assert_close, assert_same, assert_says, device, oracle, panic_message, refuses,
};
use burn::module::Param;
use burn::tensor::{Device, Tensor};

const LAYOUTS: [RotaryLayout; 2] = [RotaryLayout::Interleaved, RotaryLayout::HalfSplit];

/// Rows `[batch, heads, rows, size]` at `positions`, `[batch, rows]`; their first `rotated` features turn by the angles
/// `position * theta^(-2 n / rotated)`.
fn turned(rows: &Array, positions: &Array, layout: RotaryLayout, rotated: usize) -> Array {
    let angles = oracle::angles(positions, &oracle::frequencies(10_000.0, rotated));
    oracle::rotated(rows, &angles, layout, 1.0)
}

/// `x / sqrt(mean(x^2) + 1e-6)` times the gain of each feature.
fn normalized(rows: &Array, gains: &Array) -> Array {
    let size = rows.shape[3];
    Array::from_fn(&rows.shape, |at| {
        let squares = (0..size).map(|x| rows.at(&[at[0], at[1], at[2], x]).powi(2));
        rows.at(at) * gains.at(&[at[3]]) / (squares.sum::<f64>() / size as f64 + 1e-6).sqrt()
    })
}

fn rotary(config: &RotaryConfig, device: &Device) -> Rotary<DotProductScore> {
    config.init_with(DotProductScoreConfig::new().init(), device)
}

/// Normalization with gains that differ from feature to feature.
fn norm(size: usize, device: &Device) -> QkNormScore {
    let mut norm = QkNormScoreConfig::new(size).init(device);
    for (seed, gain) in [(31, &mut norm.query), (32, &mut norm.key)] {
        *gain = Param::from_tensor(Array::draw(seed, &[size]).f32(device));
    }
    norm
}

#[test]
fn some_features_turn_at_the_position_of_each_token() {
    let shape @ [batch, _, num_rows, size] = [2, 3, 5, 11];
    let all = [batch, num_rows];
    let per_token = Array::from_fn(&all, |at| ((5 * at[0] + 7 * at[1]) % 13) as f64);
    let for_all = Array::from_fn(&[1, num_rows], |at| ((4 * at[1]) % 13) as f64);
    let expanded = |table: &Array| {
        let examples = table.shape[0];
        Array::from_fn(&all, |at| table.at(&[at[0] % examples, at[1]]))
    };
    let from = |starts: [f64; 2]| Array::from_fn(&all, |at| starts[at[0]] + at[1] as f64);
    device::each(|device| {
        #[rustfmt::skip]
        let cases = [
            (Positions::consecutive(4), from([4.0, 4.0])),
            (Positions::per_example([7, 2]), from([7.0, 2.0])),
            (Positions::per_token(per_token.int(device)), expanded(&per_token)),
            (Positions::per_token(for_all.int(device)), expanded(&for_all)),
        ];
        for layout in LAYOUTS {
            for rotated in [2, 6, 10] {
                let config = RotaryConfig::new(size, 13).with_layout(layout);
                let rotary = rotary(&config.with_rotated_size(Some(rotated)), device);
                for (positions, table) in &cases {
                    let what = format!("{layout:?} {rotated} {positions:?}");
                    let rows = Array::draw(1, &shape);
                    let expected = turned(&rows, table, layout, rotated);
                    for dtype in device::dtypes(device) {
                        let rows = || rows.tensor::<4>(device, dtype);
                        let queries = Array::read(rotary.project_queries(rows(), positions));
                        let keys = Array::read(rotary.project_keys(rows(), positions));
                        assert_close(&what, &keys, &expected, 4e-7);
                        assert_same(&what, &queries, &keys);
                    }
                }
            }
        }
    });
}

#[test]
fn examples_with_positions_of_their_own_are_those_of_a_batch_of_one() {
    let [batch, heads, num_rows, size] = [3, 2, 5, 14];
    let starts = [7, 0, -2];
    device::each(|device| {
        for layout in LAYOUTS {
            let rotary = rotary(&RotaryConfig::new(size, 12).with_layout(layout), device);
            let rows = Array::draw(1, &[batch, heads, num_rows, size]).f32::<4>(device);
            let per_example = Positions::per_example(starts);
            let together = rotary.project_keys(rows.clone(), &per_example);
            let ids = per_example.tensor([batch, num_rows], device).clamp_min(0);
            let by_token = rotary.project_keys(rows.clone(), &Positions::per_token(ids));
            assert_same("by token", by_token, together.clone());
            for (example, start) in starts.into_iter().enumerate() {
                let of_example = |tensor: &Tensor<4>| tensor.clone().narrow(0, example, 1);
                // Rows below 0 are padding: they stay as they are.
                let padding = usize::try_from(-start).unwrap_or(0);
                let after_padding = |of: Tensor<4>| of.narrow(2, padding, num_rows - padding);
                let positions = Positions::consecutive(start.max(0));
                let own = of_example(&rows);
                let alone = rotary.project_keys(after_padding(own.clone()), &positions);
                let together = of_example(&together);
                assert_same("alone", after_padding(together.clone()), alone);
                for row in 0..padding {
                    let row = |of: &Tensor<4>| of.clone().narrow(2, row, 1);
                    assert_same("padding", row(&together), row(&own));
                }
            }
        }
    });
}

#[test]
fn rows_are_normalized_after_they_turn_or_before() {
    let shape @ [batch, _, num_rows, size] = [2, 3, 5, 14];
    let positions = Array::from_fn(&[batch, num_rows], |at| 2.0 + at[1] as f64);
    device::each(|device| {
        let norm = norm(size, device);
        let gains = [&norm.query, &norm.key].map(|gain| Array::read(gain.val()));
        for layout in LAYOUTS {
            let config = RotaryConfig::new(size, 9).with_layout(layout);
            let turn = |rows: &Array| turned(rows, &positions, layout, size);
            let before = config.init_with(norm.clone(), device);
            let config = config.with_after_projection(true);
            let after = config.init_with(norm.clone(), device);
            let rows = Array::draw(1, &shape);
            let project = |score: &Rotary<QkNormScore>| {
                let (rows, positions) = (|| rows.f32::<4>(device), Positions::consecutive(2));
                let queries = score.project_queries(rows(), &positions);
                [queries, score.project_keys(rows(), &positions)].map(Array::read)
            };
            let (before, after) = (project(&before), project(&after));
            for (side, gains) in gains.iter().enumerate() {
                let expected = normalized(&turn(&rows), gains);
                assert_close("turned, normalized", &before[side], &expected, 2e-6);
                let expected = turn(&normalized(&rows, gains));
                assert_close("normalized, turned", &after[side], &expected, 2e-6);
            }
            assert_ne!(before, after);
        }
    });
}

#[test]
fn nothing_at_no_position_is_nothing() {
    device::each(|device| {
        let rotary = rotary(&RotaryConfig::new(6, 4), device);
        let none = Positions::per_token(Tensor::empty([2, 0], device));
        let per_example = Positions::per_example([3, 9]);
        for positions in [Positions::consecutive(3), per_example, none] {
            let rows = Tensor::<4>::ones([2, 3, 0, 6], device);
            assert_eq!(rotary.project_keys(rows, &positions).dims(), [2, 3, 0, 6]);
        }
        for positions in [Positions::consecutive(1), Positions::per_example([])] {
            let rows = Tensor::<4>::ones([0, 3, 2, 6], device);
            let found = rotary.project_queries(rows, &positions).dims();
            assert_eq!(found, [0, 3, 2, 6]);
        }
    });
}

/// Tables grow with the positions: earlier ones keep their angles to the bit, on a device of either kind.
#[test]
fn angles_do_not_depend_on_what_came_before() {
    device::each(|plain| {
        let config = RotaryConfig::new(6, 100_000);
        let rotary = rotary(&config, plain);
        let turned = |rotary: &Rotary<DotProductScore>, start: i64, device: &Device| {
            let rows = Array::draw(1, &[2, 3, 5, 6]).f32::<4>(device);
            let turned = rotary.project_keys(rows, &Positions::consecutive(start));
            assert_eq!(turned.device().is_autodiff(), device.is_autodiff());
            Array::read(turned)
        };
        let training = plain.clone().autodiff();
        for start in [0, 60, 3, 61, 5_003, 127, 128, 99_995, 0] {
            let fresh = config.init_with(DotProductScoreConfig::new().init(), plain);
            let expected = turned(&fresh, start, plain);
            for device in [plain, &training] {
                let what = format!("at {start} on {device:?}");
                assert_same(&what, &turned(&rotary, start, device), &expected);
            }
        }
        refuses("within 0 .. 100000", || turned(&rotary, 99_996, plain));
    });
}

#[test]
fn bad_positions_are_named() {
    device::each(|device| {
        let rotary = rotary(&RotaryConfig::new(6, 8), device);
        let refused = |size, positions: Positions| {
            let rows = Tensor::<4>::ones([2, 3, 4, size], device);
            panic_message(|| rotary.project_keys(rows, &positions))
        };
        let ids = |ids: [[i32; 4]; 2]| Positions::per_token(Tensor::from_ints(ids, device));
        let shaped = |shape: [usize; 2]| Positions::per_token(Tensor::zeros(shape, device));
        #[rustfmt::skip]
        let cases = [
            (refused(6, Positions::consecutive(5)), ["within 0 .. 8", "got 5 ..= 8"]),
            (refused(6, Positions::consecutive(-1)), ["within 0 .. 8", "got -1 ..= 2"]),
            (refused(6, Positions::per_example([0, 5])), ["within 0 .. 8", "got 0 ..= 8"]),
            (refused(6, ids([[0, 8, 1, 2], [3; 4]])), ["within 0 .. 8", "got 0 ..= 8"]),
            (refused(6, ids([[0, 7, 1, 2], [-1; 4]])), ["within 0 .. 8", "got -1 ..= 7"]),
            (refused(6, Positions::per_example([1])), ["each of 2 examples", "got 1"]),
            (refused(6, shaped([2, 3])), ["[2 or 1, 4] expected", "got [2, 3]"]),
            (refused(6, shaped([3, 4])), ["[2 or 1, 4] expected", "got [3, 4]"]),
            (refused(5, Positions::consecutive(0)), ["6 features expected", "got 5"]),
        ];
        for (message, parts) in cases {
            assert_says(message, parts);
        }
    });
}

#[test]
fn bad_configurations_are_named() {
    let device = &device::plain()[0];
    let config = || RotaryConfig::new(6, 8);
    let refused = |config: RotaryConfig| panic_message(|| rotary(&config, device));
    let parameter = Tensor::<2>::ones([2, 10], device);
    let reordered = panic_message(|| config().reordered(parameter, RotaryLayout::HalfSplit));
    #[rustfmt::skip]
    let cases = [
        (refused(RotaryConfig::new(5, 8)), ["an even number up to size 5", "got 5"]),
        (refused(RotaryConfig::new(0, 8)), ["size", "got 0"]),
        (refused(RotaryConfig::new(6, 0)), ["max_positions", "got 0"]),
        (refused(config().with_rotated_size(Some(8))), ["up to size 6", "got 8"]),
        (refused(config().with_rotated_size(Some(0))), ["rotated_size", "got 0"]),
        (refused(config().with_theta(0.0)), ["theta", "got 0"]),
        (reordered, ["a multiple of size 6", "got 10 of [2, 10]"]),
    ];
    for (message, parts) in cases {
        assert_says(message, parts);
    }
}

/// Through the whole attention, which has the queries where a causal mask has them.
#[test]
fn contexts_are_those_of_turned_rows() {
    device::each_training(|device| {
        let config = RotaryConfig::new(6, 9).with_layout(RotaryLayout::HalfSplit);
        let attention = Attention::new(rotary(&config, device), 0.0);
        let [q, k, v] = [(1, 5), (2, 7), (3, 7)]
            .map(|(seed, len)| Array::draw(seed, &[2, 3, len, 6]).f32::<4>(device));
        let at = |first: f64, len: usize| Array::from_fn(&[2, len], |at| first + at[1] as f64);
        let turn = |rows: &Tensor<4>, positions: Array| {
            let rows = Array::read(rows.clone());
            turned(&rows, &positions, RotaryLayout::HalfSplit, 6).f32::<4>(device)
        };
        let (turned_q, turned_k) = (turn(&q, at(2.0, 5)), turn(&k, at(0.0, 7)));
        let plain = Attention::new(attention.score.score.clone(), 0.0);
        let expected = plain.forward(turned_q, turned_k, v.clone(), Mask::causal());
        let context = attention.forward(q, k, v, Mask::causal());
        assert_close("context", context, expected, 2e-6);
    });
}
