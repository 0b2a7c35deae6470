//! The canvas on which every figure is drawn: an SVG or the pixels of a PNG.
//!
//! A figure is drawn by the same code for both, so the PNG is the SVG, rasterised. Coordinates and lengths are pixels
//! of the SVG at its natural size, from the left and from the top.

use crate::PlotError;

/// Red, green and blue.
pub(crate) type Rgb = [u8; 3];

/// The colour of texts, ticks and frames.
pub(crate) const INK: Rgb = [38, 38, 38];
pub(crate) const PAPER: Rgb = [255, 255, 255];

/// A limit far below that of 32-bit arithmetic and of viewers.
const SIDE_LIMIT: u64 = 65_535;

/// A point between pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) x: i32,
    pub(crate) y: i32,
}

/// A rectangle: the upper left corner and the size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

impl Point {
    /// The point so far to the right and down.
    pub(crate) fn moved(self, right: i32, down: i32) -> Self {
        let (x, y) = (self.x + right, self.y + down);
        Self { x, y }
    }
}

impl Area {
    pub(crate) fn right(&self) -> i32 {
        self.x + self.width
    }

    /// The cells of this size that fill the area, row by row.
    pub(crate) fn cells(self, width: i32, height: i32) -> impl Iterator<Item = Self> {
        let rows = (self.y..self.bottom()).step_by(height as usize);
        rows.flat_map(move |y| {
            let columns = (self.x..self.right()).step_by(width as usize);
            columns.map(move |x| Self {
                x,
                y,
                width,
                height,
            })
        })
    }

    pub(crate) fn bottom(&self) -> i32 {
        self.y + self.height
    }

    pub(crate) fn middle(&self) -> Point {
        let Self { x, y, .. } = *self;
        Point { x, y }.moved(self.width / 2, self.height / 2)
    }
}

/// A width and a height: of a picture, or of the distance from one panel to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) width: i32,
    pub(crate) height: i32,
}

impl Size {
    /// The whole picture.
    pub(crate) fn area(&self) -> Area {
        Area {
            x: 0,
            y: 0,
            width: self.width,
            height: self.height,
        }
    }
}

/// The part of a text that is placed at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The direction in which a text runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Rightwards,
    Upwards,
}

/// One line of text in [`INK`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    pub(crate) content: &'a str,
    /// The size of the letters.
    pub(crate) em: f64,
    /// A point at half the height of the small letters.
    pub(crate) at: Point,
    pub(crate) anchor: Anchor,
    pub(crate) direction: Direction,
}

impl<'a> Text<'a> {
    /// A text that runs rightwards.
    pub(crate) fn new(content: &'a str, em: f64, at: Point, anchor: Anchor) -> Self {
        Self {
            content,
            em,
            at,
            anchor,
            direction: Direction::Rightwards,
        }
    }
}

/// Adjacent cells of equal size, row by row, as indices of their colours.
pub(crate) struct Cells {
    pub(crate) area: Area,
    pub(crate) columns: usize,
    pub(crate) palette: Vec<Rgb>,
    pub(crate) indices: Vec<u8>,
}

impl Cells {
    pub(crate) fn rows(&self) -> usize {
        self.indices.len() / self.columns
    }
}

/// The shapes that figures consist of.
pub(crate) trait Canvas {
    fn fill(&mut self, area: Area, color: Rgb);

    /// Fills cells, as one image if the canvas has images.
    fn cells(&mut self, cells: &Cells);

    /// Draws the edges of an area, one pixel thick: half a pixel on either side.
    fn frame(&mut self, area: Area);

    /// Draws a horizontal or vertical line one pixel thick: half a pixel on either side.
    fn tick(&mut self, from: Point, to: Point);

    /// Draws a text; nothing if it is empty.
    fn text(&mut self, text: Text<'_>);
}

/// A picture that can be drawn on any canvas.
pub(crate) trait Figure {
    fn page(&self) -> Size;

    /// Draws the picture on a blank canvas.
    fn draw(&self, canvas: &mut impl Canvas);
}

/// Refuses pictures that viewers cannot show.
pub(crate) fn check_sides(width: u64, height: u64) -> Result<(), PlotError> {
    if width.max(height) > SIDE_LIMIT {
        return Err(PlotError::TooLarge {
            width,
            height,
            limit: "neither side may exceed 65535",
        });
    }
    Ok(())
}
