//! Explanations as one HTML page, which shows them in a browser and needs no network.
//!
//! A [`Page`] is data: models, their figures, and [`Item`]s with an [`Explanation`] of each model. Its JSON form is all
//! that the page's script reads, by its function `render`, so that a server can hand it another object: a `LivePage`
//! does. Texts are data, too: the script makes text nodes of them, never markup.

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
    /// The models, side by side; one or two.
    pub(crate) models: Vec<PageModel>,
    /// The probability below which a token is marked, by default 0.5.
    pub(crate) low_confidence: f64,
    /// The attention that is shown first; another can be chosen.
    pub(crate) head: AttentionHead,
    /// The number of sources that were evaluated, if the page is a report; it may list fewer.
    pub(crate) evaluated: Option<usize>,
    /// The sources.
    pub(crate) items: Vec<Item>,
}

/// A model of a page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PageModel {
    /// The name under which it is shown.
    pub(crate) name: String,
    /// The kind of the model and its attention.
    pub(crate) description: String,
    /// The figures of its evaluation; none of a page that is no report.
    pub(crate) figures: Vec<Figure>,
}

/// A source with the outputs of each model.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Item {
    /// The outputs that are right, as texts, where they are known.
    pub(crate) references: Vec<String>,
    /// The explanation of each model, in their order.
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

    /// The page, with its styles, its script and its data in one text.
    ///
    /// # Errors
    /// If it has more than 10,000,000 attention weights, which no browser would load in reasonable time.
    pub(crate) fn to_html(&self) -> Result<String> {
        html::html(self)
    }

    /// Writes the page, whole or not at all, and returns the number of its bytes.
    pub(crate) fn save(&self, file: impl AsRef<Path>) -> Result<usize> {
        let html = self.to_html()?;
        write_file(file, html.as_bytes())?;
        Ok(html.len())
    }
}

impl PageModel {
    /// A model without figures.
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
