//! `seq2seq attend`

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use attention_plot::{Heatmap, PlotError, TerminalColor};
use attention_seq2seq::{Attended, Error, Result, Translator};
use clap::Args;

use super::{Model, say};

#[derive(Args)]
pub(crate) struct AttendArgs {
    /// The text to translate.
    text: String,
    /// The file to save the heatmap to: .svg, .png or .html.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    model: Model,
}

impl AttendArgs {
    pub(crate) fn run(self) -> Result<()> {
        let translator = self.model.load()?;
        let source = translator.source_tokens(&self.text)?;
        show(&translator, &source, self.output.as_deref())
    }
}

/// Prints the attention weights of the translation of `source` as a heatmap, and saves it.
pub(crate) fn show(
    translator: &Translator,
    source: &[String],
    output: Option<&Path>,
) -> Result<()> {
    let attended = translator.attend(source);
    let heatmap = heatmap(&attended).map_err(plot_error)?;
    let color = if std::io::stdout().is_terminal() {
        TerminalColor::Ansi256
    } else {
        TerminalColor::None
    };
    if let Some(file) = output {
        heatmap.save(file).map_err(plot_error)?;
    }
    say(heatmap.to_terminal(color))?;
    match output {
        Some(file) => say(format_args!("saved {}", file.display())),
        None => Ok(()),
    }
}

fn heatmap(attended: &Attended) -> std::result::Result<Heatmap, PlotError> {
    let shape = [attended.target.len(), attended.source.len()];
    let visible = |token: &String| match token.as_str() {
        " " => "␣".to_string(),
        token => token.to_string(),
    };
    Heatmap::new(attended.weights.clone(), shape)?
        .with_axis_titles("source", "output")
        .with_key_labels(attended.source.iter().map(visible))?
        .with_query_labels(attended.target.iter().map(visible))
}

fn plot_error(error: PlotError) -> Error {
    Error::Config {
        what: "the heatmap".to_string(),
        expected: "a picture that can be drawn and saved".to_string(),
        found: error.to_string(),
    }
}
