//! Burn's multi-head attention and the one in its place: the same results, but for what differs on purpose.

use attention_core::drop_in::{
    MhaCache, MhaInput, MhaOutput, MultiHeadAttention, MultiHeadAttentionConfig,
    generate_autoregressive_mask,
};
use attention_core::{DotProductScore, Mask};
use attention_tests::{
    Array, Outcome, assert_close, assert_outcomes_close, assert_same, assert_zero, device,
    parameters, refuses,
};
use burn::config::Config;
use burn::module::Module;
use burn::nn::attention as burns;
use burn::tensor::{Bool, DType, Device, Tensor};

const SIZE: usize = 12;
const HEADS: usize = 3;
const BATCH: usize = 2;
const QUERIES: usize = 5;
const KEYS: usize = 7;

/// Rounding of a result in f32.
const CLOSE: f64 = 5e-6;

/// Burn's module and ours of the same parameters.
type Pair = (burns::MultiHeadAttention, MultiHeadAttention);

fn pair(device: &Device) -> Pair {
    pair_of(burns::MultiHeadAttentionConfig::new(SIZE, HEADS), device)
}

fn pair_of(config: burns::MultiHeadAttentionConfig, device: &Device) -> Pair {
    let burns = config.with_dropout(0.0).init(device);
    let ours = MultiHeadAttention::from(burns.clone());
    (burns, ours)
}

/// Queries, keys and values.
fn inputs() -> [Array; 3] {
    [QUERIES, KEYS, KEYS].map(|rows| Array::draw(rows as u64, &[BATCH, rows, SIZE]))
}

/// True where masked: of keys `[batch, keys]`, and of pairs `[batch, queries, keys]`. Every query keeps a key.
fn masks() -> [Array; 2] {
    let pad = Array::from_fn(&[BATCH, KEYS], |at| f64::from(at[1] + at[0] >= KEYS - 1));
    let attn = Array::from_fn(&[BATCH, QUERIES, KEYS], |at| {
        f64::from(at[2] > 0 && (at[0] + at[1] + at[2]) % 3 == 0)
    });
    [pad, attn]
}

/// Context, weights and all gradients of a loss of both.
fn outcome(
    module: &impl Module,
    inputs: [Tensor<3>; 3],
    forward: impl FnOnce([Tensor<3>; 3]) -> MhaOutput,
) -> Outcome {
    let inputs = inputs.map(Tensor::require_grad);
    let MhaOutput { context, weights } = forward(inputs.clone());
    let device = context.device();
    let of_context = Array::draw(31, &context.dims()).f32::<3>(&device);
    let of_weights = Array::draw(32, &weights.dims()).f32::<4>(&device);
    let loss = (context.clone() * of_context).sum() + (weights.clone() * of_weights).sum();
    let gradients = loss.backward();
    let mut outcome = parameters::gradients(module, Some(&gradients));
    for (name, input) in ["grad query", "grad key", "grad value"].iter().zip(&inputs) {
        let gradient = parameters::gradient(input, Some(&gradients));
        outcome.insert(name.to_string(), gradient);
    }
    outcome.insert("context".into(), Array::read(context));
    outcome.insert("weights".into(), Array::read(weights));
    outcome
}

