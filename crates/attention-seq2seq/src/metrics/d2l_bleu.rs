//! The BLEU of D2L.

use std::hash::Hash;

use super::ngrams::{ngrams, shared};

/// The BLEU of one sequence, as D2L defines it (Dive into Deep Learning, "Sequence-to-Sequence Learning for Machine
/// Translation"): `exp(min(0, 1 - len_label / len_pred)) * prod p_n^(1 / 2^n)`, with the precisions `p_n` of n-grams of
/// 1 to `max_order` tokens, or as many as the output has. It is 0 to 1.
///
/// It weighs orders by `1 / 2^n` and smooths nothing: it compares with D2L's figures, and not with those of [`Bleu`].
/// An empty output has 1 if its reference is empty, and else 0.
///
/// [`Bleu`]: crate::Bleu
///
/// ```
/// use attention_seq2seq::d2l_bleu;
///
/// let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
/// assert_eq!(d2l_bleu(&words("il est calme ."), &words("il est calme ."), 2), 1.0);
/// let bleu = d2l_bleu(&words("je suis chez ."), &words("je suis chez moi ."), 2);
/// assert_eq!(format!("{bleu:.3}"), "0.704");
/// ```
pub fn d2l_bleu<T: Eq + Hash>(output: &[T], reference: &[T], max_order: usize) -> f64 {
    if output.is_empty() {
        return f64::from(u8::from(reference.is_empty()));
    }
    let brevity = 1.0 - reference.len() as f64 / output.len() as f64;
    let mut score = brevity.min(0.0).exp();
    for order in 1..=max_order.min(output.len()) {
        let matches = shared(&ngrams(output, order), &ngrams(reference, order));
        let precision = matches as f64 / (output.len() - order + 1) as f64;
        score *= precision.powf(0.5_f64.powi(order as i32));
    }
    score
}
