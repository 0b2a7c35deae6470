//! SVG, HTML and PNG show all that was asked for, where it belongs.

use attention_plot::{HeatmapGrid, PlotError, TerminalColor, is_control};

use crate::support::{Done, count, decode, filled, grid, ink, number, rectangles};

#[test]
fn svg_has_every_cell_label_and_title() -> Done {
    let titles = ["one", "two", "three"];
    let queries = ["qa", "qb", "qc", "qd", "qe"];
    let keys = ["ka", "kb", "kc", "kd", "ke", "kf", "kg"];
    let svg = grid([2, 3, 5, 7])
        .with_titles(titles)?
        .with_query_labels(queries)?
        .with_key_labels(keys)?
        .to_svg()?;
    assert_eq!(filled(&svg), 1 + 2 * 3 * 5 * 7 + 64);
    // Queries stand beside the first column of each row, and keys below each column of the last row.
    for (texts, times) in [
        (&titles[..], 1),
        (&queries, 2),
        (&keys, 3),
        (&["Queries"], 2),
        (&["Keys"], 3),
    ] {
        for text in texts {
            assert_eq!(count(&svg, &format!("\n{text}\n")), times, "{text}");
        }
    }
    Ok(())
}

#[test]
fn axis_titles_can_be_changed_and_left_out() -> Done {
    let svg = grid([1, 2, 2, 2]).with_axis_titles("Source", "").to_svg()?;
    assert_eq!(count(&svg, "\nSource\n"), 2);
    assert!(!svg.contains("Queries") && !svg.contains("Keys"));
    Ok(())
}

#[test]
fn one_color_scale_for_the_whole_grid() -> Done {
    let svg = HeatmapGrid::new(vec![0.0, 0.25, 0.5, 1.0], [1, 2, 1, 2])?.to_svg()?;
    // The ends appear once as a cell and once in the bar; a scale for each panel would show them twice as cells.
    assert_eq!((count(&svg, "#67000D"), count(&svg, "#FFF5F0")), (2, 2));
    let has_ends = svg.contains("\n0.00\n") && svg.contains("\n1.00\n");
    assert!(has_ends, "the bar names its ends");
    let fixed = HeatmapGrid::new(vec![0.25; 4], [1, 2, 1, 2])?.with_range(0.0, 0.25)?;
    assert_eq!(count(&fixed.to_svg()?, "#67000D"), 4 + 1);
    Ok(())
}

#[test]
fn the_largest_weight_is_dark_and_broken_weights_are_grey() -> Done {
    let heatmap = HeatmapGrid::single(vec![0.0, 1.0, f32::NAN, f32::NEG_INFINITY], [2, 2])?;
    let svg = heatmap.to_svg()?;
    assert_eq!(count(&svg, "#67000D"), 2);
    assert_eq!(count(&svg, "#A0A0A0"), 2);
    Ok(())
}

#[test]
fn markup_in_tokens_is_escaped() -> Done {
    let heatmap = HeatmapGrid::single(vec![0.5, 1.0], [1, 2])?
        .with_titles(["<b>\"x\" & y</b>"])?
        .with_query_labels(["<eos>"])?
        .with_key_labels(["a&b", "<script>"])?;
    let html = heatmap.to_html()?;
    for text in [heatmap.to_svg()?, html.clone()] {
        for (part, is_there) in [
            ("&lt;eos&gt;", true),
            ("a&amp;b", true),
            ("<eos>", false),
            ("a&b", false),
            ("<b>", false),
            ("<script", false),
        ] {
            assert_eq!(text.contains(part), is_there, "{part}: {text}");
        }
    }
    assert!(html.contains("<title>&lt;b&gt;&quot;x&quot; &amp; y&lt;/b&gt;</title>"));
    Ok(())
}

#[test]
fn control_characters_in_tokens_become_signs() -> Done {
    let svg = HeatmapGrid::single(vec![1.0], [1, 1])?
        .with_key_labels(["\n\t\u{0}\u{1b}[2J"])?
        .to_svg()?;
    assert!(svg.contains("⏎⇥\u{fffd}\u{fffd}[2J"));
    assert!(!svg.contains(|character: char| character != '\n' && character.is_control()));
    Ok(())
}

