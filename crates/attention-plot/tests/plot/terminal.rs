//! Text keeps its columns, whatever the letters' widths.

use attention_plot::{HeatmapGrid, TerminalColor};
use unicode_width::UnicodeWidthStr;

use crate::support::Done;

/// The columns at which `letter` stands in a line.
fn column_of(line: &str, letter: &str) -> usize {
    line[..line.find(letter).unwrap()].width()
}

#[test]
fn text_is_exactly_this() -> Done {
    let text = HeatmapGrid::single(vec![1.0, 0.5, 0.0, f32::NAN], [2, 2])?
        .with_titles(["Head 1"])?
        .with_query_labels(["été", "b"])?
        .with_key_labels(["x", "yz"])?
        .to_terminal(TerminalColor::None);
    let expected = [
        "Queries ↓  Keys →",
        "    Head 1",
        "      y",
        "    x z",
        "été ██▒▒",
        "  b   ??",
        "0.00       ░░░░▒▒▒▒▓▓▓▓██████ 1.00",
        "",
    ];
    assert_eq!(text.split('\n').collect::<Vec<_>>(), expected);
    Ok(())
}

#[test]
fn wide_and_combined_letters_keep_columns() -> Done {
    let queries = ["日本語", "a", "e\u{301}te\u{301}", "🙂"];
    let keys = ["猫", "b", "o\u{308}", "🙂d", "z"];
    let text = HeatmapGrid::single(vec![1.0; 4 * 5], [4, 5])?
        .with_range(0.0, 1.0)?
        .with_query_labels(queries)?
        .with_key_labels(keys)?
        .to_terminal(TerminalColor::None);
    let lines: Vec<_> = text.lines().collect();
    // A title line, two lines of keys, four rows, the legend.
    assert_eq!(lines.len(), 1 + 2 + 4 + 1);
    for (line, query) in lines[3..7].iter().zip(queries) {
        assert!(line.trim_start().starts_with(query), "{line}");
        let columns = (column_of(line, "█"), line.width());
        assert_eq!(columns, (7, 7 + 2 * 5), "{line}");
    }
    for (letter, column) in [("猫", 7), ("b", 9), ("o\u{308}", 11), ("d", 13), ("z", 15)] {
        let found = column_of(lines[2], letter);
        assert_eq!(found, column, "{letter} in {}", lines[2]);
    }
    assert_eq!(column_of(lines[1], "🙂"), 13);
    Ok(())
}

#[test]
fn long_labels_are_cut() -> Done {
    let long = "Donaudampfschifffahrtsgesellschaft";
    let text = HeatmapGrid::single(vec![1.0], [1, 1])?
        .with_query_labels([long])?
        .with_key_labels([long])?
        .to_terminal(TerminalColor::None);
    assert!(text.contains("Donaudampfschifffah… ██"), "{text}");
    assert_eq!(text.lines().count(), 1 + 20 + 1 + 1, "{text}");
    Ok(())
}

#[test]
fn a_page_as_a_label_is_no_burden() -> Done {
    let page = "lorem ipsum e\u{301} ".repeat(2_000);
    let heatmap = HeatmapGrid::single(vec![1.0], [1, 1])?
        .with_titles([&page])?
        .with_query_labels([&page])?;
    assert!(heatmap.to_terminal(TerminalColor::None).len() < 1000);
    assert!(heatmap.to_svg()?.contains("lorem ipsum"));
    Ok(())
}

#[test]
fn panels_stand_side_by_side() -> Done {
    let text = HeatmapGrid::new(vec![1.0; 2 * 3 * 2 * 2], [2, 3, 2, 2])?
        .with_titles(["A", "a longer title", "C"])?
        .to_terminal(TerminalColor::None);
    let is_row = |line: &&str| line.contains("█") && !line.contains('.');
    let rows: Vec<_> = text.lines().filter(is_row).collect();
    assert_eq!(rows.len(), 2 * 2);
    let column = column_of(text.lines().nth(1).unwrap(), "a longer");
    for row in rows {
        assert_eq!(row.matches("████").count(), 3, "{row}");
        let second = row.match_indices("████").nth(1).unwrap().0;
        assert_eq!(row[..second].width(), column, "{row}");
    }
    Ok(())
}

#[test]
fn a_cropped_grid_has_the_first_cells_of_each_matrix_in_their_colours() -> Done {
    let weights = (0..2 * 3 * 5).map(|weight| weight as f32 / 30.0).collect();
    let grid = HeatmapGrid::new(weights, [1, 2, 3, 5])?
        .with_titles(["A", "B"])?
        .with_query_labels(["q0", "q1", "q2"])?
        .with_key_labels(["a", "b", "c", "d", "e"])?;
    // Weights 0, 1, 2, 5, 6, 7 are left, and in the second matrix the same plus 15.
    let weights = [0, 1, 2, 5, 6, 7, 15, 16, 17, 20, 21, 22];
    let weights = weights.map(|weight| weight as f32 / 30.0).to_vec();
    let expected = HeatmapGrid::new(weights, [1, 2, 2, 3])?
        .with_titles(["A", "B"])?
        .with_query_labels(["q0", "q1"])?
        .with_key_labels(["a", "b", "c"])?
        .with_range(0.0, 29.0 / 30.0)?;
    assert_eq!(grid.cropped([2, 3]), expected);
    assert_eq!(grid.cropped([0, 9]).shape(), [1, 2, 1, 5]);
    // Beyond its sizes, and without labels, nothing changes but that the colours are fixed.
    let heatmap = HeatmapGrid::single(vec![0.1, 0.2, 0.3, 0.4], [2, 2])?;
    let whole = heatmap.cropped([3, 4]).to_terminal(TerminalColor::None);
    assert_eq!(whole, heatmap.to_terminal(TerminalColor::None));
    Ok(())
}

#[test]
fn escape_codes_are_balanced_and_match_the_mode() -> Done {
    let heatmap = HeatmapGrid::single(vec![0.0, 0.0, 1.0, f32::NAN], [2, 2])?;
    let true_color = heatmap.to_terminal(TerminalColor::TrueColor);
    let ansi = heatmap.to_terminal(TerminalColor::Ansi256);
    let dark_and_grey = "\x1b[30;48;2;103;0;13m  \x1b[30;48;2;160;160;160m??\x1b[0m\n";
    for (text, part) in [
        // One code for equal cells.
        (&true_color, "\x1b[30;48;2;255;245;240m    \x1b[0m\n"),
        (&true_color, dark_and_grey),
        // 52 is 95,0,0 and 247 the grey 158,158,158: the nearest there are.
        (&ansi, "\x1b[30;48;5;52m  \x1b[30;48;5;247m??\x1b[0m\n"),
    ] {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
    assert!(!heatmap.to_terminal(TerminalColor::None).contains('\x1b'));
    for line in true_color.lines().chain(ansi.lines()) {
        if let Some(last) = line.rfind("\x1b[") {
            assert!(line[last..].starts_with("\x1b[0m"), "{line:?}");
        }
    }
    Ok(())
}
