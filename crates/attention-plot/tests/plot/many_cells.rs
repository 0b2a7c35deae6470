//! A figure of many cells is a small file, and looks as one of few does.

use attention_plot::{HeatmapGrid, PlotError};
use base64::prelude::{BASE64_STANDARD, Engine};

use crate::support::{Done, count, decode, filled, number, rectangles};

/// The one-pixel-a-cell image in a tag of an SVG, as indices of colours and their palette.
fn image(tag: &str) -> (usize, Vec<[u8; 3]>) {
    let data = tag.split_once("href=\"data:image/png;base64,").unwrap().1;
    let data = BASE64_STANDARD.decode(data.split('"').next().unwrap());
    let mut decoder = png::Decoder::new(std::io::Cursor::new(data.unwrap()));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (info.width as usize, pixels.as_chunks().0.to_vec())
}

#[test]
fn many_cells_are_images_in_the_colours_of_their_weights() -> Done {
    let [rows, columns, queries, keys] = [2, 1, 131, 157];
    let weight = |at: usize| (at * 7919 % 10_007) as f32 / 10_006.0;
    let mut weights: Vec<f32> = (0..rows * columns * queries * keys).map(weight).collect();
    (weights[0], weights[158]) = (f32::NAN, 1.0);
    let grid = |count: usize| {
        let weights = weights[..count * keys].to_vec();
        HeatmapGrid::new(weights, [1, 1, count, keys])?.with_range(0.0, 1.0)
    };
    // 40,000 cells are 254 rows and some.
    assert_eq!(count(&grid(254)?.to_svg()?, "<image"), 0);
    assert_eq!(count(&grid(255)?.to_svg()?, "<image"), 1);

    let large = HeatmapGrid::new(weights.clone(), [rows, columns, queries, keys])?;
    let large = large.with_range(0.0, 1.0)?;
    let svg = large.to_svg()?;
    let images = svg.lines().filter(|line| line.starts_with("<image"));
    let images: Vec<&str> = images.collect();
    assert_eq!((images.len(), filled(&svg)), (2, 1 + 64));
    let (width, _, bitmap) = decode(&large.to_png()?);
    let exact = |weight: f32| {
        let picture = HeatmapGrid::single(vec![weight], [1, 1])?.with_range(0.0, 1.0)?;
        let svg = picture.to_svg()?;
        let cell = rectangles(&svg).nth(1).unwrap();
        let color = cell.split("fill=\"#").nth(1).unwrap();
        let part = |at: usize| u8::from_str_radix(&color[at..at + 2], 16).unwrap();
        Ok::<_, PlotError>([part(0), part(2), part(4)])
    };
    for (panel, tag) in images.iter().enumerate() {
        let (image_width, pixels) = image(tag);
        assert_eq!((image_width, pixels.len()), (keys, queries * keys));
        let cell = number(tag, "width") / keys;
        assert_eq!(number(tag, "height") / queries, cell);
        for at in (0..pixels.len()).step_by(157 + 1) {
            let x = number(tag, "x") + at % keys * cell;
            let y = number(tag, "y") + at / keys * cell;
            // The bitmap of the figure has the same colour, at two pixels a unit.
            let found = bitmap[(2 * y + cell) * width + 2 * x + cell];
            assert_eq!(found, pixels[at], "{panel} {at}");
            let exact = exact(weights[panel * queries * keys + at])?;
            let mut off = found.iter().zip(exact).map(|(a, b)| a.abs_diff(b));
            let is_near = off.all(|off| off <= 2);
            assert!(is_near, "{panel} {at}: {found:?} {exact:?}");
        }
    }
    let (_, first) = image(images[0]);
    assert_eq!((first[0], first[158]), ([160, 160, 160], [103, 0, 13]));
    Ok(())
}

#[test]
fn a_file_of_millions_of_cells_has_a_few_megabytes() -> Done {
    let side = 2_000;
    // No two neighbours are alike: nothing can be compressed.
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    let mut weights: Vec<f32> = (0..side * side).map(|_| random()).collect();
    weights[3 * side + 5] = 7.0;
    let heatmap = HeatmapGrid::single(weights, [side, side])?
        .with_query_labels((0..side).map(|at| format!("q{at}")))?;
    let (svg, html) = (heatmap.to_svg()?, heatmap.to_html()?);
    assert!(svg.len() < 6_000_000, "{}", svg.len());
    assert!(html.len() < 6_500_000, "{}", html.len());
    assert_eq!(count(&html, "<title>query: "), side);
    assert!(html.contains("<title>query: q3\nkey: 5\nweight: 7.000</title>"));
    Ok(())
}
