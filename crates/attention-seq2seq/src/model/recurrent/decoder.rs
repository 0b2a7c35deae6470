//! The decoder: one target token at a time, each with its own attention to the source.

use attention_core::Memory;
use attention_core::stateful::{AttentionState, StatefulAttention};
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::recurrent::{
    Recurrent, RecurrentCell, RecurrentConfig, RecurrentLayer, RecurrentState,
};
use burn_fused_layers::{
    ClassTargets, EmbeddingTable, PackedLinear, dropout_beside, linear,
    linear_cross_entropy_of_parts,
};

use super::Seq2SeqConfig;
use super::gates::{TokenGates, weights_after};
use crate::model::candidates::Candidates;

/// A recurrent decoder with attention (Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align
/// and Translate").
///
/// In each step the query is the state of the top layer. The context, joined with the embedding of the previous target
/// token, is the input of the recurrent layers. The new state and the context predict the next token.
#[derive(Module, Debug)]
pub struct Decoder<A: StatefulAttention> {
    /// The embedding of target tokens, `[tokens, embedding_size]`.
    pub embedding: Embedding,
    /// Dropout on these embeddings.
    pub embedding_dropout: Dropout,
    /// The attention to the source.
    pub attention: A,
    /// The linear layers from the encoder's final outputs to the decoder's first ones, one for each layer; the cell
    /// state of an LSTM is passed on unchanged.
    pub start: Vec<Linear>,
    /// The recurrent layers, in a single direction.
    pub recurrent: Recurrent,
    /// Dropout on the features that predict a token.
    pub dropout: Dropout,
    /// The output projection, from state and context to the logits of tokens.
    pub output: Linear,
}

/// A decoder prepared for one pass over a target.
pub(crate) struct DecoderPass<'a, A: StatefulAttention> {
    decoder: &'a Decoder<A>,
    memory: &'a Memory,
    weights: &'a DecoderWeights,
}

/// The weights of the recurrent layers, ready for many steps. Clones share the packed weights.
#[derive(Clone, Debug)]
pub(crate) struct DecoderWeights {
    /// The input projection of the first layer's gates, for tokens.
    of_tokens: TokenGates,
    /// The input projections of the gates: of the first layer from the context, of others from the layer below.
    gates: Vec<PackedLinear>,
    cells: Vec<RecurrentCell>,
}

/// The state that a step passes to the next.
#[derive(Clone)]
pub(crate) struct DecoderState<A: StatefulAttention> {
    layers: Vec<RecurrentState>,
    attention: A::State,
}

/// The features that predict a token, `[rows, hidden_size]` each.
pub(crate) struct Features {
    pub state: Tensor<2>,
    pub context: Tensor<2>,
}

impl Features {
    /// State and context concatenated, `[rows, 2 * hidden_size]`.
    pub(super) fn joined(self) -> Tensor<2> {
        Tensor::cat(vec![self.state, self.context], 1)
    }
}

/// The result of a step.
pub(crate) struct Step<A: StatefulAttention> {
    /// The features that predict the token.
    pub features: Features,
    /// The attention weights, `[batch, source tokens]`, if requested.
    pub weights: Option<Tensor<2>>,
    /// The state for the next step.
    pub state: DecoderState<A>,
}

impl<A: StatefulAttention> Decoder<A> {
    /// A decoder with new random parameters, that attends to the source with `attention`.
    pub(super) fn new(config: &Seq2SeqConfig, attention: A, device: &Device) -> Self {
        let (size, vocab_size) = (config.hidden_size, config.target_vocab_size);
        let start = |_| LinearConfig::new(size, size).init(device);
        let recurrent = RecurrentConfig::new(config.cell, config.embedding_size + size, size)
            .with_layers(config.layers)
            .with_dropout(config.layer_dropout);
        Self {
            embedding: EmbeddingConfig::new(vocab_size, config.embedding_size).init(device),
            embedding_dropout: DropoutConfig::new(config.embedding_dropout).init(),
            attention,
            start: (0..config.layers).map(start).collect(),
            recurrent: recurrent.init(device),
            dropout: DropoutConfig::new(config.dropout).init(),
            output: LinearConfig::new(2 * size, vocab_size).init(device),
        }
    }

    /// The state before the first token, from the final states of the encoder.
    pub(crate) fn first_state(
        &self,
        encoded: Vec<RecurrentState>,
        memory: &Memory,
    ) -> DecoderState<A> {
        let layers = self.start.iter().zip(encoded);
        let layers = layers.map(|(start, state)| RecurrentState {
            hidden: apply(start, state.hidden).tanh(),
            cell: state.cell,
        });
        DecoderState {
            layers: layers.collect(),
            attention: self.attention.initial_state(memory),
        }
    }

    /// The attention's penalty on each example up to `state`, `[batch]`, if it has one.
    pub(crate) fn penalty(&self, state: &DecoderState<A>) -> Option<Tensor<1>> {
        self.attention.penalty(&state.attention)
    }

