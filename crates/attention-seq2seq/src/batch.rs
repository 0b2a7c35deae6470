//! Batches: examples of similar length, padded to the longest.

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::vocab::Vocab;

/// A pair of source and target, as tokens' numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The source tokens, at least one.
    pub source: Vec<u32>,
    /// The target tokens, without begin and end.
    pub target: Vec<u32>,
}

/// The sources of a batch, padded.
#[derive(Clone, Debug)]
pub struct Source {
    /// `[batch, tokens]`
    tokens: Tensor<2, Int>,
    lens: Vec<usize>,
}

impl Source {
    /// Pads `sources` to the longest.
    ///
    /// # Panics
    /// If there is no source or one is empty.
    pub fn new<'a>(sources: impl IntoIterator<Item = &'a [u32]>, device: &Device) -> Self {
        let sources: Vec<&[u32]> = sources.into_iter().collect();
        let lens: Vec<usize> = sources.iter().map(|source| source.len()).collect();
        assert!(
            lens.iter().copied().min().unwrap_or(0) > 0,
            "Source: expected at least one source of at least one token, got lengths {lens:?}"
        );
        let tokens = padded(sources.iter().map(|source| source.iter().copied()), &lens, device);
        Self { tokens, lens }
    }

    /// The number of sources.
    pub fn batch_size(&self) -> usize {
        self.lens.len()
    }

    /// The number of tokens of the longest source.
    pub fn num_tokens(&self) -> usize {
        self.tokens.dims()[1]
    }

    /// The number of tokens of each source.
    pub fn lens(&self) -> &[usize] {
        &self.lens
    }

    /// The number of tokens of each source, `[batch]`.
    pub fn valid_lens(&self) -> Tensor<1, Int> {
        let lens: Vec<i64> = self.lens.iter().map(|&len| len as i64).collect();
        let shape = [lens.len()];
        Tensor::from_data(TensorData::new(lens, shape), &self.tokens.device())
    }

    /// The tokens at one position, `[batch]`.
    pub(crate) fn token(&self, position: usize) -> Tensor<1, Int> {
        column(&self.tokens, position)
    }
}

/// Sources and their targets.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The sources.
    pub source: Source,
    /// What the decoder reads: begin, then the target, padded. `[batch, tokens]`
    previous: Tensor<2, Int>,
    /// What the decoder should say: the target, then end, padded. `[batch, tokens]`
    pub target: Tensor<2, Int>,
}

impl Batch {
    /// The number of target tokens of the longest target, its end included.
    pub fn target_len(&self) -> usize {
        self.target.dims()[1]
    }

    /// What the decoder reads at one step, `[batch]`.
    pub(crate) fn previous_token(&self, step: usize) -> Tensor<1, Int> {
        column(&self.previous, step)
    }
}

/// Makes a [`Batch`] of examples that [`batches`] has put together.
#[derive(Clone, Debug)]
pub struct Seq2SeqBatcher;

impl Batcher<Vec<Example>, Batch> for Seq2SeqBatcher {
    fn batch(&self, items: Vec<Vec<Example>>, device: &Device) -> Batch {
        let examples: Vec<Example> = items.into_iter().flatten().collect();
        let lens: Vec<usize> = examples.iter().map(|example| example.target.len() + 1).collect();
        let target = |example: &Example| example.target.clone();
        let previous = examples
            .iter()
            .map(|example| std::iter::once(Vocab::BOS).chain(target(example)));
        let following = examples
            .iter()
            .map(|example| target(example).into_iter().chain([Vocab::EOS]));
        Batch {
            source: Source::new(examples.iter().map(|example| example.source.as_slice()), device),
            previous: padded(previous, &lens, device),
            target: padded(following, &lens, device),
        }
    }
}

/// Puts examples of similar length together, `batch_size` at a time, so that little is padding.
pub fn batches(mut examples: Vec<Example>, batch_size: usize) -> Vec<Vec<Example>> {
    examples.sort_by_key(|example| (example.source.len(), example.target.len()));
    examples.chunks(batch_size.max(1)).map(<[Example]>::to_vec).collect()
}

fn padded<I: IntoIterator<Item = u32>>(
    rows: impl Iterator<Item = I>,
    lens: &[usize],
    device: &Device,
) -> Tensor<2, Int> {
    let width = lens.iter().copied().max().unwrap_or(0);
    let mut tokens = Vec::with_capacity(lens.len() * width);
    for row in rows {
        let end = tokens.len() + width;
        tokens.extend(row.into_iter().map(i64::from));
        tokens.resize(end, i64::from(Vocab::PAD));
    }
    Tensor::from_data(TensorData::new(tokens, [lens.len(), width]), device)
}

fn column(tokens: &Tensor<2, Int>, index: usize) -> Tensor<1, Int> {
    tokens.clone().narrow(1, index, 1).squeeze_dim::<1>(1)
}
