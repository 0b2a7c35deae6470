// A language model of characters, in Burn. What `transformer` is, is said where this file is included.

use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::prelude::*;
use transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};

#[derive(Module, Debug)]
pub(crate) struct Model {
    characters: Embedding,
    positions: Embedding,
    encoder: TransformerEncoder,
    output: Linear,
}

impl Model {
    pub(crate) fn new(alphabet: usize, device: &Device) -> Self {
        let encoder = TransformerEncoderConfig::new(crate::SIZE, 4 * crate::SIZE, crate::HEADS, crate::LAYERS)
            .with_norm_first(true)
            .with_dropout(0.0);
        Self {
            characters: EmbeddingConfig::new(alphabet, crate::SIZE).init(device),
            positions: EmbeddingConfig::new(crate::CONTEXT, crate::SIZE).init(device),
            encoder: encoder.init(device),
            output: LinearConfig::new(crate::SIZE, alphabet).init(device),
        }
    }
}

impl crate::LanguageModel for Model {
    fn logits(&self, text: Tensor<2, Int>) -> Tensor<3> {
        let ([batch, rows], device) = (text.dims(), text.device());
        let positions = Tensor::arange(0..rows as i64, &device).unsqueeze();
        let rows_of_text = self.characters.forward(text) + self.positions.forward(positions);
        let causal = burn::nn::attention::generate_autoregressive_mask(batch, rows, &device);
        let input = TransformerEncoderInput::new(rows_of_text).mask_attn(causal);
        self.output.forward(self.encoder.forward(input))
    }
}