    /// One pass over a target, with [`weights`](Self::weights).
    pub(super) fn pass<'a>(
        &'a self,
        weights: &'a DecoderWeights,
        memory: &'a Memory,
    ) -> DecoderPass<'a, A> {
        DecoderPass {
            decoder: self,
            memory,
            weights,
        }
    }

    /// The weights for steps of about `tokens` tokens, as the parameters are now.
    pub(super) fn weights(&self, tokens: usize) -> DecoderWeights {
        let embedding = EmbeddingTable::new(self.embedding.weight.val());
        let [_, embedding_size] = self.embedding.weight.dims();
        let layers = &self.recurrent.layers;
        let gates = layers.iter().enumerate().map(|(index, layer)| {
            if index == 0 {
                // Without a bias, which the projection of tokens has.
                return PackedLinear::new(weights_after(&layer.input, embedding_size), None);
            }
            PackedLinear::from(&layer.input)
        });
        let (layer, dropout) = (&layers[0].input, &self.embedding_dropout);
        DecoderWeights {
            of_tokens: TokenGates::new(layer, &embedding, dropout, tokens),
            gates: gates.collect(),
            cells: layers.iter().map(RecurrentLayer::cell).collect(),
        }
    }

    /// The tokens that may come next in decoding, for all steps.
    pub(crate) fn candidates(&self) -> Candidates {
        Candidates::new(&self.output)
    }

    /// The sum of the cross-entropy of `targets` times their factors, `[1]`, and the most likely tokens, `[rows]`, from
    /// the features of steps. The logits of all steps are never in memory together.
    pub(crate) fn loss(
        &self,
        features: Vec<Features>,
        targets: ClassTargets,
    ) -> (Tensor<1>, Tensor<1, Int>) {
        let bias = self.output.bias.as_ref().map(|bias| bias.val());
        // The states of all steps, followed by the contexts.
        let [rows] = targets.classes.dims();
        let features = features.into_iter();
        let features = features.map(|features| (features.state, features.context));
        let (states, contexts): (Vec<_>, Vec<_>) = features.unzip();
        let features = Tensor::cat(states.into_iter().chain(contexts).collect(), 0);
        let [_, size] = features.dims();
        let features = self.dropped(features).reshape([2, rows, size]);
        linear_cross_entropy_of_parts(features, self.output.weight.val(), bias, targets)
    }

    /// The logits of the next tokens, `[rows, vocab_size]`, from the features of steps.
    pub(crate) fn logits(&self, features: Vec<Features>) -> Tensor<2> {
        let features = features.into_iter().map(Features::joined);
        let features = self.dropped(Tensor::cat(features.collect(), 0));
        apply(&self.output, features)
    }

    fn dropped(&self, features: Tensor<2>) -> Tensor<2> {
        dropout_beside(&self.dropout, features, [self.output.weight.device()])
    }
}

impl<A: StatefulAttention> DecoderPass<'_, A> {
    /// One step with the previous tokens, `[batch]`, as inputs.
    pub(crate) fn step(
        &self,
        tokens: Tensor<1, Int>,
        state: DecoderState<A>,
        with_weights: bool,
    ) -> Step<A> {
        let mut layers = state.layers;
        let top = layers.len() - 1;
        let query = layers[top].hidden.clone().unsqueeze_dim::<3>(1);
        let attention = &self.decoder.attention;
        let (context, weights, attention) = if with_weights {
            let (output, state) = attention.step_with_weights(query, self.memory, state.attention);
            let weights = output.weights.squeeze_dim::<2>(1);
            (output.context, Some(weights), state)
        } else {
            let (context, state) = attention.step(query, self.memory, state.attention);
            (context, None, state)
        };
        let context = context.squeeze_dim::<2>(1);

        let (cells, recurrent) = (&self.weights.cells, &self.decoder.recurrent);
        let mut of_tokens = Some(self.weights.of_tokens.rows(tokens));
        let mut below = context.clone();
        let prepared = cells.iter().zip(&self.weights.gates).zip(&recurrent.layers);
        for (((cell, gates), layer), state) in prepared.zip(&mut layers) {
            let gates = match of_tokens.take() {
                Some(of_tokens) => of_tokens + gates.forward(below),
                None => {
                    let devices = [layer.input.weight.device()];
                    gates.forward(dropout_beside(&recurrent.dropout, below, devices))
                }
            };
            *state = cell.forward(gates, state.clone());
            below = state.hidden.clone();
        }
        let state = layers[top].hidden.clone();
        let features = Features { state, context };
        let state = DecoderState { layers, attention };
        Step {
            features,
            weights,
            state,
        }
    }
}

impl<A: StatefulAttention> DecoderState<A> {
    /// The state of these rows, in this order.
    pub(super) fn select(&self, rows: &Tensor<1, Int>) -> Self {
        let select = |tensor: &Tensor<2>| tensor.clone().select(0, rows.clone());
        let layers = self.layers.iter().map(|layer| RecurrentState {
            hidden: select(&layer.hidden),
            cell: layer.cell.as_ref().map(select),
        });
        Self {
            layers: layers.collect(),
            attention: self.attention.select(rows.clone()),
        }
    }
}

fn apply(layer: &Linear, input: Tensor<2>) -> Tensor<2> {
    let bias = layer.bias.as_ref().map(|bias| bias.val());
    linear(input, layer.weight.val(), bias)
}
