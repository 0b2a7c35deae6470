//! A figure as SVG text.

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::{
    canvas::{Anchor, Area, Canvas, Cells, Direction, Figure, INK, PAPER, Point, Rgb, Size, Text},
    font::FAMILY,
    raster::png_of_cells,
    text::escape,
};

/// The figure as SVG text: each element begins a line, and the content of a text is on its own line.
pub(crate) fn svg(figure: &impl Figure) -> String {
    let page = figure.page();
    let Size { width, height } = page;
    let mut svg = Svg {
        // Without crisp edges, viewers blend neighbouring cells where an edge falls inside a pixel, which makes white
        // seams.
        out: format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"{FAMILY}\" shape-rendering=\"crispEdges\">\n"
        ),
    };
    svg.fill(page.area(), PAPER);
    figure.draw(&mut svg);
    svg.out + "</svg>\n"
}

struct Svg {
    out: String,
}

impl Svg {
    fn push(&mut self, element: &str) {
        self.out.push_str(element);
        self.out.push('\n');
    }

    /// The attributes of a line one pixel thick.
    fn thin(&self) -> String {
        format!("stroke=\"{}\" stroke-width=\"1\"", hex(INK))
    }
}

impl Canvas for Svg {
    fn fill(&mut self, area: Area, color: Rgb) {
        let (edges, color) = (edges(area), hex(color));
        self.push(&format!("<rect {edges} fill=\"{color}\"/>"));
    }

    fn cells(&mut self, cells: &Cells) {
        let png = png_of_cells(cells).expect("memory takes every byte of an image that has pixels");
        let (edges, png) = (edges(cells.area), BASE64_STANDARD.encode(png));
        // One rule under both of its names: browsers know the style, other viewers the attribute.
        self.push(&format!(
            "<image {edges} preserveAspectRatio=\"none\" image-rendering=\"optimizeSpeed\" \
             style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{png}\"/>"
        ));
    }

    fn frame(&mut self, area: Area) {
        let (edges, thin) = (edges(area), self.thin());
        self.push(&format!("<rect {edges} fill=\"none\" {thin}/>"));
    }

    fn tick(&mut self, from: Point, to: Point) {
        let [x1, y1, x2, y2] = [from.x, from.y, to.x, to.y];
        let thin = self.thin();
        self.push(&format!(
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {thin}/>"
        ));
    }

    fn text(&mut self, text: Text<'_>) {
        if text.content.is_empty() {
            return;
        }
        let Point { x, y } = text.at;
        let anchor = match text.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let turn = match text.direction {
            Direction::Rightwards => String::new(),
            Direction::Upwards => format!(" transform=\"rotate(270, {x}, {y})\""),
        };
        let size = (10.0 * text.em).round() / 10.0;
        let (color, content) = (hex(INK), escape(text.content));
        // The baseline is half the height of a small letter below the point, whatever typeface the viewer has.
        self.push(&format!(
            "<text x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{color}\"\
             {turn}>\n{content}\n</text>"
        ));
    }
}

/// The attributes of a rectangle.
pub(crate) fn edges(area: Area) -> String {
    let Area { x, y, .. } = area;
    let (width, height) = (area.width, area.height);
    format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
}

fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}