#[test]
fn html_names_every_cell() -> Done {
    let html = HeatmapGrid::single(vec![0.12345, f32::NAN, 0.5, 1.0], [2, 2])?
        .with_query_labels(["été", "là"])?
        .to_html()?;
    assert_eq!(count(&html, "<title>query: "), 4);
    assert!(html.contains("<title>query: été\nkey: 0\nweight: 0.123</title>"));
    assert!(html.contains("<title>query: été\nkey: 1\nweight: NaN</title>"));
    assert!(html.contains("<title>query: là\nkey: 1\nweight: 1.000</title>"));
    assert_eq!((count(&html, "<svg"), count(&html, "</svg>")), (1, 1));
    let has_no_links = !html.contains("http://") || count(&html, "http") == 1;
    assert!(has_no_links, "only the SVG name space");
    Ok(())
}

#[test]
fn crowded_labels_are_thinned() -> Done {
    let tokens = |count: usize| (0..count).map(|index| format!("t{index}."));
    let shown = |queries: usize| -> Result<usize, PlotError> {
        let picture = grid([1, 1, queries, 1]).with_query_labels(tokens(queries))?;
        let svg = picture.to_svg()?;
        let shown = tokens(queries).filter(|token| svg.contains(&format!("\n{token}\n")));
        Ok(shown.count())
    };
    assert_eq!(shown(60)?, 60, "a sentence's worth is shown whole");
    let some = shown(500)?;
    assert!((50..250).contains(&some), "{some} of 500");
    Ok(())
}

#[test]
fn png_is_the_svg_at_two_pixels_a_unit() -> Done {
    let heatmap = grid([2, 2, 3, 4]).with_titles(["left", "right"])?;
    let svg = heatmap.to_svg()?;
    let (width, height, pixels) = decode(&heatmap.to_png()?);
    let root = svg.lines().next().unwrap();
    let sides = ["width", "height"].map(|side| 2 * number(root, side));
    assert_eq!([width, height], sides);
    // Each rectangle's colour is found at its middle, so cells and the bar are where the SVG has them.
    let cells = rectangles(&svg).skip(1);
    let filled = cells.filter(|line| !line.contains("fill=\"none\""));
    for cell in filled.clone() {
        let x = 2 * number(cell, "x") + number(cell, "width");
        let y = 2 * number(cell, "y") + number(cell, "height");
        let [red, green, blue] = pixels[y * width + x];
        let color = format!("fill=\"#{red:02X}{green:02X}{blue:02X}\"");
        assert!(cell.contains(&color), "{cell} has {color} in the bitmap");
    }
    assert_eq!(filled.count(), 2 * 2 * 3 * 4 + 64);
    Ok(())
}

#[test]
fn darkest_pixels_are_where_the_largest_weight_is() -> Done {
    let mut weights = vec![0.1; 6 * 8];
    weights[2 * 8 + 5] = 0.9;
    let plain = |heatmap: HeatmapGrid| heatmap.with_axis_titles("", "").with_range(0.0, 0.9);
    let heatmap = plain(HeatmapGrid::single(weights, [6, 8])?)?;
    let svg = heatmap.to_svg()?;
    // Paper, then the cells in order.
    let cell = rectangles(&svg).nth(1 + 2 * 8 + 5).unwrap();
    let (width, _, pixels) = decode(&heatmap.to_png()?);
    let is_dark = |index: &usize| pixels[*index] == [103, 0, 13];
    let dark: Vec<_> = (0..pixels.len()).filter(is_dark).collect();
    let (left, top) = (2 * number(cell, "x"), 2 * number(cell, "y"));
    let side = 2 * number(cell, "width");
    let inside = dark.iter().filter(|index| {
        let (x, y) = (*index % width, *index / width);
        (left..left + side).contains(&x) && (top..top + side).contains(&y)
    });
    assert_eq!(inside.count(), side * side, "the whole cell");
    let few = dark.len() < side * side + 2000;
    assert!(few, "and else only the end of the bar");
    Ok(())
}

#[test]
fn png_shows_labels() -> Done {
    let ink = |heatmap: HeatmapGrid| -> Result<usize, PlotError> {
        let (_, _, pixels) = decode(&heatmap.to_png()?);
        Ok(pixels.iter().filter(|it| **it == [38, 38, 38]).count())
    };
    let ink_of = |label: &str| {
        let bare = HeatmapGrid::single(vec![0.1, 0.2], [1, 2])?.with_axis_titles("", "");
        ink(bare.with_query_labels([label])?.with_key_labels(["", ""])?)
    };
    assert!(ink_of("eun")? > ink_of("")?);
    assert!(ink_of("éüñ")? > ink_of("eun")?, "accents take ink too");
    Ok(())
}

