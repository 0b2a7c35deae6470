//! The state that all tasks of a pass share.

use super::inputs::RecurrentInputs;
use crate::product::{Aligned, Panels};
use crate::simd::MAX_LANES;
use crate::{Buffer, Level, Matrix, Real};

/// The weights of a layer, packed, and its sizes.
pub(super) struct Layer<'a, E, const G: usize> {
    pub(super) steps: usize,
    pub(super) hidden_size: usize,
    /// The distance of rows in scratch memory: the hidden size, rounded up to whole vectors.
    pub(super) stride: usize,
    is_reversed: bool,
    /// The weights of each gate; in the backward pass their transposes.
    pub(super) weights: [Panels<'a, E>; G],
    /// `[G, stride]`, padded with zeros after the units.
    pub(super) hidden_bias: Buffer<E>,
}

impl<E: Real, const G: usize> Layer<'_, E, G> {
    /// The indices of the steps in their order.
    #[inline(always)]
    pub(super) fn order(&self) -> impl DoubleEndedIterator<Item = usize> + use<E, G> {
        let (steps, is_reversed) = (self.steps, self.is_reversed);
        (0..steps).map(move |at| if is_reversed { steps - 1 - at } else { at })
    }

    /// The step that follows `step`; none follows the last.
    #[inline(always)]
    pub(super) fn after(&self, step: usize) -> Option<usize> {
        if self.is_reversed {
            step.checked_sub(1)
        } else {
            Some(step + 1).filter(|after| *after < self.steps)
        }
    }

    /// The step that precedes `step`; none precedes the first, which begins with the initial state.
    #[inline(always)]
    pub(super) fn before(&self, step: usize) -> Option<usize> {
        if self.is_reversed {
            Some(step + 1).filter(|before| *before < self.steps)
        } else {
            step.checked_sub(1)
        }
    }

    /// Rows of `hidden_size`, each padded with zeros.
    #[inline(always)]
    pub(super) fn padded(&self, rows: &[E]) -> Buffer<E> {
        let mut padded = Buffer::zeroed(rows.len() / self.hidden_size * self.stride);
        let to = padded.chunks_exact_mut(self.stride);
        for (to, from) in to.zip(rows.chunks_exact(self.hidden_size)) {
            to[..self.hidden_size].copy_from_slice(from);
        }
        padded
    }
}

impl<E: Real, const G: usize, const N: usize> RecurrentInputs<'_, E, G, N> {
    /// The weights, or their transposes, packed into `buffers`.
    pub(super) fn layer<'a>(
        &'a self,
        level: Level,
        is_transposed: bool,
        buffers: &'a mut [Aligned<E>; G],
    ) -> Layer<'a, E, G> {
        let [batch, steps, hidden_size] = self.sizes;
        let weight = Matrix::new(self.hidden_weight, [hidden_size, G * hidden_size]);
        let weight = match is_transposed {
            true => weight.transposed(),
            false => weight,
        };
        let blocks = (0..G).map(|gate| {
            let of_gate = gate * hidden_size..(gate + 1) * hidden_size;
            match is_transposed {
                true => [of_gate, 0..hidden_size],
                false => [0..hidden_size, of_gate],
            }
        });
        let packed = self.packings.map(|[forward, backward]| {
            let packing = if is_transposed { backward } else { forward };
            packing.of_blocks(level, weight, blocks.clone())
        });
        let mut blocks = blocks.enumerate();
        let weights = buffers.each_mut().map(|buffer| {
            let (gate, block) = blocks.next().unwrap_or_default();
            match packed {
                Some(packed) => Panels::packed(&packed[gate], block),
                None => Panels::new(level, &[weight], block, batch * steps, buffer),
            }
        });
        let mut layer = Layer {
            steps,
            hidden_size,
            stride: hidden_size.next_multiple_of(MAX_LANES),
            is_reversed: self.is_reversed,
            weights,
            hidden_bias: Buffer::default(),
        };
        layer.hidden_bias = layer.padded(self.hidden_bias);
        layer
    }
}

/// The next example and step, in the order in which all `examples` take a step before any takes `next`; unchanged at
/// the end.
#[inline(always)]
pub(super) fn following(
    [example, step]: [usize; 2],
    examples: usize,
    next: Option<usize>,
) -> [usize; 2] {
    if example + 1 < examples {
        [example + 1, step]
    } else {
        [0, next.unwrap_or(step)]
    }
}
