//! Bilinear, projected, cosine and Gaussian attention, and that with query-key normalization, beside PyTorch's.

use attention_core::{
    Attention, BilinearScoreConfig, CosineScoreConfig, GaussianScoreConfig, Mask, Positions,
    ProjectedScoreConfig, QkNormScoreConfig, ScoringFunction,
};
use attention_tests::{
    Array, Path, assert_close, assert_outcomes_close, device, parameters, reference,
};
use burn::tensor::{DType, Device};

/// Compares with PyTorch's outputs and gradients; `names` are the paths of the score's, in the reference and here.
fn check_reference<S: ScoringFunction>(
    file: &str,
    case: &str,
    score: impl Fn(&Device) -> S,
    names: &[(&str, &str)],
) {
    device::each_training(|device| {
        for dtype in device::dtypes(device) {
            let case = reference(file)
                .into_iter()
                .find(|found| found.name == case)
                .unwrap();
            let (problem, mut expected) = case.problem();
            for (theirs, ours) in names {
                let gradient = expected.remove(&format!("grad {theirs}")).unwrap();
                expected.insert(format!("grad {ours}"), gradient);
            }
            let attention = parameters::cast(Attention::new(score(device), 0.0), dtype);
            let attention = parameters::changed(attention, |path, _| {
                let named = names.iter().find(|(_, ours)| *ours == path);
                match named {
                    Some((theirs, _)) => problem.inputs[*theirs].clone(),
                    None => panic!("{path}: a parameter that is not in the reference"),
                }
            });
            // Ten digits are in the file.
            let tolerance = match dtype {
                DType::F64 => 1e-8,
                _ => 2e-5,
            };
            let what = format!("{file}: {}: {dtype:?}", case.name);
            let [queries, keys] = ["queries", "keys"]
                .map(|name| problem.inputs[name].with_heads().tensor::<4>(device, dtype));
            let score = &attention.score;
            let queries = score.project_queries(queries, &Positions::consecutive(0));
            let keys = score.project_keys(keys, &Positions::consecutive(0));
            let scores = Array::read(score.score(queries, keys, &Mask::none()));
            let theirs = case.outputs["scores"].with_heads();
            assert_close(&format!("{what}: scores"), &scores, &theirs, tolerance);

            let run = |path| problem.run_with(&attention, device, dtype, path);
            let outcome = run(Path::ForwardWithWeights);
            assert_outcomes_close(&what, &outcome, &expected, tolerance);
            if problem.grad_weights.is_none() {
                expected.remove("weights");
                assert_outcomes_close(&what, &run(Path::Forward), &expected, tolerance);
            }
        }
    });
}

#[test]
fn bilinear_attention_is_that_of_pytorch() {
    for case in ["valid_lens_1d", "valid_lens_2d_weights_loss"] {
        let score = |device: &Device| BilinearScoreConfig::new(3, 4).init(device);
        let parameter = [("query", "score.query.weight")];
        check_reference("bilinear", case, score, &parameter);
    }
}

#[test]
fn projected_attention_is_that_of_pytorch() {
    for case in ["valid_lens_1d", "valid_lens_2d_weights_loss"] {
        let score = |device: &Device| ProjectedScoreConfig::new(3, 4, 5).init(device);
        let parameters = [("query", "score.query.weight"), ("key", "score.key.weight")];
        check_reference("projected", case, score, &parameters);
    }
}

#[test]
fn cosine_attention_is_that_of_pytorch() {
    for case in ["valid_lens_1d", "valid_lens_2d_weights_loss"] {
        let score = |device: &Device| CosineScoreConfig::new().init(device);
        let parameter = [("temperature", "score.temperature")];
        check_reference("cosine", case, score, &parameter);
    }
    let fixed = |device: &Device| {
        CosineScoreConfig::new()
            .with_temperature(4.0)
            .with_learned(false)
            .init(device)
    };
    check_reference("cosine", "fixed_4", fixed, &[]);
}

#[test]
fn attention_with_query_key_normalization_is_that_of_pytorch() {
    for case in ["valid_lens_1d", "valid_lens_2d_weights_loss"] {
        let score = |device: &Device| QkNormScoreConfig::new(4).init(device);
        let gains = [("query", "score.query"), ("key", "score.key")];
        check_reference("qk_norm", case, score, &gains);
    }
}

#[test]
fn gaussian_attention_is_that_of_pytorch() {
    for case in ["valid_lens_1d", "valid_lens_2d_weights_loss"] {
        let score = |device: &Device| GaussianScoreConfig::new().with_learned(true).init(device);
        let parameter = [("inverse_width", "score.inverse_width")];
        check_reference("gaussian", case, score, &parameter);
    }
    let fixed = |device: &Device| GaussianScoreConfig::new().with_width(1.5).init(device);
    check_reference("gaussian", "fixed_1.5", fixed, &[]);
}
