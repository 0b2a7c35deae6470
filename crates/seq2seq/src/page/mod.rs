//! Explanations as one HTML page, to be shown in a browser without a network.
//!
//! A [`Page`] is data: models, their metrics, and [`Item`]s with an [`Explanation`] of each model. The page's script
//! reads only its JSON form, by the function `render`, so a server can pass it another object, as a `LivePage` does.
//! Texts are data, too: the script makes text nodes from them, never markup.

mod figures;
mod file;
mod html;
#[cfg(feature = "serve")]
mod live;
mod report;

pub(crate) use figures::Figure;
pub(crate) use file::{check_name, is_page, size};
#[cfg(feature = "serve")]
pub(crate) use live::LivePage;
pub(crate) use report::{EvaluatedModel, ReportConfig};

use std::path::Path;

use attention_seq2seq::file::write_file;
use attention_seq2seq::model::AttentionHead;
use attention_seq2seq::translate::explain::Explanation;
use attention_seq2seq::{Result, Translator};
use serde::Serialize;

/// The content of a page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Page {
    /// The title.
    pub(crate) title: String,
    /// The models to compare; one or two.
    pub(crate) models: Vec<PageModel>,
    /// The probability below which a token is marked, by default 0.5.
    pub(crate) low_confidence: f64,
    /// The attention to show first; others can be chosen.
    pub(crate) head: AttentionHead,
    /// The number of sources that were evaluated, if the page is a report; it may list fewer.
    pub(crate) evaluated: Option<usize>,
    /// The sources.
    pub(crate) items: Vec<Item>,
}

/// A model of a page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PageModel {
    /// The displayed name.
    pub(crate) name: String,
    /// The kind of the model and its attention.
    pub(crate) description: String,
    /// The metrics of its evaluation; empty if the page is not a report.
    pub(crate) figures: Vec<Figure>,
}

/// A source with the outputs of each model.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Item {
    /// The correct outputs, as texts, if known.
    pub(crate) references: Vec<String>,
    /// The explanation of each model, in the order of the models.
    pub(crate) explanations: Vec<Explanation>,
}

impl Page {
    /// A page without items.
    pub(crate) fn new(title: impl Into<String>, models: Vec<PageModel>) -> Self {
        Self {
            title: title.into(),
            models,
            low_confidence: 0.5,
            head: AttentionHead::default(),
            evaluated: None,
            items: Vec::new(),
        }
    }

    /// The page as one text, with its styles, script and data.
    ///
    /// # Errors
    /// If it has more than 10,000,000 attention weights, which a browser could not load in reasonable time.
    pub(crate) fn to_html(&self) -> Result<String> {
        html::html(self)
    }

    /// Writes the page, atomically, and returns its size in bytes.
    pub(crate) fn save(&self, file: impl AsRef<Path>) -> Result<usize> {
        let html = self.to_html()?;
        write_file(file, html.as_bytes())?;
        Ok(html.len())
    }
}

impl PageModel {
    /// A model without metrics.
    pub(crate) fn new(name: impl Into<String>, translator: &Translator) -> Self {
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
