//! A figure as the bytes of a PNG file.

use std::io::Write;

use tiny_skia::{ColorU8, FillRule, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, Transform};

use crate::{
    PlotError,
    canvas::{Anchor, Area, Canvas, Cells, Direction, Figure, INK, PAPER, Point, Rgb, Text},
    font::Face,
};

/// The number of pixels for each pixel of the SVG: sharp on dense screens and in print.
const SCALE: u64 = 2;
/// 256 MiB of pixels.
const PIXEL_LIMIT: u64 = 64 << 20;

/// The figure as the bytes of a PNG file, with [`SCALE`] pixels for each of the SVG's, or one if it is very large.
pub(crate) fn png(figure: &impl Figure, face: &Face) -> Result<Vec<u8>, PlotError> {
    let page = figure.page();
    let (width, height) = (page.width as u64, page.height as u64);
    let fits = width * height * SCALE * SCALE <= PIXEL_LIMIT;
    let scale = if fits { SCALE } else { 1 };
    let (width, height) = (width * scale, height * scale);
    let too_large = || PlotError::TooLarge {
        width,
        height,
        limit: "a bitmap may hold 67 million",
    };
    if width * height > PIXEL_LIMIT {
        return Err(too_large());
    }
    let mut raster = Raster {
        pixmap: Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?,
        face,
        scale: scale as usize,
    };
    raster.fill(page.area(), PAPER);
    figure.draw(&mut raster);
    encode(&raster.pixmap).map_err(|error| PlotError::drawing("PNG", error))
}

/// Cells as the bytes of a PNG file, one pixel each.
pub(crate) fn png_of_cells(cells: &Cells) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, cells.columns as u32, cells.rows() as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_palette(cells.palette.concat());
    encoder.write_header()?.write_image_data(&cells.indices)?;
    Ok(bytes)
}

/// Omits the alpha channel, because all pixels are opaque on opaque paper.
fn encode(pixmap: &Pixmap) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, pixmap.width(), pixmap.height());
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    let mut stream = writer.stream_writer()?;
    for row in pixmap.data().chunks_exact(4 * pixmap.width() as usize) {
        let pixels = row.chunks_exact(4);
        let rgb: Vec<u8> = pixels.flat_map(|rgba| &rgba[..3]).copied().collect();
        stream.write_all(&rgb)?;
    }
    stream.finish()?;
    writer.finish()?;
    Ok(bytes)
}

/// A bitmap. Rectangles, frames and ticks have sharp edges, as with `crispEdges` in SVG; all other shapes are smooth.
struct Raster<'a> {
    pixmap: Pixmap,
    face: &'a Face,
    /// Pixels of the bitmap in a pixel of the SVG.
    scale: usize,
}

impl Raster<'_> {
    fn pixels(&self, length: i32) -> f32 {
        (length * self.scale as i32) as f32
    }

    fn fill_path(&mut self, path: &Path, color: Rgb, transform: Transform) {
        let rule = FillRule::Winding;
        self.pixmap
            .fill_path(path, &paint(color), rule, transform, None);
    }

    /// Strokes a path one pixel of the SVG thick, with sharp edges.
    fn stroke_thin(&mut self, path: &Path) {
        let stroke = Stroke {
            width: self.scale as f32,
            ..Stroke::default()
        };
        let mut sharp = paint(INK);
        sharp.anti_alias = false;
        let transform = Transform::identity();
        self.pixmap
            .stroke_path(path, &sharp, &stroke, transform, None);
    }
}

