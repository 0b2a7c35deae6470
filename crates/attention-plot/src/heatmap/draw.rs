//! A grid of heatmaps on a canvas.

use super::{
    HeatmapGrid,
    layout::{BAR_EM, BAR_STEPS, Layout},
};
use crate::{
    PlotError,
    canvas::{Anchor, Area, Canvas, Cells, Direction, Figure, Point, Size, Text},
    font::Face,
    measures::{TICK, TICK_GAP, TITLE_EM},
    raster, svg,
};

/// The figure as SVG text.
pub(crate) fn svg(grid: &HeatmapGrid) -> Result<String, PlotError> {
    let layout = &Layout::new(grid, &Face::load("SVG")?)?;
    Ok(svg::svg(&GridFigure { grid, layout }))
}

/// The figure as the bytes of a PNG file.
pub(crate) fn png(grid: &HeatmapGrid) -> Result<Vec<u8>, PlotError> {
    let face = Face::load("PNG")?;
    let layout = &Layout::new(grid, &face)?;
    raster::png(&GridFigure { grid, layout }, &face)
}

/// A grid with its layout.
pub(crate) struct GridFigure<'a> {
    pub(crate) grid: &'a HeatmapGrid,
    pub(crate) layout: &'a Layout,
}

impl Figure for GridFigure<'_> {
    fn page(&self) -> Size {
        self.layout.page
    }

    fn draw(&self, canvas: &mut impl Canvas) {
        let layout = self.layout;
        let [rows, columns, ..] = self.grid.shape();
        for row in 0..rows {
            for column in 0..columns {
                self.draw_cells(canvas, row, column);
            }
            self.draw_query_labels(canvas, row);
        }
        for column in 0..columns {
            self.draw_key_labels(canvas, column);
        }
        for (column, title) in layout.titles.iter().enumerate() {
            let (x, y) = (layout.panel(0, column).middle().x, layout.title_y());
            let at = Point { x, y };
            canvas.text(Text::new(title, TITLE_EM, at, Anchor::Middle));
        }
        for at in layout.x_title_places() {
            canvas.text(layout.x_title.at(at, Direction::Rightwards));
        }
        for at in layout.y_title_places() {
            canvas.text(layout.y_title.at(at, Direction::Upwards));
        }
        self.draw_color_bar(canvas);
    }
}

impl GridFigure<'_> {
    fn draw_cells(&self, canvas: &mut impl Canvas, row: usize, column: usize) {
        let scale = self.grid.scale();
        let weights = self.grid.panel(row, column);
        let panel = self.layout.panel(row, column);
        if self.grid.is_large() {
            canvas.cells(&Cells {
                area: panel,
                columns: self.grid.shape()[3],
                palette: scale.palette(),
                indices: weights.iter().map(|weight| scale.index(*weight)).collect(),
            });
        } else {
            for (area, weight) in self.layout.cells(row, column).zip(weights) {
                canvas.fill(area, scale.color(*weight));
            }
        }
        canvas.frame(panel);
    }

    fn draw_query_labels(&self, canvas: &mut impl Canvas, row: usize) {
        let (layout, panel) = (self.layout, self.layout.panel(row, 0));
        let height = layout.cell.height;
        for (query, label) in &layout.queries.ticks {
            let y = panel.y + *query as i32 * height + height / 2;
            let edge = Point { x: panel.x, y };
            let tick = edge.moved(-TICK, 0);
            canvas.tick(tick, edge);
            let at = tick.moved(-TICK_GAP, 0);
            canvas.text(Text::new(label, layout.tick_em, at, Anchor::End));
        }
    }

    fn draw_key_labels(&self, canvas: &mut impl Canvas, column: usize) {
        let layout = self.layout;
        let panel = layout.panel(self.grid.shape()[0] - 1, column);
        let width = layout.cell.width;
        for (key, label) in &layout.keys.ticks {
            let x = panel.x + *key as i32 * width + width / 2;
            let (edge, y) = (panel.bottom(), panel.bottom() + TICK);
            canvas.tick(Point { x, y: edge }, Point { x, y });
            let top = Point { x, y: y + TICK_GAP };
            let (at, anchor, direction) = if layout.keys.rotated {
                (top, Anchor::End, Direction::Upwards)
            } else {
                let half = (layout.tick_em / 2.0) as i32;
                (top.moved(0, half), Anchor::Middle, Direction::Rightwards)
            };
            canvas.text(Text {
                direction,
                ..Text::new(label, layout.tick_em, at, anchor)
            });
        }
    }

    fn draw_color_bar(&self, canvas: &mut impl Canvas) {
        let (bar, scale) = (self.layout.bar, self.grid.scale());
        let edge = |step| bar.bottom() - bar.height * step / BAR_STEPS;
        for step in 0..BAR_STEPS {
            let y = edge(step + 1);
            let height = edge(step) - y;
            let strip = Area { y, height, ..bar };
            let position = f64::from(step) / f64::from(BAR_STEPS - 1);
            canvas.fill(strip, scale.color_at(position));
        }
        canvas.frame(bar);
        for tick in &self.layout.bar_ticks {
            let up = scale.weights.position(tick.value) * f64::from(bar.height);
            let (x, y) = (bar.right(), bar.bottom() - up.round() as i32);
            let edge = Point { x, y };
            let end = edge.moved(TICK, 0);
            canvas.tick(edge, end);
            let at = end.moved(TICK_GAP, 0);
            canvas.text(Text::new(&tick.label, BAR_EM, at, Anchor::Start));
        }
    }
}
