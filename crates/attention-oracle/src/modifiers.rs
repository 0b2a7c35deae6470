//! The modifications of a score before the softmax.

use crate::Real;

/// Elements that are broadcast along axes of size 1.
#[derive(Clone, Copy, Debug)]
pub struct Bias<'a, E> {
    /// The elements.
    pub elements: &'a [E],
    /// Their axes.
    pub shape: [usize; 4],
}

impl<E> Bias<'_, E> {
    /// The index of the element for a place.
    pub(crate) fn position(&self, place: [usize; 4]) -> usize {
        let axes = self.shape.iter().zip(place);
        axes.fold(0, |position, (size, at)| {
            position * size + if *size == 1 { 0 } else { at }
        })
    }
}

/// The modifications of scores, in the order in which they apply.
#[derive(Clone, Copy, Debug)]
pub struct Modifiers<'a, E> {
    /// `cap tanh(score / cap)`: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size".
    pub soft_cap: Option<E>,
    /// A bias of pairs, `[batch or 1, heads or 1, queries or 1, keys]`; minus infinity masks a pair.
    pub bias: Option<Bias<'a, E>>,
    /// A bias of distances, `[batch or 1, heads or 1, 1, queries + keys - 1]`: query `i` and key `j` are at
    /// `j + queries - 1 - i`.
    pub relative_bias: Option<Bias<'a, E>>,
    /// A logit per head beside the logits of keys, whose weight goes to no value: Xiao et al. 2024, "Efficient
    /// Streaming Language Models with Attention Sinks". Minus infinity means no sink.
    pub sinks: Option<&'a [E]>,
}

impl<E: Real> Modifiers<'_, E> {
    /// No modifications.
    pub const NONE: Self = Modifiers {
        soft_cap: None,
        bias: None,
        relative_bias: None,
        sinks: None,
    };

    /// The modified score of a pair, and the derivative of the soft-cap.
    pub(crate) fn modify(&self, score: E, queries: usize, place: [usize; 4]) -> [E; 2] {
        let (mut modified, mut slope, mut is_masked) = (score, E::ONE, false);
        if let Some(cap) = self.soft_cap {
            let tanh = (score / cap).tanh();
            (modified, slope) = (cap * tanh, E::ONE - tanh * tanh);
        }
        for (bias, place) in [
            (self.bias, place),
            (self.relative_bias, distance(queries, place)),
        ] {
            let Some(bias) = bias else { continue };
            let bias = bias.elements[bias.position(place)];
            // Minus infinity also masks NaN.
            is_masked |= bias == E::MASKED;
            modified += bias;
        }
        [if is_masked { E::MASKED } else { modified }, slope]
    }
}

/// The place of a pair's relative bias.
pub(crate) fn distance(queries: usize, [batch, head, query, key]: [usize; 4]) -> [usize; 4] {
    [batch, head, 0, key + queries - 1 - query]
}
