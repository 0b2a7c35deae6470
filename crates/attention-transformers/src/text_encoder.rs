//! Encoders of texts.

use std::ops::Range;

use attention_core::padding::{first_tokens, last_tokens, mask_of_tokens};
use attention_core::{Mask, NewRows, ScoringFunction};
use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use burn_fused_layers::harness::wide::{in_wide, wide};

use crate::embedding::TokenEmbedding;
use crate::encoder::TransformerEncoder;

/// The embedding of tokens, positions and types, and a stack of layers: a model without a head, for the features of
/// tokens and the embeddings of whole texts.
///
/// Padding reaches nothing, whatever it holds: it need not be a valid token.
#[derive(Module, Debug)]
pub struct TextEncoder<S: ScoringFunction> {
    /// The embedding of tokens, positions and types.
    pub embedding: TokenEmbedding,
    /// The layers.
    pub stack: TransformerEncoder<S>,
    /// Whether a row attends only to the rows up to itself, as in a language model, instead of to all rows.
    pub causal: bool,
}

/// One vector for all tokens of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all tokens, as in Sentence-BERT, MiniLM and E5: Reimers & Gurevych 2019, "Sentence-BERT: Sentence
    /// Embeddings using Siamese BERT-Networks", section 3.
    Mean,
    /// The first token, BERT's `[CLS]`, as in BGE.
    First,
    /// The last token, as in models made from causal ones.
    Last,
    /// The maximum of each feature.
    Max,
    /// The sum of all tokens, divided by the square root of their number.
    MeanSqrtLen,
    /// The mean of all tokens, where token `n` counts `n` times, as in SGPT: Muennighoff 2022, "SGPT: GPT Sentence
    /// Embeddings for Semantic Search", section 3.
    WeightedMean,
}

impl<S: ScoringFunction> TextEncoder<S> {
    /// Packs the weights of all layers once for all later texts, like [`MultiHeadAttention::pack`]: for texts that come
    /// one by one. Results are the same to the bit.
    ///
    /// [`MultiHeadAttention::pack`]: attention_core::MultiHeadAttention::pack
    pub fn pack(&mut self) {
        for layer in &mut self.stack.layers {
            layer.attention.pack();
            layer.feed_forward.pack();
        }
    }

    /// The features of each token of a text; `rows` tells tokens from padding, and without `types` all tokens have the
    /// first type, if the model has types.
    ///
    /// # Shapes
    /// - tokens and types `[batch, rows]`, result `[batch, rows, num_hiddens]`, zeros in padding
    ///
    /// # Panics
    /// If a token or type does not exist, a text is longer than the model's positions, or `types` or `rows` do not fit.
    pub fn features(
        &self,
        tokens: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        rows: NewRows,
    ) -> Tensor<3> {
        let causal = match self.causal {
            true => Mask::causal(),
            false => Mask::none(),
        };
        features(&self.embedding, &self.stack, tokens, types, rows, causal)
    }

    /// A vector of length 1 for each text, computed from its [features](Self::features) by `pooling`: the product of
    /// two vectors is their cosine similarity.
    ///
    /// # Shapes
    /// - tokens and types `[batch, rows]`, result `[batch, num_hiddens]`
    ///
    /// # Panics
    /// As [`features`](Self::features), or if a text has no tokens.
    pub fn embeddings(
        &self,
        tokens: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        rows: NewRows,
        pooling: Pooling,
    ) -> Tensor<2> {
        pooled(self.features(tokens, types, rows), rows, pooling)
    }
}

/// A vector of length 1 for each text.
///
/// # Panics
/// If a text has no tokens.
pub(crate) fn pooled(features: Tensor<3>, rows: NewRows, pooling: Pooling) -> Tensor<2> {
    let dtype = features.dtype();
    // Dividing by the norm cancels the number of tokens.
    normalized(sums(features, rows, pooling)).cast(dtype)
}

