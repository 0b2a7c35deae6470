//! Explanations as one HTML page, which shows them in a browser and needs no network.
//!
//! A [`Page`] is data: models, their figures, and [`Item`]s with an [`Explanation`] of each model. Its JSON form is all
//! that the page's script reads, by its function `render`, so that a program which serves the page can hand it another
//! object: a [`LivePage`] does. Texts are data, too: the script makes text nodes of them, never markup.
//!
//! ```no_run
//! use attention_seq2seq::Translator;
//! use attention_seq2seq::explain::ExplainConfig;
//! use attention_seq2seq::page::{Item, Page, PageModel};
//!
//! let translator = Translator::open("runs/dates")?;
//! let explanation = translator.explain("5 November 1994", &ExplainConfig::default())?;
//! let mut page = Page::new("Dates", vec![PageModel::new("runs/dates", &translator)]);
//! page.items.push(Item { references: Vec::new(), explanations: vec![explanation] });
//! page.save("dates.html")?;
//! # Ok::<(), attention_seq2seq::Error>(())
//! ```

mod figures;
mod html;
mod report;

pub use figures::Figure;
pub use report::{EvaluatedModel, ReportConfig};

use std::path::Path;

use serde::Serialize;

use crate::error::Result;
use crate::explain::Explanation;
use crate::file::write_atomic;
use crate::model::AttentionHead;
use crate::translate::Translator;

/// The content of a page.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// The title.
    pub title: String,
    /// The models, side by side; one or two.
    pub models: Vec<PageModel>,
    /// The probability below which a token is marked, by default 0.5.
    pub low_confidence: f64,
    /// The attention that is shown first; another can be chosen.
    pub head: AttentionHead,
    /// The number of sources that were evaluated, if the page is a report; it may list fewer.
    pub evaluated: Option<usize>,
    /// The sources.
    pub items: Vec<Item>,
}

/// A model of a page.
#[derive(Clone, Debug, Serialize)]
pub struct PageModel {
    /// The name under which it is shown.
    pub name: String,
    /// The kind of the model and its attention.
    pub description: String,
    /// The figures of its evaluation; none of a page that is no report.
    pub figures: Vec<Figure>,
}

/// A source with the outputs of each model.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// The outputs that are right, as texts, where they are known.
    pub references: Vec<String>,
    /// The explanation of each model, in their order.
    pub explanations: Vec<Explanation>,
}

/// A page for a server: it explains what is typed, by `POST v1/explain`, and forces tokens of outputs.
///
/// The request is an object with `source` and, if tokens are forced, `prefix`, an array of them; the answer is
/// [`Page::to_json`], or an object with a line `error`. All paths are relative to that of the page. Nothing of it is
/// inline, so that a Content-Security-Policy may forbid that.
#[derive(Clone, Debug)]
pub struct LivePage {
    /// The page.
    pub html: String,
    /// The styles, at [`LivePage::STYLE`].
    pub style: String,
    /// The script, at [`LivePage::SCRIPT`].
    pub script: String,
}

impl LivePage {
    /// The path of the styles.
    pub const STYLE: &str = "page.css";
    /// The path of the script.
    pub const SCRIPT: &str = "page.js";
}

impl Page {
    /// A page without items.
    pub fn new(title: impl Into<String>, models: Vec<PageModel>) -> Self {
        Self {
            title: title.into(),
            models,
            low_confidence: 0.5,
            head: AttentionHead::default(),
            evaluated: None,
            items: Vec::new(),
        }
    }

    /// The page, with its styles, its script and its data in one text.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if it has more than 10,000,000 attention weights, which no browser would
    /// load in reasonable time.
    pub fn to_html(&self) -> Result<String> {
        html::html(self)
    }

    /// The data of the page alone, which its script reads.
    ///
    /// # Errors
    /// Those of [`to_html`](Self::to_html).
    pub fn to_json(&self) -> Result<String> {
        html::json(self)
    }

    /// The files of a live page, which shows this one until a source is typed.
    ///
    /// # Errors
    /// Those of [`to_html`](Self::to_html).
    pub fn to_live(&self) -> Result<LivePage> {
        html::live(self)
    }

    /// Writes the page, whole or not at all, and returns the number of its bytes.
    ///
    /// # Errors
    /// Those of [`to_html`](Self::to_html); [`Error::Io`](crate::Error::Io) if it cannot be written.
    pub fn save(&self, file: impl AsRef<Path>) -> Result<usize> {
        let html = self.to_html()?;
        write_atomic(file, html.as_bytes(), || Ok(()))?;
        Ok(html.len())
    }
}

impl PageModel {
    /// A model without figures.
    pub fn new(name: impl Into<String>, translator: &Translator) -> Self {
        let config = translator.config();
        let description = match translator.is_ensemble() {
            true => "ensemble".to_string(),
            false => format!("{}, {} attention", config.model.kind(), config.attention),
        };
        Self {
            name: name.into(),
            description,
            figures: Vec::new(),
        }
    }
}