#[test]
fn results_and_gradients_are_burns() {
    let [pad, attn] = masks();
    device::each_training(|device| {
        for (has_pad, has_attn, is_quiet) in [
            (false, false, false),
            (true, false, false),
            (false, true, false),
            (true, true, false),
            (true, true, true),
        ] {
            let config = burns::MultiHeadAttentionConfig::new(SIZE, HEADS);
            let (theirs, ours) = pair_of(config.with_quiet_softmax(is_quiet), device);
            let pad = has_pad.then(|| pad.bool::<2>(device));
            let attn = has_attn.then(|| attn.bool::<3>(device));
            let tensors = || inputs().map(|input| input.f32::<3>(device));
            let mut expected = outcome(&theirs, tensors(), |[q, k, v]| {
                let input = burns::MhaInput::new(q, k, v);
                let pad = pad.clone().into_iter();
                let input = pad.fold(input, burns::MhaInput::mask_pad);
                let attn = attn.clone().into_iter();
                theirs.forward(attn.fold(input, burns::MhaInput::mask_attn))
            });
            let input = |[q, k, v]: [Tensor<3>; 3]| {
                let input = MhaInput::new(q, k, v);
                let input = pad.clone().into_iter().fold(input, MhaInput::mask_pad);
                attn.clone().into_iter().fold(input, MhaInput::mask_attn)
            };
            let mut actual = outcome(&ours, tensors(), |tensors| ours.forward(input(tensors)));
            let what = format!("pad {has_pad}, attn {has_attn}, quiet {is_quiet}");
            assert_eq!(actual.len(), 3 + 8 + 2, "{what}: results");
            // Softmax ignores it: the gradient is rounding alone. With the key of score 0 it does not.
            let outcomes = [&mut actual, &mut expected].into_iter();
            for outcome in outcomes.filter(|_| !is_quiet) {
                let of_bias = outcome.remove("key.bias").expect("its gradient");
                assert!(of_bias.magnitude() < 1e-5, "{what}: {of_bias:?}");
            }
            assert_outcomes_close(&what, &actual, &expected, CLOSE);
            let context = Array::read(ours.context(input(tensors())));
            assert_close(&what, &context, &expected["context"], CLOSE);
        }
    });
}

#[test]
fn records_and_configurations_are_burns() {
    device::each(|device| {
        let burns_config = burns::MultiHeadAttentionConfig::new(SIZE, HEADS)
            .with_query_bias(false)
            .with_output_bias(false);
        let text = burns_config.to_string();
        let config = MultiHeadAttentionConfig::load_binary(text.as_bytes()).unwrap();
        assert_eq!(config.to_string(), text);
        let theirs = burns_config.init(device);
        let rows = Array::draw(1, &[BATCH, QUERIES, SIZE]).f32::<3>(device);
        let expected = theirs.forward(burns::MhaInput::self_attn(rows.clone()));
        let expected = Array::read(expected.context);
        let ours = config.init(device);
        let run = |module: &MultiHeadAttention| {
            let output = module.forward(MhaInput::self_attn(rows.clone()));
            Array::read(output.context)
        };
        assert_ne!(run(&ours), expected, "other parameters");
        let ours = ours.load_record(theirs.clone().into_record());
        assert_close("Burn's record", &run(&ours), &expected, CLOSE);
        let fresh = burns_config.init(device);
        let theirs = fresh.load_record(ours.clone().into_record());
        let back = theirs.forward(burns::MhaInput::self_attn(rows.clone()));
        assert_same("record in Burn's", back.context, &expected);
        let heads = attention_core::MultiHeadAttention::<DotProductScore>::from(ours.clone());
        let context = heads.forward(rows.clone(), rows.clone(), rows.clone(), Mask::none());
        let expected = ours.context(MhaInput::self_attn(rows.clone()));
        assert_same("the library's module", context, expected.clone());
        let heads = attention_core::MultiHeadAttention::<DotProductScore>::from(theirs);
        let context = heads.forward(rows.clone(), rows.clone(), rows.clone(), Mask::none());
        assert_close("of Burn's", context, expected, CLOSE);
    });
}

#[test]
fn a_mask_of_the_library_joins_the_boolean_ones() {
    let [pad, _] = masks();
    device::each(|device| {
        let (_, ours) = pair(device);
        let [rows, ..] = inputs().map(|input| input.f32::<3>(device));
        let pad: Tensor<2, Bool> = pad.bool::<2>(device).narrow(1, KEYS - QUERIES, QUERIES);
        let input = || MhaInput::self_attn(rows.clone()).mask_pad(pad.clone());
        let triangle = generate_autoregressive_mask(BATCH, QUERIES, device);
        let flags = ours.context(input().mask_attn(triangle));
        let intervals = ours.context(input().mask(Mask::causal()));
        let [flags, intervals] = [flags, intervals].map(Array::read);
        assert_close("causal", &intervals, &flags, CLOSE);
        let alone = Array::read(ours.context(input()));
        assert_ne!(alone, flags, "the mask says something");
    });
}

