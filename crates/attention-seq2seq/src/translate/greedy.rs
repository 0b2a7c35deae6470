//! Translation by greedy search.

use super::{Hypothesis, Translator};
use crate::batch::Source;
use crate::error::Result;
use crate::model::{GreedyOutputs, Seq2SeqModel, greedy_steps};

impl Translator {
    /// Translates texts, by greedy search: [`n_best`](Self::n_best) searches wider.
    ///
    /// # Errors
    /// Those of [`source_tokens`](Self::source_tokens), for the first text that has one.
    pub fn translate<T: AsRef<str>>(
        &self,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Vec<Hypothesis>> {
        let sources = self.source_tokens_of(texts)?;
        let sources: Vec<&[String]> = sources.iter().map(Vec::as_slice).collect();
        Ok(self.translate_tokens(&sources))
    }

    /// The most likely target tokens of each source, by greedy search. Tokens that are not in the vocabulary are read
    /// as [`Vocab::UNK`](crate::Vocab::UNK); an output has no such token.
    pub fn translate_tokens(&self, sources: &[&[String]]) -> Vec<Hypothesis> {
        let mut outputs = vec![None; sources.len()];
        self.for_each_translation(sources, |index, output| outputs[index] = Some(output));
        outputs.into_iter().flatten().collect()
    }

    /// Hands the translation of each source to `take`, with the source's index. They come batch by batch, in an order
    /// of their own: only those of one batch are in memory.
    pub(super) fn for_each_translation(
        &self,
        sources: &[&[String]],
        mut take: impl FnMut(usize, Hypothesis),
    ) {
        let encoded = self.encoded(sources);
        // Sources of similar length together.
        let mut order: Vec<usize> = (0..encoded.len()).collect();
        order.sort_by_key(|&index| encoded[index].len());
        for indices in order.chunks(self.batch_size()) {
            let sources: Vec<&[u32]> = indices.iter().map(|&index| &encoded[index][..]).collect();
            let GreedyOutputs { tokens, ended } = self.greedy(&sources);
            let outputs = tokens.iter().zip(ended);
            for (&index, (tokens, ended)) in indices.iter().zip(outputs) {
                take(index, self.hypothesis(tokens, ended));
            }
        }
    }

    fn greedy(&self, sources: &[&[u32]]) -> GreedyOutputs {
        let [member] = &self.members[..] else {
            return greedy_steps(
                &mut *self.decoding(sources, self.max_len, false),
                self.max_len,
            );
        };
        let source = Source::new(sources.iter().copied(), &member.device);
        let translation = member.model.greedy(&source, self.max_len, false);
        GreedyOutputs {
            tokens: translation.tokens,
            ended: translation.ended,
        }
    }

    pub(super) fn hypothesis(&self, tokens: &[u32], ended: bool) -> Hypothesis {
        let tokens = self.vocabs.target.decode(tokens);
        Hypothesis {
            text: self.target_text(&tokens),
            tokens,
            ended,
        }
    }
}
