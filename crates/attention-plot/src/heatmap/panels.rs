//! The panels of a grid of heatmaps, and the axis titles along them.

use crate::{canvas::Area, font::Face, title::Title};

/// A width and a height, or the distance from one panel to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) width: i32,
    pub(crate) height: i32,
}

/// The panels of a grid.
#[derive(Debug)]
pub(crate) struct Panels {
    pub(crate) rows: i32,
    pub(crate) columns: i32,
    pub(crate) first: Area,
    /// From one panel to the next.
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

    /// From the first panel to the last.
    pub(crate) fn all(&self) -> Area {
        Area {
            width: self.first.width + (self.columns - 1) * self.pitch.width,
            height: self.first.height + (self.rows - 1) * self.pitch.height,
            ..self.first
        }
    }
}

/// The title of an axis: of one panel, or of all panels together.
#[derive(Debug)]
pub(crate) struct AxisTitle {
    pub(crate) title: Title,
    joint: bool,
}

/// The axes along one side of a grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) panels: usize,
    /// The length of the axis of one panel.
    pub(crate) length: i32,
    /// From one panel to the next.
    pub(crate) pitch: i32,
}

impl AxisTitle {
    pub(crate) fn fit(text: &str, side: Side, face: &Face) -> Self {
        let own = Title::fit(text, side.length.into(), face);
        if side.panels == 1 || own.is_natural() {
            return Self {
                title: own,
                joint: false,
            };
        }
        let all = side.length + (side.panels as i32 - 1) * side.pitch;
        Self {
            title: Title::fit(text, all.into(), face),
            joint: true,
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
