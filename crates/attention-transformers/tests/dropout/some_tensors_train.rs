//! A module trains if one of its tensors does: a batch from a loader is on no training device.

use attention_core::functional::AttentionOptions;
use attention_core::score::DotProductScoreConfig;
use attention_core::stateful::{
    CoverageAttentionConfig, LocationAttentionConfig, StatefulAttention,
};
use attention_core::{
    AdditiveAttentionConfig, Attention, DotProductAttentionConfig, Mask, Normalizer,
    ScoringFunction,
};
use attention_tests::{Array, Check, MaskSpec, Problem, assert_same, device};
use attention_transformers::burn_nn as drop_in;
use attention_transformers::layer::{FeedForwardConfig, NormConfig};
use attention_transformers::{
    FeedForwardActivation, NormOrder, TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::module::Module;
use burn::nn::LinearConfig;
use burn::nn::activation::ActivationConfig;
use burn::tensor::{Device, Tensor};

use super::{PROBABILITY, SQUARE, alone, assert_drops_its_share, inputs, problems};

/// The arguments that may be on a training device, beside parameters.
const NAMES: [&str; 6] = ["none", "queries", "keys", "values", "bias", "sinks"];

/// Inputs on `plain`, but for the named one.
fn some_train(name: &str, problem: &Problem, plain: &Device) -> ([Tensor<4>; 3], AttentionOptions) {
    let training = &plain.clone().autodiff();
    let on = |of: &str| if name == of { training } else { plain };
    let inputs = ["queries", "keys", "values"].map(|of| problem.inputs[of].f32(on(of)));
    let [_, heads, _, num_keys] = problem.scores_shape();
    let options = AttentionOptions {
        mask: problem.mask.mask(plain),
        bias: (name == "bias").then(|| Tensor::zeros([1, 1, 1, num_keys], training)),
        // Without weight beside the others.
        sinks: (name == "sinks").then(|| Tensor::full([heads], -60.0, training)),
        ..Default::default()
    };
    (inputs, options)
}

/// The contexts of each way to call.
fn contexts<S: ScoringFunction>(
    attention: &Attention<S>,
    [queries, keys, values]: [Tensor<4>; 3],
    options: &AttentionOptions,
) -> Vec<Array> {
    let all = || (queries.clone(), keys.clone(), values.clone());
    let (q, k, v) = all();
    let mut contexts = vec![attention.forward(q, k, v, options)];
    let (q, k, v) = all();
    contexts.push(attention.forward_with_weights(q, k, v, options).context);
    let is_of_call = options.bias.is_some() || options.sinks.is_some();
    if !is_of_call && options.extra_keys.is_none() {
        let (q, k, v) = all();
        let memory = attention.prepare(k, v, options.mask.clone());
        contexts.push(attention.attend(q.clone(), &memory, Mask::none()));
        let output = attention.attend_with_weights(q, &memory, Mask::none());
        contexts.push(output.context);
    }
    contexts.into_iter().map(Array::read).collect()
}

struct AnyTensorDrops;

impl Check for AnyTensorDrops {
    fn check<S: ScoringFunction>(&self, attention: Attention<S>, problem: &Problem, on: &Device) {
        let plain = &on.clone().inner();
        let parameters_train = on.is_autodiff() && Module::num_params(&attention.score) > 0;
        use Normalizer::{Hardmax, Sigmoid, Softmax, Sparsemax};
        for normalizer in [Softmax, Sparsemax, Sigmoid, Hardmax] {
            let attention = attention.clone().with_normalizer(normalizer);
            for name in NAMES {
                if name == "sinks" && normalizer != Normalizer::Softmax {
                    continue;
                }
                let what = format!("{name}, {normalizer:?}, parameters train: {parameters_train}");
                let (inputs, options) = some_train(name, problem, plain);
                let drops = name != "none" || parameters_train;
                let probability = if drops { PROBABILITY } else { 0.0 };
                let [queries, keys, values] = inputs.clone();
                let clean = attention.forward_with_weights(queries, keys, values, &options);
                let clean = Array::read(clean.weights);
                let attended = clean.map(|weight| f64::from(weight > 0.0));
                for context in contexts(&attention, inputs, &options) {
                    assert_drops_its_share(&what, &context, &clean, &attended, probability);
                }
            }
        }
    }
}

#[test]
fn a_module_drops_if_one_of_its_tensors_trains() {
    let _alone = alone();
    device::each_both_ways(|device| {
        device.seed(5);
        for problem in problems(&MaskSpec::lens(&[19, 27])) {
            problem.with_attention(device, PROBABILITY, &AnyTensorDrops);
        }
    });
}

#[test]
fn the_probability_of_a_call_stands_wherever_its_tensors_are() {
    let _alone = alone();
    device::each_training(|device| {
        let config = AdditiveAttentionConfig::new(3, 5, 7).with_dropout(0.5);
        let attention = config.init(device);
        let plain = &device.clone().inner();
        let rows = |count, size| Array::draw(1, &[2, count, size]).f32::<3>(plain);
        let call = |dropout| {
            let options = AttentionOptions {
                dropout,
                ..Default::default()
            };
            Array::read(attention.forward(rows(11, 3), rows(13, 5), rows(13, 2), options))
        };
        assert_same("none", &call(Some(0.0)), &call(Some(0.0)));
        assert_ne!(call(None), call(None));
        assert_ne!(call(Some(0.3)), call(Some(0.3)));
    });
}

/// A batch on no training device gets what the same batch on one gets, bit by bit, and so do the gradients.
#[test]
fn a_plain_batch_trains_as_a_batch_on_the_training_device() {
    let _alone = alone();
    device::each_training(|device| {
        for normalizer in [Normalizer::Softmax, Normalizer::Sparsemax] {
            let attention = AdditiveAttentionConfig::new(17, 19, 11)
                .with_dropout(PROBABILITY)
                .init(device)
                .with_normalizer(normalizer);
            let [problem, _] = problems(&MaskSpec::lens(&[19, 27]));
            let received = Array::draw(9, &[2, 3, SQUARE.queries, SQUARE.value_size]);
            let score = &attention.score;
            // Drawn before the seed is set.
            let parameters = [&score.query, &score.key, &score.value];
            let parameters = parameters.map(|layer| layer.weight.val());
            let run = |of_batch: &Device| {
                device.seed(3);
                let [queries, keys, values] = inputs(&problem, of_batch);
                let mask = problem.mask.mask(of_batch);
                let context = attention.forward(queries, keys, values, &mask);
                let loss = (context.clone() * received.f32(device)).sum();
                let gradients = loss.backward();
                let gradients = parameters.each_ref().map(|it| it.grad(&gradients));
                let gradients = gradients.map(|gradient| Array::read(gradient.unwrap()));
                (Array::read(context), gradients)
            };
            let (context, gradients) = run(&device.clone().inner());
            let (expected, expected_gradients) = run(device);
            assert_same("context", &context, &expected);
            for (gradient, expected) in gradients.iter().zip(&expected_gradients) {
                assert!(gradient.magnitude() > 0.0);
                assert_same("gradient", gradient, expected);
            }
        }
    });
}

#[test]
fn values_alone_get_the_gradients_of_what_was_kept() {
    let _alone = alone();
    device::each_training(|device| {
        let config = DotProductAttentionConfig::new().with_dropout(PROBABILITY);
        let attention = config.init();
        let [_, problem] = problems(&MaskSpec::None);
        let ([queries, keys, values], options) =
            some_train("values", &problem, &device.clone().inner());
        let values = values.require_grad();
        let context = attention.forward(queries, keys, values.clone(), options);
        let received = Array::draw(9, &context.dims());
        let gradients = (context.clone() * received.f32(device)).sum().backward();
        let actual = Array::read(values.grad(&gradients).unwrap());
        let dropped = Array::read(context);
        assert!(dropped.data.contains(&0.0));
        let expected = Array::from_fn(&actual.shape, |at| {
            let rows = 0..SQUARE.queries;
            let of_row =
                |i| dropped.at(&[at[0], at[1], i, at[2]]) * received.at(&[at[0], at[1], i, at[3]]);
            rows.map(of_row).sum()
        });
        attention_tests::assert_close("values", &actual, &expected, 4e-6);
    });
}

/// Whether two steps of an attention with state differ, where `query`, `values` or parameters are on a device.
fn steps_differ<A: StatefulAttention>(attention: &A, [query, values]: [&Device; 2]) -> bool {
    let rows = |count, size, device: &Device| Array::draw(1, &[2, count, size]).f32::<3>(device);
    let step = || {
        let keys = rows(29, 5, &query.clone().inner());
        let memory = attention.prepare(keys, rows(29, 2, values), Mask::none());
        let state = attention.initial_state(&memory);
        Array::read(attention.step(rows(1, 3, query), &memory, state).0)
    };
    step() != step()
}

#[test]
fn steps_with_a_state_drop_if_one_of_their_tensors_trains() {
    let _alone = alone();
    device::each_training(|training| {
        let plain = &training.clone().inner();
        let location = LocationAttentionConfig::new(3, 5, 7).with_dropout(0.5);
        let coverage = CoverageAttentionConfig::new(3, 5, 7).with_dropout(0.5);
        for all in [
            [training, plain, plain],
            [plain, training, plain],
            [plain, plain, training],
            [plain; 3],
        ] {
            let [of_parameters, others @ ..] = all;
            let expected = all.iter().any(|device| device.is_autodiff());
            let (location, coverage) = (location.init(of_parameters), coverage.init(of_parameters));
            assert_eq!(steps_differ(&location, others), expected);
            assert_eq!(steps_differ(&coverage, others), expected);
        }
    });
}

#[test]
fn a_feed_forward_network_drops_if_one_of_its_tensors_trains() {
    let _alone = alone();
    device::each_training(|training| {
        let plain = &training.clone().inner();
        for part in ["input", "gate", "output", "rows", "none"] {
            let config = FeedForwardConfig::new(5, 37)
                .with_activation(FeedForwardActivation::SwiGlu)
                .with_dropout(0.5);
            let mut network = config.init(plain);
            let on = |of: &str| if part == of { training } else { plain };
            network.input = LinearConfig::new(5, 37).init(on("input"));
            network.gate = Some(LinearConfig::new(5, 37).init(on("gate")));
            network.output = LinearConfig::new(37, 5).init(on("output"));
            let rows = Array::draw(1, &[2, 3, 5]).f32::<3>(on("rows"));
            let run = || Array::read(network.forward(rows.clone()));
            assert_eq!(run() != run(), part != "none", "{part}");
        }
    });
}

#[test]
fn layers_drop_if_the_linear_layer_or_norm_behind_trains() {
    let _alone = alone();
    device::each_training(|training| {
        let plain = &training.clone().inner();
        let rows = Array::draw(1, &[2, 3, 6]).f32::<3>(plain);
        for device in [training, plain] {
            let trains = device.is_autodiff();
            // An activation without a kernel.
            let mut encoder = drop_in::TransformerEncoderConfig::new(6, 37, 2, 1)
                .with_dropout(0.5)
                .with_activation(ActivationConfig::Tanh)
                .init(plain);
            encoder.layers[0].pwff.linear_outer = LinearConfig::new(37, 6).init(device);
            let input = || drop_in::TransformerEncoderInput::new(rows.clone());
            let run = || Array::read(encoder.forward(input()));
            assert_eq!(run() != run(), trains, "drop-in");

            let layer = TransformerLayerConfig::new(6, 2, 37)
                .with_norm_order(NormOrder::Post)
                .with_dropout(0.5);
            let mut stack = TransformerEncoderConfig::new(layer, 1).init(plain);
            stack.layers[0].feed_forward_residual.norm = NormConfig::layer().init(6, device);
            let run = || Array::read(stack.forward(rows.clone(), Mask::none()));
            assert_eq!(run() != run(), trains, "residual");
        }
    });
}

#[test]
fn a_module_drops_if_its_extra_keys_alone_train() {
    let _alone = alone();
    device::each(|device| {
        let ones = |rows, device: &Device| Tensor::<4>::ones([1, 1, rows, 4], device);
        let training = device.clone().autodiff();
        let options = AttentionOptions {
            extra_keys: Some([(); 2].map(|()| ones(1, &training))),
            ..Default::default()
        };
        let attention = Attention::new(DotProductScoreConfig::new().init(), PROBABILITY);
        // All values are 1, and so is every mean of them.
        let tensors = [40, 9, 9].map(|rows| ones(rows, device));
        for context in contexts(&attention, tensors, &options) {
            assert!((0..40).any(|row| (context.at(&[0, 0, row, 0]) - 1.0).abs() > 0.01));
        }
    });
}
