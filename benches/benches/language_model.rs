//! Generation with a whole language model: tokens one after the other, each attending to a cache of those before it.
//! Ours beside the same by hand, with our kernels and space for keys and values that is there, and PyTorch.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench language_model`; see benches/README.md.

use std::io;

use attention_benches::bench::Bench;
use attention_benches::tensors::Call;
use attention_core::{DotProductScore, Mask, Memory};
use attention_transformers::layer::TransformerEncoderLayer;
use attention_transformers::{
    FeedForwardActivation, GenerateConfig, LanguageModel, LanguageModelConfig, PositionEmbedding,
    PositionEmbeddingConfig, TokenEmbeddingConfig, TransformerEncoderConfig,
    TransformerLayerConfig,
};
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::linear;
use serde_json::json;

const LAYERS: usize = 4;
const HEADS: usize = 8;
/// The feature dimension of a row.
const SIZE: usize = 256;
const HEAD_SIZE: usize = SIZE / HEADS;
/// The hidden units of a feed-forward layer.
const FEED_FORWARD: usize = 4 * SIZE;
const VOCAB: usize = 256;
const BATCHES: [usize; 2] = [1, 8];
const TOKENS: [usize; 2] = [256, 1024];

type Model = LanguageModel<DotProductScore>;

fn main() -> io::Result<()> {
    Bench::run("language_model.py", |bench| {
        for batch in BATCHES {
            for tokens in TOKENS {
                time(bench, batch, tokens)?;
            }
        }
        Ok(())
    })
}

fn time(bench: &mut Bench, batch: usize, tokens: usize) -> io::Result<()> {
    let title = format!(
        "generation b{batch} tokens {tokens} layers {LAYERS} d{SIZE} heads {HEADS} feed-forward {FEED_FORWARD} \
         vocabulary {VOCAB}"
    );
    let calls = |device: &Device| {
        let ours = model(device);
        let expected = by_cache(&ours, batch, tokens.min(32));
        let got = by_hand(&ours, batch, tokens.min(32));
        assert_eq!(got, expected, "the same tokens by hand");
        let other = ours.clone();
        let ours: Call = Box::new(move || drop(by_cache(&ours, batch, tokens)));
        let by_hand: Call = Box::new(move || drop(by_hand(&other, batch, tokens)));
        vec![("ours", ours), ("by hand", by_hand)]
    };
    let device = bench.options.baselines_device();
    bench.time([&title, "generation"], calls, &["PyTorch eager"], |_| {
        json!({
            "device": device,
            "batch": batch,
            "tokens": tokens,
            "layers": LAYERS,
            "size": SIZE,
            "heads": HEADS,
            "feed_forward": FEED_FORWARD,
            "vocab": VOCAB,
        })
    })
}

fn model(device: &Device) -> Model {
    device.seed(0);
    let layer = TransformerLayerConfig::new(SIZE, HEADS, FEED_FORWARD)
        .with_activation(FeedForwardActivation::Gelu);
    let [_, max_positions] = TOKENS;
    let positions = PositionEmbeddingConfig::Learned { max_positions };
    let embedding = TokenEmbeddingConfig::new(VOCAB, SIZE).with_positions(positions);
    let stack = TransformerEncoderConfig::new(layer, LAYERS);
    LanguageModelConfig::new(embedding, stack).init(device)
}

/// The most likely tokens after token 1, of each text.
fn by_cache(model: &Model, batch: usize, tokens: usize) -> Vec<Vec<u32>> {
    let texts = GenerateConfig::new(tokens).generate(model, model.cache(), &vec![[1]; batch]);
    texts.run().into_iter().map(|text| text.tokens).collect()
}

/// The same without a cache of the library's: keys and values are written into space that is there.
fn by_hand(model: &Model, batch: usize, tokens: usize) -> Vec<Vec<u32>> {
    let device = model.embedding.tokens.weight.device();
    let space = || Tensor::<4>::zeros([batch, HEADS, tokens, HEAD_SIZE], &device);
    let mut stored: Vec<[Tensor<4>; 2]> = (0..LAYERS).map(|_| [space(), space()]).collect();
    let mut token = Tensor::<2, Int>::ones([batch, 1], &device);
    let mut texts = vec![Vec::with_capacity(tokens); batch];
    let Some(PositionEmbedding::Learned(positions)) = &model.embedding.positions else {
        unreachable!("its positions are learned")
    };
    for at in 0..tokens {
        let position = Tensor::<2, Int>::full([batch, 1], at as i64, &device);
        let mut rows = model.embedding.tokens.forward(token) + positions.forward(position);
        for (layer, stored) in model.stack.layers.iter().zip(&mut stored) {
            rows = layer_by_hand(layer, rows, at, stored);
        }
        if let Some(norm) = &model.stack.norm {
            rows = norm.forward(rows);
        }
        let weight = model.embedding.tokens.weight.val().transpose();
        let logits = linear(rows, weight, None);
        token = logits.argmax(2).reshape([batch, 1]);
        let chosen = token.clone().into_data();
        for (text, token) in texts.iter_mut().zip(chosen.iter::<u32>()) {
            text.push(token);
        }
    }
    texts
}

fn layer_by_hand(
    layer: &TransformerEncoderLayer<DotProductScore>,
    rows: Tensor<3>,
    at: usize,
    stored: &mut [Tensor<4>; 2],
) -> Tensor<3> {
    let [batch, _, _] = rows.dims();
    let apply = |of: &Linear, rows: Tensor<3>| {
        let bias = of.bias.as_ref().map(|bias| bias.val());
        linear(rows, of.weight.val(), bias)
    };
    let attention = &layer.attention;
    let normalized = layer.attention_residual.norm.forward(rows.clone());
    let heads = |of: &Linear| {
        let projected = apply(of, normalized.clone());
        projected.reshape([batch, HEADS, 1, HEAD_SIZE])
    };
    let new = [heads(&attention.key), heads(&attention.value)];
    for (stored, new) in stored.iter_mut().zip(new) {
        let taken = std::mem::replace(stored, Tensor::empty([1; 4], &new.device()));
        *stored = taken.slice_assign([0..batch, 0..HEADS, at..at + 1], new);
    }
    let [keys, values] = stored
        .each_ref()
        .map(|rows| rows.clone().narrow(2, 0, at + 1));
    let memory = Memory::of_projected(keys, values, Mask::none());
    let query = heads(&attention.query);
    let context = attention.attention.attend(query, &memory, Mask::none());
    let context = context.reshape([batch, 1, SIZE]);
    let output = attention.output.as_ref().expect("an output projection");
    let rows = rows + apply(output, context);
    let normalized = layer.feed_forward_residual.norm.forward(rows.clone());
    rows + layer.feed_forward.forward(normalized)
}
