//! `seq2seq attend`

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use attention_plot::{Heatmap, PlotError, TerminalColor};
use attention_seq2seq::{Attended, AttentionHead, Error, Result};
use clap::Args;
use terminal_size::{Width, terminal_size_of};
use unicode_width::UnicodeWidthStr;

use super::{Model, note_cut_off, say, without_mark};

#[derive(Args)]
pub(crate) struct AttendArgs {
    /// The text to translate.
    text: String,
    /// The file to save the heatmap to: .svg, .png or .html.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The layer of a Transformer's decoder, from 1 [default: the last].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    layer: Option<usize>,
    /// The head of a Transformer, from 1 [default: the mean over all of the layer].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    head: Option<usize>,
    #[command(flatten)]
    model: Model,
}

impl AttendArgs {
    pub(crate) fn run(self) -> Result<()> {
        let translator = self.model.load()?;
        let source = translator.source_tokens(without_mark(&self.text))?;
        let head = AttentionHead {
            layer: self.layer,
            head: self.head,
        };
        let attended = translator.attend_with(&source, head)?;
        let drawn = draw(&attended)?;
        if let Some(file) = &self.output {
            drawn.save(file)?;
        }
        if !attended.output.ended {
            note_cut_off("the output", &translator);
        }
        say(&attended.output.text)?;
        say("")?;
        drawn.show(self.output.as_deref())?;
        match &self.output {
            Some(file) => say_saved(file),
            None => Ok(()),
        }
    }
}

/// The most weights in a picture: each is a rectangle of its own in an SVG, and a cell in a page.
const MOST_WEIGHTS: usize = 100_000;

/// The most tokens in, and the most tokens out, of a heatmap in a terminal.
const MOST_SHOWN: usize = 80;

/// Attention weights, drawn.
pub(crate) struct Drawn {
    heatmap: Heatmap,
    /// The number of queries and of keys.
    shape: [usize; 2],
}

/// The attention weights of a translation.
pub(crate) fn draw(attended: &Attended) -> Result<Drawn> {
    Ok(Drawn {
        heatmap: heatmap(attended).map_err(plot_error)?,
        shape: [attended.target.len(), attended.source.len()],
    })
}

impl Drawn {
    /// Whether a picture of it may be saved.
    pub(crate) fn fits(&self) -> bool {
        self.shape[0] * self.shape[1] <= MOST_WEIGHTS
    }

    pub(crate) fn save(&self, file: &Path) -> Result<()> {
        if !self.fits() {
            let weights = self.shape[0] * self.shape[1];
            let expected = format!("at most {MOST_WEIGHTS} weights, tokens in times tokens out");
            return Err(Error::Config {
                what: format!("the picture {}", file.display()),
                expected,
                found: weights.to_string(),
            });
        }
        self.heatmap.save(file).map_err(plot_error)
    }

    /// Prints its first tokens, if the terminal is wide enough. `picture` is the file of the whole, if there is one.
    pub(crate) fn show(&self, picture: Option<&Path>) -> Result<()> {
        let shown = self.heatmap.cropped([MOST_SHOWN; 2]);
        let needed = shown.to_terminal(TerminalColor::None);
        let needed = needed
            .lines()
            .map(UnicodeWidthStr::width)
            .max()
            .unwrap_or(0);
        match terminal_size_of(std::io::stdout()) {
            Some((Width(width), _)) if needed > usize::from(width) => say(format_args!(
                "(the first tokens of the heatmap take {needed} columns, this terminal has {width}: {})",
                self.where_whole(picture)
            )),
            _ => say(shown.to_terminal(colors()) + &self.left_out(picture)),
        }
    }

    /// A line on the tokens that are not shown; nothing if all are.
    fn left_out(&self, picture: Option<&Path>) -> String {
        let [outputs, sources] = self.shape;
        let left_out: Vec<String> = [(outputs, "output"), (sources, "source")]
            .into_iter()
            .filter(|(count, _)| *count > MOST_SHOWN)
            .map(|(count, side)| format!("{} of {count} {side} tokens", count - MOST_SHOWN))
            .collect();
        if left_out.is_empty() {
            return String::new();
        }
        let left_out = left_out.join(" and ");
        format!("(left out: {left_out}; {})\n", self.where_whole(picture))
    }

    /// Where the whole heatmap is, or how to get it.
    fn where_whole(&self, picture: Option<&Path>) -> String {
        match picture {
            Some(file) => format!("the whole is in {}", file.display()),
            None if self.fits() => "`attend --output FILE` saves a picture".to_string(),
            None => "the whole is too large for a picture".to_string(),
        }
    }
}

/// The colours that whoever reads the output has or wants: <https://no-color.org>, and `LC_ALL=C` for plain ASCII.
fn colors() -> TerminalColor {
    let is = |name: &str, test: fn(&str) -> bool| {
        std::env::var_os(name).is_some_and(|value| value.to_str().is_some_and(test))
    };
    if is("LC_ALL", |value| ["C", "POSIX"].contains(&value)) {
        return TerminalColor::Ascii;
    }
    let plain = is("NO_COLOR", |value| !value.is_empty()) || is("TERM", |value| value == "dumb");
    match std::io::stdout().is_terminal() && !plain {
        true => TerminalColor::Ansi256,
        false => TerminalColor::None,
    }
}

pub(crate) fn say_saved(file: &Path) -> Result<()> {
    say(format_args!("saved {}", file.display()))
}

fn heatmap(attended: &Attended) -> std::result::Result<Heatmap, PlotError> {
    let shape = [attended.target.len(), attended.source.len()];
    let space = match colors() {
        TerminalColor::Ascii => "_",
        _ => "␣",
    };
    let visible = |token: &String| match token.as_str() {
        " " => space.to_string(),
        token => token.to_string(),
    };
    Heatmap::new(attended.weights.clone(), shape)?
        .with_axis_titles("source", "output")
        .with_key_labels(attended.source.iter().map(visible))?
        .with_query_labels(attended.target.iter().map(visible))
}

fn plot_error(error: PlotError) -> Error {
    Error::Picture {
        reason: error.to_string(),
    }
}
