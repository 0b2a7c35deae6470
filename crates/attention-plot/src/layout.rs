//! Where everything goes: one unit is one pixel of an SVG at its natural size.
//!
//! ```text
//!          title        title
//!   y    q ┌────────┐   ┌────────┐   ┌┐ high
//!   title q│ panel  │   │ panel  │   ││
//!        q └────────┘   └────────┘   └┘ low
//!           k k k k      k k k k
//!           x title      x title
//! ```
//!
//! Each panel stands in the middle of a slot, which is at least as wide as the titles above and below it and as high as
//! the title beside it, so texts never meet. Only the title of a single column may be wider than its slot.

use crate::{
    HeatmapGrid, PlotError,
    axis::Axis,
    figure::{
        AXIS_TITLE_EM, Area, GAP, MARGIN, TICK, TICK_GAP, TITLE_EM, TITLE_GAP, ceil, check_sides,
        room,
    },
    font::Face,
};

/// The colour bar's strips.
pub(crate) const BAR_STEPS: i32 = 64;
pub(crate) const BAR_EM: f64 = 10.0;

const BAR_WIDTH: i32 = 12;
/// Titles longer than this are cut.
const TITLE_LIMIT: f64 = 340.0;
/// The title of a single column may reach over the labels and the colour bar.
const LONE_TITLE_LIMIT: f64 = 600.0;

#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) width: i32,
    pub(crate) height: i32,
    /// Width and height of a cell.
    pub(crate) cell: (i32, i32),
    pub(crate) keys: Axis,
    pub(crate) queries: Axis,
    pub(crate) tick_em: f64,
    pub(crate) titles: Vec<String>,
    pub(crate) x_title: String,
    pub(crate) y_title: String,
    pub(crate) bar: Area,
    pub(crate) bar_ticks: Vec<String>,
    /// The first panel.
    panel: Area,
    /// The way from one panel to the next.
    pitch: (i32, i32),
}

impl Layout {
    pub(crate) fn new(grid: &HeatmapGrid, face: &Face) -> Result<Self, PlotError> {
        let [rows, columns, queries, keys] = grid.shape();
        let cell = cell_size(grid);
        check_size(rows, queries, cell.1, columns, keys, cell.0)?;

        let tokens = !(grid.key_labels.is_empty() && grid.query_labels.is_empty());
        let tick_em = match f64::from(cell.0.min(cell.1)) {
            cell if tokens => (0.74 * cell).clamp(8.0, 11.5),
            _ if rows.max(columns) > 2 => 9.0,
            _ => 10.0,
        };
        let key_axis = Axis::keys(&grid.key_labels, keys, cell.0, tick_em, face);
        let query_axis = Axis::queries(&grid.query_labels, queries, cell.1, tick_em, face);

        let title_limit = if columns == 1 {
            LONE_TITLE_LIMIT
        } else {
            TITLE_LIMIT
        };
        let fit = |text: &str, em, limit| face.fit(text, em, limit);
        let measure = |text: &String, em| ceil(face.width(text, em));
        let titles: Vec<_> = grid
            .titles
            .iter()
            .map(|title| fit(title, TITLE_EM, title_limit))
            .collect();
        let x_title = fit(&grid.x_title, AXIS_TITLE_EM, TITLE_LIMIT);
        let y_title = fit(&grid.y_title, AXIS_TITLE_EM, TITLE_LIMIT);
        let widest_title = titles
            .iter()
            .map(|title| measure(title, TITLE_EM))
            .max()
            .unwrap_or(0);

        let (rows, columns) = (rows as i32, columns as i32);
        let (width, height) = (cell.0 * keys as i32, cell.1 * queries as i32);
        let slot_width = width.max(measure(&x_title, AXIS_TITLE_EM));
        let overhang = ((widest_title - slot_width) / 2).max(0);
        let slot_width = if columns == 1 {
            slot_width
        } else {
            slot_width.max(widest_title)
        };
        // A lone flat panel still needs a colour bar that is high enough for its two labels.
        let least_height = if rows == 1 { 4.0 * BAR_EM } else { 0.0 } as i32;
        let slot_height = height
            .max(measure(&y_title, AXIS_TITLE_EM))
            .max(least_height);

        let beside = room(&y_title, AXIS_TITLE_EM) + query_axis.extent + TICK + TICK_GAP;
        let left = MARGIN
            + if columns == 1 {
                beside.max(overhang)
            } else {
                beside
            };
        let has_titles = titles.iter().any(|title| !title.is_empty());
        let top = MARGIN
            + if has_titles {
                ceil(TITLE_EM) + TITLE_GAP
            } else {
                0
            };
        let below = TICK + TICK_GAP + key_axis.extent + room(&x_title, AXIS_TITLE_EM);
        let pitch = (slot_width + GAP, slot_height + GAP);
        let grid_right = left + columns * pitch.0 - GAP;
        let grid_height = rows * pitch.1 - GAP;

        // The book shrinks the colour bar beside a grid to 0.6 of its height.
        let bar_height = if rows == 1 {
            grid_height
        } else {
            grid_height * 6 / 10
        };
        let bar = Area {
            x: grid_right + GAP,
            y: top + (grid_height - bar_height) / 2,
            width: BAR_WIDTH,
            height: bar_height,
        };
        let bar_ticks = grid.scale().ticks(match bar_height {
            ..80 => 2,
            80..160 => 3,
            _ => 5,
        });
        let bar_label = bar_ticks
            .iter()
            .map(|label| measure(label, BAR_EM))
            .max()
            .unwrap_or(0);

        let bar_right = bar.x + bar.width + TICK + TICK_GAP + bar_label;
        let bottom = top + grid_height - (slot_height - height) / 2 + below;
        Ok(Self {
            width: bar_right.max(grid_right + overhang) + MARGIN,
            height: bottom.max(bar.y + bar.height) + MARGIN,
            cell,
            keys: key_axis,
            queries: query_axis,
            tick_em,
            titles,
            x_title,
            y_title,
            bar,
            bar_ticks,
            panel: Area {
                x: left + (slot_width - width) / 2,
                y: top + (slot_height - height) / 2,
                width,
                height,
            },
            pitch,
        })
    }

