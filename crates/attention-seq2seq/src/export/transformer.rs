//! Transformers, whose layers are those of `torch.nn` with `norm_first=True`.

use attention_core::transformer::{
    FeedForward, TokenEmbedding, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer,
};
use attention_core::{DotProductScore, MultiHeadAttention, ScoringFunction};
use burn::tensor::Tensor;
use burn_fused_layers::harness::parameter::value;

use super::state_dict::{Parameters, StateDict};
use crate::attention::AnyScore;
use crate::model::Transformer;

/// `source_embedding`, `encoder`: a `torch.nn.TransformerEncoder`, `target_embedding`, `decoder`: a
/// `torch.nn.TransformerDecoder`, and `output`. Embeddings are without their factor, the root of their size.
impl Parameters for Transformer<AnyScore> {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.source_embedding
            .add_to(tensors, &format!("{at}source_embedding."));
        self.encoder.add_to(tensors, &format!("{at}encoder."));
        self.target_embedding
            .add_to(tensors, &format!("{at}target_embedding."));
        self.decoder.add_to(tensors, &format!("{at}decoder."));
        self.output.add_to(tensors, &format!("{at}output."));
    }
}

/// `weight`, `[tokens, size]`: the models of this crate add no other embedding to that of the tokens.
impl Parameters for TokenEmbedding {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.tokens.add_to(tensors, at);
    }
}

/// `layers` and `norm`.
impl Parameters for TransformerEncoder<DotProductScore> {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        for (index, layer) in self.layers.iter().enumerate() {
            layer.add_to(tensors, &format!("{at}layers.{index}."));
        }
        if let Some(norm) = &self.norm {
            norm.add_to(tensors, &format!("{at}norm."));
        }
    }
}

/// `self_attn`, `linear1`, `linear2`, `norm1` and `norm2`.
impl Parameters for TransformerEncoderLayer<DotProductScore> {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.attention.add_to(tensors, &format!("{at}self_attn."));
        self.feed_forward.add_to(tensors, at);
        let norms = [&self.attention_residual, &self.feed_forward_residual];
        for (number, residual) in (1..).zip(norms) {
            residual.norm.add_to(tensors, &format!("{at}norm{number}."));
        }
    }
}

/// `layers` and `norm`.
impl Parameters for TransformerDecoder<DotProductScore, AnyScore> {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        for (index, layer) in self.layers.iter().enumerate() {
            layer.add_to(tensors, &format!("{at}layers.{index}."));
        }
        if let Some(norm) = &self.norm {
            norm.add_to(tensors, &format!("{at}norm."));
        }
    }
}

/// `self_attn`, `multihead_attn`, `linear1`, `linear2`, `norm1`, `norm2` and `norm3`.
impl Parameters for TransformerDecoderLayer<DotProductScore, AnyScore> {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.attention.add_to(tensors, &format!("{at}self_attn."));
        self.cross_attention
            .add_to(tensors, &format!("{at}multihead_attn."));
        self.feed_forward.add_to(tensors, at);
        let norms = [
            &self.attention_residual,
            &self.cross_attention_residual,
            &self.feed_forward_residual,
        ];
        for (number, residual) in (1..).zip(norms) {
            residual.norm.add_to(tensors, &format!("{at}norm{number}."));
        }
    }
}

/// `linear1` and `linear2`.
impl Parameters for FeedForward {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.input.add_to(tensors, &format!("{at}linear1."));
        self.output.add_to(tensors, &format!("{at}linear2."));
    }
}

/// `in_proj_weight`, `[queries + keys + values, in]`, `in_proj_bias` and `out_proj`: a `torch.nn.MultiheadAttention`
/// whose queries, keys and values are of one size. Parameters of a score, which PyTorch's has not, are in `score`.
impl<S: ScoringFunction + Parameters> Parameters for MultiHeadAttention<S> {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        let inputs = [&self.query, &self.key, &self.value];
        let weights = inputs.map(|layer| value(&layer.weight).transpose());
        let in_proj = Tensor::cat(weights.to_vec(), 0);
        tensors.add(format!("{at}in_proj_weight"), in_proj);
        let biases = inputs.iter().filter_map(|layer| layer.bias.as_ref());
        let biases: Vec<Tensor<1>> = biases.map(value).collect();
        if !biases.is_empty() {
            tensors.add(format!("{at}in_proj_bias"), Tensor::cat(biases, 0));
        }
        if let Some(output) = &self.output {
            output.add_to(tensors, &format!("{at}out_proj."));
        }
        self.attention.score.add_to(tensors, &format!("{at}score."));
    }
}
