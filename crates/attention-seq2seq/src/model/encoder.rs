//! The encoder: source tokens to one state per token.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig};
use burn::tensor::{Device, Tensor, TensorData};

use super::gru::{Gates, Gru, GruConfig};
use crate::batch::Source;

/// Configuration of an [`Encoder`].
///
/// ```
/// use attention_seq2seq::{EncoderConfig, Source};
/// use burn::tensor::Device;
///
/// let device = Device::flex();
/// let encoder = EncoderConfig::new(12, 5, 8).with_layers(2).init(&device);
/// let source = Source::new([&[5, 4, 6][..], &[7]], &device);
/// let encoded = encoder.forward(&source);
/// assert_eq!(encoded.states.dims(), [2, 3, 8]);
/// assert_eq!(encoded.last.len(), 2);
/// ```
#[derive(Config, Debug)]
pub struct EncoderConfig {
    /// The number of source tokens.
    pub vocab_size: usize,
    /// The feature dimension of a token's embedding.
    pub embedding_size: usize,
    /// The feature dimension of a state; a bidirectional encoder gives half to each direction.
    pub hidden_size: usize,
    /// The number of layers.
    #[config(default = 1)]
    pub layers: usize,
    /// Whether the encoder reads the source in both directions.
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
        let directions = if self.bidirectional { 2 } else { 1 };
        let size = self.hidden_size / directions;
        let layer = |index: usize| {
            let input_size = match index {
                0 => self.embedding_size,
                _ => self.hidden_size,
            };
            GruConfig::new(input_size, size).init(device)
        };
        let embedding = EmbeddingConfig::new(self.vocab_size, self.embedding_size).init(device);
        let forward = (0..self.layers).map(layer).collect();
        let backward = if self.bidirectional {
            (0..self.layers).map(layer).collect()
        } else {
            Vec::new()
        };
        Encoder {
            embedding,
            forward,
            backward,
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

/// The output of an [`Encoder`].
pub struct Encoded {
    /// The top layer's state at every source token, `[batch, source tokens, hidden_size]`; arbitrary at padding.
    pub states: Tensor<3>,
    /// The state of each layer after the last token, `[batch, hidden_size]`.
    pub last: Vec<Tensor<2>>,
}

/// The inputs' share of the gates at each step of a sequence.
type StepInputs<'a> = Box<dyn Fn(usize) -> Gates<2> + 'a>;

impl Encoder {
    /// Encodes a batch of sources. Padding changes no state of a token.
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
                        let table = pass.table(self.embedding.weight.val());
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

/// The end of each source: padding must not change a state.
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

    /// The state after a step: `next` where the step is a token, `previous` where it is padding.
    fn hold(&self, step: usize, next: Tensor<2>, previous: Tensor<2>) -> Tensor<2> {
        match &self.is_token[step] {
            Some(is_token) => previous.clone() + (next - previous) * is_token.clone(),
            None => next,
        }
    }
}
