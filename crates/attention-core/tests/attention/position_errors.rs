//! Bad biases of positions and bad rotations are refused, in words that name them.

use attention_core::position::{
    Alibi, AlibiConfig, RelativePositionBiasConfig, Rotary, RotaryConfig,
};
use attention_core::score::{Biased, DotProductScoreConfig};
use attention_core::{Attention, DotProductScore, Mask, MultiHeadAttentionConfig};
use attention_tests::{Array, assert_says, device, panic_message, refuses};
use burn::tensor::{Device, Tensor};

fn dot() -> DotProductScore {
    DotProductScoreConfig::new().init()
}

fn alibi(num_heads: usize) -> Alibi {
    AlibiConfig::new(num_heads).init()
}

fn rotary(size: usize, device: &Device) -> Rotary<DotProductScore> {
    RotaryConfig::new(size, 8).init_with(dot(), device)
}

#[test]
fn bad_input_is_named() {
    let device = &device::plain()[0];
    let bias = || RelativePositionBiasConfig::new(2);
    let init = |config: RelativePositionBiasConfig| panic_message(|| config.init(device));
    let rows = |heads, rows| Tensor::<4>::ones([1, heads, rows, 6], device);
    let attend = |queries, keys| {
        let attention = Attention::new(rotary(6, device), 0.0);
        let (queries, keys) = (rows(1, queries), rows(1, keys));
        panic_message(|| attention.forward(queries, keys.clone(), keys, Mask::none()))
    };
    let heads = panic_message(|| {
        let attention = Attention::new(Biased::new(dot(), alibi(3)), 0.0);
        attention.forward(rows(2, 4), rows(2, 4), rows(2, 4), Mask::none())
    });
    #[rustfmt::skip]
    let cases = [
        (panic_message(|| alibi(0)), ["num_heads", "got 0"]),
        (init(RelativePositionBiasConfig::new(0)), ["num_heads", "got 0"]),
        (init(bias().with_num_buckets(7)), ["an even number", "got 7"]),
        (init(bias().with_num_buckets(2)), ["at least 4", "got 2"]),
        (init(bias().with_bidirectional(false).with_num_buckets(1)), ["at least 2", "got 1"]),
        (init(bias().with_max_distance(8)), ["above 8", "got 8"]),
        (attend(6, 5), ["more queries than keys", "got -1 ..= 4"]),
        (attend(5, 9), ["within 0 .. 8", "got 0 ..= 8"]),
        (heads, ["2 heads expected for", "got one of 3"]),
    ];
    for (message, parts) in cases {
        assert_says(message, parts);
    }
}

/// A bias of the key heads does not fit the heads of the queries that share them.
#[test]
fn a_bias_of_the_heads_of_keys_is_refused() {
    let device = &device::plain()[0];
    let config = MultiHeadAttentionConfig::new(16, 4).with_num_key_value_heads(Some(2));
    let module = config.init_with(Biased::new(dot(), alibi(2)), device);
    let rows = || Array::draw(1, &[2, 3, 16]).f32::<3>(device);
    let none = || Mask::none();
    let memory = module.prepare(rows(), rows(), none());
    let parts = ["4 heads expected for", "got one of 2"];
    refuses(parts, || module.forward(rows(), rows(), rows(), none()));
    let [q, k, v] = [(); 3].map(|()| rows());
    refuses(parts, || module.forward_with_weights(q, k, v, none()));
    refuses(parts, || module.attend(rows(), &memory, none()));
}
