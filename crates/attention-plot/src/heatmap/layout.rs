//! The places of all parts of a grid of heatmaps, in pixels of an SVG at its natural size.
//!
//! ```text
//!          title        title
//!   y    q ┌────────┐   ┌────────┐   ┌┐
//!   title q│ panel  │   │ panel  │   ││─ tick
//!        q └────────┘   └────────┘   └┘
//!           k k k k      k k k k
//!           x title      x title
//! ```
//!
//! Each panel is in the middle of a slot, which is at least as wide as the title above it, so titles never touch. An
//! axis title is no longer than the axis of one panel or, if it does not fit there, of all panels together, where it is
//! placed once.

use super::{
    HeatmapGrid,
    axis::{Axis, Lettering},
    panels::{AxisTitle, Panels, Side},
};
use crate::{
    PlotError,
    canvas::{Area, Point, Size, check_sides},
    font::Face,
    measures::{GAP, MARGIN, TICK, TICK_GAP, TITLE_EM, TITLE_GAP, ceil},
    scale::Tick,
};

/// The number of strips of the colour bar.
pub(crate) const BAR_STEPS: i32 = 64;
pub(crate) const BAR_EM: f64 = 10.0;

const BAR_WIDTH: i32 = 12;
/// The height of the colour bar per label, and the largest number of labels.
const BAR_LABEL_HEIGHT: i32 = 20;
const BAR_LABELS: i32 = 6;
/// The smallest side of a panel: room for a short axis title and, for a single row, for two labels of the colour bar.
const LEAST_PANEL: f64 = 40.0;
/// The width at which titles are cut.
const TITLE_LIMIT: f64 = 340.0;

#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) page: Size,
    pub(crate) cell: Size,
    pub(crate) keys: Axis,
    pub(crate) queries: Axis,
    pub(crate) tick_em: f64,
    pub(crate) titles: Vec<String>,
    pub(crate) x_title: AxisTitle,
    pub(crate) y_title: AxisTitle,
    pub(crate) bar: Area,
    pub(crate) bar_ticks: Vec<Tick>,
    panels: Panels,
}

impl Layout {
    pub(crate) fn new(grid: &HeatmapGrid, face: &Face) -> Result<Self, PlotError> {
        let cell = cell_size(grid);
        check_size(grid, cell)?;

        let [rows, columns, queries, keys] = grid.shape();
        let tick_em = tick_em(grid, cell);
        let letters = Lettering { em: tick_em, face };
        let key_axis = Axis::keys(&grid.key_labels, keys, cell.width, letters);
        let query_axis = Axis::queries(&grid.query_labels, queries, cell.height, letters);

        let fit = |title: &String| face.fit(title, TITLE_EM, TITLE_LIMIT);
        let titles: Vec<_> = grid.titles.iter().map(fit).collect();
        let widths = titles.iter().map(|title| ceil(face.width(title, TITLE_EM)));
        let widest_title = widths.max().unwrap_or(0);
        let has_titles = titles.iter().any(|title| !title.is_empty());
        let title_room = ceil(TITLE_EM) + TITLE_GAP;
        let above = if has_titles { title_room } else { 0 };

        let panel = Size {
            width: cell.width * keys as i32,
            height: cell.height * queries as i32,
        };
        let slot_width = panel.width.max(widest_title);
        let pitch = Size {
            width: slot_width + GAP,
            height: panel.height + GAP,
        };
        let horizontal = Side {
            panels: columns,
            length: panel.width,
            pitch: pitch.width,
        };
        let vertical = Side {
            panels: rows,
            length: panel.height,
            pitch: pitch.height,
        };
        let x_title = AxisTitle::fit(&grid.x_title, horizontal, face);
        let y_title = AxisTitle::fit(&grid.y_title, vertical, face);

        let beside = y_title.room() + query_axis.extent + TICK_GAP + TICK;
        let left = MARGIN + beside;
        let top = MARGIN + above;
        let panels = Panels {
            rows: rows as i32,
            columns: columns as i32,
            first: Area {
                x: left + (slot_width - panel.width) / 2,
                y: top,
                width: panel.width,
                height: panel.height,
            },
            pitch,
        };
        let grid_right = left + panels.columns * pitch.width - GAP;
        let height = panels.all().height;

        // D2L shrinks the colour bar of a grid to 0.6 of its height.
        let bar_height = if rows == 1 { height } else { height * 6 / 10 };
        let bar = Area {
            x: grid_right + GAP,
            y: top + (height - bar_height) / 2,
            width: BAR_WIDTH,
            height: bar_height,
        };
        let most = (bar_height / BAR_LABEL_HEIGHT).clamp(2, BAR_LABELS);
        let bar_ticks = grid.scale().weights.ticks_like_ends(most as usize);
        let labels = bar_ticks.iter().map(|tick| &tick.label);
        let widths = labels.map(|label| ceil(face.width(label, BAR_EM)));
        let bar_right = bar.right() + TICK + TICK_GAP + widths.max().unwrap_or(0);
        let below = TICK + TICK_GAP + key_axis.extent + x_title.room();
        let page = Size {
            width: bar_right + MARGIN,
            height: top + height + below + MARGIN,
        };
        Ok(Self {
            page,
            cell,
            keys: key_axis,
            queries: query_axis,
            tick_em,
            titles,
            x_title,
            y_title,
            bar,
            bar_ticks,
            panels,
        })
    }

