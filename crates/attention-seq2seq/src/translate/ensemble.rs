//! Several models that translate as one.

use super::Translator;
use super::translator::Member;
use crate::error::{Error, Result};
use crate::text::vocab::Vocab;

impl Translator {
    /// Joins translators to one: at each step the probability of a token is the mean of their probabilities. Recurrent
    /// models and Transformers may be mixed, and their vocabularies may differ in order. General settings are those of
    /// the first translator, and outputs may be as long as the largest limit.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no translator, or they differ in the tokens of vocabularies or in how a text is
    /// split into tokens; it names the first difference.
    pub fn ensemble(translators: Vec<Self>) -> Result<Self> {
        let what = "the models of an ensemble";
        let mut translators = translators.into_iter();
        let Some(mut all) = translators.next() else {
            return Err(Error::config(what, "at least one", "none"));
        };
        for (number, other) in (2..).zip(translators) {
            let ids = all.ids_of(&other, number)?;
            all.max_len = all.max_len.max(other.max_len);
            let members = other.members.into_iter();
            all.members.extend(members.map(|member| Member {
                ids: Some(member.ids.map_or_else(|| ids.clone(), |own| ids.then(&own))),
                ..member
            }));
        }
        Ok(all)
    }

    /// Whether this is an [`ensemble`](Self::ensemble) of more than one model.
    pub fn is_ensemble(&self) -> bool {
        self.members.len() > 1
    }

    /// The ids of the tokens in translator `number`.
    fn ids_of(&self, other: &Self, number: usize) -> Result<MemberIds> {
        let (name, own_name) = (format!("model {number}"), "the first model of the ensemble");
        self.check_tokens_of(other, &name, own_name)?;
        let ids = |side: &str, vocab: &Vocab, other: &Vocab| {
            let (missing, further) = (first_missing(vocab, other), first_missing(other, vocab));
            if (missing, further) == (None, None) {
                return Ok((0..).map_while(|id| id_in(vocab, id, other)).collect());
            }
            let named = |token: Option<&str>, none: &str| {
                token.map_or_else(|| none.to_string(), |token| format!("{token:?}"))
            };
            let expected = format!(
                "{}, as in {own_name} (models of the same training pairs have the same tokens: train both with \
                 --valid)",
                named(missing, "no other tokens"),
            );
            let what = format!("the {side} tokens of {name}");
            let found = named(further, "no such token");
            Err(Error::config(what, expected, found))
        };
        Ok(MemberIds {
            source: ids("source", &self.vocabs.source, &other.vocabs.source)?,
            target: ids("target", &self.vocabs.target, &other.vocabs.target)?,
        })
    }
}

/// The token ids of a member of an ensemble, by the ids of the first model.
#[derive(Clone)]
pub(super) struct MemberIds {
    pub(super) source: Vec<u32>,
    pub(super) target: Vec<u32>,
}

impl MemberIds {
    /// Another model's ids for the tokens with the given ids.
    fn then(&self, ids: &Self) -> Self {
        let then = |these: &[u32], ids: &[u32]| these.iter().map(|&id| ids[id as usize]).collect();
        Self {
            source: then(&self.source, &ids.source),
            target: then(&self.target, &ids.target),
        }
    }
}

/// The id, in another vocabulary, of a token of this one.
fn id_in(vocab: &Vocab, id: u32, other: &Vocab) -> Option<u32> {
    let token = vocab.token(id)?;
    match id as usize {
        0..Vocab::SPECIAL_TOKENS => Some(id),
        _ => other.id(token),
    }
}

/// The first token that another vocabulary does not have.
fn first_missing<'a>(vocab: &'a Vocab, other: &Vocab) -> Option<&'a str> {
    let ids = 0..vocab.len() as u32;
    let mut missing = ids.filter(|&id| id_in(vocab, id, other).is_none());
    vocab.token(missing.next()?)
}
