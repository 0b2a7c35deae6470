//! Biases of positions and rotations: the same as PyTorch computes, around any scoring function, on every path.

use attention_core::position::{
    Alibi, AlibiConfig, PositionBias, Positions, RelativePositionBias, RelativePositionBiasConfig,
    Rotary, RotaryConfig,
};
use attention_core::score::{Biased, DotProductScoreConfig, PositionTerm, ScoreKernel};
use attention_core::{
    Attention, DotProductScore, Mask, MultiHeadAttentionConfig, Normalizer, ScoringFunction,
};
use attention_tests::{
    Array, Case, MaskSpec, Path, Problem, SIZES, assert_close, assert_outcomes_close, assert_same,
    device, masks, reference,
};
use burn::module::{Module, Param};
use burn::nn::RotaryEncodingConfig;
use burn::tensor::{DType, Device, Tensor, activation};

const SHAPE: [usize; 4] = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];

fn dot() -> DotProductScore {
    DotProductScoreConfig::new().init()
}

fn alibi(num_heads: usize) -> Alibi {
    AlibiConfig::new(num_heads).init()
}

/// Checks every path of `score` against a case.
fn check_case<S: ScoringFunction>(case: &Case, score: S, (device, dtype): (&Device, DType)) {
    let attention = Attention::new(score, 0.0);
    let (problem, mut expected) = case.problem();
    for path in [Path::ForwardWithWeights, Path::Forward, Path::Attend] {
        if path == Path::Forward {
            expected.remove("weights");
        }
        let mut outcome = problem.run_with(&attention, device, dtype, path);
        if let Some(gradient) = outcome.remove("grad score.position.embedding.weight") {
            outcome.insert("grad embedding".into(), gradient);
        }
        // References have ten digits.
        let tolerance = (32.0 * device::epsilon(dtype)).max(1e-9);
        let what = format!("{} {dtype:?} {path:?}", case.name);
        assert_outcomes_close(&what, &outcome, &expected, tolerance);
    }
}

#[test]
fn attention_with_biases_of_positions_is_what_pytorch_computes() {
    let cases = reference("positions");
    let case = |name: &str| cases.iter().find(|case| case.name == name).unwrap();
    device::each_training(device::in_each_type(|(device, dtype)| {
        let on = (device, dtype);
        check_case(case("alibi"), Biased::new(dot(), alibi(3)), on);
        let both = AlibiConfig::new(3).with_bidirectional(true).init();
        check_case(case("alibi_bidirectional"), Biased::new(dot(), both), on);
        for (name, bidirectional) in [("t5", true), ("t5_causal", false)] {
            let mut bias = RelativePositionBiasConfig::new(3)
                .with_num_buckets(8)
                .with_max_distance(6)
                .with_bidirectional(bidirectional)
                .init(device);
            let embedding = case(name).inputs["embedding"].tensor(device, dtype);
            bias.embedding.weight = Param::from_tensor(embedding);
            check_case(case(name), Biased::new(dot(), bias), on);
        }
    }));
}

#[test]
fn buckets_are_the_published_ones() {
    let cases = reference("positions");
    let tables = cases.iter().filter(|case| case.name.starts_with("buckets"));
    let mut checked = 0;
    for case in tables {
        let [bidirectional, buckets, distance] = case.inputs["options"].data[..] else {
            panic!("{}: three options", case.name);
        };
        let bias = RelativePositionBiasConfig::new(1)
            .with_num_buckets(buckets as usize)
            .with_max_distance(distance as usize)
            .with_bidirectional(bidirectional == 1.0)
            .init(&device::plain()[0]);
        let table = &case.outputs["buckets"].data;
        for (ahead, &expected) in (-150..=150).zip(table) {
            let found = bias.bucket(ahead);
            assert_eq!(found, expected as usize, "{}: {ahead}", case.name);
        }
        // No number overflows, and far is far.
        assert_eq!(bias.bucket(i64::MIN), table[0] as usize);
        assert_eq!(bias.bucket(i64::MAX), table[300] as usize);
        checked += table.len();
    }
    assert_eq!(checked, 5 * 301);
}

