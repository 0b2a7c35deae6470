//! The figure as PNG.
//!
//! Plotters' bitmap backend draws the rectangles. Texts are set here, from the embedded face and at fractions of a pixel:
//! plotters' own bitmap text needs either the system's fonts or a font registered for the whole program under one of its
//! features, and places letters at whole pixels, which looks uneven at the size of a tick label.

use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, FontTransform, text_anchor::HPos,
};

use crate::{
    HeatmapGrid, PlotError,
    draw::{Drawn, SIZE_PER_EM, draw},
    font::Face,
    layout::Layout,
};

/// Pixels for each unit of the layout: sharp on dense screens and in print.
const SCALE: u64 = 2;
/// 192 MiB of pixels.
const PIXEL_LIMIT: u64 = 64 << 20;

pub(crate) fn png(grid: &HeatmapGrid) -> Result<Vec<u8>, PlotError> {
    let face = Face::load("PNG")?;
    let layout = Layout::new(grid, &face)?;
    let (width, height) = (layout.width as u64, layout.height as u64);
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
        face: &face,
        scale: scale as i32,
    };
    draw(&mut raster, grid, &layout)
        .map_err(|error| PlotError::drawing("PNG", error.to_string()))?;
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

/// A bitmap whose unit is `scale` pixels. Rectangles reach up to their lower right corner and not beyond, as in SVG.
struct Raster<'a> {
    bitmap: BitMapBackend<'a>,
    face: &'a Face,
    scale: i32,
}

impl<'a> Raster<'a> {
    /// Fills the pixels from one corner up to the other, which are given in pixels.
    fn fill(&mut self, from: BackendCoord, to: BackendCoord, color: BackendColor) -> Drawn<Self> {
        self.bitmap.draw_rect(from, to, &color, true)
    }

    fn scaled(&self, (x, y): BackendCoord) -> BackendCoord {
        (x * self.scale, y * self.scale)
    }
}

impl<'a> DrawingBackend for Raster<'a> {
    type ErrorType = <BitMapBackend<'a> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        let (width, height) = self.bitmap.get_size();
        (width / self.scale as u32, height / self.scale as u32)
    }

    fn ensure_prepared(&mut self) -> Drawn<Self> {
        self.bitmap.ensure_prepared()
    }

    fn present(&mut self) -> Drawn<Self> {
        self.bitmap.present()
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn<Self> {
        let (x, y) = self.scaled(point);
        self.fill((x, y), (x + self.scale, y + self.scale), color)
    }

    /// Horizontal and vertical lines, one unit thick: the figure has no others.
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

    /// A text whose middle line runs through `position`, to the right or, with `Rotate270`, upwards.
    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        position: BackendCoord,
    ) -> Drawn<Self> {
        let em = style.size() / SIZE_PER_EM * f64::from(self.scale);
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
