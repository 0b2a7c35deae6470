//! The input's share of a recurrent layer's gates, where the input begins with the embedding of a token.

use attention_core::linear;
use attention_core::recurrent::Gru;
use burn::nn::Embedding;
use burn::tensor::{Int, Tensor};

/// The share of tokens `[batch, steps]`, which are all of the input: `[batch, steps, 3 * hidden_size]`.
pub(crate) fn token_gates(gru: &Gru, embedding: &Embedding, tokens: Tensor<2, Int>) -> Tensor<3> {
    let [batch, steps] = tokens.dims();
    let [vocab_size, _] = embedding.weight.dims();
    if vocab_size > batch * steps {
        return gru.gates(embedding.forward(tokens));
    }
    let table = TokenGates::new(gru, embedding);
    let rows = table.rows(tokens.reshape([batch * steps]));
    let [_, width] = rows.dims();
    rows.reshape([batch, steps, width])
}

/// The share of every token of a vocabulary, `[tokens, 3 * hidden_size]`.
///
/// A vocabulary is small beside a batch of sequences, so a table of products is cheaper than the products of all
/// embedded tokens.
#[derive(Clone, Debug)]
pub(crate) struct TokenGates(Tensor<2>);

impl TokenGates {
    /// Of the embedding, whose features are the layer's first inputs.
    pub(crate) fn new(gru: &Gru, embedding: &Embedding) -> Self {
        let embedding = embedding.weight.val();
        let [_, size] = embedding.dims();
        let weight = gru.input.weight.val().narrow(0, 0, size);
        let bias = gru.input.bias.as_ref().map(|bias| bias.val());
        Self(linear(embedding, weight, bias))
    }

    /// The rows of `tokens`, `[batch]`.
    pub(crate) fn rows(&self, tokens: Tensor<1, Int>) -> Tensor<2> {
        self.0.clone().select(0, tokens)
    }
}

/// The weights of all inputs but the first `size`: `[input_size - size, 3 * hidden_size]`.
pub(crate) fn weights_after(gru: &Gru, size: usize) -> Tensor<2> {
    let weight = gru.input.weight.val();
    let [input_size, _] = weight.dims();
    weight.narrow(0, size, input_size - size)
}