    pub(crate) fn panel(&self, row: usize, column: usize) -> Area {
        Area {
            x: self.panel.x + column as i32 * self.pitch.0,
            y: self.panel.y + row as i32 * self.pitch.1,
            ..self.panel
        }
    }

    /// The areas of a panel's cells, in the order of its weights.
    pub(crate) fn cells(&self, row: usize, column: usize) -> impl Iterator<Item = Area> {
        let panel = self.panel(row, column);
        let (width, height) = self.cell;
        (panel.y..panel.y + panel.height)
            .step_by(height as usize)
            .flat_map(move |y| {
                (panel.x..panel.x + panel.width)
                    .step_by(width as usize)
                    .map(move |x| Area {
                        x,
                        y,
                        width,
                        height,
                    })
            })
    }

    /// The middle line of the column titles.
    pub(crate) fn title_y(&self) -> i32 {
        self.panel.y - TITLE_GAP - ceil(TITLE_EM / 2.0)
    }

    /// The middle line of the keys' axis titles, from the panel's lower edge.
    pub(crate) fn x_title_offset(&self) -> i32 {
        TICK + TICK_GAP + self.keys.extent + room("x", AXIS_TITLE_EM) - ceil(AXIS_TITLE_EM / 2.0)
    }

    /// The middle line of the queries' axis titles, from the panel's left edge.
    pub(crate) fn y_title_offset(&self) -> i32 {
        TICK + TICK_GAP + self.queries.extent + room("y", AXIS_TITLE_EM) - ceil(AXIS_TITLE_EM / 2.0)
    }
}

/// Width and height of a cell. Larger grids have smaller panels; tokens are given room for their letters as long as the
/// figure stays within a page; panels a few entries long are kept from becoming slivers.
fn cell_size(grid: &HeatmapGrid) -> (i32, i32) {
    let [rows, columns, queries, keys] = grid.shape();
    let (panels, longest) = (rows.max(columns) as f64, queries.max(keys) as f64);
    let labelled = !(grid.key_labels.is_empty() && grid.query_labels.is_empty());
    let least = (1400.0 / (panels * longest)).clamp(1.0, if labelled { 11.0 } else { 3.0 });
    let most = (200.0 / longest).clamp(34.0, 56.0);
    let side = (440.0 / panels.powf(0.65) / longest).clamp(least, most) as i32;
    let stretched = |entries: usize| side.max(ceil(28.0 / entries as f64));
    (stretched(keys), stretched(queries))
}

/// Refuses figures whose panels alone are too large, before any arithmetic on pixels.
fn check_size(
    rows: usize,
    queries: usize,
    cell_height: i32,
    columns: usize,
    keys: usize,
    cell_width: i32,
) -> Result<(), PlotError> {
    let side = |panels: usize, entries: usize, cell: i32| {
        let panel = (entries as u64)
            .saturating_mul(cell as u64)
            .saturating_add(GAP as u64);
        (panels as u64).saturating_mul(panel)
    };
    check_sides(
        side(columns, keys, cell_width),
        side(rows, queries, cell_height),
    )
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
                let grid = HeatmapGrid::new(vec![0.5; shape.iter().product()], shape).unwrap();
                let grid = grid.with_titles(vec![text.as_str(); columns]).unwrap();
                let grid = grid
                    .with_query_labels(vec![text.as_str(); queries])
                    .unwrap();
                let grid = grid.with_key_labels(vec![text.as_str(); keys]).unwrap();
                let layout = Layout::new(&grid, &face).unwrap();

                let (first, last) = (layout.panel(0, 0), layout.panel(rows - 1, columns - 1));
                let title = ceil(face.width(&layout.titles[0], TITLE_EM)) / 2;
                let bar_label = ceil(face.width(&layout.bar_ticks[0], BAR_EM));
                let bar_right = layout.bar.x + layout.bar.width + TICK + TICK_GAP + bar_label;
                assert!(layout.pitch.0 > first.width && layout.pitch.1 > first.height);
                assert!(
                    layout.title_y() >= 7 && layout.title_y() + 7 < first.y,
                    "{shape:?}"
                );
                assert!(first.x + first.width / 2 >= title, "{shape:?} {length}");
                assert!(
                    last.x + last.width / 2 + title <= layout.width,
                    "{shape:?} {length}"
                );
                assert!(
                    columns == 1 || layout.pitch.0 > 2 * title,
                    "{shape:?} {length}"
                );
                assert!(first.x >= layout.y_title_offset() + 6, "{shape:?} {length}");
                assert!(last.x + last.width < layout.bar.x && bar_right < layout.width);
                let bottom = last.y + last.height + layout.x_title_offset() + 6;
                assert!(bottom < layout.height, "{shape:?} {length}");
            }
        }
    }
}
