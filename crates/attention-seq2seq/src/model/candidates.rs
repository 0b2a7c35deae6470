//! The choice of the next token in decoding.

use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::PackedLinear;

use crate::text::vocab::Vocab;

/// The output projection of decoding, to the logits of the tokens that may come next: the end, and the data's.
///
/// Padding, begin and the unknown token have no column here. So no logit makes one of them an output, NaN included,
/// and a step costs no mask.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    projection: PackedLinear,
    /// The token of each column. The end is first, as the first of equal logits is chosen, and the first NaN: a model
    /// without a most likely token ends.
    tokens: Tensor<1, Int>,
    /// The number of tokens, special ones included.
    vocab_size: usize,
}

impl Candidates {
    /// The candidates among the tokens of `output`.
    ///
    /// # Panics
    /// If `output` has fewer tokens than there are special ones.
    pub(super) fn new(output: &Linear) -> Self {
        let weight = output.weight.val();
        let [_, vocab_size] = weight.dims();
        assert!(
            vocab_size >= Vocab::SPECIAL_TOKENS,
            "greedy search: target tokens expected at least the {} special ones, got {vocab_size}",
            Vocab::SPECIAL_TOKENS
        );
        let device = weight.device();
        let end = Tensor::full([1], Vocab::EOS, &device);
        let of_data = Vocab::SPECIAL_TOKENS as i64..vocab_size as i64;
        let tokens = if of_data.is_empty() {
            end
        } else {
            Tensor::cat(vec![end, Tensor::arange(of_data, &device)], 0)
        };
        let bias = output.bias.as_ref();
        Self {
            projection: PackedLinear::new(
                columns(weight, 1),
                bias.map(|bias| columns(bias.val(), 0)),
            ),
            tokens,
            vocab_size,
        }
    }

    /// The token of each column.
    pub(super) fn ids(&self) -> Vec<u32> {
        let of_data = Vocab::SPECIAL_TOKENS as u32..self.vocab_size as u32;
        [Vocab::EOS].into_iter().chain(of_data).collect()
    }

    /// The device on which they are chosen.
    pub(super) fn device(&self) -> Device {
        self.tokens.device()
    }

    /// The logits of the candidates, `[rows, candidates]`, from features `[rows, size]`.
    pub(super) fn logits(&self, features: Tensor<2>) -> Tensor<2> {
        self.projection.forward(features)
    }

    /// The most likely token of each row, from features `[rows, size]`.
    pub(super) fn most_likely(&self, features: Tensor<2>) -> Vec<u32> {
        let columns = self.logits(features).argmax(1).squeeze_dim::<1>(1);
        let tokens = self.tokens.clone().select(0, columns);
        tokens.try_into_vec_as().expect("tokens are integers")
    }
}

/// The elements of the candidates along `axis`, in the order of [`Candidates::tokens`].
fn columns<const D: usize>(parameter: Tensor<D>, axis: usize) -> Tensor<D> {
    let of_data = parameter.dims()[axis] - Vocab::SPECIAL_TOKENS;
    let end = parameter.clone().narrow(axis, Vocab::EOS as usize, 1);
    if of_data == 0 {
        return end;
    }
    let of_data = parameter.narrow(axis, Vocab::SPECIAL_TOKENS, of_data);
    Tensor::cat(vec![end, of_data], axis)
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

    #[track_caller]
    fn check(logits: &[f32], expected: u32) {
        let features = Tensor::ones([2, 3], &test_device());
        let tokens = candidates(logits).most_likely(features);
        assert_eq!(tokens, [expected; 2], "{logits:?}");
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
