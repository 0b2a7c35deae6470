//! The measures that all figures share, in pixels of an SVG.

/// The size of the letters of titles.
pub(crate) const TITLE_EM: f64 = 13.0;
/// The length of a tick, and the space between a tick and its label.
pub(crate) const TICK: i32 = 3;
pub(crate) const TICK_GAP: i32 = 3;
/// The margin around the figure.
pub(crate) const MARGIN: i32 = 14;
/// The space between panels, and beside them.
pub(crate) const GAP: i32 = 18;
/// The space below a title. It leaves room for the upper label of a colour bar, above which a long title may extend.
pub(crate) const TITLE_GAP: i32 = 10;

pub(crate) fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}
