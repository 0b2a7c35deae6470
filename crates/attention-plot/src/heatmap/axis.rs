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

/// The entries along an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'a> {
    /// Their labels; if empty, their indices.
    pub(crate) tokens: &'a [String],
    pub(crate) count: usize,
    /// The distance from one to the next, in pixels.
    pub(crate) cell: i32,
}

/// The tick labels' size, and the typeface that measures them.
#[derive(Clone, Copy)]
pub(crate) struct Lettering<'a> {
    pub(crate) em: f64,
    pub(crate) face: &'a Face,
}

impl Axis {
    /// The labels below a panel.
    pub(crate) fn keys(keys: Entries<'_>, lettering: Lettering<'_>) -> Self {
        let Lettering { em, face } = lettering;
        let has_tokens = !keys.tokens.is_empty();
        let rotated = has_tokens && lettering.widest(keys.tokens.iter()) + 4 > keys.cell;
        let needed = if rotated {
            ceil(1.15 * em)
        } else if has_tokens {
            keys.cell
        } else {
            ceil(face.width(&(keys.count - 1).to_string(), em)) + 14
        };
        let ticks = ticks(keys, needed, lettering);
        let extent = if rotated {
            lettering.widest(ticks.iter().map(|(_, label)| label))
        } else {
            ceil(em)
        };
        Self {
            ticks,
            rotated,
            extent,
        }
    }

    /// The labels left of a panel.
    pub(crate) fn queries(queries: Entries<'_>, lettering: Lettering<'_>) -> Self {
        let lines = if queries.tokens.is_empty() { 2.4 } else { 1.15 };
        let ticks = ticks(queries, ceil(lines * lettering.em), lettering);
        let extent = lettering.widest(ticks.iter().map(|(_, label)| label));
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
}

/// The entries that get a label, `needed` pixels apart: tokens in any step, indices in steps of 1, 2, 5, 10, 20 ...
fn ticks(entries: Entries<'_>, needed: i32, lettering: Lettering<'_>) -> Vec<(usize, String)> {
    let Entries {
        tokens,
        count,
        cell,
    } = entries;
    let step = ceil(f64::from(needed) / f64::from(cell)).max(1) as usize;
    if tokens.is_empty() {
        let round = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_usize.pow(power)));
        let step = round.take(24).find(|round| *round >= step).unwrap_or(step);
        (0..count)
            .step_by(step)
            .map(|index| (index, index.to_string()))
            .collect()
    } else {
        let Lettering { em, face } = lettering;
        let fitted = |(index, token): (usize, &String)| (index, face.fit(token, em, LABEL_LIMIT));
        tokens
            .iter()
            .enumerate()
            .step_by(step)
            .map(fitted)
            .collect()
    }
}
