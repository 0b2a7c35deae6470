//! Attention with each normalizer: every call, decoding, modules and records.

use attention_core::stateful::StatefulAttention;
use attention_core::{Attention, Normalizer, ScoringFunction};
use attention_tests::{
    Array, Check, MaskSpec, Path, Problem, SIZES, Sizes, assert_close, device, normalizers, oracle,
    parameters,
};
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};

const SMALL: Sizes = SIZES.with_heads(2).with_queries(3).with_keys(4);

/// Every way to call attention gives the context and weights of the loops, and one set of gradients.
struct EndToEnd(Normalizer);

impl Check for EndToEnd {
    fn check<S: ScoringFunction>(&self, attention: Attention<S>, case: &Problem, device: &Device) {
        let attention = attention.with_normalizer(self.0);
        let weights = normalizers::weights(self.0, &case.scores(), &case.mask);
        let context = oracle::weighted_sum(&weights, &case.inputs["values"]);
        let mask = case.mask.mask(device);
        let paths = [&Path::ALL[..], &[Path::Steps]].concat();
        let gradients = |path: Path| {
            let inputs = ["queries", "keys", "values"];
            let inputs = inputs.map(|name| case.inputs[name].leaf::<4>(device, DType::F32));
            let (actual, found) = path.call(&attention, inputs.clone(), &mask);
            let what = format!("{:?}: {path:?}", self.0);
            assert_close(&what, actual.clone(), &context, 1e-5);
            if let Some(found) = found {
                assert_close(&what, found, &weights, 1e-5);
            }
            let received = case.grad_context.as_ref().unwrap().f32(device);
            let gradients = (actual * received).sum().backward();
            inputs.map(|input| parameters::gradient(&input, Some(&gradients)))
        };
        let gradients: Vec<[Array; 3]> = paths.into_iter().map(gradients).collect();
        for (name, axis) in [("queries", 0), ("keys", 1), ("values", 2)] {
            for other in &gradients[1..] {
                assert_close(name, &other[axis], &gradients[0][axis], 1e-5);
            }
            let learns = axis == 2 || self.0 != Normalizer::Hardmax;
            assert_eq!(gradients[0][axis].magnitude() > 0.0, learns, "{name}");
        }
    }
}

#[test]
fn attention_with_each_normalizer() {
    device::each_training(|device| {
        for mask in [MaskSpec::None, MaskSpec::lens(&[0, 3])] {
            for (kind, mut problem) in Problem::both(SMALL, &mask) {
                eprintln!("{kind}: {mask:?}");
                // Scores so near each other that several keys get a weight.
                if let Some(w_v) = problem.inputs.get_mut("w_v") {
                    *w_v = w_v.map(|number| number / 16.0);
                }
                problem.scale = Some(1.0 / 64.0);
                for normalizer in normalizers::ALL {
                    problem.with_attention(device, 0.0, &EndToEnd(normalizer));
                }
            }
        }
    });
}

/// The steps of a decoder give the results of one call.
struct Decoding(Normalizer);

impl Check for Decoding {
    fn check<S: ScoringFunction>(&self, attention: Attention<S>, case: &Problem, device: &Device) {
        let attention = attention.with_normalizer(self.0);
        let [queries, keys, values] = case.f32::<3>(device);
        let mask = case.mask.mask(device);
        let (q, k, v) = (queries.clone(), keys.clone(), values.clone());
        let expected = attention.forward_with_weights(q, k, v, &mask);
        let memory = StatefulAttention::prepare(&attention, keys, values, mask);
        let steps = queries.split(1, 1).into_iter().map(|query| {
            let (context, ()) = attention.step(query.clone(), &memory, ());
            let (output, ()) = attention.step_with_weights(query, &memory, ());
            (context, output.weights)
        });
        let (contexts, weights) = steps.unzip();
        assert_close("context", Tensor::cat(contexts, 1), expected.context, 1e-5);
        assert_close("weights", Tensor::cat(weights, 1), expected.weights, 1e-5);
    }
}

#[test]
fn decoding_with_each_normalizer() {
    device::each(|device| {
        let sizes = SMALL.with_heads(0);
        for (kind, problem) in Problem::both(sizes, &MaskSpec::lens(&[2, 4])) {
            eprintln!("{kind}");
            for normalizer in normalizers::ALL {
                problem.with_attention(device, 0.0, &Decoding(normalizer));
            }
        }
    });
}

#[test]
fn a_normalizer_stays_with_its_module_and_out_of_records() {
    let folder = tempfile::tempdir().unwrap();
    device::each_training(|device| {
        let new = || Problem::additive(SMALL, MaskSpec::None).additive_score(device, DType::F32);
        let sparse = Attention::new(new(), 0.0).with_normalizer(Normalizer::Sparsemax);
        for module in [
            sparse.clone(),
            sparse.clone().fork(device),
            sparse.clone().to_device(device),
            sparse.valid(),
            sparse.clone().no_grad(),
        ] {
            assert_eq!(module.normalizer, Normalizer::Sparsemax);
        }

        // A record does not hold the normalizer: a module that loads it keeps its own.
        let path = folder.path().join("attention");
        sparse.clone().save_file(&path).unwrap();
        let soft = Attention::new(new(), 0.0);
        let loaded = soft.clone().try_load_file(&path).unwrap();
        assert_eq!(loaded.normalizer, Normalizer::Softmax);
        let loaded = soft.clone().load_record(sparse.clone().into_record());
        assert_eq!(loaded.normalizer, Normalizer::Softmax);
        soft.save_file(&path).unwrap();
        let loaded = sparse.try_load_file(&path).unwrap();
        assert_eq!(loaded.normalizer, Normalizer::Sparsemax);
    });
}

/// In f64 down to the smallest weights; 0 beyond, with a gradient of 0.
#[test]
fn low_scores_have_precise_sigmoids() {
    device::each_training(|device| {
        if !device::computes(device, DType::F64) {
            return;
        }
        let scores = [-40.0, -300.0, -750.0, f64::NEG_INFINITY];
        let array = Array::new(&[1, 1, 1, scores.len()], scores);
        let input = array.tensor::<4>(device, DType::F64).require_grad();
        let weights = Normalizer::Sigmoid.weights(input.clone(), &MaskSpec::None.mask(device));
        let gradient = input.grad(&weights.clone().sum().backward()).unwrap();
        // There a sigmoid is `e^x`, and so is its slope.
        for got in [weights, gradient] {
            for (got, score) in Array::read(got).data.into_iter().zip(scores) {
                let exact = score.exp();
                let is_near = (got - exact).abs() <= 1e-13 * exact;
                assert!(is_near, "{got} instead of {exact}");
            }
        }
    });
}
