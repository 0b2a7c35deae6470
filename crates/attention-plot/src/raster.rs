//! The figure as PNG.
//!
//! Plotters' bitmap backend draws the rectangles. Texts are set here, from the embedded face and at fractions of a pixel:
//! plotters' own bitmap text needs either the system's fonts or a font registered for the whole program under one of its
//! features, and places letters at whole pixels, which looks uneven at the size of a tick label. So are paths and
//! circles, which plotters places at whole pixels too.

use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, FontTransform, text_anchor::HPos,
};

use crate::{
    PlotError,
    figure::{Drawn, Figure, SIZE_PER_EM, draw},
    font::Face,
    stroke::stroke,
};

/// Pixels for each pixel of the SVG: sharp on dense screens and in print.
const SCALE: u64 = 2;
/// 192 MiB of pixels.
const PIXEL_LIMIT: u64 = 64 << 20;

/// The figure as the bytes of a PNG file.
pub(crate) fn png<F: Figure>(figure: &F, face: &Face) -> Result<Vec<u8>, PlotError> {
    let (width, height) = figure.size();
    let (width, height) = (width as u64, height as u64);
    let scale = if width * height * SCALE * SCALE <= PIXEL_LIMIT {
        SCALE
    } else {
        1
    };
    let (width, height) = (width * scale, height * scale);
    if width * height > PIXEL_LIMIT {
        let limit = "a bitmap may hold 67 million";
        return Err(PlotError::TooLarge {
            width,
            height,
            limit,
        });
    }

    let size = (width as u32, height as u32);
    let mut pixels = vec![0; (width * height * 3) as usize];
    let bitmap = BitMapBackend::with_buffer(&mut pixels, size);
    let mut raster = Raster {
        bitmap,
        face,
        scale: scale as i32,
        units: F::UNITS,
    };
    draw(&mut raster, figure).map_err(|error| PlotError::drawing("PNG", error.to_string()))?;
    drop(raster);
    encode(&pixels, size).map_err(|error| PlotError::drawing("PNG", error))
}

fn encode(pixels: &[u8], (width, height): (u32, u32)) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

/// A bitmap of which `scale` pixels are `units` units. Rectangles reach up to their lower right corner and not beyond, as in SVG.
struct Raster<'a> {
    bitmap: BitMapBackend<'a>,
    face: &'a Face,
    scale: i32,
    units: i32,
}

impl<'a> Raster<'a> {
    /// Fills the pixels from one corner up to the other, which are given in pixels.
    fn fill(&mut self, from: BackendCoord, to: BackendCoord, color: BackendColor) -> Drawn<Self> {
        self.bitmap.draw_rect(from, to, &color, true)
    }

    fn scaled(&self, (x, y): BackendCoord) -> BackendCoord {
        let pixels = |units: i32| units * self.scale / self.units;
        (pixels(x), pixels(y))
    }

    fn pixels(&self, units: f64) -> f64 {
        units * f64::from(self.scale) / f64::from(self.units)
    }

    /// A line `width` units thick, in pixels that it covers wholly or in part.
    fn stroke(
        &mut self,
        path: impl IntoIterator<Item = BackendCoord>,
        width: f64,
        color: BackendColor,
    ) -> Drawn<Self> {
        let place = |(x, y)| (self.pixels(f64::from(x)), self.pixels(f64::from(y)));
        let points: Vec<_> = path.into_iter().map(place).collect();
        let width = self.pixels(width);
        let (bitmap, mut drawn) = (&mut self.bitmap, Ok(()));
        stroke(&points, width, |at, coverage| {
            let alpha = color.alpha * f64::from(coverage);
            if let Err(error) = bitmap.draw_pixel(at, BackendColor { alpha, ..color }) {
                drawn = Err(error);
            }
        });
        drawn
    }
}

impl<'a> DrawingBackend for Raster<'a> {
    type ErrorType = <BitMapBackend<'a> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        let units = |pixels: u32| pixels * self.units as u32 / self.scale as u32;
        let (width, height) = self.bitmap.get_size();
        (units(width), units(height))
    }

    fn ensure_prepared(&mut self) -> Drawn<Self> {
        self.bitmap.ensure_prepared()
    }

    fn present(&mut self) -> Drawn<Self> {
        self.bitmap.present()
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn<Self> {
        let (x, y) = point;
        self.fill(self.scaled(point), self.scaled((x + 1, y + 1)), color)
    }

    /// Horizontal and vertical lines, one pixel of the SVG thick: those of heatmaps, whose units these pixels are.
    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn<Self> {
        let ((x0, y0), (x1, y1)) = (self.scaled(from), self.scaled(to));
        let half = self.scale / 2;
        let (across, along) = if y0 == y1 {
            ((0, half), (0, self.scale - half))
        } else {
            ((half, 0), (self.scale - half, 0))
        };
        let start = (x0.min(x1) - across.0, y0.min(y1) - across.1);
        let end = (x0.max(x1) + along.0, y0.max(y1) + along.1);
        self.fill(start, end, style.color())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn<Self> {
        let ((left, top), (right, bottom)) = (upper_left, bottom_right);
        if fill {
            return self.fill(
                self.scaled(upper_left),
                self.scaled(bottom_right),
                style.color(),
            );
        }
        self.draw_line((left, top), (right, top), style)?;
        self.draw_line((left, bottom), (right, bottom), style)?;
        self.draw_line((left, top), (left, bottom), style)?;
        self.draw_line((right, top), (right, bottom), style)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn<Self> {
        self.stroke(path, f64::from(style.stroke_width()), style.color())
    }

    /// Filled circles: the figures have no others.
    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        _fill: bool,
    ) -> Drawn<Self> {
        self.stroke([center], f64::from(2 * radius), style.color())
    }

    /// A text whose middle line runs through `position`, to the right or, with `Rotate270`, upwards.
    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        position: BackendCoord,
    ) -> Drawn<Self> {
        let em = self.pixels(style.size() / SIZE_PER_EM);
        let start = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -self.face.width(text, em) / 2.0,
            HPos::Right => -self.face.width(text, em),
        };
        let upwards = matches!(style.transform(), FontTransform::Rotate270);
        let (x, y) = self.scaled(position);
        let BackendColor { alpha, rgb } = style.color();
        let (face, bitmap, mut drawn) = (self.face, &mut self.bitmap, Ok(()));
        face.rasterize(
            text,
            em,
            start,
            face.half_x_height(em),
            |right, down, coverage| {
                let at = if upwards {
                    (x + down, y - right - 1)
                } else {
                    (x + right, y + down)
                };
                let color = BackendColor {
                    alpha: alpha * f64::from(coverage),
                    rgb,
                };
                if let Err(error) = bitmap.draw_pixel(at, color) {
                    drawn = Err(error);
                }
            },
        );
        drawn
    }
}
