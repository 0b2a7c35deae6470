//! How far results in half precision are from f32 results for the same inputs and parameters, in halves of a unit in
//! the last place of the largest element. Hardmax is not among them: which of two scores is larger may depend on any
//! rounding before.

use attention_core::position::{AlibiConfig, RelativePositionBiasConfig, RotaryConfig};
use attention_core::score::{
    AdditiveScoreConfig, BiaffineScoreConfig, Biased, BilinearScoreConfig, ConcatScoreConfig,
    CosineScoreConfig, DotProductScoreConfig, GaussianScoreConfig, ProjectedScoreConfig,
    QkNormScoreConfig,
};
use attention_core::{Attention, Normalizer, ScoringFunction};
use attention_tests::{Array, MaskSpec, Path, Problem, Sizes, device, parameters};
use burn::tensor::{DType, Device};

/// The bound of contexts and gradients. Attention in several steps rounds scores, weights and their gradients to
/// half precision, one after the other; one operation rounds its results alone, but queries and keys are rounded when
/// they are projected.
const HALF_ULPS: f64 = 8.0;
/// The bound of the gradient of a parameter that is one number, a sum over all queries or keys whose terms may cancel.
const HALF_ULPS_OF_A_SUM: f64 = 32.0;

const SIZES: Sizes = Sizes::new([2, 2, 5, 7], [6, 6, 0, 5]);

/// The bounds of a device and a type, for all scores.
struct Bounds<'a> {
    device: &'a Device,
    dtype: DType,
    /// The largest error of tensors and of single numbers, in half ulps, and whose it is.
    worst: [(f64, String); 2],
}

impl Bounds<'_> {
    /// Under each normalizer but hardmax.
    fn check<S: ScoringFunction>(&mut self, name: &str, score: S) {
        self.check_under(Normalizer::Sparsemax, name, score.clone());
        self.check_where_smooth(name, score);
    }

    /// Under the normalizers that do not jump.
    fn check_where_smooth<S: ScoringFunction>(&mut self, name: &str, score: S) {
        for normalizer in [Normalizer::Softmax, Normalizer::Sigmoid] {
            self.check_under(normalizer, name, score.clone());
        }
    }

    fn check_under<S: ScoringFunction>(&mut self, normalizer: Normalizer, name: &str, score: S) {
        // Sparsemax jumps where a key gets its first weight: with parameters that differ from run to run, now and then.
        let score = parameters::changed(score, |_, parameter| match parameter.data.len() {
            1 => parameter,
            _ => Array::draw(5, &parameter.shape).map(|x| 0.5 * x),
        });
        let score = parameters::cast(score.clone(), self.dtype);
        let half = Attention::new(score, 0.0).with_normalizer(normalizer);
        let wide = parameters::cast(half.clone(), DType::F32);
        for mask in [MaskSpec::None, MaskSpec::lens(&[7, 3])] {
            let problem = self.rounded(Problem::drawn(SIZES, SIZES.key_size, mask));
            for path in [Path::Forward, Path::ForwardWithWeights, Path::Attend] {
                let run = |attention: &Attention<S>, dtype| {
                    problem.run_with(attention, self.device, dtype, path)
                };
                let (half, wide) = (run(&half, self.dtype), run(&wide, DType::F32));
                for (result, wide) in &wide {
                    if normalizer == Normalizer::Sparsemax && wide.data.len() == 1 {
                        continue; // It jumps where a key gets its first weight.
                    }
                    if result.ends_with("offset.bias") {
                        continue; // The sum of the gradients of all pairs: how far it cancels is chance.
                    }
                    let what = format!("{name}, {normalizer:?}, {path:?}: {result}");
                    self.compare(what, &half[result], wide);
                }
            }
        }
    }

    /// The problem with inputs that half precision can hold.
    fn rounded(&self, mut problem: Problem) -> Problem {
        for array in problem.inputs.values_mut().chain(&mut problem.grad_context) {
            *array = Array::read(array.tensor::<4>(self.device, self.dtype));
        }
        problem
    }

    fn compare(&mut self, what: String, half: &Array, wide: &Array) {
        let pairs = half.data.iter().zip(&wide.data);
        let error = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(half.data.iter().all(|x| x.is_finite()), "{what}");
        let half_ulp = 0.5 * device::epsilon(self.dtype) * wide.magnitude();
        let half_ulps = if error == 0.0 { 0.0 } else { error / half_ulp };
        let worst = &mut self.worst[usize::from(wide.data.len() == 1)];
        if half_ulps > worst.0 {
            *worst = (half_ulps, what);
        }
    }
}

#[test]
fn results_are_within_a_few_half_ulps_of_those_of_f32() {
    device::each_training(device::in_half_types(|(device, dtype)| {
        let mut bounds = Bounds {
            device,
            dtype,
            worst: Default::default(),
        };
        bounds.check("dot product", DotProductScoreConfig::new().init());
        bounds.check("cosine", CosineScoreConfig::new().init(device));
        bounds.check("query-key norm", QkNormScoreConfig::new(6).init(device));
        let gaussian = GaussianScoreConfig::new().with_width(1.5);
        bounds.check("Gaussian", gaussian.init(device));
        let what = "Gaussian, learned";
        bounds.check(what, gaussian.with_learned(true).init(device));
        bounds.check("bilinear", BilinearScoreConfig::new(6, 6).init(device));
        let biaffine = BiaffineScoreConfig::new(6, 6).init(device);
        // The other two ignore its offset: the gradients of `u` and `b` are 0 but for rounding.
        bounds.check_under(Normalizer::Sigmoid, "biaffine", biaffine);
        bounds.check("additive", AdditiveScoreConfig::new(6, 6, 9).init(device));
        bounds.check("concat", ConcatScoreConfig::new(6, 6, 9).init(device));
        let dot = || DotProductScoreConfig::new().init();
        let additive = AdditiveScoreConfig::new(6, 6, 9);
        let normalised = additive.with_normalize(true).init(device);
        bounds.check("additive, normalised", normalised.clone());
        bounds.check("projected", ProjectedScoreConfig::new(6, 6, 9).init(device));
        for is_bidirectional in [false, true] {
            let alibi = AlibiConfig::new(2).with_bidirectional(is_bidirectional);
            bounds.check("ALiBi", Biased::new(dot(), alibi.init()));
            let what = "additive, ALiBi";
            bounds.check(what, Biased::new(normalised.clone(), alibi.init()));
        }
        let relative = RelativePositionBiasConfig::new(2).init(device);
        bounds.check("T5", Biased::new(dot(), relative));
        let rotary = RotaryConfig::new(6, 8).init_with(dot(), device);
        // Rows are rounded once more when they are turned: under sparsemax a key may lose its weight by it.
        bounds.check_where_smooth("rotary", rotary);
        let [of_tensors, of_sums] = &bounds.worst;
        println!("{dtype:?}, in half ulps: {of_tensors:?}, {of_sums:?}");
        assert!(of_tensors.0 <= HALF_ULPS, "{dtype:?}: {of_tensors:?}");
        assert!(of_sums.0 <= HALF_ULPS_OF_A_SUM, "{dtype:?}: {of_sums:?}");
    }));
}
