//! The titles of axes stay beside them, and the colour bar has round labels.

use attention_plot::HeatmapGrid;

use crate::support::{Done, count, decode, frames, grid, ink, number};

/// The two by two panels of two queries whose title used to leave most of the picture white, and was cut off.
fn long_axis_title() -> HeatmapGrid {
    grid([2, 2, 2, 10])
        .with_titles(["additive", "dot product"])
        .unwrap()
        .with_axis_titles("keys", "equal keys above, random keys below")
}

#[test]
fn a_long_axis_title_takes_no_room_from_the_panels() -> Done {
    let picture = long_axis_title();
    let svg = picture.to_svg()?;
    assert_eq!(count(&svg, "\nequal keys above, ra"), 1, "{svg}");
    assert_eq!(count(&svg, "…\n"), 1, "it is cut");
    let (width, height, pixels) = decode(&picture.to_png()?);
    let paper = pixels.iter().filter(|pixel| **pixel == [255, 255, 255]);
    let paper = paper.count() as f64 / (width * height) as f64;
    assert!(paper < 0.6, "{paper} of the picture is white");
    Ok(())
}

/// A side of the bitmap of an SVG.
fn side(svg: &str, name: &str) -> usize {
    2 * number(svg.lines().next().unwrap(), name)
}

#[test]
fn an_axis_title_is_no_longer_than_its_axis_and_never_cut_off() -> Done {
    let shapes = [[1, 1, 1, 10], [1, 1, 9, 2], [2, 2, 2, 10], [3, 2, 1, 1]];
    let page = "word ".repeat(90);
    for title in ["Queries", "a title of several words", page.as_str()] {
        for shape in shapes {
            let what = format!("{title:?} {shape:?}");
            let titled = grid(shape).with_axis_titles(title, title);
            let plain = grid(shape).with_axis_titles("", "").to_svg()?;
            let svg = titled.to_svg()?;
            let (without, with) = (frames(&plain), frames(&svg));
            let panels = &with[..with.len() - 1];
            let ends = |edge: usize| panels.iter().map(move |panel| panel[edge]);
            let [left, top] = [0, 1].map(|edge| ends(edge).min().unwrap());
            let [right, bottom] = [2, 3].map(|edge| ends(edge).max().unwrap());

            let pixels = ink(&titled)?;
            let (width, height) = (side(&svg, "width"), side(&svg, "height"));
            // The titles stand in the room that they add at the left and at the bottom, inside the margin of 14.
            let beside = 28 + left - without[0][0];
            let below = side(&plain, "height") - 28;
            let mut counts = [0, 0];
            for (x, y) in pixels {
                let at = format!("{what}: {x}, {y}");
                if x < beside - 8 && y < below {
                    counts[0] += 1;
                    assert!((top..bottom).contains(&y), "{at}");
                }
                if y > below + 8 {
                    counts[1] += 1;
                    assert!((left..right).contains(&x), "{at}");
                }
                let is_inside = (8..width - 8).contains(&x) && (8..height - 8).contains(&y);
                assert!(is_inside, "{at}");
            }
            assert!(counts[0] > 0 && counts[1] > 0, "{what}");
        }
    }
    Ok(())
}

#[test]
fn the_color_bar_is_labelled_at_round_weights() -> Done {
    for (low, high, shape) in [
        (0.02, 0.287, [2, 2, 2, 10]),
        (0.000_01, 0.564, [1, 1, 9, 9]),
        (0.0, 1.0, [1, 1, 30, 30]),
        (-4.24, 2.29, [1, 1, 6, 8]),
        (0.03, 0.97, [1, 1, 1, 5]),
    ] {
        let picture = grid(shape).with_axis_titles("", "").with_range(low, high)?;
        let svg = picture.to_svg()?;
        let lines: Vec<_> = svg.lines().collect();
        let labels = lines.array_windows();
        let labels = labels.filter(|[tag, _]| tag.contains("text-anchor=\"start\""));
        let label = |[tag, text]: &[&str; 2]| (text.parse::<f32>().unwrap(), number(tag, "y"));
        let labels: Vec<_> = labels.map(label).collect();
        assert!((2..=6).contains(&labels.len()), "{labels:?}");
        let [_, top, _, bottom] = *frames(&svg).last().unwrap();
        for (value, y) in &labels {
            let scientific = format!("{value:e}");
            let (digits, _) = scientific.split_once('e').unwrap();
            assert!(digits.trim_start_matches('-').len() == 1, "{labels:?}");
            assert!((low - 0.001..=high).contains(value), "{labels:?}");
            let position = ((value - low) / (high - low)).max(0.0);
            let expected = bottom as f32 - position * (bottom - top) as f32;
            assert!((2.0 * *y as f32 - expected).abs() <= 1.5, "{labels:?}");
        }
    }
    Ok(())
}
