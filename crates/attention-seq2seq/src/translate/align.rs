//! Outputs with the attention weights of their tokens.

use super::batches::check_sources;
use super::translator::Member;
use super::{Attended, Hypothesis, Translator};
use crate::data::batch::Source;
use crate::error::{Error, Result};
use crate::memory;
use crate::model::AttentionHead;

/// The name of the end of a text among tokens.
pub(super) const END: &str = "<eos>";

impl Translator {
    /// The most likely target tokens of one source, each with its attention weights (in a Transformer, of one head).
    ///
    /// # Errors
    /// [`Error::Config`] without source tokens, if the weights of an output of [`max_len`](Self::max_len) tokens do not
    /// fit into free memory, the model has no such layer or head, or this is an [`ensemble`](Self::ensemble).
    pub fn attend(&self, source: &[String], head: AttentionHead) -> Result<Attended> {
        self.attending(source, self.max_len)?;
        let output = self.translate_tokens(&[source])?.remove(0);
        self.attend_to(source, &output.tokens, output.ended, head)
    }

    /// The attention weights with which the model writes a given output, such as one of [`n_best`](Self::n_best);
    /// `ended` tells whether its end token was also written.
    ///
    /// # Errors
    /// As [`attend`](Self::attend) for an output of this length; [`Error::Config`] without source tokens;
    /// [`Error::UnknownToken`] for a target token that is not in the vocabulary.
    pub fn attend_to(
        &self,
        source: &[String],
        target: &[String],
        ended: bool,
        head: AttentionHead,
    ) -> Result<Attended> {
        let (member, keys, batch) = self.attending(source, target.len() + 1)?;
        let tokens = self.vocabs.target.try_encode(target)?;
        let weights = member.model.weights_of_head(&batch, &tokens, ended, head)?;
        let output = self.hypothesis(&tokens, ended);
        Ok(attended(member, keys, output, weights))
    }

    /// The only model, the keys of a source and its batch, if the weights of all steps fit into memory.
    pub(super) fn attending(
        &self,
        source: &[String],
        steps: usize,
    ) -> Result<(&Member, Vec<String>, Source)> {
        check_sources(&[source])?;
        let [member] = &self.members[..] else {
            let found = format!("an ensemble of {}", self.members.len());
            let expected = "those of one model";
            return Err(Error::config("attention weights", expected, found));
        };
        let end = member.model.attends_to_end().then(|| END.to_string());
        let keys: Vec<String> = source.iter().cloned().chain(end).collect();
        let bytes = member.model.bytes_of_weights(keys.len()) * steps as f64;
        memory::check("the memory of the attention weights", bytes)?;
        let encoded = self.vocabs.source.encode(source);
        let batch = Source::new([encoded.as_slice()], &member.device);
        Ok((member, keys, batch))
    }
}

fn attended(
    member: &Member,
    source: Vec<String>,
    output: Hypothesis,
    weights: Vec<f32>,
) -> Attended {
    let mut target = output.tokens.clone();
    // The step that predicted the end token has weights, too.
    if output.ended {
        target.push(END.to_string());
    }
    Attended {
        source,
        target,
        output,
        weights,
        attends_to_end: member.model.attends_to_end(),
    }
}