impl Canvas for Raster<'_> {
    /// Fills whole pixels, which have no edges to smooth: heatmaps with many weights consist of nothing else, and a
    /// path for each cell would take six times as long.
    fn fill(&mut self, area: Area, [red, green, blue]: Rgb) {
        let color = ColorU8::from_rgba(red, green, blue, u8::MAX).premultiply();
        let edges = [area.x, area.y, area.right(), area.bottom()];
        let [left, top, right, bottom] = edges.map(|edge| edge as usize * self.scale);
        let width = self.pixmap.width() as usize;
        let rows = self.pixmap.pixels_mut().chunks_exact_mut(width);
        for row in rows.take(bottom).skip(top) {
            row[left..right].fill(color);
        }
    }

    fn cells(&mut self, cells: &Cells) {
        let width = cells.area.width / cells.columns as i32;
        let height = cells.area.height / cells.rows() as i32;
        for (area, index) in cells.area.cells(width, height).zip(&cells.indices) {
            self.fill(area, cells.palette[usize::from(*index)]);
        }
    }

    fn frame(&mut self, area: Area) {
        let edges = [area.x, area.y, area.right(), area.bottom()];
        let [left, top, right, bottom] = edges.map(|edge| self.pixels(edge));
        if let Some(rect) = Rect::from_ltrb(left, top, right, bottom) {
            self.stroke_thin(&PathBuilder::from_rect(rect));
        }
    }

    fn tick(&mut self, from: Point, to: Point) {
        let mut path = PathBuilder::new();
        path.move_to(self.pixels(from.x), self.pixels(from.y));
        path.line_to(self.pixels(to.x), self.pixels(to.y));
        if let Some(path) = path.finish() {
            self.stroke_thin(&path);
        }
    }

    fn text(&mut self, text: Text<'_>) {
        let Some(path) = self.face.outline(text.content) else {
            return; // Nothing but spaces.
        };
        let em = self.scale as f64 * text.em;
        let width = self.face.width(text.content, em) as f32;
        let start = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let baseline = self.face.half_x_height(em) as f32;
        let scale = (em / self.face.units_per_em()) as f32;
        // In an outline, heights count upwards.
        let line = Transform::from_row(scale, 0.0, 0.0, -scale, start, baseline);
        let turn = match text.direction {
            Direction::Rightwards => Transform::identity(),
            Direction::Upwards => Transform::from_row(0.0, -1.0, 1.0, 0.0, 0.0, 0.0),
        };
        let (x, y) = (self.pixels(text.at.x), self.pixels(text.at.y));
        self.fill_path(&path, INK, line.post_concat(turn).post_translate(x, y));
    }
}

fn paint([red, green, blue]: Rgb) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, u8::MAX);
    paint
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::canvas::Size;

    const PAGE: Size = Size {
        width: 80,
        height: 80,
    };

    /// The covered area, and its bounds: left, top, right, bottom.
    fn covered(draw: impl Fn(&mut Raster<'_>)) -> (f64, [usize; 4]) {
        let face = Face::load("PNG").unwrap();
        let mut raster = Raster {
            pixmap: Pixmap::new(80, 80).unwrap(),
            face: &face,
            scale: 1,
        };
        raster.fill(PAGE.area(), PAPER);
        draw(&mut raster);
        let (mut sum, mut bounds) = (0.0, [usize::MAX, usize::MAX, 0, 0]);
        for (at, pixel) in raster.pixmap.pixels().iter().enumerate() {
            assert_eq!(pixel.alpha(), u8::MAX, "opaque");
            if pixel.red() < PAPER[0] {
                sum += f64::from(PAPER[0] - pixel.red()) / f64::from(PAPER[0] - INK[0]);
                let (x, y) = (at % 80, at / 80);
                let [left, top, right, bottom] = bounds;
                bounds = [left.min(x), top.min(y), right.max(x), bottom.max(y)];
            }
        }
        (sum, bounds)
    }

    #[test]
    fn sharp_shapes_cover_whole_pixels() {
        let area = Area {
            x: 10,
            y: 20,
            width: 30,
            height: 7,
        };
        let found = covered(|raster| raster.fill(area, INK));
        assert_eq!(found, (210.0, [10, 20, 39, 26]));
        let (frame, _) = covered(|raster| raster.frame(area));
        assert_eq!(frame, 2.0 * (30.0 + 7.0));
        let (from, to) = (Point { x: 7, y: 23 }, Point { x: 10, y: 23 });
        assert_eq!(covered(|raster| raster.tick(from, to)).0, 3.0);
    }

    #[test]
    fn pixels_of_a_text_lie_where_the_measure_says() {
        let text = Text::new("HEH", 20.0, Point { x: 10, y: 40 }, Anchor::Start);
        let width = Face::load("PNG").unwrap().width("HEH", 20.0);
        let (_, [left, top, right, bottom]) = covered(|raster| raster.text(text));
        assert!((10..15).contains(&left), "{left}");
        let end = 10.0 + width;
        assert!((end - 5.0..end + 1.0).contains(&(right as f64)), "{right}");
        // Capitals stand on the baseline, half an x-height below the point.
        let stands = (44..=46).contains(&bottom) && (29..=32).contains(&top);
        assert!(stands, "{top} {bottom}");

        let upwards = Text {
            direction: Direction::Upwards,
            at: Point { x: 40, y: 70 },
            ..text
        };
        let (_, turned) = covered(|raster| raster.text(upwards));
        // Turned about its point: columns become rows from the lower end, rows become columns.
        assert_eq!(turned, [top, 79 - right, bottom, 79 - left]);
    }
}
