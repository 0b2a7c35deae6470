//! The report of an evaluation.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use attention_seq2seq::data::{Corpus, SourceGroup, group_by_source};
use attention_seq2seq::evaluation::SourceErrors;
use attention_seq2seq::text::UnknownTokens;
use attention_seq2seq::translate::explain::{ExplainConfig, Explanation};
use attention_seq2seq::{Error, Evaluation, Result, Translator};

use super::{Figure, Item, Page, PageModel};

/// A model and its evaluation, for a report, by [`Evaluation::new`] with probabilities.
pub(crate) struct EvaluatedModel<'a> {
    /// The displayed name.
    pub(crate) name: String,
    /// The model.
    pub(crate) translator: &'a Translator,
    /// Its evaluation.
    pub(crate) evaluation: Evaluation,
}

/// The settings of a report.
#[derive(Clone, Debug)]
pub(crate) struct ReportConfig {
    /// The largest number of sources to list.
    pub(crate) items: usize,
    /// How source tokens that a model has not learned are read, as in the evaluation.
    pub(crate) unknown: UnknownTokens,
    /// The extent of the explanation of each source.
    pub(crate) explain: ExplainConfig,
}

impl Page {
    /// The report of the evaluation of one model, or of two models on the same pairs: their metrics, and the sources
    /// with the worst outputs. These have the most edits, of both models together; of equal ones, the least probable
    /// outputs come first, then earlier sources.
    ///
    /// # Errors
    /// [`Error::Config`] if no source is to be listed, there is no model, or a second one splits texts into other
    /// tokens than the first; as [`Translator::explain_tokens`].
    pub(crate) fn report(
        title: impl Into<String>,
        models: &[EvaluatedModel<'_>],
        corpus: &Corpus,
        config: &ReportConfig,
    ) -> Result<Self> {
        let Some((first, others)) = models.split_first() else {
            return Err(Error::config("the models of a report", "at least one", 0));
        };
        if config.items == 0 {
            let what = "the number of items in a report";
            return Err(Error::config(what, "at least 1", config.items));
        }
        for other in others {
            first.translator.check_same_tokens(other.translator)?;
        }
        let page_model = |model: &EvaluatedModel<'_>| PageModel {
            figures: Figure::all(&model.evaluation),
            ..PageModel::new(&model.name, model.translator)
        };
        let mut page = Self::new(title, models.iter().map(page_model).collect());
        page.evaluated = Some(first.evaluation.sources().len());
        page.items = items(models, corpus, config)?;
        Ok(page)
    }
}

/// The worst sources, in order.
fn items(
    models: &[EvaluatedModel<'_>],
    corpus: &Corpus,
    config: &ReportConfig,
) -> Result<Vec<Item>> {
    let worst = worst(models, config.items);
    let wanted: HashSet<usize> = worst.iter().copied().collect();
    let mut found = HashMap::with_capacity(wanted.len());
    let mut before = 0;
    for pairs in corpus.valid_chunks() {
        let groups = group_by_source(&pairs);
        for (index, group) in (before..).zip(&groups) {
            if wanted.contains(&index) {
                found.insert(index, item(models, group, config)?);
            }
        }
        before += groups.len();
    }
    let in_order = worst.iter().filter_map(|index| found.remove(index));
    Ok(in_order.collect())
}

/// The indices of the sources with the worst outputs.
fn worst(models: &[EvaluatedModel<'_>], count: usize) -> Vec<usize> {
    let of_models = models.iter().map(|model| model.evaluation.sources());
    let of_models: Vec<&[SourceErrors]> = of_models.collect();
    let sources = of_models.iter().map(|of| of.len()).min().unwrap_or(0);
    let sums = |index: &usize| {
        let errors = of_models.iter().map(|of| of[*index]);
        errors.fold((0, 0.0), |(edits, sum), of| {
            let log_probability = of.log_probability.unwrap_or(0.0);
            (edits + of.edits, sum + log_probability)
        })
    };
    let order = |a: &usize, b: &usize| -> Ordering {
        let ((edits_of_a, sum_of_a), (edits_of_b, sum_of_b)) = (sums(a), sums(b));
        let by_edits = edits_of_b.cmp(&edits_of_a);
        by_edits.then(sum_of_a.total_cmp(&sum_of_b)).then(a.cmp(b))
    };
    let mut indices: Vec<usize> = (0..sources).collect();
    indices.sort_unstable_by(order);
    indices.truncate(count);
    indices
}

fn item(
    models: &[EvaluatedModel<'_>],
    group: &SourceGroup<'_>,
    config: &ReportConfig,
) -> Result<Item> {
    let explanations = models.iter().map(|EvaluatedModel { translator, .. }| {
        let vocab = &translator.vocabs().source;
        let read = vocab.read(group.source.to_vec(), config.unknown)?;
        let explanation: Explanation = match read.tokens.is_empty() {
            true => translator.explain_nothing(),
            false => translator.explain_tokens(&read.tokens, &config.explain)?,
        };
        let explanation = explanation.in_text(translator, &read);
        Ok(explanation.with_references(translator, &group.targets))
    });
    let explanations = explanations.collect::<Result<_>>()?;
    let (translator, targets) = (models[0].translator, group.targets.iter());
    let references = targets.map(|target| translator.target_text(target));
    Ok(Item {
        references: references.collect(),
        explanations,
    })
}
