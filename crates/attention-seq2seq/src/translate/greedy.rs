//! Translation by greedy search, and its errors.

use super::batches::check_sources;
use super::{Hypothesis, Translator};
use crate::data::corpus::Corpus;
use crate::data::{Pair, group_by_source};
use crate::error::Result;
use crate::metrics::TokenErrors;
use crate::model::{Translation, greedy_search};

impl Translator {
    /// Translates texts by greedy search; [`n_best`](Self::n_best) searches more widely.
    ///
    /// # Errors
    /// The error of [`source_tokens`](Self::source_tokens) for the first text that has one.
    pub fn translate<T: AsRef<str>>(
        &self,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Vec<Hypothesis>> {
        let sources = self.source_tokens_of(texts)?;
        let sources: Vec<&[String]> = sources.iter().map(Vec::as_slice).collect();
        self.translate_tokens(&sources)
    }

    /// The most likely target tokens of each source, by greedy search. Tokens that are not in the vocabulary are read
    /// as [`Vocab::UNK`](crate::Vocab::UNK); an output has no such token.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if a source has no token.
    pub fn translate_tokens(&self, sources: &[&[String]]) -> Result<Vec<Hypothesis>> {
        let mut outputs = vec![None; sources.len()];
        self.for_each_translation(sources, |index, output| outputs[index] = Some(output))?;
        Ok(outputs.into_iter().flatten().collect())
    }

    /// Passes the translation of each source to `take`, with the source's index. They come batch by batch, not in the
    /// order of the sources: memory holds the translations of a single batch.
    pub(super) fn for_each_translation(
        &self,
        sources: &[&[String]],
        mut take: impl FnMut(usize, Hypothesis),
    ) -> Result<()> {
        check_sources(sources)?;
        let encoded = self.encoded(sources);
        // Sources of similar length together.
        let mut order: Vec<usize> = (0..encoded.len()).collect();
        order.sort_by_key(|&index| encoded[index].len());
        for indices in order.chunks(self.batch_size()) {
            let sources: Vec<&[u32]> = indices.iter().map(|&index| &encoded[index][..]).collect();
            let mut decoding = self.decoding(&sources, self.max_len, false);
            let Translation { tokens, ended, .. } = greedy_search(&mut *decoding, self.max_len);
            let outputs = tokens.iter().zip(ended);
            for (&index, (tokens, ended)) in indices.iter().zip(outputs) {
                take(index, self.hypothesis(tokens, ended));
            }
        }
        Ok(())
    }

    /// The errors of the translations of `pairs`; if a source has several targets, any of them is right.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if a source has no tokens.
    pub fn errors(&self, pairs: &[Pair]) -> Result<TokenErrors> {
        let groups = group_by_source(pairs);
        let sources: Vec<&[String]> = groups.iter().map(|group| group.source).collect();
        let mut errors = TokenErrors::default();
        self.for_each_translation(&sources, |index, output| {
            errors.add(&output.tokens, &groups[index].targets);
            if !output.ended {
                errors.add_cut_off();
            }
        })?;
        Ok(errors)
    }

    /// The [`errors`](Self::errors) of the validation pairs, which need not all be in memory as tokens at once.
    ///
    /// # Errors
    /// As for [`errors`](Self::errors).
    pub fn valid_errors(&self, corpus: &Corpus) -> Result<TokenErrors> {
        let mut errors = TokenErrors::default();
        for pairs in corpus.valid_chunks() {
            errors += self.errors(&pairs)?;
        }
        Ok(errors)
    }

    pub(crate) fn hypothesis(&self, tokens: &[u32], ended: bool) -> Hypothesis {
        let tokens = self.vocabs.target.decode(tokens);
        Hypothesis {
            text: self.target_text(&tokens),
            tokens,
            ended,
        }
    }
}
