//! Several models that translate as one.

use super::Translator;
use crate::error::{Error, Result};
use crate::vocab::Vocab;

impl Translator {
    /// Joins translators to one: at each step the probability of a token is the mean of theirs. Recurrent models and
    /// Transformers may mix. Settings that are no model's own are those of the first, and outputs may have the tokens
    /// of the longest limit.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no translator, or vocabularies or the ways to split a text into tokens differ; it
    /// names the first difference.
    pub fn ensemble(translators: Vec<Self>) -> Result<Self> {
        let what = "the models of an ensemble";
        let mut translators = translators.into_iter();
        let Some(mut all) = translators.next() else {
            return Err(Error::config(what, "at least one", "none"));
        };
        for (number, other) in (2..).zip(translators) {
            all.check_vocabs(&other, number)?;
            all.max_len = all.max_len.max(other.max_len);
            all.members.extend(other.members);
        }
        Ok(all)
    }

    /// Whether this is an [`ensemble`](Self::ensemble) of more than one model.
    pub fn is_ensemble(&self) -> bool {
        self.members.len() > 1
    }

    /// Checks that the translator of this number has the same tokens.
    fn check_vocabs(&self, other: &Self, number: usize) -> Result<()> {
        let (data, of_other) = (&self.config.data, &other.config.data);
        let sides = [
            (
                "source",
                [&self.vocabs.source, &other.vocabs.source],
                [data, of_other].map(|it| it.source_tokens()),
            ),
            (
                "target",
                [&self.vocabs.target, &other.vocabs.target],
                [data, of_other].map(|it| it.target_tokens()),
            ),
        ];
        for (side, [vocab, other], [tokens, of_other]) in sides {
            let refuse = |expected: String, found: String| {
                let what = format!("the {side} tokens of model {number}");
                let expected = format!("{expected}, as in the first model of the ensemble");
                Err(Error::config(&what, &expected, found))
            };
            if tokens != of_other {
                return refuse(tokens.to_string(), of_other.to_string());
            }
            let ids = 0..vocab.len().max(other.len()) as u32;
            let named = |vocab: &Vocab, id: u32| match vocab.token(id) {
                Some(token) => format!("{token:?} at number {id}"),
                None => format!("{} tokens", vocab.len()),
            };
            let mut ids = ids.filter(|&id| vocab.token(id) != other.token(id));
            if let Some(id) = ids.next() {
                return refuse(named(vocab, id), named(other, id));
            }
        }
        Ok(())
    }
}
