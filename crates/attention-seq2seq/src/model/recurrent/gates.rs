//! The input projection of a recurrent layer's gates, for inputs that begin with the embedding of a token.

use burn::nn::{Dropout, Linear};
use burn::tensor::{Int, Tensor};
use burn_fused_layers::{EmbeddingTable, PackedLinear, drop_elements, drops, linear};

/// The projections of tokens, `[tokens, gates * hidden_size]`, for many calls in one pass.
#[derive(Clone, Debug)]
pub(crate) struct TokenGates {
    /// The probability to drop a feature of an embedding, if the module trains.
    dropout: Option<f64>,
    /// The projections of all tokens or, if `layer` is given, their embeddings.
    table: EmbeddingTable,
    /// The projection from embeddings to gates.
    layer: Option<PackedLinear>,
}

impl TokenGates {
    /// Prepares a pass over about `tokens` tokens. The first inputs of `layer`, which computes gates from inputs, are
    /// the embedding's features.
    ///
    /// A vocabulary of at most that size is projected as a whole, once, which is cheaper than a product for each of
    /// these tokens. Not so in training with dropout, which drops different features for each of them.
    pub(crate) fn new(
        layer: &Linear,
        embedding: &EmbeddingTable,
        dropout: &Dropout,
        tokens: usize,
    ) -> Self {
        let table = embedding.table();
        let [vocab_size, size] = table.dims();
        let weight = layer.weight.val().narrow(0, 0, size);
        let bias = layer.bias.as_ref().map(|bias| bias.val());
        let devices = [table.device(), weight.device()];
        let dropout = drops(dropout, devices).then_some(dropout.prob);
        let (table, layer) = if dropout.is_some() || vocab_size > tokens {
            (embedding.clone(), Some(PackedLinear::new(weight, bias)))
        } else {
            (EmbeddingTable::new(linear(table, weight, bias)), None)
        };
        Self {
            dropout,
            table,
            layer,
        }
    }

    /// The projections of `tokens`, `[batch]`.
    pub(crate) fn rows(&self, tokens: Tensor<1, Int>) -> Tensor<2> {
        let rows = self.table.rows(tokens);
        let rows = match self.dropout {
            Some(probability) => drop_elements(rows, probability),
            None => rows,
        };
        match &self.layer {
            Some(layer) => layer.forward(rows),
            None => rows,
        }
    }
}

/// The projections of tokens `[batch, steps]` that are the whole input: `[batch, steps, gates * hidden_size]`.
pub(crate) fn token_gates(
    layer: &Linear,
    embedding: &EmbeddingTable,
    dropout: &Dropout,
    tokens: Tensor<2, Int>,
) -> Tensor<3> {
    let [batch, steps] = tokens.dims();
    let gates = TokenGates::new(layer, embedding, dropout, batch * steps);
    let rows = gates.rows(tokens.reshape([batch * steps]));
    let [_, width] = rows.dims();
    rows.reshape([batch, steps, width])
}

/// The weights of all inputs after the first `size`: `[input_size - size, gates * hidden_size]`.
pub(crate) fn weights_after(layer: &Linear, size: usize) -> Tensor<2> {
    let weight = layer.weight.val();
    let [input_size, _] = weight.dims();
    weight.narrow(0, size, input_size - size)
}
