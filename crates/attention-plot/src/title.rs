//! Axis titles that are no longer than their axes.

use std::iter;

use crate::{
    canvas::{Anchor, Canvas, Direction, Point, Text},
    font::Face,
    measures::{AXIS_TITLE_EM, ceil},
};

/// A title on one or two lines is shrunk to this size at most.
const SMALL_EM: f64 = 10.0;
/// A title on three lines is shrunk to this size at most, as the smallest tick labels.
const LEAST_EM: f64 = 8.0;
const MOST_LINES: usize = 3;
/// The distance from the tick labels.
const CLEARANCE: i32 = 8;
/// The distance from line to line, in relation to the size of the letters.
const LEADING: f64 = 1.25;

/// The title of an axis, no longer than the axis.
///
/// A title that is too long is shrunk a little; else set on two lines; else on three, shrunk to what can still be read;
/// else cut, with an ellipsis.
#[derive(Clone, Debug)]
pub(crate) struct Title {
    pub(crate) lines: Vec<String>,
    em: f64,
}

impl Title {
    /// The title of an axis of `length` pixels. A blank title has no lines and takes no room.
    pub(crate) fn fit(text: &str, length: f64, face: &Face) -> Self {
        let setter = Setter { length, face };
        let words: Vec<_> = text.split_whitespace().collect();
        let attempts = [(1, SMALL_EM), (2, SMALL_EM), (MOST_LINES, LEAST_EM)];
        for (most_lines, least_em) in attempts {
            let sizes = iter::successors(Some(AXIS_TITLE_EM), |em| Some(em - 1.0));
            for em in sizes.take_while(|em| *em >= least_em) {
                if let Some(lines) = setter.even_lines(&words, em, most_lines) {
                    return Self { lines, em };
                }
            }
        }
        Self {
            lines: setter.cut_lines(&words),
            em: LEAST_EM,
        }
    }

    /// Whether the title stands on one line, in its natural size.
    pub(crate) fn is_natural(&self) -> bool {
        self.lines.len() <= 1 && self.em == AXIS_TITLE_EM
    }

    /// The room that the title takes away from the axis, with its distance to the tick labels.
    pub(crate) fn room(&self) -> i32 {
        if self.lines.is_empty() {
            return 0;
        }
        self.offset(self.lines.len() - 1) + ceil(self.em / 2.0)
    }

    /// Draws the title below `labels`, the middle of the lower edge of a horizontal axis' tick labels.
    pub(crate) fn draw_below(&self, canvas: &mut impl Canvas, labels: Point) {
        for (line, content) in self.lines.iter().enumerate() {
            let at = Point {
                y: labels.y + self.offset(line),
                ..labels
            };
            self.draw_line(canvas, content, at, Direction::Rightwards);
        }
    }

    /// Draws the title upwards, left of `labels`, the middle of the left edge of a vertical axis' tick labels.
    pub(crate) fn draw_beside(&self, canvas: &mut impl Canvas, labels: Point) {
        // The last line is the nearest one.
        for (line, content) in self.lines.iter().rev().enumerate() {
            let at = Point {
                x: labels.x - self.offset(line),
                ..labels
            };
            self.draw_line(canvas, content, at, Direction::Upwards);
        }
    }

    fn draw_line(&self, canvas: &mut impl Canvas, content: &str, at: Point, direction: Direction) {
        canvas.text(Text {
            direction,
            ..Text::new(content, self.em, at, Anchor::Middle)
        });
    }

    /// The distance from the tick labels to the middle of a line, counted from the nearest one.
    fn offset(&self, line: usize) -> i32 {
        CLEARANCE + ceil(self.em / 2.0) + ceil(LEADING * self.em) * line as i32
    }
}

/// Sets words in lines of at most `length` pixels.
struct Setter<'a> {
    length: f64,
    face: &'a Face,
}