#[test]
fn slopes_are_the_published_ones() {
    let powers = |exponents: &[f64]| exponents.iter().map(|x: &f64| 2f64.powf(-x)).collect();
    let eight: Vec<f64> = powers(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    assert_eq!(alibi(8).slopes(), eight);
    let rest: Vec<f64> = powers(&[0.5, 1.5, 2.5, 3.5]);
    assert_eq!(alibi(12).slopes(), [eight, rest].concat());
    assert_eq!(alibi(1).slopes(), [1.0 / 256.0]);
}

fn relative(device: &Device) -> RelativePositionBias {
    RelativePositionBiasConfig::new(SIZES.heads)
        .with_num_buckets(6)
        .with_max_distance(5)
        .init(device)
}

fn rotary(size: usize, device: &Device) -> Rotary<DotProductScore> {
    RotaryConfig::new(size, 8).init_with(dot(), device)
}

/// The context is the same with stored scores, without them, and with NaN in masked keys and values.
fn agrees<S: ScoringFunction>(what: &str, score: S, problem: &Problem, device: &Device) {
    let attention = Attention::new(score, 0.0);
    for (name, mask) in masks(SHAPE) {
        let what = format!("{what}: {name}");
        let mut problem = problem.clone();
        problem.mask = mask;
        let run = |problem: &Problem, path| problem.run_with(&attention, device, DType::F32, path);
        let mut expected = run(&problem, Path::ForwardWithWeights);
        if expected["context"].magnitude() == 0.0 {
            continue;
        }
        expected.remove("weights");
        let actual = run(&problem, Path::Forward);
        assert_outcomes_close(&what, &actual, &expected, 4e-6);

        let padding = problem.mask.padding(SHAPE);
        let nans = problem.with_rows("keys", &padding, f64::NAN);
        let nans = nans.with_rows("values", &padding, f64::NAN);
        let poisoned = run(&nans, Path::Forward);
        for result in ["context", "grad queries"] {
            assert_same(&what, &poisoned[result], &actual[result]);
        }
    }
}

#[test]
fn positions_go_around_any_score_under_any_mask() {
    let even = SIZES.with_query_size(6);
    device::each_training(|device| {
        let problem = Problem::dot_product(even, MaskSpec::None);
        let rotary = || rotary(6, device);
        agrees("alibi", Biased::new(dot(), alibi(3)), &problem, device);
        agrees("t5", Biased::new(dot(), relative(device)), &problem, device);
        agrees("rotary", rotary(), &problem, device);
        let both = Biased::new(Biased::new(rotary(), alibi(3)), alibi(3));
        agrees("alibi twice, rotary", both, &problem, device);
        let problem = Problem::additive(SIZES, MaskSpec::None);
        let biased = Biased::new(problem.additive_score(device, DType::F32), alibi(3));
        agrees("additive, alibi", biased, &problem, device);
    });
}

#[test]
fn positions_are_aligned_as_causal_masks_are() {
    device::each(|device| {
        for (queries, keys) in [(3, 5), (5, 3), (1, 4), (4, 1)] {
            let ahead = |at: &[usize]| (at[3] + queries) as f64 - (at[2] + keys) as f64;
            let bias = alibi(2).bias(queries, keys, device, DType::F32);
            let term = |at: &[usize]| [2f64.powi(-4), 2f64.powi(-8)][at[1]] * ahead(at);
            let expected = Array::from_fn(&[1, 2, queries, keys], term);
            assert_same("alibi", bias, &expected);
            let relative = relative(device);
            let table = Array::read(relative.embedding.weight.val());
            let bias = relative.bias(queries, keys, device, DType::F32);
            let term = |at: &[usize]| table.at(&[relative.bucket(ahead(at) as i64), at[1]]);
            let expected = Array::from_fn(&[1, SIZES.heads, queries, keys], term);
            assert_same("t5", bias, &expected);
        }
    });
}

/// A score with a kernel, and a term of positions that differs from key to key, of a type of its own.
#[derive(Module, Debug)]
struct Falling<S: ScoringFunction> {
    score: S,
    #[module(skip)]
    bias: DType,
}

impl<S: ScoringFunction> ScoringFunction for Falling<S> {
    fn project_queries(&self, queries: Tensor<4>, positions: &Positions) -> Tensor<4> {
        self.score.project_queries(queries, positions)
    }

    fn project_keys(&self, keys: Tensor<4>, positions: &Positions) -> Tensor<4> {
        self.score.project_keys(keys, positions)
    }

    fn kernel(&self) -> ScoreKernel {
        self.score.kernel()
    }

    fn position_term(&self, _: usize, keys: usize, device: &Device, _: DType) -> PositionTerm {
        let bias = Array::from_fn(&[1, 1, 1, keys], |at| -(at[3] as f64) / 4.0);
        PositionTerm::PerKey(bias.tensor(device, self.bias))
    }
}

#[test]
fn a_users_term_of_positions_counts_on_every_path() {
    device::each_training(|device| {
        let falls = |score, bias| Falling { score, bias };
        let problem = Problem::dot_product(SIZES, MaskSpec::None);
        agrees("a term", falls(dot(), DType::F32), &problem, device);
        if device::dtypes(device).contains(&DType::F64) {
            agrees("an f64 term", falls(dot(), DType::F64), &problem, device);
        }
        let with_term = Attention::new(falls(dot(), DType::F32), 0.0);
        let with_term = problem.run_with(&with_term, device, DType::F32, Path::Forward);
        let without = problem.run(device, DType::F32, Path::Forward);
        assert_ne!(with_term["context"], without["context"]);
        let problem = Problem::additive(SIZES, MaskSpec::None);
        let (score, bias) = (problem.additive_score(device, DType::F32), DType::F32);
        let score = Falling { score, bias };
        agrees("an additive score's term", score, &problem, device);
    });
}

/// The last query of several is the same as that query alone.
fn last_is_alone<S: ScoringFunction>(score: S, device: &Device) {
    let attention = Attention::new(score, 0.0);
    let rows = |seed, rows| Array::draw(seed, &[2, 3, rows, 6]).f32::<4>(device);
    let memory = attention.prepare(rows(2, 7), rows(3, 7), Mask::causal());
    let all = attention.attend(rows(1, 5), &memory, Mask::none());
    let all = all.narrow(2, 4, 1);
    let alone = attention.attend(rows(1, 5).narrow(2, 4, 1), &memory, Mask::none());
    assert_close("alone", alone, all, 2e-6);
}

#[test]
fn a_step_stands_at_the_last_key() {
    device::each(|device| {
        last_is_alone(Biased::new(dot(), alibi(3)), device);
        last_is_alone(Biased::new(dot(), relative(device)), device);
        last_is_alone(rotary(6, device), device);
    });
}

#[test]
fn rotary_is_burns_encoding_by_hand() {
    device::each_training(|device| {
        let sizes = SIZES.with_query_size(6);
        let problem = Problem::dot_product(sizes, MaskSpec::lens(&[4, 7]));
        let encoding = RotaryEncodingConfig::new(8, 6).init(device);
        let mut turned = problem.clone();
        for (name, start) in [("queries", SIZES.keys - SIZES.queries), ("keys", 0)] {
            let rows = problem.inputs[name].f32::<4>(device);
            turned.set(name, Array::read(encoding.apply(rows, start)));
        }
        let rotary = Attention::new(rotary(6, device), 0.0);
        // In f64 as well the angles are the encoding's.
        for dtype in device::dtypes(device) {
            let actual = problem.run_with(&rotary, device, dtype, Path::ForwardWithWeights);
            for (name, expected) in &turned.solve() {
                assert_close(name, &actual[name], expected, 4e-6);
            }
        }
    });
}

#[test]
fn dropout_is_applied_under_a_bias() {
    device::each_training(|device| {
        let problem = Problem::dot_product(SIZES, MaskSpec::lens(&[4, 7]));
        let [q, k] = ["queries", "keys"].map(|name| problem.inputs[name].f32::<4>(device));
        let [batch, heads, _, keys] = SHAPE;
        let ones = Tensor::<4>::ones([batch, heads, keys, 1], device);
        let mask = problem.mask.mask(device);
        // The sum of a query's weights: 1 without dropout.
        let sums = |context: Tensor<4>| {
            let sums = Array::read(context);
            let other = sums.data.iter().filter(|sum| (**sum - 1.0).abs() > 1e-3);
            (other.count(), sums.data.len())
        };
        let alibi = Attention::new(Biased::new(dot(), alibi(3)), 0.5);
        let t5 = Attention::new(Biased::new(dot(), relative(device)), 0.5);
        let inputs = || [q.clone(), k.clone(), ones.clone()];
        let (of_alibi, _) = Path::Forward.call(&alibi, inputs(), &mask);
        let (of_t5, _) = Path::Forward.call(&t5, inputs(), &mask);
        for context in [of_alibi, of_t5] {
            let (dropped, all) = sums(context);
            assert!(dropped > all / 2, "{dropped} of {all}");
        }
        let still = Attention::new(alibi.score, 0.0);
        assert_eq!(sums(still.forward(q, k, ones, &mask)).0, 0);
    });
}

#[test]
fn another_normalizer_gets_the_whole_bias() {
    device::each(|device| {
        let [q, k, v] = [(1, 5), (2, 7), (3, 7)]
            .map(|(seed, len)| Array::draw(seed, &[2, 3, len, 6]).f32::<4>(device));
        let attention = Attention::new(Biased::new(dot(), alibi(3)), 0.0);
        let attention = attention.with_normalizer(Normalizer::Sigmoid);
        let scores = q.clone().matmul(k.clone().swap_dims(2, 3)) / 6f64.sqrt();
        let bias = alibi(3).bias(5, 7, device, DType::F32);
        let expected = activation::sigmoid(scores + bias).matmul(v.clone());
        let actual = attention.forward(q, k, v, Mask::none());
        assert_close("sigmoid", actual, expected, 2e-6);
    });
}

#[test]
fn heads_with_positions_are_saved_and_trained() {
    device::each_training(|device| {
        let new = || {
            let config = MultiHeadAttentionConfig::new(12, SIZES.heads);
            let turned = rotary(config.head_size(), device);
            let score = Biased::new(turned, relative(device));
            let config = config.with_num_key_value_heads(Some(1));
            config.init_with(score, device)
        };
        let module = new();
        let rows = Array::draw(1, &[2, 5, 12]).f32::<3>(device);
        let context = |module: &attention_core::MultiHeadAttention<_>| {
            module.forward(rows.clone(), rows.clone(), rows.clone(), Mask::causal())
        };
        let received = Array::draw(4, &[2, 5, 12]).f32::<3>(device);
        let gradients = (context(&module) * received).sum().backward();
        let embedding = module.attention.score.position.embedding.weight.val();
        let gradient = Array::read(embedding.grad(&gradients).unwrap());
        assert!(gradient.magnitude() > 1e-6, "{gradient:?}");
        let loaded = new().load_record(module.clone().into_record());
        let [actual, expected] = [&loaded, &module].map(|module| Array::read(context(module)));
        assert_same("loaded", &actual, &expected);

        // The same off the training device, angles included.
        let plain = device.clone().inner();
        let rows = Array::draw(1, &[2, 5, 12]).f32::<3>(&plain);
        let valid = module.valid();
        let actual = valid.forward(rows.clone(), rows.clone(), rows, Mask::causal());
        assert_close("valid", actual, &expected, 1e-6);
    });
}