    pub(crate) fn panel(&self, row: usize, column: usize) -> Area {
        self.panels.at(row as i32, column as i32)
    }

    /// The areas of a panel's cells, in the order of its weights.
    pub(crate) fn cells(&self, row: usize, column: usize) -> impl Iterator<Item = Area> {
        self.panel(row, column)
            .cells(self.cell.width, self.cell.height)
    }

    /// The middle line of the column titles.
    pub(crate) fn title_y(&self) -> i32 {
        self.panels.first.y - TITLE_GAP - ceil(TITLE_EM / 2.0)
    }

    /// The middle of each title below the keys' labels.
    pub(crate) fn x_title_places(&self) -> impl Iterator<Item = Point> {
        let lowest = self.panels.rows - 1;
        let below_each = (0..self.panels.columns).map(move |column| self.panels.at(lowest, column));
        let labels = self.panels.all().bottom() + TICK + TICK_GAP + self.keys.extent;
        let y = labels + self.x_title.offset();
        let axes = self.x_title.axes(below_each, self.panels.all());
        axes.map(move |axis| Point { y, ..axis.middle() })
    }

    /// The middle of each title beside the queries' labels.
    pub(crate) fn y_title_places(&self) -> impl Iterator<Item = Point> {
        let beside_each = (0..self.panels.rows).map(|row| self.panels.at(row, 0));
        let labels = self.panels.first.x - TICK - TICK_GAP - self.queries.extent;
        let x = labels - self.y_title.offset();
        let axes = self.y_title.axes(beside_each, self.panels.all());
        axes.map(move |axis| Point { x, ..axis.middle() })
    }
}

/// The size of the tick labels.
fn tick_em(grid: &HeatmapGrid, cell: Size) -> f64 {
    let [rows, columns, ..] = grid.shape();
    if is_labelled(grid) {
        (0.74 * f64::from(cell.width.min(cell.height))).clamp(8.0, 11.5)
    } else if rows.max(columns) > 2 {
        9.0
    } else {
        10.0
    }
}

/// Width and height of a cell. Larger grids have smaller panels; tokens get room for their letters as long as the
/// figure fits a page; panels with a few entries are kept from becoming slivers.
fn cell_size(grid: &HeatmapGrid) -> Size {
    let [rows, columns, queries, keys] = grid.shape();
    let (panels, longest) = (rows.max(columns) as f64, queries.max(keys) as f64);
    let least = if is_labelled(grid) { 11.0 } else { 3.0 };
    let least = (1400.0 / (panels * longest)).clamp(1.0, least);
    let most = (200.0 / longest).clamp(34.0, 56.0);
    let side = (440.0 / panels.powf(0.65) / longest).clamp(least, most) as i32;
    let stretched = |entries: usize| side.max(ceil(LEAST_PANEL / entries as f64));
    Size {
        width: stretched(keys),
        height: stretched(queries),
    }
}