#[test]
fn extreme_figures_are_drawn_or_refused() -> Done {
    let lines = [[1, 1, 1, 1], [1, 1, 1, 900], [1, 1, 900, 1]];
    let panels = [[9, 1, 1, 1], [1, 9, 2, 1], [3, 3, 40, 2]];
    for shape in [lines, panels].concat() {
        let (grid, cells) = (grid(shape), shape.iter().product::<usize>());
        assert_eq!(filled(&grid.to_svg()?), 65 + cells, "{shape:?}");
        decode(&grid.to_png()?);
    }
    let error = grid([1, 1, 1, 70_000]).to_svg().unwrap_err();
    let is_too_large = matches!(error, PlotError::TooLarge { width, .. } if width >= 70_000);
    assert!(is_too_large, "{error}");
    let error = grid([250, 250, 1, 1]).to_png().unwrap_err();
    assert!(error.to_string().contains("fewer"), "{error}");
    Ok(())
}

#[test]
fn a_picture_is_the_same_to_the_byte_each_time() -> Done {
    let picture = || grid([2, 2, 2, 10]).with_query_labels(["été", "là"]);
    assert_eq!(picture()?.to_svg()?, picture()?.to_svg()?);
    assert_eq!(picture()?.to_png()?, picture()?.to_png()?);
    Ok(())
}

#[test]
fn ink_is_where_the_texts_are() -> Done {
    let picture = grid([1, 1, 3, 4])
        .with_titles(["Title"])?
        .with_query_labels(["first", "second", "third"])?
        .with_key_labels(["alpha", "b", "c", "d"])?;
    let svg = picture.to_svg()?;
    let pixels = ink(&picture)?;
    let lines: Vec<_> = svg.lines().collect();
    let mut texts = 0;
    for at in (1..lines.len()).filter(|at| lines[at - 1].starts_with("<text")) {
        let tag = lines[at - 1];
        let [x, y] = ["x", "y"].map(|name| 2 * number(tag, name));
        // A letter at least around the point, on the side that its anchor says.
        let [before, after] = ["start", "end"].map(|name| {
            let is_anchor = tag.contains(&format!("text-anchor=\"{name}\""));
            if is_anchor { 0 } else { 30 }
        });
        let near = |(column, row): &&(usize, usize)| {
            if tag.contains("rotate(270") {
                column.abs_diff(x) < 6 && (y - after..y + before).contains(row)
            } else {
                row.abs_diff(y) < 6 && (x - before..x + after).contains(column)
            }
        };
        assert!(pixels.iter().filter(near).count() > 20, "{}", lines[at]);
        texts += 1;
    }
    assert!(texts > 10, "{texts}");
    Ok(())
}

#[test]
fn characters_that_turn_the_direction_become_signs_in_every_text() -> Done {
    let turned = "a\u{202e}b\u{2066}c\u{200f}d\u{2028}\u{61c}";
    let signs = "a\u{fffd}b\u{fffd}c\u{fffd}d⏎\u{fffd}";
    let heatmap = HeatmapGrid::single(vec![1.0], [1, 1])?
        .with_titles([turned])?
        .with_axis_titles(turned, turned)
        .with_query_labels([turned])?
        .with_key_labels([turned])?;
    let terminal = heatmap.to_terminal(TerminalColor::None);
    for text in [heatmap.to_svg()?, heatmap.to_html()?, terminal] {
        let is_raw = |character: char| character != '\n' && is_control(character);
        assert!(!text.contains(is_raw), "{text}");
        assert!(text.contains(signs), "{text}");
    }
    // A sign is drawn in the place of one.
    let plain = heatmap.clone().with_titles([signs])?;
    assert_eq!(heatmap.to_png()?, plain.to_png()?);
    // Joiners belong to the letters beside them.
    let joined = HeatmapGrid::single(vec![1.0], [1, 1])?.with_key_labels(["می\u{200c}خواهم"])?;
    assert!(joined.to_svg()?.contains("می\u{200c}خواهم"));
    Ok(())
}
