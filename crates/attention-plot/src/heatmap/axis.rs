//! The tick labels along a panel, as many as there is room for.

use crate::{font::Face, measures::ceil};

/// The width at which token labels are cut.
const LABEL_LIMIT: f64 = 170.0;

/// The tick labels along one axis of a panel, thinned so that they do not touch.
#[derive(Debug)]
pub(crate) struct Axis {
    /// The labelled entries.
    pub(crate) ticks: Vec<(usize, String)>,
    /// Whether the labels of keys run upwards for lack of width.
    pub(crate) rotated: bool,
    /// How far the labels extend from the panel.
    pub(crate) extent: i32,
}

/// The tick labels' size, and the typeface that measures them.
#[derive(Clone, Copy)]
pub(crate) struct Lettering<'a> {
    pub(crate) em: f64,
    pub(crate) face: &'a Face,
}

impl Axis {
    /// The labels below a panel, with cells of `cell` pixels: the tokens, or the indices if there are none.
    pub(crate) fn keys(tokens: &[String], count: usize, cell: i32, letters: Lettering<'_>) -> Self {
        let Lettering { em, face } = letters;
        let has_tokens = !tokens.is_empty();
        let rotated = has_tokens && letters.widest(tokens.iter()) + 4 > cell;
        let needed = if rotated {
            ceil(1.15 * em)
        } else if has_tokens {
            cell
        } else {
            ceil(face.width(&(count - 1).to_string(), em)) + 14
        };
        let ticks = letters.ticks(tokens, count, needed, cell);
        let extent = if rotated {
            letters.widest(ticks.iter().map(|(_, label)| label))
        } else {
            ceil(em)
        };
        Self {
            ticks,
            rotated,
            extent,
        }
    }

    /// The labels left of a panel, like [`keys`](Self::keys).
    pub(crate) fn queries(
        tokens: &[String],
        count: usize,
        cell: i32,
        letters: Lettering<'_>,
    ) -> Self {
        let lines = if tokens.is_empty() { 2.4 } else { 1.15 };
        let ticks = letters.ticks(tokens, count, ceil(lines * letters.em), cell);
        let extent = letters.widest(ticks.iter().map(|(_, label)| label));
        Self {
            ticks,
            rotated: false,
            extent,
        }
    }
}

impl Lettering<'_> {
    fn widest<'a>(&self, labels: impl Iterator<Item = &'a String>) -> i32 {
        let widths = labels.map(|label| self.face.width(label, self.em));
        ceil(widths.fold(0.0, f64::max))
    }

    /// The entries that get a label, `needed` pixels apart: tokens in any step, indices in steps of 1, 2, 5, 10, 20 ...
    fn ticks(
        &self,
        tokens: &[String],
        count: usize,
        needed: i32,
        cell: i32,
    ) -> Vec<(usize, String)> {
        let step = ceil(f64::from(needed) / f64::from(cell)).max(1) as usize;
        if tokens.is_empty() {
            let round = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_usize.pow(power)));
            let step = round.take(24).find(|round| *round >= step).unwrap_or(step);
            let indices = (0..count).step_by(step);
            indices.map(|index| (index, index.to_string())).collect()
        } else {
            let fit = |token| self.face.fit(token, self.em, LABEL_LIMIT);
            let tokens = tokens.iter().enumerate().step_by(step);
            tokens.map(|(index, token)| (index, fit(token))).collect()
        }
    }
}