#[test]
fn steps_with_a_cache_are_burns() {
    device::each(|device| {
        let (theirs, ours) = pair(device);
        let [text, encoded, _] = inputs().map(|input| input.f32::<3>(device));
        let rows = |len| text.clone().narrow(1, 0, len);

        let theirs_cache = burns::MhaCache::autoregressive();
        let mut caches = (theirs_cache, MhaCache::autoregressive());
        let mut last = None;
        for len in 1..=QUERIES {
            let mask = generate_autoregressive_mask(BATCH, len, device);
            let input = burns::MhaInput::self_attn(rows(len)).mask_attn(mask.clone());
            let expected = theirs.forward_cache(input, &mut caches.0);
            let input = MhaInput::self_attn(rows(len)).mask_attn(mask);
            let actual = ours.forward_cache(input, &mut caches.1);
            let what = format!("self, step {len}");
            last = Some(assert_output(&what, actual, expected));
        }
        // A prompt of three rows, then two at once: one pass, in any cut.
        let mut cache = MhaCache::autoregressive();
        let step = |len, cache: &mut MhaCache| {
            let input = MhaInput::self_attn(rows(len)).mask(Mask::causal());
            Array::read(ours.forward_cache(input, cache).context)
        };
        step(3, &mut cache);
        let context = step(QUERIES, &mut cache);
        assert_close("two rows at once", &context, &last.unwrap(), CLOSE);
        let message = "expected more rows than the 5 of the steps before, got 5";
        refuses(message, || step(QUERIES, &mut cache));

        let mut caches = (
            burns::MhaCache::autoregressive_cross_attention(),
            MhaCache::autoregressive_cross_attention(),
        );
        let pad = masks()[0].bool::<2>(device);
        for len in 1..=QUERIES {
            let [keys, values] = [encoded.clone(), encoded.clone()];
            let input = burns::MhaInput::new(rows(len), keys.clone(), values.clone());
            let expected = theirs.forward_cache(input.mask_pad(pad.clone()), &mut caches.0);
            let input = MhaInput::new(rows(len), keys, values).mask_pad(pad.clone());
            let actual = ours.forward_cache(input, &mut caches.1);
            assert_output(&format!("cross, step {len}"), actual, expected);
        }
    });
}

/// The context of both.
fn assert_output(what: &str, actual: MhaOutput, expected: MhaOutput) -> Array {
    let context = Array::read(expected.context);
    assert_close(what, actual.context, &context, CLOSE);
    assert_close(what, actual.weights, expected.weights, CLOSE);
    context
}

/// Burn's query without a key weighs all keys alike.
#[test]
fn a_query_without_a_key_gets_zeros_where_burns_weighs_all_keys() {
    device::each(|device| {
        let (theirs, ours) = pair(device);
        let [q, k, v] = inputs().map(|input| input.f32::<3>(device));
        let masked = Array::from_fn(&[BATCH, QUERIES, KEYS], |at| f64::from(at[1] == 2));
        let masked = masked.bool::<3>(device);
        let input = burns::MhaInput::new(q.clone(), k.clone(), v.clone());
        let burns = theirs.forward(input.mask_attn(masked.clone()));
        let row = |weights: Tensor<4>| Array::read(weights.narrow(2, 2, 1));
        let alike = Array::full(&[BATCH, HEADS, 1, KEYS], 1.0 / KEYS as f64);
        assert_close("Burn's weights", &row(burns.weights), &alike, 1e-3);

        let output = ours.forward(MhaInput::new(q, k, v).mask_attn(masked));
        assert_zero("weights", &row(output.weights));
        let bias = ours.output.bias.as_ref().map(|bias| bias.val()).unwrap();
        let bias = bias.reshape([1, 1, SIZE]).expand([BATCH, 1, SIZE]);
        let context = Array::read(output.context.narrow(1, 2, 1));
        assert_same("context", &context, bias);
    });
}

