//! A grid of heatmaps as text.

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{HeatmapGrid, color::ColorScale, grid::names};
use crate::{canvas::Rgb, scale::Scale};

/// The colours that a terminal can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TerminalColor {
    /// 24-bit colours: nearly every current terminal.
    #[default]
    TrueColor,
    /// The 256 colours of xterm.
    Ansi256,
    /// No escape codes: shades ` ░▒▓█`, for logs and files.
    None,
    /// No escape codes, and nothing beyond ASCII except in labels, and the `…` of a cut label: shades ` .:*#`.
    Ascii,
}

/// The columns of a cell.
const CELL: usize = 2;
/// The largest number of columns or lines of a label.
const LABEL_LIMIT: usize = 20;
/// The largest number of columns of a title.
const TITLE_LIMIT: usize = 4 * LABEL_LIMIT;
const GAP: &str = "  ";
const RESET: &str = "\x1b[0m";
const BAR_CELLS: usize = 12;

pub(crate) fn text(grid: &HeatmapGrid, color: TerminalColor) -> String {
    let [rows, columns, queries, keys] = grid.shape();
    let left = left_labels(&grid.query_labels, queries);
    let top = top_labels(&grid.key_labels, keys);
    let margin = " ".repeat(left.first().map_or(0, |label| label.width()));
    let titles = grid.titles.iter().map(|title| fit(title, TITLE_LIMIT));
    let titles: Vec<String> = titles.collect();
    let titles_width = titles.iter().map(|title| title.width()).max();
    let panel_width = (CELL * keys).max(titles_width.unwrap_or(0));
    let gap = panel_width - CELL * keys;
    let scale = grid.scale();
    let painter = Painter { scale, color };

    let mut lines = Vec::new();
    let (down, right) = match color {
        TerminalColor::Ascii => ("v", ">"),
        _ => ("↓", "→"),
    };
    match (grid.y_title.as_str(), grid.x_title.as_str()) {
        ("", "") => {}
        (y, "") => lines.push(format!("{y} {down}")),
        ("", x) => lines.push(format!("{x} {right}")),
        (y, x) => lines.push(format!("{y} {down}  {x} {right}")),
    }
    if titles.iter().any(|title| !title.is_empty()) {
        let titles = titles.iter().map(|title| pad(title, panel_width));
        lines.push(line(&margin, titles).trim_end().into());
    }
    for row in 0..rows {
        if row > 0 {
            lines.push(String::new());
        }
        lines.extend(top.iter().map(|labels| {
            let panels = (0..columns).map(|_| pad(labels, panel_width));
            line(&margin, panels).trim_end().to_owned()
        }));
        for (query, label) in left.iter().enumerate() {
            let cells = (0..columns).map(|column| {
                let cells = painter.cells(&grid.panel(row, column)[query * keys..][..keys]);
                let fill = if column + 1 < columns { gap } else { 0 };
                cells + &" ".repeat(fill)
            });
            lines.push(line(label, cells));
        }
    }
    lines.push(painter.legend());
    lines.join("\n") + "\n"
}

/// One line of text: the label at the left, then the part of each panel.
fn line(left: &str, panels: impl Iterator<Item = String>) -> String {
    let panels: Vec<_> = panels.collect();
    format!("{left} {}", panels.join(GAP))
}

/// The labels of queries, right-aligned.
fn left_labels(tokens: &[String], count: usize) -> Vec<String> {
    let names = names(tokens, count);
    let labels: Vec<_> = names.iter().map(|name| fit(name, LABEL_LIMIT)).collect();
    let width = labels.iter().map(|label| label.width()).max().unwrap_or(0);
    let aligned = |label: &String| " ".repeat(width - label.width()) + label;
    labels.iter().map(aligned).collect()
}

/// The labels of keys, running down and ending at the matrix: one line for each letter.
fn top_labels(tokens: &[String], count: usize) -> Vec<String> {
    let names = names(tokens, count);
    let columns: Vec<_> = names.iter().map(|name| letters(name)).collect();
    let height = columns.iter().map(Vec::len).max().unwrap_or(0);
    let letter = |line: usize, column: &Vec<String>| {
        let index = (line + column.len()).checked_sub(height);
        pad(index.map_or("", |index| &column[index]), CELL)
    };
    let line = |line| columns.iter().map(|column| letter(line, column)).collect();
    (0..height).map(line).collect()
}

