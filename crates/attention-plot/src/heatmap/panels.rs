//! The panels of a grid of heatmaps, and the axis titles along them.

use crate::{
    canvas::{Anchor, Area, Direction, Point, Size, Text},
    font::Face,
};

/// The panels of a grid.
#[derive(Debug)]
pub(crate) struct Panels {
    pub(crate) rows: i32,
    pub(crate) columns: i32,
    pub(crate) first: Area,
    /// The distance from one panel to the next.
    pub(crate) pitch: Size,
}

impl Panels {
    pub(crate) fn at(&self, row: i32, column: i32) -> Area {
        Area {
            x: self.first.x + column * self.pitch.width,
            y: self.first.y + row * self.pitch.height,
            ..self.first
        }
    }

    /// The area from the first panel to the last.
    pub(crate) fn all(&self) -> Area {
        Area {
            width: self.first.width + (self.columns - 1) * self.pitch.width,
            height: self.first.height + (self.rows - 1) * self.pitch.height,
            ..self.first
        }
    }
}

/// The sizes of the letters of an axis title: the natural one, and the smallest to which a long title is shrunk.
const AXIS_TITLE_EM: i32 = 12;
const LEAST_EM: i32 = 8;
/// The distance of an axis title from the tick labels.
const CLEARANCE: i32 = 8;

/// The title of an axis, on one line: for one panel, or for all panels together.
///
/// A title that is too long is shrunk slightly, or else cut with an ellipsis.
#[derive(Debug)]
pub(crate) struct AxisTitle {
    pub(crate) text: String,
    em: i32,
    joint: bool,
}

/// The axes along one side of a grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) panels: usize,
    /// The length of the axis of one panel.
    pub(crate) length: i32,
    /// The distance from one panel to the next.
    pub(crate) pitch: i32,
}

impl AxisTitle {
    pub(crate) fn fit(text: &str, side: Side, face: &Face) -> Self {
        let words: Vec<_> = text.split_whitespace().collect();
        let text = words.join(" ");
        let fits = |em: &i32, length: i32| face.width(&text, (*em).into()) <= length.into();
        let joint = side.panels > 1 && !fits(&AXIS_TITLE_EM, side.length);
        let others = if joint { side.panels as i32 - 1 } else { 0 };
        let length = side.length + others * side.pitch;
        let mut sizes = (LEAST_EM..=AXIS_TITLE_EM).rev();
        let em = sizes.find(|em| fits(em, length)).unwrap_or(LEAST_EM);
        Self {
            text: face.fit(&text, em.into(), length.into()),
            em,
            joint,
        }
    }

    /// The title as a text at a point of its middle line.
    pub(crate) fn at(&self, at: Point, direction: Direction) -> Text<'_> {
        Text {
            direction,
            ..Text::new(&self.text, self.em.into(), at, Anchor::Middle)
        }
    }

    /// The distance from the tick labels to the middle of the title.
    pub(crate) fn offset(&self) -> i32 {
        CLEARANCE + (self.em + 1) / 2
    }

    /// The space that the title needs beside the axis: none if it is blank.
    pub(crate) fn room(&self) -> i32 {
        match self.text.is_empty() {
            true => 0,
            false => self.offset() + (self.em + 1) / 2,
        }
    }

    /// The panels that have a title each.
    pub(crate) fn axes(
        &self,
        panels: impl Iterator<Item = Area>,
        all: Area,
    ) -> impl Iterator<Item = Area> {
        let joint = self.joint;
        panels.filter(move |_| !joint).chain(joint.then_some(all))
    }
}
