//! The choice of the next token in decoding.

use attention_core::NewRows;
use attention_transformers::generate::SelectTexts;
use attention_transformers::generate::search::TextDecoding;
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::PackedLinear;

use super::Decoding;
use crate::data::batch::Source;
use crate::text::vocab::Vocab;

/// The output projection of decoding, to the logits of the tokens that may come next: the end, and the data's.
///
/// Padding, the begin token and the unknown token have no column here. So no logit, NaN included, can make one of them
/// an output, and steps need no mask.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    projection: PackedLinear,
    /// The token of each column. The end token is first, because the first of equal logits, or the first NaN, is
    /// chosen: a model without a most likely token ends.
    tokens: Vec<u32>,
    device: Device,
}

impl Candidates {
    /// The candidates among the tokens of `output`.
    ///
    /// # Panics
    /// If `output` has fewer tokens than there are special tokens.
    pub(super) fn new(output: &Linear) -> Self {
        let weight = output.weight.val();
        let [_, vocab_size] = weight.dims();
        assert!(
            vocab_size >= Vocab::SPECIAL_TOKENS,
            "greedy search: target tokens expected at least the {} special ones, got {vocab_size}",
            Vocab::SPECIAL_TOKENS
        );
        let device = weight.device();
        let of_data = Vocab::SPECIAL_TOKENS as u32..vocab_size as u32;
        let tokens: Vec<u32> = [Vocab::EOS].into_iter().chain(of_data).collect();
        let columns = tokens_on_device(&tokens, &device);
        let bias = output.bias.as_ref();
        let bias = bias.map(|bias| bias.val().select(0, columns.clone()));
        Self {
            projection: PackedLinear::new(weight.select(1, columns), bias),
            tokens,
            device,
        }
    }

    /// The device on which tokens are chosen.
    pub(super) fn device(&self) -> Device {
        self.device.clone()
    }

    /// The logits of the candidates, `[rows, candidates]`, from features `[rows, size]`.
    pub(super) fn logits(&self, features: Tensor<2>) -> Tensor<2> {
        self.projection.forward(features)
    }
}

/// Tokens on the device, `[tokens]`.
pub(super) fn tokens_on_device(tokens: &[u32], device: &Device) -> Tensor<1, Int> {
    let tokens: Vec<i64> = tokens.iter().copied().map(i64::from).collect();
    Tensor::from_data(&tokens[..], device)
}

/// Decodes sources; `next` returns the features that predict the next tokens, `[rows, size]`, and the attention weights
/// of the step, if it has any.
pub(super) fn decoding_of<'a, S: SelectTexts + 'a>(
    candidates: Candidates,
    source: &Source,
    state: S,
    next: impl Fn(Tensor<2, Int>, NewRows<'_>, &mut S) -> (Tensor<2>, Option<Tensor<2>>) + 'a,
) -> Box<dyn Decoding + 'a> {
    let (tokens, device) = (candidates.tokens.clone(), candidates.device());
    let next = move |tokens: Tensor<2, Int>, rows: NewRows<'_>, state: &mut S| {
        let (features, weights) = next(tokens, rows, state);
        (candidates.logits(features), weights)
    };
    let prompts = vec![vec![Vocab::BOS]; source.batch_size()];
    let decoding = TextDecoding::from_fn(device, next, state, prompts)
        .with_candidates(tokens)
        .with_ends(vec![Vocab::EOS])
        .with_source_lens(source.lens().to_vec());
    Box::new(decoding)
}

#[cfg(test)]
mod tests {
    use burn::module::Param;
    use burn::nn::LinearConfig;

    use super::*;
    use crate::device::test_device;

    /// Candidates of a vocabulary whose logits are these, whatever the features.
    fn candidates(logits: &[f32]) -> Candidates {
        let device = test_device();
        let mut output = LinearConfig::new(3, logits.len()).init(&device);
        output.weight = Param::from_tensor(Tensor::zeros([3, logits.len()], &device));
        output.bias = Some(Param::from_tensor(Tensor::from_floats(logits, &device)));
        Candidates::new(&output)
    }

    #[derive(Clone)]
    struct NoState;

    impl SelectTexts for NoState {
        fn select(&mut self, _: Tensor<1, Int>) {}
    }

    /// Checks the most likely token of two rows.
    #[track_caller]
    fn check(logits: &[f32], expected: u32) {
        let device = test_device();
        let source = Source::new([&[4][..], &[4]], &device);
        let next = |_: Tensor<2, Int>, _: NewRows<'_>, _: &mut NoState| {
            (Tensor::ones([2, 3], &test_device()), None)
        };
        let mut decoding = decoding_of(candidates(logits), &source, NoState, next);
        assert_eq!(decoding.most_likely(&[]), [expected; 2], "{logits:?}");
    }

    #[test]
    fn special_tokens_are_no_candidates_but_the_end() {
        check(&[9.0, 9.0, 1.0, 9.0, 2.0, 3.0, 2.0], 5);
        check(&[9.0, 9.0, 4.0, 9.0, 2.0, 3.0, 2.0], Vocab::EOS);
        check(&[f32::INFINITY, 9.0, 1.0, f32::INFINITY, 2.0, 3.0, 5.0], 6);
        // A vocabulary of special tokens alone.
        check(&[9.0, 9.0, -1.0, 9.0], Vocab::EOS);
    }

    #[test]
    fn without_a_most_likely_token_decoding_ends() {
        const NEVER: f32 = f32::NEG_INFINITY;
        check(&[0.0, 0.0, NEVER, 0.0, NEVER, NEVER], Vocab::EOS);
        check(&[0.0, 0.0, -9.0, 0.0, NEVER, NEVER], Vocab::EOS);
        check(&[0.0, 0.0, 1.0, 0.0, 1.0, 1.0], Vocab::EOS);
        check(&[f32::NAN; 7], Vocab::EOS);
    }

    #[test]
    fn a_nan_chooses_no_special_token() {
        // The logits of special tokens are never read.
        check(&[f32::NAN, f32::NAN, 1.0, f32::NAN, 2.0, 3.0, 2.0], 5);
        // A row of Burn's vectorized search.
        let mut wide = [0.0; 700];
        wide[..4].fill(f32::NAN);
        check(&wide, Vocab::EOS);
        wide[2] = 0.0;
        wide[650] = 1.0;
        check(&wide, 650);
    }
}