/// A vector for each text, computed by `pooling`.
///
/// # Panics
/// If a text has no tokens.
#[cfg(feature = "pytorch")] // by `hub` alone
pub(crate) fn vectors(features: Tensor<3>, rows: NewRows, pooling: Pooling) -> Tensor<2> {
    let (dtype, device) = (features.dtype(), features.device());
    let [batch, num_rows, _] = features.dims();
    let sums = sums(features, rows, pooling);
    let divisor = |len: f64| match pooling {
        Pooling::First | Pooling::Last | Pooling::Max => 1.0,
        Pooling::Mean => len,
        Pooling::MeanSqrtLen => len.sqrt(),
        Pooling::WeightedMean => len * (len + 1.0) / 2.0,
    };
    let ranges = rows.ranges([batch, num_rows]).into_iter();
    let divisors = ranges.map(|of| divisor(of.len() as f64)).collect();
    let divisors = TensorData::new::<f64, _>(divisors, [batch, 1]);
    let divisors = Tensor::<2>::from_data(divisors, (&device, sums.dtype()));
    (sums / divisors).cast(dtype)
}

/// The vectors divided by their norms, in their own type.
pub(crate) fn normalized(vectors: Tensor<2>) -> Tensor<2> {
    in_wide(vectors, |vectors| {
        let lengths = vectors.clone().square().sum_dim(1).sqrt();
        vectors / lengths.clamp_min(1e-12)
    })
}

/// The vectors of `pooling`, with sums not yet divided to means, in f32 at least.
///
/// # Panics
/// If a text has no tokens.
fn sums(features: Tensor<3>, rows: NewRows, pooling: Pooling) -> Tensor<2> {
    let [batch, num_rows, _] = features.dims();
    let shape = [batch, num_rows];
    let has_none = rows.ranges(shape).iter().position(|of| of.is_empty());
    if let Some(at) = has_none {
        panic!("Pooling: at least one token expected in each text, got none in text {at}");
    }
    let dtype = wide(features.dtype());
    let device = features.device();
    let each = |of_token: &dyn Fn(usize) -> f32, of_padding: f32| {
        let of_text = |of: Range<usize>| {
            let row = move |row| {
                if of.contains(&row) {
                    of_token(row - of.start)
                } else {
                    of_padding
                }
            };
            (0..num_rows).map(row)
        };
        let all = rows.ranges(shape).into_iter().flat_map(of_text).collect();
        let data = TensorData::new::<f32, _>(all, [batch, num_rows, 1]);
        Tensor::<3>::from_data(data, (&device, dtype))
    };
    // Padding is zero.
    let sum = |features: Tensor<3>| features.sum_dim(1).squeeze_dim(1);
    match pooling {
        Pooling::Mean | Pooling::MeanSqrtLen => sum(features.cast(dtype)),
        Pooling::WeightedMean => sum(features.cast(dtype) * each(&|at| (at + 1) as f32, 0.0)),
        Pooling::First => first_tokens(features, rows, shape).cast(dtype),
        Pooling::Last => last_tokens(features, rows, shape).cast(dtype),
        Pooling::Max => {
            let features = features.cast(dtype) + each(&|_| 0.0, f32::NEG_INFINITY);
            features.max_dim(1).squeeze_dim(1)
        }
    }
}

/// The features of texts, zeros in padding, where rows attend to the tokens that `mask` keeps.
pub(crate) fn features<S: ScoringFunction>(
    embedding: &TokenEmbedding,
    stack: &TransformerEncoder<S>,
    tokens: Tensor<2, Int>,
    types: Option<Tensor<2, Int>>,
    rows: NewRows,
    mask: Mask,
) -> Tensor<3> {
    let shape @ [batch, num_rows] = tokens.dims();
    let embedded = embedding.of_texts(tokens, types, rows, None);
    if batch * num_rows == 0 {
        return embedded;
    }
    let mask = mask & mask_of_tokens(rows, shape, &embedded.device());
    stack.forward(embedded, &mask)
}
