//! `seq2seq attend`

use std::path::{Path, PathBuf};

use attention_plot::{HeatmapGrid, PlotError, TerminalColor, missing_in_bitmaps};
use attention_seq2seq::file::write_file;
use attention_seq2seq::model::AttentionHead;
use attention_seq2seq::translate::Attended;
use attention_seq2seq::translate::explain::ExplainConfig;
use attention_seq2seq::{Error, Result, SearchConfig, Translator};
use clap::Args;
use terminal_size::{Width, terminal_size_of};
use unicode_width::UnicodeWidthStr;

use crate::machine::among_threads;
use crate::model::Model;
use crate::output::{CutOff, is_terminal, note, say, without_mark};
use crate::page::{Item, Page, PageModel, is_page};

#[derive(Args)]
pub(crate) struct AttendArgs {
    /// The texts to translate.
    #[arg(required = true, value_name = "TEXT")]
    texts: Vec<String>,
    /// The file to save to: .svg or .png, a heatmap of one text; .html, a page that shows for each token what it
    /// attends to, its alternatives, and what dropping a source token changes.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The layer of a Transformer's decoder, from 1 [default: the last].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    layer: Option<usize>,
    /// The head of a Transformer, from 1 [default: the mean over all of the layer].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    head: Option<usize>,
    /// The most outputs of each text on a page, by beam search [default: 5].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    n_best: Option<usize>,
    /// The number of hypotheses of this search [default: --n-best].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    beam: Option<usize>,
    /// The folder of another training, whose model is shown beside the first on a page. (Several --model are one.)
    #[arg(long, value_name = "DIR")]
    compare: Option<PathBuf>,
    #[command(flatten)]
    model: Model,
}

impl AttendArgs {
    pub(crate) fn run(self) -> Result<()> {
        self.check()?;
        let (translator, other) = self.model.load_beside(self.compare.as_deref())?;
        let texts = self.texts.iter().map(|text| without_mark(text));
        let sources = texts.map(|text| translator.source_tokens(text));
        let sources: Vec<Vec<String>> = sources.collect::<Result<_>>()?;
        let head = self.head();
        let attended = sources.iter().map(|source| translator.attend(source, head));
        let attended: Vec<Attended> = attended.collect::<Result<_>>()?;
        let drawn: Vec<Drawn> = attended.iter().map(draw).collect::<Result<_>>()?;
        let saved = match &self.output {
            Some(file) if is_page(file) => {
                drawn.iter().try_for_each(|drawn| drawn.check(file))?;
                let page = || self.page(&sources, &translator, other.as_ref());
                among_threads(page)?.save(file)?;
                Some(saved(file))
            }
            Some(file) => {
                for drawn in &drawn {
                    write_file(file, &drawn.to_file(file)?)?;
                }
                note_missing(file, &attended);
                Some(saved(file))
            }
            None => None,
        };
        let mut cut_off = CutOff::new(&translator);
        for (index, (attended, drawn)) in attended.iter().zip(&drawn).enumerate() {
            if index > 0 {
                say("")?;
            }
            if !attended.output.ended {
                let output = match self.texts.len() {
                    1 => "the output".to_string(),
                    _ => format!("the output of text {}", index + 1),
                };
                cut_off.note(output);
            }
            say(&attended.output.text)?;
            say("")?;
            drawn.show(self.output.as_deref())?;
        }
        saved.map_or(Ok(()), say)
    }

    /// Checks that the arguments are consistent.
    fn check(&self) -> Result<()> {
        if self.output.as_deref().is_some_and(is_page) {
            return Ok(());
        }
        for (option, is_given) in [
            ("--n-best", self.n_best.is_some()),
            ("--beam", self.beam.is_some()),
            ("--compare", self.compare.is_some()),
        ] {
            if is_given {
                let found = match &self.output {
                    Some(file) => format!("--output {}", file.display()),
                    None => "no --output".to_string(),
                };
                return Err(Error::config(option, "--output FILE.html, a page", found));
            }
        }
        match &self.output {
            Some(file) if self.texts.len() > 1 => {
                let what = format!("the picture {}", file.display());
                let expected = "one text (a page, .html, shows several)";
                Err(Error::config(what, expected, self.texts.len()))
            }
            _ => Ok(()),
        }
    }

    fn head(&self) -> AttentionHead {
        let Self { layer, head, .. } = *self;
        AttentionHead { layer, head }
    }

    fn page(
        &self,
        sources: &[Vec<String>],
        translator: &Translator,
        other: Option<&Translator>,
    ) -> Result<Page> {
        let defaults = ExplainConfig::default();
        let search = SearchConfig {
            n_best: self.n_best.or(defaults.search.n_best),
            beam: self.beam,
            ..defaults.search
        };
        let config = ExplainConfig { search, ..defaults };
        let mut models = vec![PageModel::new(self.model.name(), translator)];
        if let (Some(folder), Some(other)) = (&self.compare, other) {
            models.push(PageModel::new(folder.display().to_string(), other));
        }
        let mut page = Page::new("Attention", models);
        page.head = self.head();
        for (text, source) in self.texts.iter().zip(sources) {
            let mut explanations = vec![translator.explain_tokens(source, &config)?];
            if let Some(other) = other {
                // The other model has its own tokens.
                explanations.push(other.explain(without_mark(text), &config)?);
            }
            page.items.push(Item {
                references: Vec::new(),
                explanations,
            });
        }
        Ok(page)
    }
}