/// The letters of a label, each with its combining marks, cut to the limit.
fn letters(label: &str) -> Vec<String> {
    let mut letters: Vec<String> = Vec::new();
    for character in label.chars() {
        match (character.width().unwrap_or(0), letters.last_mut()) {
            (0, Some(letter)) => letter.push(character),
            (0, None) => {}
            _ => letters.push(character.into()),
        }
    }
    if letters.len() > LABEL_LIMIT {
        letters.truncate(LABEL_LIMIT - 1);
        letters.push("…".into());
    }
    letters
}

/// The text, cut with an ellipsis if it takes more than `limit` columns.
fn fit(text: &str, limit: usize) -> String {
    if text.width() <= limit {
        return text.into();
    }
    // Combining marks without a width are kept, but not thousands of them.
    let mut start: String = text.chars().take(8 * limit).collect();
    while start.width() >= limit && start.pop().is_some() {}
    start + "…"
}

/// The text, padded with spaces to `width` columns.
fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

struct Painter {
    scale: ColorScale,
    color: TerminalColor,
}

impl Painter {
    /// A row of cells; the escape code of a colour is written only where it changes.
    fn cells(&self, weights: &[f32]) -> String {
        let (mut out, mut current) = (String::new(), String::new());
        for weight in weights {
            let position = self.scale.position(*weight);
            let code = self.code(self.scale.color(*weight));
            if code != current {
                out.push_str(&code);
                current = code;
            }
            out.push_str(match (position, self.color) {
                (None, _) => "??",
                (Some(position), TerminalColor::None) => {
                    ["  ", "░░", "▒▒", "▓▓", "██"][shade(position)]
                }
                (Some(position), TerminalColor::Ascii) => {
                    ["  ", "..", "::", "**", "##"][shade(position)]
                }
                _ => "  ",
            });
        }
        out + if current.is_empty() { "" } else { RESET }
    }

    /// The colour scale with the weights at its ends.
    fn legend(&self) -> String {
        let Scale { low, high } = self.scale.weights;
        let weight = |step| (low + (high - low) * step as f64 / (BAR_CELLS - 1) as f64) as f32;
        let steps: Vec<_> = (0..BAR_CELLS).map(weight).collect();
        let [low, high] = self.scale.weights.end_labels();
        format!("{low} {} {high}", self.cells(&steps))
    }

    /// The escape code for a background.
    fn code(&self, [red, green, blue]: Rgb) -> String {
        let mut code = String::new();
        // Writing to a string cannot fail. Black letters, for the marks in grey cells.
        let _ = match self.color {
            TerminalColor::TrueColor => write!(code, "\x1b[30;48;2;{red};{green};{blue}m"),
            TerminalColor::Ansi256 => write!(code, "\x1b[30;48;5;{}m", xterm([red, green, blue])),
            TerminalColor::None | TerminalColor::Ascii => Ok(()),
        };
        code
    }
}

/// One of five shades for a position from 0 to 1.
fn shade(position: f64) -> usize {
    ((position * 5.0) as usize).min(4)
}

/// The nearest of xterm's 6 x 6 x 6 colours and 24 greys.
fn xterm(color: Rgb) -> u8 {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let cube = (0..216_u8).map(|index| {
        let levels = [index / 36, index / 6 % 6, index % 6];
        (16 + index, levels.map(|level| LEVELS[usize::from(level)]))
    });
    let greys = (0..24_u8).map(|index| (232 + index, [8 + 10 * index; 3]));
    let distance = |other: Rgb| -> i32 {
        let pairs = color.into_iter().zip(other);
        pairs.map(|(a, b)| i32::from(a.abs_diff(b)).pow(2)).sum()
    };
    let nearest = cube.chain(greys).min_by_key(|(_, other)| distance(*other));
    nearest.map_or(16, |(index, _)| index)
}
