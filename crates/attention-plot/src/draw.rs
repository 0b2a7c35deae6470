//! The figure on any plotters backend, and as SVG.

use plotters::{
    backend::{DrawingBackend, SVGBackend},
    style::{
        Color, FontDesc, FontFamily, FontStyle, FontTransform, RGBColor, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};
use plotters_backend::DrawingErrorKind;

use crate::{
    HeatmapGrid, PlotError,
    font::{FAMILY, Face},
    layout::{AXIS_TITLE_EM, Area, BAR_EM, BAR_STEPS, Layout, TICK, TICK_GAP, TITLE_EM},
};

/// Plotters counts a font's size from the top of its highest letter to the foot of its lowest.
pub(crate) const SIZE_PER_EM: f64 = 1.24;

const INK: RGBColor = RGBColor(38, 38, 38);
const PAPER: RGBColor = RGBColor(255, 255, 255);

/// The figure as SVG text.
pub(crate) fn svg(grid: &HeatmapGrid) -> Result<String, PlotError> {
    svg_with_layout(grid, &Layout::new(grid, &Face::load("SVG")?)?)
}

pub(crate) fn svg_with_layout(grid: &HeatmapGrid, layout: &Layout) -> Result<String, PlotError> {
    let mut text = String::new();
    let mut backend =
        SVGBackend::with_string(&mut text, (layout.width as u32, layout.height as u32));
    draw(&mut backend, grid, layout)
        .and_then(|()| backend.present())
        .map_err(|error| PlotError::drawing("SVG", error.to_string()))?;
    drop(backend);
    // Without this, viewers blend neighbouring cells where an edge falls inside a pixel, and white seams appear.
    Ok(text.replacen("<svg ", "<svg shape-rendering=\"crispEdges\" ", 1))
}

pub(crate) type Drawn<B> = Result<(), DrawingErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Draws the figure, one unit of the layout for each of the backend's.
pub(crate) fn draw<B: DrawingBackend>(b: &mut B, grid: &HeatmapGrid, layout: &Layout) -> Drawn<B> {
    let [rows, columns, ..] = grid.shape();
    fill(
        b,
        Area {
            x: 0,
            y: 0,
            width: layout.width,
            height: layout.height,
        },
        PAPER,
    )?;
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

fn fill<B: DrawingBackend>(b: &mut B, area: Area, color: RGBColor) -> Drawn<B> {
    b.draw_rect((area.x, area.y), corner(area), &color, true)
}

fn frame<B: DrawingBackend>(b: &mut B, area: Area) -> Drawn<B> {
    b.draw_rect((area.x, area.y), corner(area), &INK, false)
}

/// Draws a text; `at` is on its middle line, at its left end, middle or right end.
fn text<B: DrawingBackend>(
    b: &mut B,
    text: &str,
    em: f64,
    at: (i32, i32),
    end: HPos,
    transform: FontTransform,
) -> Drawn<B> {
    let font = FontDesc::new(
        FontFamily::Name(FAMILY),
        em * SIZE_PER_EM,
        FontStyle::Normal,
    );
    let style = TextStyle {
        font: font.transform(transform),
        color: INK.to_backend_color(),
        pos: Pos::new(end, VPos::Center),
    };
    b.draw_text(text, &style, at)
}

fn corner(area: Area) -> (i32, i32) {
    (area.x + area.width, area.y + area.height)
}

fn middle_x(area: Area) -> i32 {
    area.x + area.width / 2
}