#[test]
fn a_masked_key_may_hold_nan_where_burns_spreads_it() {
    let [pad, _] = masks();
    device::each(|device| {
        let (theirs, ours) = pair(device);
        let [q, k, v] = inputs();
        let dirty = |rows: &Array| rows.masked_fill(f64::NAN, |at| pad.at(&at[..2]) > 0.0);
        let tensors = [&q, &dirty(&k), &dirty(&v)].map(|rows| rows.f32::<3>(device));
        let pad = pad.bool::<2>(device);
        let [queries, keys, values] = tensors.clone();
        let input = burns::MhaInput::new(queries, keys, values).mask_pad(pad.clone());
        let burns = Array::read(theirs.forward(input).context);
        assert!(burns.data.iter().all(|number| number.is_nan()), "Burn's");

        let run = |[q, k, v]: [Tensor<3>; 3]| {
            let output = ours.forward(MhaInput::new(q, k, v).mask_pad(pad.clone()));
            Array::read(output.context)
        };
        let clean = run([&q, &k, &v].map(|rows| rows.f32::<3>(device)));
        assert_same("NaN in padding", &run(tensors), &clean);
    });
}

#[test]
fn weights_are_those_before_dropout_where_burns_are_after_it() {
    device::each_training(|device| {
        let config = MultiHeadAttentionConfig::new(SIZE, HEADS).with_dropout(0.5);
        let ours = config.init(device);
        let burns = burns::MultiHeadAttentionConfig::new(SIZE, HEADS).with_dropout(0.5);
        let theirs = burns.init(device).load_record(ours.clone().into_record());
        let rows = Array::draw(1, &[BATCH, KEYS, SIZE]).f32::<3>(device);
        let zeros = |weights: Tensor<4>| {
            let weights = Array::read(weights).data.into_iter();
            weights.filter(|&weight| weight == 0.0).count()
        };
        let burns = theirs.forward(burns::MhaInput::self_attn(rows.clone()));
        assert!(zeros(burns.weights) > 0, "Burn's weights are after dropout");
        let output = ours.forward(MhaInput::self_attn(rows.clone()));
        assert_eq!(zeros(output.weights.clone()), 0);
        let sums = Array::read(output.weights.sum_dim(3));
        let ones = Array::full(&[BATCH, HEADS, KEYS, 1], 1.0);
        assert_close("sums", &sums, &ones, CLOSE);
        let again = ours.context(MhaInput::self_attn(rows));
        assert_ne!(Array::read(output.context), Array::read(again), "dropout");
    });
}

#[test]
fn scores_of_f16_do_not_overflow_where_burns_do() {
    device::each(|device| {
        if !device::computes(device, DType::F16) {
            return;
        }
        let (theirs, ours) = pair(device);
        let theirs = parameters::cast(theirs, DType::F16);
        let ours = parameters::cast(ours, DType::F16);
        let rows = Array::draw(1, &[BATCH, KEYS, SIZE]).map(|element| 1000.0 * element);
        let rows = rows.tensor::<3>(device, DType::F16);
        let burns = theirs.forward(burns::MhaInput::self_attn(rows.clone()));
        let burns = Array::read(burns.context);
        assert!(burns.data.iter().any(|number| number.is_nan()), "Burn's");
        let output = ours.forward(MhaInput::self_attn(rows.clone()));
        let context = ours.context(MhaInput::self_attn(rows));
        for context in [output.context, context].map(Array::read) {
            assert!(context.data.iter().all(|number| number.is_finite()));
        }
    });
}