fn is_labelled(grid: &HeatmapGrid) -> bool {
    !(grid.key_labels.is_empty() && grid.query_labels.is_empty())
}

/// Refuses figures whose panels alone are too large, before any arithmetic on pixels.
fn check_size(grid: &HeatmapGrid, cell: Size) -> Result<(), PlotError> {
    let [rows, columns, queries, keys] = grid.shape();
    let side = |panels: usize, entries: usize, cell: i32| {
        let panel = (entries as u64).saturating_mul(cell as u64);
        (panels as u64).saturating_mul(panel.saturating_add(GAP as u64))
    };
    let width = side(columns, keys, cell.width);
    check_sides(width, side(rows, queries, cell.height))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_own_place() {
        let face = Face::load("SVG").unwrap();
        for shape in [
            [1, 1, 1, 1],
            [1, 1, 1, 40],
            [2, 4, 10, 10],
            [3, 1, 2, 9],
            [1, 5, 70, 1],
        ] {
            let [rows, columns, queries, keys] = shape;
            for length in [1, 12, 90] {
                let text = "w".repeat(length);
                let grid = HeatmapGrid::new(vec![0.5; shape.iter().product()], shape)
                    .unwrap()
                    .with_titles(vec![text.as_str(); columns])
                    .unwrap()
                    .with_query_labels(vec![text.as_str(); queries])
                    .unwrap()
                    .with_key_labels(vec![text.as_str(); keys])
                    .unwrap()
                    .with_axis_titles(text.as_str(), text.as_str());
                let layout = Layout::new(&grid, &face).unwrap();

                let (first, last) = (layout.panel(0, 0), layout.panel(rows - 1, columns - 1));
                let pitch = layout.panels.pitch;
                let title = ceil(face.width(&layout.titles[0], TITLE_EM)) / 2;
                let bar_label = ceil(face.width(&layout.bar_ticks[0].label, BAR_EM));
                let bar_right = layout.bar.right() + TICK + TICK_GAP + bar_label;
                assert!(pitch.width > first.width && pitch.height > first.height);
                let has_room = layout.title_y() >= 7 && layout.title_y() + 7 < first.y;
                assert!(has_room, "{shape:?}");
                let what = format!("{shape:?} {length}");
                assert!(first.middle().x >= title, "{what}");
                assert!(last.middle().x + title <= layout.page.width, "{what}");
                assert!(pitch.width > 2 * title, "{what}");
                assert!(last.right() < layout.bar.x && bar_right < layout.page.width);
                for place in layout.y_title_places() {
                    assert!(place.x < first.x, "{what}");
                    let least = layout.y_title.room() - layout.y_title.offset();
                    assert!(place.x >= least, "{what}");
                }
                for place in layout.x_title_places() {
                    assert!(place.y > last.bottom(), "{what}");
                    let bottom = place.y + layout.x_title.room() - layout.x_title.offset();
                    assert!(bottom < layout.page.height, "{what}");
                }
            }
        }
    }

    #[test]
    fn a_title_too_long_for_one_panel_stands_once_along_all() {
        let face = Face::load("SVG").unwrap();
        let places = |titles: [&str; 2]| {
            let grid = HeatmapGrid::new(vec![0.5; 2 * 3 * 2 * 2], [2, 3, 2, 2]).unwrap();
            let layout = Layout::new(&grid.with_axis_titles(titles[0], titles[1]), &face).unwrap();
            let all = layout.panels.all().middle();
            let columns: Vec<_> = layout.x_title_places().map(|place| place.x).collect();
            let rows: Vec<_> = layout.y_title_places().map(|place| place.y).collect();
            let each_column = [0, 1, 2].map(|column| layout.panel(0, column).middle().x);
            let each_row = [0, 1].map(|row| layout.panel(row, 0).middle().y);
            (
                columns == each_column,
                columns == [all.x],
                rows == each_row,
                rows == [all.y],
            )
        };
        assert_eq!(places(["Keys", "Queries"]), (true, false, true, false));
        let long = "equal keys above, random keys below";
        assert_eq!(places([long, "Queries"]), (false, true, true, false));
        assert_eq!(places(["Keys", long]), (true, false, false, true));
    }
}
