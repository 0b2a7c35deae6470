//! A figure as SVG text.

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::{
    canvas::{
        Anchor, Area, Canvas, Cells, Direction, Figure, INK, PAPER, Page, Place, Point, Rgb, Text,
    },
    font::FAMILY,
    raster::png_of_cells,
    text::escape,
};

/// The figure as SVG text: each element begins a line, and the content of a text has a line of its own.
pub(crate) fn svg(figure: &impl Figure) -> String {
    let page = figure.page();
    let Page {
        width,
        height,
        units,
    } = page;
    let (view_width, view_height) = (width * units, height * units);
    let mut svg = Svg {
        page,
        // Without crisp edges, viewers blend neighbouring cells where an edge falls inside a pixel, and white seams
        // appear.
        out: format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {view_width} {view_height}\" font-family=\"{FAMILY}\" shape-rendering=\"crispEdges\">\n"
        ),
    };
    svg.fill(page.area(), PAPER);
    figure.draw(&mut svg);
    svg.out + "</svg>\n"
}

struct Svg {
    page: Page,
    out: String,
}

impl Svg {
    fn push(&mut self, element: &str) {
        self.out.push_str(element);
        self.out.push('\n');
    }

    /// The attributes of a rectangle.
    fn edges(&self, area: Area) -> String {
        let edges = [area.x, area.y, area.width, area.height];
        let [x, y, width, height] = edges.map(|edge| edge * self.page.units);
        format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
    }

    /// The attributes of a line one pixel thick.
    fn thin(&self) -> String {
        format!(
            "stroke=\"{}\" stroke-width=\"{}\"",
            hex(INK),
            self.page.units
        )
    }
}

impl Canvas for Svg {
    fn fill(&mut self, area: Area, color: Rgb) {
        let (edges, color) = (self.edges(area), hex(color));
        self.push(&format!("<rect {edges} fill=\"{color}\"/>"));
    }

    fn cells(&mut self, cells: &Cells) {
        let png = png_of_cells(cells).expect("memory takes every byte of an image that has pixels");
        let (edges, png) = (self.edges(cells.area), BASE64_STANDARD.encode(png));
        // Both names of one rule: browsers know the style, other viewers the attribute.
        self.push(&format!(
            "<image {edges} preserveAspectRatio=\"none\" image-rendering=\"optimizeSpeed\" \
             style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{png}\"/>"
        ));
    }

    fn frame(&mut self, area: Area) {
        let (edges, thin) = (self.edges(area), self.thin());
        self.push(&format!("<rect {edges} fill=\"none\" {thin}/>"));
    }

    fn tick(&mut self, from: Point, to: Point) {
        let [x1, y1, x2, y2] = [from.x, from.y, to.x, to.y].map(|end| end * self.page.units);
        let thin = self.thin();
        self.push(&format!(
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {thin}/>"
        ));
    }

    fn line(&mut self, places: &[Place], width: f64, color: Rgb) {
        let (width, color) = (self.page.round(width), hex(color));
        let points: Vec<_> = places
            .iter()
            .map(|place| format!("{},{}", self.page.round(place.x), self.page.round(place.y)))
            .collect();
        let points = points.join(" ");
        self.push(&format!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\" stroke-linecap=\"round\" shape-rendering=\"geometricPrecision\"/>"
        ));
    }

    fn disc(&mut self, center: Place, radius: f64, color: Rgb) {
        let [x, y, radius] = [center.x, center.y, radius].map(|length| self.page.round(length));
        let color = hex(color);
        self.push(&format!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{color}\" shape-rendering=\"geometricPrecision\"/>"
        ));
    }

    fn text(&mut self, text: Text<'_>) {
        if text.content.is_empty() {
            return;
        }
        let [x, y] = [text.at.x, text.at.y].map(|length| length * self.page.units);
        let anchor = match text.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let turn = match text.direction {
            Direction::Rightwards => String::new(),
            Direction::Upwards => format!(" transform=\"rotate(270, {x}, {y})\""),
        };
        let size = f64::from(self.page.round(10.0 * text.em)) / 10.0;
        let (color, content) = (hex(INK), escape(text.content));
        // The baseline runs half the height of a small letter below the point, whatever typeface the viewer has.
        self.push(&format!(
            "<text x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{color}\"\
             {turn}>\n{content}\n</text>"
        ));
    }
}

fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}
