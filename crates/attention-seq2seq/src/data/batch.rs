//! Batches: examples, padded to the longest.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use crate::data::examples::Example;
use crate::text::vocab::Vocab;

/// The sources of a batch, padded to the longest.
#[derive(Clone, Debug)]
pub struct Source {
    /// `[batch, source tokens]`
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
        let rows = sources.iter().map(|source| source.iter().copied());
        let tokens = padded(rows, &lens, device);
        Self { tokens, lens }
    }

    /// The number of sources.
    pub fn batch_size(&self) -> usize {
        self.lens.len()
    }

    /// The number of tokens of each source.
    pub(crate) fn lens(&self) -> &[usize] {
        &self.lens
    }

    /// The number of tokens of each source, `[batch]`.
    pub(crate) fn valid_lens(&self) -> Tensor<1, Int> {
        numbers_on_device(self.lens.iter().copied(), &self.tokens.device())
    }

    /// The sources, each with the end token appended.
    pub(crate) fn with_end(&self) -> Self {
        let ([batch, width], device) = (self.tokens.dims(), self.tokens.device());
        let padding = Tensor::full([batch, 1], Vocab::PAD, &device);
        let tokens = Tensor::cat(vec![self.tokens(), padding], 1);
        let lens = self.lens.iter();
        let is_end = lens.flat_map(|&len| (0..=width).map(move |at| at == len));
        let is_end = TensorData::new(is_end.collect::<Vec<bool>>(), [batch, width + 1]);
        let is_end = Tensor::<2, Bool>::from_data(is_end, &device);
        Self {
            tokens: tokens.mask_fill(is_end, Vocab::EOS),
            lens: self.lens.iter().map(|len| len + 1).collect(),
        }
    }

    /// The tokens, `[batch, source tokens]`.
    pub(crate) fn tokens(&self) -> Tensor<2, Int> {
        self.tokens.clone()
    }
}

/// Sources and their targets, padded to the longest of the batch.
///
/// ```
/// use attention_seq2seq::{Batch, Example};
/// use burn::tensor::Device;
///
/// let examples = [
///     Example { source: vec![5, 4, 6], target: vec![7] },
///     Example { source: vec![4], target: vec![7, 8, 9] },
/// ];
/// let batch = Batch::new(&examples, &Device::flex());
/// assert_eq!(batch.target.dims(), [2, 4]); // the longest target and its end
/// assert_eq!(batch.target_tokens(), 6);
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    /// The sources.
    pub source: Source,
    /// The decoder's inputs: the begin token and the target, padded. `[batch, target tokens]`
    previous: Tensor<2, Int>,
    /// The decoder's expected outputs: the target and the end token, padded. `[batch, target tokens]`
    pub target: Tensor<2, Int>,
    /// The number of tokens of each target, including the end token.
    target_lens: Vec<usize>,
}

impl Batch {
    /// Pads examples to one batch.
    ///
    /// # Panics
    /// If there is no example, or a source is empty.
    pub fn new(examples: &[Example], device: &Device) -> Self {
        let lens: Vec<usize> = examples.iter().map(Example::target_len).collect();
        let sources = examples.iter().map(|example| example.source.as_slice());
        let targets = examples.iter().map(|example| example.target.as_slice());
        Self {
            source: Source::new(sources, device),
            previous: decoder_inputs(targets, device),
            target: padded(examples.iter().map(Example::ended_target), &lens, device),
            target_lens: lens,
        }
    }

    /// The number of steps: the tokens of the longest target, including the end token.
    pub(crate) fn target_len(&self) -> usize {
        self.target.dims()[1]
    }

    /// The number of target tokens of all examples, including end tokens, without padding.
    pub fn target_tokens(&self) -> usize {
        self.target_lens.iter().sum()
    }

    /// The last step of each target, at which its end is predicted, `[batch]`.
    pub(crate) fn last_steps(&self) -> Tensor<1, Int> {
        let last = self.target_lens.iter().map(|&len| len - 1);
        numbers_on_device(last, &self.target.device())
    }

    /// The number of tokens of each target, including the end token.
    pub(crate) fn target_lens(&self) -> &[usize] {
        &self.target_lens
    }

    /// The decoder's inputs at all steps, `[batch, target tokens]`.
    pub(crate) fn previous_tokens(&self) -> Tensor<2, Int> {
        self.previous.clone()
    }

