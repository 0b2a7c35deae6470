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
        let heatmap = draw(&translator, &source)?;
        if let Some(file) = &self.output {
            save(&heatmap, file)?;
        }
        show(&heatmap)?;
        match &self.output {
            Some(file) => say_saved(file),
            None => Ok(()),
        }
    }
}

/// The attention weights of the translation of `source`.
pub(crate) fn draw(translator: &Translator, source: &[String]) -> Result<Heatmap> {
    heatmap(&translator.attend(source)).map_err(plot_error)
}

pub(crate) fn save(heatmap: &Heatmap, file: &Path) -> Result<()> {
    heatmap.save(file).map_err(plot_error)
}

/// Prints it.
pub(crate) fn show(heatmap: &Heatmap) -> Result<()> {
    let color = if std::io::stdout().is_terminal() {
        TerminalColor::Ansi256
    } else {
        TerminalColor::None
    };
    say(heatmap.to_terminal(color))
}

pub(crate) fn say_saved(file: &Path) -> Result<()> {
    say(format_args!("saved {}", file.display()))
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
