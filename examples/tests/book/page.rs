//! A page of the book, as far as the checks read Markdown.

use std::fs;
use std::path::{Path, PathBuf};

/// A page.
pub(crate) struct Page {
    /// The file, under the folder of the pages.
    pub(crate) name: PathBuf,
    /// The fenced blocks of code.
    pub(crate) blocks: Vec<Block>,
    /// The lines outside of them, with their numbers from 1.
    pub(crate) prose: Vec<(usize, String)>,
    /// The includes, wherever they stand.
    pub(crate) includes: Vec<Include>,
}

/// A fenced block of code.
pub(crate) struct Block {
    /// The number of the line that opens it.
    pub(crate) line: usize,
    /// The word after the fence: `rust`, `python`, ..
    pub(crate) language: String,
    pub(crate) lines: Vec<String>,
}

/// `{{#include path:anchor}}`
pub(crate) struct Include {
    pub(crate) line: usize,
    /// Relative to the page.
    pub(crate) path: String,
    pub(crate) anchor: Option<String>,
}

impl Page {
    pub(crate) fn read(folder: &Path, name: PathBuf) -> Self {
        let text = fs::read_to_string(folder.join(&name)).unwrap();
        let mut page = Self {
            name,
            blocks: Vec::new(),
            prose: Vec::new(),
            includes: Vec::new(),
        };
        let mut is_inside = false;
        for (number, line) in (1..).zip(text.lines()) {
            page.includes.extend(include(number, line));
            if let Some(language) = line.trim_start().strip_prefix("```") {
                is_inside = !is_inside;
                if is_inside {
                    page.blocks.push(Block {
                        line: number,
                        language: language.trim().to_string(),
                        lines: Vec::new(),
                    });
                }
            } else if let (true, Some(block)) = (is_inside, page.blocks.last_mut()) {
                block.lines.push(line.to_string());
            } else {
                page.prose.push((number, line.to_string()));
            }
        }
        page
    }

    /// The targets of links and pictures, `[text](target)`, with their lines and whether they are pictures.
    pub(crate) fn links(&self) -> impl Iterator<Item = (usize, String, bool)> {
        self.prose.iter().flat_map(|(number, line)| {
            let line = without_code(line);
            let mut links = Vec::new();
            for (at, _) in line.match_indices("](") {
                let target: String = line[at + 2..].chars().take_while(|c| *c != ')').collect();
                let text = line[..at].rfind('[').unwrap_or(0);
                links.push((*number, target, line[..text].ends_with('!')));
            }
            links
        })
    }

    /// The text between backticks in the prose, with its line.
    pub(crate) fn code_spans(&self) -> impl Iterator<Item = (usize, &str)> {
        self.prose.iter().flat_map(|(number, line)| {
            let spans = line.split('`').skip(1).step_by(2);
            spans.map(|span| (*number, span))
        })
    }

    /// The anchors of its headings, as mdBook names them.
    pub(crate) fn headings(&self) -> impl Iterator<Item = String> {
        let lines = self.prose.iter().map(|(_, line)| line);
        let headings = lines.filter(|line| line.starts_with('#'));
        headings.map(|line| slug(line.trim_start_matches('#').trim()))
    }
}

fn include(number: usize, line: &str) -> Option<Include> {
    let (_, rest) = line.split_once("{{#")?;
    let (directive, _) = rest.split_once("}}")?;
    let (kind, argument) = directive.split_once(' ')?;
    assert!(
        matches!(kind, "include" | "rustdoc_include"),
        "line {number}: `include` or `rustdoc_include` expected, got `{kind}`"
    );
    let (path, anchor) = match argument.trim().split_once(':') {
        Some((path, anchor)) => (path, Some(anchor.to_string())),
        None => (argument.trim(), None),
    };
    Some(Include {
        line: number,
        path: path.to_string(),
        anchor,
    })
}

/// The line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn slug(heading: &str) -> String {
    let heading = heading.replace('`', "");
    let kept = heading.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
}