/// The largest number of weights in a picture.
const MOST_WEIGHTS: usize = 100_000;

/// The largest numbers of source and of output tokens in a heatmap in a terminal.
const MOST_SHOWN: usize = 80;

/// Attention weights, drawn.
pub(crate) struct Drawn {
    heatmap: HeatmapGrid,
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
    /// Whether a picture of the weights may be saved.
    pub(crate) fn fits(&self) -> bool {
        self.shape[0] * self.shape[1] <= MOST_WEIGHTS
    }

    /// Checks that a picture of the weights may be saved.
    fn check(&self, file: &Path) -> Result<()> {
        if !self.fits() {
            let what = format!("the picture {}", file.display());
            let expected = format!("at most {MOST_WEIGHTS} weights, tokens in times tokens out");
            return Err(Error::config(what, expected, self.shape[0] * self.shape[1]));
        }
        Ok(())
    }

    /// The bytes of a picture with this name.
    pub(crate) fn to_file(&self, file: &Path) -> Result<Vec<u8>> {
        self.check(file)?;
        self.heatmap.to_file(file).map_err(plot_error)
    }

    /// Prints its first tokens, if the terminal is wide enough. `picture` is the file with the whole, if there is one.
    pub(crate) fn show(&self, picture: Option<&Path>) -> Result<()> {
        let shown = self.heatmap.cropped([MOST_SHOWN; 2]);
        let needed = shown.to_terminal(TerminalColor::None);
        let needed = needed.lines().map(UnicodeWidthStr::width).max();
        let needed = needed.unwrap_or(0);
        let size = terminal_size_of(std::io::stdout());
        match size.filter(|_| is_terminal()) {
            Some((Width(width), _)) if needed > usize::from(width) => say(format_args!(
                "(the first tokens of the heatmap take {needed} columns, this terminal has {width}: {})",
                self.where_whole(picture)
            )),
            _ => say(shown.to_terminal(colors()) + &self.left_out(picture)),
        }
    }

    /// A line about the tokens that are not shown; empty if all are.
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

    /// Tells where the whole heatmap is, or how to get it.
    fn where_whole(&self, picture: Option<&Path>) -> String {
        match picture {
            Some(file) => format!("the whole is in {}", file.display()),
            None if self.fits() => "`attend --output FILE` saves a picture".to_string(),
            None => "the whole is too large for a picture".to_string(),
        }
    }
}

/// The colours that the user's terminal has or wants: <https://no-color.org>, and `LC_ALL=C` for plain ASCII.
fn colors() -> TerminalColor {
    let is = |name: &str, test: fn(&str) -> bool| {
        std::env::var_os(name).is_some_and(|value| value.to_str().is_some_and(test))
    };
    if is("LC_ALL", |value| ["C", "POSIX"].contains(&value)) {
        return TerminalColor::Ascii;
    }
    let plain = is("NO_COLOR", |value| !value.is_empty()) || is("TERM", |value| value == "dumb");
    match is_terminal() && !plain {
        true => TerminalColor::Ansi256,
        false => TerminalColor::None,
    }
}

/// Tells how many characters are boxes in a bitmap.
fn note_missing(file: &Path, attended: &[Attended]) {
    let extension = file.extension();
    let is_bitmap = extension.is_some_and(|it| it.eq_ignore_ascii_case("png"));
    let attended = attended.iter();
    let labels = attended.flat_map(|it| it.source.iter().chain(&it.target));
    let missing = missing_in_bitmaps(labels);
    if is_bitmap && missing > 0 {
        let (signs, are) = match missing {
            1 => ("sign", "is a box"),
            _ => ("signs", "are boxes"),
        };
        note(format_args!(
            "note: the font of {} lacks {missing} {signs}, which {are} there; a .svg has them from its viewer's fonts",
            file.display()
        ));
    }
}

pub(crate) fn saved(file: &Path) -> String {
    format!("saved {}", file.display())
}

fn heatmap(attended: &Attended) -> std::result::Result<HeatmapGrid, PlotError> {
    let shape = [attended.target.len(), attended.source.len()];
    let space = match colors() {
        TerminalColor::Ascii => "_",
        _ => "␣",
    };
    let visible = |token: &String| match token.as_str() {
        " " => space.to_string(),
        token => token.to_string(),
    };
    HeatmapGrid::single(attended.weights.clone(), shape)?
        .with_axis_titles("source", "output")
        .with_key_labels(attended.source.iter().map(visible))?
        .with_query_labels(attended.target.iter().map(visible))
}

fn plot_error(error: PlotError) -> Error {
    let reason = error.to_string();
    Error::Picture { reason }
}
