//! Options that are a module's own.

use attention_core::functional::AttentionOptions;
use attention_core::{
    DotProductAttention, DotProductAttentionConfig, DotProductScore, Mask, MultiHeadAttention,
    MultiHeadAttentionConfig,
};
use attention_tests::{Array, assert_close, assert_same, device, refuses};
use burn::module::Param;
use burn::tensor::Device;

use super::case::{BATCH, HEADS, KEY_HEADS};

/// A module's own soft-cap and sinks hold in a call that names none, and learn; a call's own come first.
#[test]
fn a_module_has_options_of_its_own() {
    device::each_training(|device| {
        let heads = MultiHeadAttentionConfig::new(6 * HEADS, HEADS)
            .with_num_key_value_heads(Some(KEY_HEADS))
            .with_soft_cap(Some(0.5))
            .with_sinks(true);
        let mut own = heads.init(device);
        let drawn = Array::draw(17, &[HEADS]).f32::<1>(device);
        own.attention.sinks = Some(Param::from_tensor(drawn.clone()));
        let mut plain = own.clone();
        plain.attention.soft_cap = None;
        plain.attention.sinks = None;
        let rows = Array::draw(3, &[BATCH, 5, 6 * HEADS]).f32::<3>(device);
        let run = |attention: &MultiHeadAttention<DotProductScore>, options: &AttentionOptions| {
            attention.forward(rows.clone(), rows.clone(), rows.clone(), options)
        };
        let sinks = drawn.require_grad();
        let of_call = |soft_cap| AttentionOptions {
            mask: Mask::causal(),
            soft_cap: Some(soft_cap),
            sinks: Some(sinks.clone()),
            ..Default::default()
        };
        let masked = AttentionOptions::from(&Mask::causal());
        let expected = run(&plain, &of_call(0.5));
        let got = run(&own, &masked);
        assert_close("context", got.clone(), expected.clone(), 1e-6);
        let [q, k, v] = [(); 3].map(|()| rows.clone());
        let with_weights = own.forward_with_weights(q, k, v, &masked).context;
        assert_close("with weights", with_weights, expected.clone(), 1e-5);
        let memory = own.prepare(rows.clone(), rows.clone(), Mask::causal());
        let prepared = own.attend(rows.clone(), &memory, Mask::none());
        assert_close("prepared", prepared, expected.clone(), 1e-6);
        let other = of_call(2.0);
        let [got_of_call, expected_of_call] = [&own, &plain].map(|of| run(of, &other));
        assert_close("a call", got_of_call, expected_of_call, 1e-6);
        let parameter = own.attention.sinks.as_ref().unwrap().val();
        let of_module = parameter.grad(&got.sum().backward()).expect("it learns");
        let of_call = sinks.grad(&expected.sum().backward()).expect("a leaf");
        assert_close("sinks", of_module, of_call, 1e-5);
    });
}

#[test]
fn a_soft_cap_of_a_module_is_a_number_above_0() {
    for soft_cap in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let config = MultiHeadAttentionConfig::new(4, 2).with_soft_cap(Some(soft_cap));
        let expected = format!("soft_cap expected a finite number above 0, got {soft_cap}");
        refuses(&expected, || config.init(&Device::flex()));
    }
}

/// A module's zero key does what a call's does: a query may attend to nothing.
#[test]
fn a_module_has_a_zero_key_of_its_own() {
    device::each(|device| {
        let plain = DotProductAttentionConfig::new().init();
        let own = plain.clone().with_zero_key();
        let rows = Array::draw(5, &[BATCH, 4, 6]).f32::<3>(device);
        let run = |attention: &DotProductAttention, options: AttentionOptions| {
            let [q, k, v] = [(); 3].map(|()| rows.clone());
            Array::read(attention.forward(q, k, v, options))
        };
        let of_call = AttentionOptions {
            zero_key: true,
            ..Default::default()
        };
        let got = run(&own, AttentionOptions::default());
        assert_same("context", &got, &run(&plain, of_call));
        let without = run(&plain, AttentionOptions::default());
        assert!(got.magnitude() < without.magnitude());
    });
}
