//! The labels along a panel: as many as there is room for.

use crate::{figure::ceil, font::Face};

/// Token labels longer than this are cut.
const LABEL_LIMIT: f64 = 170.0;

/// The labels along one axis, thinned so that they do not touch.
#[derive(Debug)]
pub(crate) struct Axis {
    /// The labelled entries.
    pub(crate) ticks: Vec<(usize, String)>,
    /// Whether keys' labels run upwards for want of width.
    pub(crate) rotated: bool,
    /// How far the labels reach away from the panel.
    pub(crate) extent: i32,
}

impl Axis {
    pub(crate) fn keys(tokens: &[String], count: usize, cell: i32, em: f64, face: &Face) -> Self {
        let widest_token = widest(tokens.iter(), em, face);
        let rotated = !tokens.is_empty() && widest_token + 4 > cell;
        let needed = match tokens.is_empty() {
            true => ceil(face.width(&(count - 1).to_string(), em)) + 14,
            false if rotated => ceil(1.15 * em),
            false => cell,
        };
        let ticks = ticks(tokens, count, cell, needed, em, face);
        let widest = widest(ticks.iter().map(|(_, label)| label), em, face);
        Self {
            ticks,
            rotated,
            extent: if rotated { widest } else { ceil(em) },
        }
    }

    pub(crate) fn queries(
        tokens: &[String],
        count: usize,
        cell: i32,
        em: f64,
        face: &Face,
    ) -> Self {
        let needed = ceil(if tokens.is_empty() {
            2.4 * em
        } else {
            1.15 * em
        });
        let ticks = ticks(tokens, count, cell, needed, em, face);
        let extent = widest(ticks.iter().map(|(_, label)| label), em, face);
        Self {
            ticks,
            rotated: false,
            extent,
        }
    }
}

/// The entries that get a label, `needed` pixels apart: tokens at any step, numbers at 1, 2, 5, 10, 20 ...
fn ticks(
    tokens: &[String],
    count: usize,
    cell: i32,
    needed: i32,
    em: f64,
    face: &Face,
) -> Vec<(usize, String)> {
    let step = ceil(f64::from(needed) / f64::from(cell)).max(1) as usize;
    if tokens.is_empty() {
        let round = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_usize.pow(power)));
        let step = round.take(24).find(|round| *round >= step).unwrap_or(step);
        (0..count)
            .step_by(step)
            .map(|index| (index, index.to_string()))
            .collect()
    } else {
        let fitted = |(index, token): (usize, &String)| (index, face.fit(token, em, LABEL_LIMIT));
        tokens
            .iter()
            .enumerate()
            .step_by(step)
            .map(fitted)
            .collect()
    }
}

fn widest<'a>(labels: impl Iterator<Item = &'a String>, em: f64, face: &Face) -> i32 {
    ceil(
        labels
            .map(|label| face.width(label, em))
            .fold(0.0, f64::max),
    )
}
