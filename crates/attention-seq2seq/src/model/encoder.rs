//! The encoder: source tokens to one state per token.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig};
use burn::tensor::{Device, Tensor, TensorData};

use super::gru::{Gates, Gru, GruConfig};
use crate::batch::Source;

/// Configuration of an [`Encoder`].
#[derive(Config, Debug)]
pub struct EncoderConfig {
    /// The number of source tokens.
    pub vocab_size: usize,
    /// The size of a token's embedding.
    pub embedding_size: usize,
    /// The size of a state; a bidirectional encoder gives half to each direction.
    pub hidden_size: usize,
    /// The number of layers.
    #[config(default = 1)]
    pub layers: usize,
    /// Whether to read the source in both directions.
    #[config(default = true)]
    pub bidirectional: bool,
}

impl EncoderConfig {
    /// An encoder with new random parameters.
    ///
    /// # Panics
    /// If a size is 0, or `hidden_size` is odd and the encoder bidirectional.
    pub fn init(&self, device: &Device) -> Encoder {
        assert!(
            self.layers > 0,
            "EncoderConfig: layers expected at least 1, got 0"
        );
        assert!(
            !self.bidirectional || self.hidden_size.is_multiple_of(2),
            "EncoderConfig: hidden_size of a bidirectional encoder expected even, got {}",
            self.hidden_size
        );
        let size = match self.bidirectional {
            true => self.hidden_size / 2,
            false => self.hidden_size,
        };
        let layer = |index: usize| {
            let input_size = match index {
                0 => self.embedding_size,
                _ => self.hidden_size,
            };
            GruConfig::new(input_size, size).init(device)
        };
        Encoder {
            embedding: EmbeddingConfig::new(self.vocab_size, self.embedding_size).init(device),
            forward: (0..self.layers).map(layer).collect(),
            backward: match self.bidirectional {
                true => (0..self.layers).map(layer).collect(),
                false => Vec::new(),
            },
        }
    }
}

/// A recurrent encoder: embeddings through layers of GRUs, in one direction or both.
#[derive(Module, Debug)]
pub struct Encoder {
    /// The embedding of source tokens, `[tokens, embedding_size]`.
    pub embedding: Embedding,
    /// The layers that read left to right.
    pub forward: Vec<Gru>,
    /// The layers that read right to left; none if the encoder reads in one direction.
    pub backward: Vec<Gru>,
}

/// What an [`Encoder`] returns.
pub struct Encoded {
    /// The top layer's state at every source token, `[batch, tokens, hidden_size]`; arbitrary at padding.
    pub states: Tensor<3>,
    /// Every layer's state after the last token, `[batch, hidden_size]` each.
    pub last: Vec<Tensor<2>>,
}

/// The inputs' share of the gates at each step of a sequence.
type StepInputs<'a> = Box<dyn Fn(usize) -> Gates<2> + 'a>;

impl Encoder {
    /// Encodes a batch of sources.
    pub fn forward(&self, source: &Source) -> Encoded {
        let steps = source.num_tokens();
        let ends = Ends::new(source, &self.embedding.weight.device());
        let mut last = Vec::new();
        let mut states: Vec<Tensor<2>> = Vec::new();
        for layer in 0..self.forward.len() {
            let run = |gru: &Gru, order: Vec<usize>| {
                let pass = gru.pass();
                let inputs: StepInputs = match layer {
                    0 => {
                        let (table, _) = pass.table(self.embedding.weight.val());
                        Box::new(move |step| table.rows(source.token(step)))
                    }
                    _ => {
                        let (pass, states) = (pass.clone(), &states);
                        Box::new(move |step| pass.inputs(states[step].clone()))
                    }
                };
                let [size, _] = gru.hidden.weight.dims();
                let start = Tensor::zeros([source.batch_size(), size], &gru.hidden.weight.device());
                let mut outputs = vec![None; steps];
                let last = order.into_iter().fold(start, |hidden, step| {
                    let next = ends.hold(step, pass.step(inputs(step), hidden.clone()), hidden);
                    outputs[step] = Some(next.clone());
                    next
                });
                let outputs: Vec<Tensor<2>> = outputs.into_iter().flatten().collect();
                (outputs, last)
            };
            let (outputs, end) = run(&self.forward[layer], (0..steps).collect());
            let (outputs, end) = match self.backward.get(layer) {
                Some(gru) => {
                    let (backward, backward_end) = run(gru, (0..steps).rev().collect());
                    let join = |a, b| Tensor::cat(vec![a, b], 1);
                    let outputs = outputs.into_iter().zip(backward).map(|(a, b)| join(a, b));
                    (outputs.collect(), join(end, backward_end))
                }
                None => (outputs, end),
            };
            states = outputs;
            last.push(end);
        }
        Encoded {
            states: Tensor::stack(states, 1),
            last,
        }
    }
}

/// Where each source ends: padding must not change a state.
struct Ends {
    /// For each step, 1 where the step is a token and 0 where it is padding, `[batch, 1]`; `None` where no source
    /// has ended yet.
    is_token: Vec<Option<Tensor<2>>>,
}

impl Ends {
    fn new(source: &Source, device: &Device) -> Self {
        let lens = source.lens();
        let shortest = lens.iter().copied().min().unwrap_or(0);
        let is_token = (0..source.num_tokens())
            .map(|step| {
                (step >= shortest).then(|| {
                    let flags: Vec<f32> = lens.iter().map(|&len| f32::from(step < len)).collect();
                    Tensor::from_data(TensorData::new(flags, [lens.len(), 1]), device)
                })
            })
            .collect();
        Self { is_token }
    }

    fn hold(&self, step: usize, next: Tensor<2>, previous: Tensor<2>) -> Tensor<2> {
        match &self.is_token[step] {
            Some(is_token) => previous.clone() + (next - previous) * is_token.clone(),
            None => next,
        }
    }
}
