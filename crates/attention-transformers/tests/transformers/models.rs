//! Language models and stacks around every kind of score, with parameters that are the same in each run.

use attention_core::position::{AlibiConfig, RelativePositionBiasConfig, RotaryConfig};
use attention_core::score::{
    AdditiveScoreConfig, Biased, BilinearScoreConfig, CosineScoreConfig, DotProductScoreConfig,
    GaussianScoreConfig, Kernel, KernelScoreConfig,
};
use attention_core::{DotProductScore, Mask, NewRows, ScoringFunction};
use attention_tests::{Array, Outcome, assert_close, device, parameters};
use attention_transformers::generate::Generated;
use attention_transformers::{
    GenerateConfig, LanguageModel, LanguageModelConfig, PositionEmbeddingConfig,
    TokenEmbeddingConfig, TransformerCache, TransformerEncoder, TransformerEncoderConfig,
    TransformerLayerConfig,
};
use burn::module::Module;
use burn::tensor::{DType, Device, Gradients, Int, Tensor, TensorData};

pub(super) const VOCAB: usize = 11;
pub(super) const HIDDENS: usize = 12;
pub(super) const HEADS: usize = 2;
const HEAD_SIZE: usize = HIDDENS / HEADS;
pub(super) const POSITIONS: usize = 32;

type Tokens = Tensor<2, Int>;

/// The module with parameters that depend on their paths alone; gains are near 1.
pub(super) fn drawn<M: Module>(module: M) -> M {
    parameters::changed(module, |path, value| {
        let seed = path.bytes().fold(7, |seed: u64, byte| {
            seed.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        let drawn = Array::draw(seed, &value.shape);
        match path.rsplit('.').next() {
            Some("gamma") => drawn.map(|x| 1.0 + x / 8.0),
            _ => drawn.map(|x| x / 4.0),
        }
    })
}

/// In half precision the results of a model are near its results in f32, within these roundings.
pub(super) fn half_is_near<M: Module>(
    (name, model): (&str, M),
    device: &Device,
    roundings: f64,
    run: impl Fn(&M, DType) -> Tensor<3>,
) {
    for dtype in device::half_types(device) {
        // Parameters that half precision has.
        let half = parameters::cast(model.clone(), dtype);
        let single = parameters::cast(half.clone(), DType::F32);
        let got = run(&half, dtype);
        assert_eq!(got.dtype(), dtype, "{name}");
        let tolerance = roundings * device::epsilon(dtype);
        let what = format!("{name}, {dtype:?}");
        assert_close(what, got, run(&single, DType::F32), tolerance);
    }
}

/// Each of more than 30 parameters has a gradient by the output of their model.
pub(super) fn every_parameter_learns(name: &str, model: &impl Module, output: Tensor<3>) {
    let received = Array::draw(3, &output.dims()).f32(&output.device());
    let gradients = (output * received).sum().backward();
    let gradients = parameters::gradients(model, Some(&gradients));
    assert!(gradients.len() > 30, "{name}: {}", gradients.len());
    for (path, gradient) in gradients {
        // The gradient of a bias on all keys cancels.
        let learns = gradient.magnitude() > 0.0 || path.ends_with("key.bias");
        assert!(learns, "{name}: {path}");
    }
}

pub(super) fn layer() -> TransformerLayerConfig {
    TransformerLayerConfig::new(HIDDENS, HEADS, 17)
}

pub(super) fn lens(lens: &[i64], device: &Device) -> Tensor<1, Int> {
    Tensor::from_ints(lens, device)
}

/// A language model, whatever its score.
pub(super) trait Model {
    fn whole(&self, tokens: Tokens, rows: NewRows) -> Tensor<3>;
    fn cached(&self, tokens: Tokens, rows: NewRows, cache: &mut TransformerCache) -> Tensor<3>;
    fn cache(&self) -> TransformerCache;
    fn generate(&self, config: &GenerateConfig, prompts: &[Vec<u32>]) -> Vec<Generated>;
}

impl<S: ScoringFunction> Model for LanguageModel<S> {
    fn whole(&self, tokens: Tokens, rows: NewRows) -> Tensor<3> {
        self.forward(tokens, rows)
    }

    fn cached(&self, tokens: Tokens, rows: NewRows, cache: &mut TransformerCache) -> Tensor<3> {
        self.forward_cached(tokens, rows, cache)
    }

    fn cache(&self) -> TransformerCache {
        LanguageModel::cache(self)
    }

    fn generate(&self, config: &GenerateConfig, prompts: &[Vec<u32>]) -> Vec<Generated> {
        let state = LanguageModel::cache(self);
        config.generate(self, state, prompts).run()
    }
}

/// A stack of layers, whatever their score.
pub(super) trait Stack {
    fn whole(&self, rows: Tensor<3>, mask: &Mask) -> Tensor<3>;
    fn gradients(&self, gradients: &Gradients) -> Outcome;
}

impl<S: ScoringFunction> Stack for TransformerEncoder<S> {
    fn whole(&self, rows: Tensor<3>, mask: &Mask) -> Tensor<3> {
        self.forward(rows, mask)
    }

    fn gradients(&self, gradients: &Gradients) -> Outcome {
        parameters::gradients(self, Some(gradients))
    }
}

/// Makes something around a score of each kind.
pub(super) trait Around {
    type Made;
    fn around<S: ScoringFunction>(&self, score: impl FnMut(usize) -> S) -> Self::Made;
}

/// Every kind of score: with kernels and without, with positions of each kind, and a term of keys.
#[rustfmt::skip]
pub(super) fn around_each<A: Around>(make: &A, device: &Device) -> Vec<(&'static str, A::Made)> {
    let dot = || DotProductScoreConfig::new().init();
    let rotary = RotaryConfig::new(HEAD_SIZE, POSITIONS);
    let relative = RelativePositionBiasConfig::new(HEADS).with_max_distance(20);
    let additive = AdditiveScoreConfig::new(HEAD_SIZE, HEAD_SIZE, 5);
    let bilinear = BilinearScoreConfig::new(HEAD_SIZE, HEAD_SIZE);
    let gaussian = GaussianScoreConfig::new().with_learned(true);
    vec![
        ("dot products", make.around(|_| dot())),
        ("additive", make.around(|_| additive.init(device))),
        ("bilinear", make.around(|_| bilinear.init(device))),
        ("cosine", make.around(|_| CosineScoreConfig::new().init(device))),
        ("Gaussian", make.around(|_| gaussian.init(device))),
        ("composed", make.around(|_| KernelScoreConfig::new(Kernel::Gaussian).init())),
        ("rotary", make.around(|_| rotary.init_with(dot(), device))),
        ("ALiBi", make.around(|_| Biased::new(dot(), AlibiConfig::new(HEADS).init()))),
        ("T5", make.around(|_| Biased::new(dot(), relative.init(device)))),
    ]
}

struct Models<'a>(&'a Device, DType);

impl Around for Models<'_> {
    type Made = Box<dyn Model>;

    fn around<S: ScoringFunction>(&self, score: impl FnMut(usize) -> S) -> Self::Made {
        let Self(device, dtype) = *self;
        let max_positions = POSITIONS;
        let positions = PositionEmbeddingConfig::Learned { max_positions };
        let embedding = TokenEmbeddingConfig::new(VOCAB, HIDDENS).with_positions(positions);
        let stack = TransformerEncoderConfig::new(layer().with_num_key_value_heads(Some(1)), 2);
        let model = LanguageModelConfig::new(embedding, stack).init_with(score, device);
        Box::new(parameters::cast(drawn(model), dtype))
    }
}

