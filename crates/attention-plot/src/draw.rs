//! The heatmaps on any plotters backend, and as SVG.

use plotters::{
    backend::DrawingBackend,
    style::{FontTransform, RGBColor, text_anchor::HPos},
};

use crate::{
    HeatmapGrid, PlotError,
    figure::{
        self, AXIS_TITLE_EM, Area, Drawn, Figure, INK, TICK, TICK_GAP, TITLE_EM, corner, fill, text,
    },
    font::Face,
    layout::{BAR_EM, BAR_STEPS, Layout},
    raster,
};

/// A grid with its layout. One unit is one pixel of an SVG.
pub(crate) struct GridFigure<'a> {
    pub(crate) grid: &'a HeatmapGrid,
    pub(crate) layout: &'a Layout,
}

/// The figure as SVG text.
pub(crate) fn svg(grid: &HeatmapGrid) -> Result<String, PlotError> {
    svg_with_layout(grid, &Layout::new(grid, &Face::load("SVG")?)?)
}

pub(crate) fn svg_with_layout(grid: &HeatmapGrid, layout: &Layout) -> Result<String, PlotError> {
    let text = figure::svg(&GridFigure { grid, layout })?;
    // Without this, viewers blend neighbouring cells where an edge falls inside a pixel, and white seams appear.
    Ok(text.replacen("<svg ", "<svg shape-rendering=\"crispEdges\" ", 1))
}

/// The figure as the bytes of a PNG file.
pub(crate) fn png(grid: &HeatmapGrid) -> Result<Vec<u8>, PlotError> {
    let face = Face::load("PNG")?;
    let layout = &Layout::new(grid, &face)?;
    raster::png(&GridFigure { grid, layout }, &face)
}

impl Figure for GridFigure<'_> {
    const UNITS: i32 = 1;

    fn size(&self) -> (i32, i32) {
        (self.layout.width, self.layout.height)
    }

    fn draw<B: DrawingBackend>(&self, b: &mut B) -> Drawn<B> {
        let (grid, layout) = (self.grid, self.layout);
        let [rows, columns, ..] = grid.shape();
        for row in 0..rows {
            for column in 0..columns {
                draw_cells(b, grid, layout, row, column)?;
                if column == 0 {
                    draw_query_axis(b, layout, row)?;
                }
                if row == rows - 1 {
                    draw_key_axis(b, layout, row, column)?;
                }
            }
        }
        for (column, title) in layout.titles.iter().enumerate() {
            let at = (middle_x(layout.panel(0, column)), layout.title_y());
            text(b, title, TITLE_EM, at, HPos::Center, FontTransform::None)?;
        }
        draw_color_bar(b, grid, layout)
    }
}

fn draw_cells<B: DrawingBackend>(
    b: &mut B,
    grid: &HeatmapGrid,
    layout: &Layout,
    row: usize,
    column: usize,
) -> Drawn<B> {
    let scale = grid.scale();
    for (area, weight) in layout.cells(row, column).zip(grid.panel(row, column)) {
        let [red, green, blue] = scale.color(*weight);
        fill(b, area, RGBColor(red, green, blue))?;
    }
    frame(b, layout.panel(row, column))
}

fn draw_query_axis<B: DrawingBackend>(b: &mut B, layout: &Layout, row: usize) -> Drawn<B> {
    let panel = layout.panel(row, 0);
    for (query, label) in &layout.queries.ticks {
        let y = panel.y + *query as i32 * layout.cell.1 + layout.cell.1 / 2;
        b.draw_line((panel.x - TICK, y), (panel.x, y), &INK)?;
        let at = (panel.x - TICK - TICK_GAP, y);
        text(
            b,
            label,
            layout.tick_em,
            at,
            HPos::Right,
            FontTransform::None,
        )?;
    }
    let at = (
        panel.x - layout.y_title_offset(),
        panel.y + panel.height / 2,
    );
    text(
        b,
        &layout.y_title,
        AXIS_TITLE_EM,
        at,
        HPos::Center,
        FontTransform::Rotate270,
    )
}

fn draw_key_axis<B: DrawingBackend>(
    b: &mut B,
    layout: &Layout,
    row: usize,
    column: usize,
) -> Drawn<B> {
    let panel = layout.panel(row, column);
    let bottom = panel.y + panel.height;
    for (key, label) in &layout.keys.ticks {
        let x = panel.x + *key as i32 * layout.cell.0 + layout.cell.0 / 2;
        let y = bottom + TICK;
        b.draw_line((x, bottom), (x, y), &INK)?;
        if layout.keys.rotated {
            let at = (x, y + TICK_GAP);
            text(
                b,
                label,
                layout.tick_em,
                at,
                HPos::Right,
                FontTransform::Rotate270,
            )?;
        } else {
            let at = (x, y + TICK_GAP + (layout.tick_em / 2.0) as i32);
            text(
                b,
                label,
                layout.tick_em,
                at,
                HPos::Center,
                FontTransform::None,
            )?;
        }
    }
    let at = (middle_x(panel), bottom + layout.x_title_offset());
    text(
        b,
        &layout.x_title,
        AXIS_TITLE_EM,
        at,
        HPos::Center,
        FontTransform::None,
    )
}

fn draw_color_bar<B: DrawingBackend>(b: &mut B, grid: &HeatmapGrid, layout: &Layout) -> Drawn<B> {
    let (bar, scale) = (layout.bar, grid.scale());
    let edge = |step| bar.y + bar.height - bar.height * step / BAR_STEPS;
    for step in 0..BAR_STEPS {
        let [red, green, blue] = scale.color_at(f64::from(step) / f64::from(BAR_STEPS - 1));
        let (y, bottom) = (edge(step + 1), edge(step));
        fill(
            b,
            Area {
                y,
                height: bottom - y,
                ..bar
            },
            RGBColor(red, green, blue),
        )?;
    }
    frame(b, bar)?;
    let steps = layout.bar_ticks.len() as i32 - 1;
    for (step, label) in (0..).zip(&layout.bar_ticks) {
        let (x, y) = (
            bar.x + bar.width,
            bar.y + bar.height - bar.height * step / steps,
        );
        b.draw_line((x, y), (x + TICK, y), &INK)?;
        let at = (x + TICK + TICK_GAP, y);
        text(b, label, BAR_EM, at, HPos::Left, FontTransform::None)?;
    }
    Ok(())
}

fn frame<B: DrawingBackend>(b: &mut B, area: Area) -> Drawn<B> {
    b.draw_rect((area.x, area.y), corner(area), &INK, false)
}

fn middle_x(area: Area) -> i32 {
    area.x + area.width / 2
}