impl Setter<'_> {
    /// The words on at most `most` lines, as even as can be; `None` if they need more.
    fn even_lines(&self, words: &[&str], em: f64, most: usize) -> Option<Vec<String>> {
        let average = self.face.width(&words.join(" "), em) / most as f64;
        if average > self.length {
            return None;
        }
        // The shortest lines that suffice are the most even ones.
        let lengths = iter::successors(Some(average), |length| Some(length + em / 2.0));
        lengths
            .take_while(|length| *length < self.length)
            .chain([self.length])
            .filter_map(|length| self.full_lines(words, em, length))
            .find(|lines| lines.len() <= most)
    }

    /// The words on lines of at most `length` pixels, each as full as can be; `None` if a word is longer.
    fn full_lines(&self, mut words: &[&str], em: f64, length: f64) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        while !words.is_empty() {
            let (line, rest) = self.first_line(words, em, length)?;
            lines.push(line);
            words = rest;
        }
        Some(lines)
    }

    /// The words on [`MOST_LINES`] lines or fewer, of the least size; the last line is cut.
    fn cut_lines(&self, mut words: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.len() + 1 < MOST_LINES
            && let Some((line, rest)) = self.first_line(words, LEAST_EM, self.length)
        {
            lines.push(line);
            words = rest;
        }
        let last = words.join(" ");
        lines.push(self.face.fit(&last, LEAST_EM, self.length));
        lines
    }

    /// The words that one line of at most `length` pixels holds, and the other words; `None` if it holds none.
    fn first_line<'words, 'text>(
        &self,
        words: &'words [&'text str],
        em: f64,
        length: f64,
    ) -> Option<(String, &'words [&'text str])> {
        (1..=words.len())
            .map(|count| (words[..count].join(" "), &words[count..]))
            .take_while(|(line, _)| self.face.width(line, em) <= length)
            .last()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fit(text: &str, length: f64) -> Title {
        Title::fit(text, length, &Face::load("SVG").unwrap())
    }

    #[test]
    fn a_title_that_fits_stays_as_it_is() {
        let title = fit("Sorted training inputs", 400.0);
        assert!(title.is_natural());
        assert_eq!(title.lines, ["Sorted training inputs"]);
        assert_eq!(title.room(), 20);
        let blank = fit(" ", 400.0);
        assert!(blank.is_natural());
        assert_eq!((blank.lines.len(), blank.room()), (0, 0));
    }

    #[test]
    fn a_long_title_is_shrunk_then_wrapped_then_cut() {
        let shrunk = fit("Queries", 41.0);
        assert_eq!((shrunk.lines.len(), shrunk.em), (1, 10.0));
        let wrapped = fit("equal keys above, random keys below", 130.0);
        assert_eq!(wrapped.lines, ["equal keys above,", "random keys below"]);
        assert_eq!(wrapped.em, 12.0);
        let small = fit("equal keys above, random keys below", 80.0);
        assert_eq!(small.lines.len(), 3);
        let cut = fit(&"word ".repeat(200), 100.0);
        assert_eq!((cut.lines.len(), cut.em), (3, 8.0));
        assert!(cut.lines[2].ends_with('…'), "{cut:?}");
        let one_word = fit("Donaudampfschifffahrtsgesellschaft und mehr", 50.0);
        assert_eq!(one_word.lines.len(), 1);
        assert!(one_word.lines[0].ends_with('…'), "{one_word:?}");
    }

    #[test]
    fn no_line_is_longer_than_the_axis() {
        let face = Face::load("SVG").unwrap();
        let text =
            "The tokens of the Donaudampfschifffahrtsgesellschaft, as the tokenizer cut them";
        for length in (20..700).step_by(7).map(f64::from) {
            let title = Title::fit(text, length, &face);
            assert!(!title.lines.is_empty() && title.lines.len() <= 3);
            assert!((8.0..=12.0).contains(&title.em));
            for line in &title.lines {
                assert!(face.width(line, title.em) <= length, "{length}: {title:?}");
            }
            let shown = title.lines.join(" ");
            assert!(shown == text || shown.ends_with('…'), "{shown}");
        }
    }
}
