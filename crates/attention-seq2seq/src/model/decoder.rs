//! The decoder: one target token at a time, each with its own look at the source.

use attention_core::{Alignment, Memory};
use burn::config::Config;
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};

use super::gru::{Gates, Gru, GruConfig, GruPass, Table};

/// Configuration of a [`Decoder`].
#[derive(Config, Debug)]
pub struct DecoderConfig {
    /// The number of target tokens.
    pub vocab_size: usize,
    /// The size of a token's embedding.
    pub embedding_size: usize,
    /// The size of a state, of the decoder and of the encoder.
    pub hidden_size: usize,
    /// The number of layers.
    #[config(default = 1)]
    pub layers: usize,
    /// The probability to drop a feature of the output while training.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl DecoderConfig {
    /// A decoder with new random parameters, that looks at the source with `attention`.
    ///
    /// Its queries and keys are of `hidden_size`, and its contexts have to be.
    ///
    /// # Panics
    /// If a size is 0 or `dropout` is not in `[0, 1)`.
    pub fn init<A: Alignment>(&self, attention: A, device: &Device) -> Decoder<A> {
        assert!(
            self.layers > 0,
            "DecoderConfig: layers expected at least 1, got 0"
        );
        let size = self.hidden_size;
        let layer = |index: usize| {
            let input_size = match index {
                0 => self.embedding_size + size,
                _ => size,
            };
            GruConfig::new(input_size, size).init(device)
        };
        Decoder {
            embedding: EmbeddingConfig::new(self.vocab_size, self.embedding_size).init(device),
            attention,
            start: (0..self.layers)
                .map(|_| LinearConfig::new(size, size).init(device))
                .collect(),
            layers: (0..self.layers).map(layer).collect(),
            dropout: DropoutConfig::new(self.dropout).init(),
            output: LinearConfig::new(2 * size, self.vocab_size).init(device),
        }
    }
}

/// A recurrent decoder with attention (Bahdanau et al. 2015).
///
/// At each step the query is the top layer's state; its context, joined with the embedding of the previous target
/// token, is the input of the recurrent layers; the new state and the context predict the token.
#[derive(Module, Debug)]
pub struct Decoder<A: Alignment> {
    /// The embedding of target tokens, `[tokens, embedding_size]`.
    pub embedding: Embedding,
    /// How the decoder looks at the source.
    pub attention: A,
    /// From the encoder's last states to the first states, one for each layer.
    pub start: Vec<Linear>,
    /// The recurrent layers.
    pub layers: Vec<Gru>,
    /// Dropout on the features that predict a token.
    pub dropout: Dropout,
    /// From state and context to the logits of the tokens.
    pub output: Linear,
}

/// A decoder made ready for one pass over a target.
pub(crate) struct DecoderPass<'a, A: Alignment> {
    decoder: &'a Decoder<A>,
    memory: &'a Memory,
    table: Table,
    context_weights: Gates<2>,
    layers: Vec<GruPass>,
}

/// What one step hands to the next.
#[derive(Clone)]
pub(crate) struct DecoderState<A: Alignment> {
    /// Of each layer, `[batch, hidden_size]`.
    layers: Vec<Tensor<2>>,
    attention: A::State,
}

/// What one step yields.
pub(crate) struct Step {
    /// The state and context that predict the token, `[batch, 2 * hidden_size]`.
    pub features: Tensor<2>,
    /// The attention weights, `[batch, source tokens]`, if asked for.
    pub weights: Option<Tensor<2>>,
}

impl<A: Alignment> Decoder<A> {
    /// The state before the first token, from the encoder's last ones.
    pub(crate) fn first_state(&self, encoded: Vec<Tensor<2>>, memory: &Memory) -> DecoderState<A> {
        let layers = self.start.iter().zip(encoded);
        DecoderState {
            layers: layers
                .map(|(start, state)| start.forward(state).tanh())
                .collect(),
            attention: self.attention.start(memory),
        }
    }

    /// What attention adds to the loss of each example, up to `state`, `[batch]`, if anything.
    pub(crate) fn penalty(&self, state: &DecoderState<A>) -> Option<Tensor<1>> {
        self.attention.penalty(&state.attention)
    }

    pub(crate) fn pass<'a>(&'a self, memory: &'a Memory) -> DecoderPass<'a, A> {
        let layers: Vec<GruPass> = self.layers.iter().map(Gru::pass).collect();
        let (table, context_weights) = layers[0].table(self.embedding.weight.val());
        DecoderPass {
            decoder: self,
            memory,
            table,
            context_weights,
            layers,
        }
    }

    /// The logits of the next token, `[rows, tokens]`, from the features of [`Step`].
    pub(crate) fn logits(&self, features: Tensor<2>) -> Tensor<2> {
        self.output.forward(self.dropout.forward(features))
    }
}

impl<A: Alignment> DecoderPass<'_, A> {
    /// Reads the previous tokens, `[batch]`.
    pub(crate) fn step(
        &self,
        tokens: Tensor<1, Int>,
        state: DecoderState<A>,
        with_weights: bool,
    ) -> (Step, DecoderState<A>) {
        let mut states = state.layers;
        let top = states.len() - 1;
        let query = states[top].clone().unsqueeze_dim::<3>(1);
        let attention = &self.decoder.attention;
        let (context, weights, attention) = match with_weights {
            true => {
                let (output, state) =
                    attention.step_with_weights(query, self.memory, state.attention);
                let weights = output.weights.squeeze_dim::<2>(1);
                (output.context, Some(weights), state)
            }
            false => {
                let (context, state) = attention.step(query, self.memory, state.attention);
                (context, None, state)
            }
        };
        let context = context.squeeze_dim::<2>(1);

        let gates = self.table.rows(tokens);
        let gates = gates.add_product(context.clone(), &self.context_weights);
        states[0] = self.layers[0].step(gates, states[0].clone());
        for layer in 1..self.layers.len() {
            let gates = self.layers[layer].inputs(states[layer - 1].clone());
            states[layer] = self.layers[layer].step(gates, states[layer].clone());
        }
        let step = Step {
            features: Tensor::cat(vec![states[top].clone(), context], 1),
            weights,
        };
        let state = DecoderState {
            layers: states,
            attention,
        };
        (step, state)
    }
}