/// A language model around each kind of score, with parameters of type `dtype`.
pub(super) fn models(device: &Device, dtype: DType) -> Vec<(&'static str, Box<dyn Model>)> {
    around_each(&Models(device, dtype), device)
}

/// A language model of dot products without positions of its own: sinusoidal ones are added.
pub(super) fn sinusoidal(
    device: &Device,
    layer: TransformerLayerConfig,
) -> LanguageModel<DotProductScore> {
    let max_positions = POSITIONS;
    let positions = PositionEmbeddingConfig::Sinusoidal { max_positions };
    let embedding = TokenEmbeddingConfig::new(VOCAB, HIDDENS).with_positions(positions);
    let embedding = embedding.with_scaled(true);
    let stack = TransformerEncoderConfig::new(layer, 2);
    let config = LanguageModelConfig::new(embedding, stack).with_tied(false);
    drawn(config.with_head_bias(true).init(device))
}

/// Tokens that depend on the seed alone.
pub(super) fn text(seed: u64, [batch, rows]: [usize; 2]) -> Vec<Vec<u32>> {
    let drawn = Array::draw(seed, &[batch, rows]);
    let token = |x: &f64| (x * 64.0).rem_euclid(VOCAB as f64) as u32;
    let tokens = drawn.data.chunks(rows);
    tokens.map(|row| row.iter().map(token).collect()).collect()
}

/// Where the rows of padding are.
pub(super) fn new_rows(lens: &[usize], is_left: bool) -> NewRows<'_> {
    match is_left {
        true => NewRows::Last(lens),
        false => NewRows::First(lens),
    }
}

/// Tokens of one length as a tensor.
pub(super) fn tensor(tokens: &[Vec<u32>], device: &Device) -> Tokens {
    let longest = tokens.iter().map(Vec::len).max().unwrap();
    padded(tokens, longest, false, device)
}

/// Tokens of any lengths in `rows` rows; there is no token like the padding.
pub(super) fn padded(tokens: &[Vec<u32>], rows: usize, is_left: bool, device: &Device) -> Tokens {
    const NONE: i64 = 999;
    let of_example = |own: &Vec<u32>| {
        let padding = vec![NONE; rows - own.len()];
        let own: Vec<i64> = own.iter().copied().map(i64::from).collect();
        match is_left {
            true => [padding, own].concat(),
            false => [own, padding].concat(),
        }
    };
    let elements: Vec<i64> = tokens.iter().flat_map(of_example).collect();
    let data = TensorData::new(elements, [tokens.len(), rows]);
    Tensor::from_data(data, device)
}
