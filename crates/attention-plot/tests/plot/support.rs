//! Shared by the tests: the contents of pictures.

use attention_plot::{HeatmapGrid, PlotError};

pub(crate) type Done = Result<(), PlotError>;

pub(crate) fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// The filled rectangles: paper, cells and the colour bar's 64 strips.
pub(crate) fn filled(svg: &str) -> usize {
    let filled = rectangles(svg).filter(|tag| !tag.contains("fill=\"none\""));
    filled.count()
}

/// The tags of the rectangles.
pub(crate) fn rectangles(svg: &str) -> impl Iterator<Item = &str> + Clone {
    svg.lines().filter(|line| line.starts_with("<rect"))
}

/// Decodes an RGB picture: width, height, pixels.
pub(crate) fn decode(bytes: &[u8]) -> (usize, usize, Vec<[u8; 3]>) {
    let decoder = png::Decoder::new(std::io::Cursor::new(bytes));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.color_type, png::ColorType::Rgb);
    let pixels = pixels.as_chunks().0.to_vec();
    (info.width as usize, info.height as usize, pixels)
}

/// A whole number in a tag of an SVG.
pub(crate) fn number(tag: &str, name: &str) -> usize {
    let start = tag.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
    tag[start..].split('"').next().unwrap().parse().unwrap()
}

/// `[rows, columns, queries, keys]` with distinct weights, the largest last.
pub(crate) fn grid(shape: [usize; 4]) -> HeatmapGrid {
    let size: usize = shape.iter().product();
    let weights = (0..size).map(|index| index as f32 / size as f32).collect();
    HeatmapGrid::new(weights, shape).unwrap()
}

/// The frames of the panels and, last, of the colour bar: left, top, right and bottom, in pixels of the bitmap.
pub(crate) fn frames(svg: &str) -> Vec<[usize; 4]> {
    let empty = rectangles(svg).filter(|tag| tag.contains("fill=\"none\""));
    let edges = empty.map(|tag| {
        let [x, y, width, height] = ["x", "y", "width", "height"].map(|name| number(tag, name));
        [x, y, x + width, y + height].map(|edge| 2 * edge)
    });
    edges.collect()
}

/// Columns and rows of the pixels that are not paper.
pub(crate) fn ink(picture: &HeatmapGrid) -> Result<Vec<(usize, usize)>, PlotError> {
    let (width, _, pixels) = decode(&picture.to_png()?);
    let places = (0..pixels.len()).filter(|at| pixels[*at] != [255, 255, 255]);
    Ok(places.map(|at| (at % width, at / width)).collect())
}