    /// The decoder's input at one step, `[batch]`.
    pub(crate) fn previous_token(&self, step: usize) -> Tensor<1, Int> {
        let column = self.previous.clone().narrow(1, step, 1);
        column.squeeze_dim::<1>(1)
    }
}

/// The inputs of a decoder that is to output `targets`: the begin token and each target, padded to the longest.
/// `[batch, tokens of the longest target + 1]`
pub(crate) fn decoder_inputs<'a>(
    targets: impl Iterator<Item = &'a [u32]> + Clone,
    device: &Device,
) -> Tensor<2, Int> {
    let lens: Vec<usize> = targets.clone().map(|target| target.len() + 1).collect();
    let inputs = targets.map(|target| [Vocab::BOS].into_iter().chain(target.iter().copied()));
    padded(inputs, &lens, device)
}

/// `[numbers]`
fn numbers_on_device(numbers: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let numbers: Vec<i64> = numbers.map(|number| number as i64).collect();
    Tensor::from_data(&numbers[..], device)
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

/// The rows of several tensors of tokens, padded to the longest of all.
///
/// # Panics
/// If there is no tensor.
pub(crate) fn stacked(mut all: Vec<Tensor<2, Int>>) -> Tensor<2, Int> {
    if let [_] = all[..] {
        return all.remove(0);
    }
    let width = all.iter().map(|rows| rows.dims()[1]).max().unwrap_or(0);
    let padded = all.into_iter().map(|rows| {
        let [count, own] = rows.dims();
        if own == width {
            return rows;
        }
        let padding = Tensor::full([count, width - own], Vocab::PAD, &rows.device());
        Tensor::cat(vec![rows, padding], 1)
    });
    Tensor::cat(padded.collect(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::examples::example;
    use crate::device::test_device as device;

    fn rows(tokens: &Tensor<2, Int>) -> Vec<Vec<i64>> {
        let [_, width] = tokens.dims();
        let tokens: Vec<i64> = tokens.to_data().iter::<i64>().collect();
        tokens.chunks(width).map(<[i64]>::to_vec).collect()
    }

    #[test]
    fn a_batch_shifts_targets_and_pads_to_the_longest() {
        let examples = [
            example(&[4, 5, 6], &[7]),
            example(&[8], &[9, 4, 5]),
            example(&[6, 7], &[]),
        ];
        let batch = Batch::new(&examples, &device());
        let expected = [[4, 5, 6], [8, 0, 0], [6, 7, 0]];
        assert_eq!(rows(&batch.source.tokens), expected);
        assert_eq!(batch.source.lens(), [3, 1, 2]);
        assert_eq!(batch.source.batch_size(), 3);
        assert_eq!(batch.source.tokens().dims()[1], 3);
        let lens = batch.source.valid_lens().to_data();
        assert_eq!(lens.iter::<i64>().collect::<Vec<_>>(), [3, 1, 2]);
        let expected = [[1, 7, 0, 0], [1, 9, 4, 5], [1, 0, 0, 0]];
        assert_eq!(rows(&batch.previous), expected);
        let expected = [[7, 2, 0, 0], [9, 4, 5, 2], [2, 0, 0, 0]];
        assert_eq!(rows(&batch.target), expected);
        assert_eq!(batch.target_len(), 4);
        assert_eq!(batch.target_lens(), [2, 4, 1]);
        assert_eq!(rows(&batch.previous_tokens()), rows(&batch.previous));
        for step in 0..4 {
            let token = batch.previous_token(step).to_data();
            let expected = rows(&batch.previous).into_iter().map(|row| row[step]);
            assert!(token.iter::<i64>().eq(expected));
        }
    }

    #[test]
    fn a_source_ends_after_its_last_token() {
        let source = Source::new([&[4, 5, 6][..], &[8], &[6, 7]], &device()).with_end();
        let expected = [[4, 5, 6, 2], [8, 2, 0, 0], [6, 7, 2, 0]];
        assert_eq!(rows(&source.tokens), expected);
        assert_eq!(source.lens(), [4, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "at least one source of at least one token, got lengths []")]
    fn no_source_is_refused() {
        Source::new([], &device());
    }

    #[test]
    #[should_panic(expected = "at least one source of at least one token, got lengths [2, 0]")]
    fn an_empty_source_is_refused() {
        Source::new([&[4, 5][..], &[]], &device());
    }
}
