//! The pairs of a run, stored compactly in memory.

mod texts;

use crate::data::examples::Examples;
use crate::data::pair_file::{PairFile, PairFileOptions};
use crate::data::pairs::{Pair, Pairs, check_counts};
use crate::error::Result;
use crate::text::subwords::Subwords;
use crate::text::tokens::Tokenization;
use crate::text::vocab::{TokenCounts, Vocabs};
use crate::text::vocab_limits::VocabLimits;
use texts::Texts;

/// The pairs of a run, to learn from and to validate on. They stay texts until they become numbers, so that they take
/// little more memory than their files; [`Pairs`] have a string for each token.
///
/// ```
/// use attention_seq2seq::{Task, Tokenization};
/// use attention_seq2seq::data::Corpus;
///
/// let corpus = Corpus::of_pairs(&Task::Copy.train_valid(100, 10, 1), Tokenization::Chars);
/// let vocabs = corpus.vocabs();
/// let examples = corpus.train_examples(&vocabs);
/// assert_eq!((examples.len(), corpus.valid_len()), (100, 10));
/// ```
#[derive(Clone, Debug)]
pub struct Corpus {
    train: Texts,
    valid: Texts,
}

impl Corpus {
    /// Pairs, as texts that this tokenization splits into their tokens.
    ///
    /// # Panics
    /// If a token cannot come from this tokenization: with [`Tokenization::Spaces`] an empty one or one with a space,
    /// with [`Tokenization::Chars`] one that is not a character, or contains a control character.
    pub fn of_pairs(pairs: &Pairs, tokens: Tokenization) -> Self {
        Self {
            train: Texts::of_pairs(&pairs.train, tokens),
            valid: Texts::of_pairs(&pairs.valid, tokens),
        }
    }

    /// The pairs of files that were read; the validation pairs come from a file of their own, or are 5 % of the
    /// sources, held out by the seed like in [`split_holdout`](crate::split_holdout).
    ///
    /// # Errors
    /// As [`PairFile::pairs`], and [`Error::Config`](crate::Error::Config) if all pairs have one source, so that none
    /// can be held out, or a file has 4 GiB or more.
    pub fn of_files(
        train: &PairFile,
        valid: Option<&PairFile>,
        options: &PairFileOptions,
        seed: u64,
    ) -> Result<Self> {
        let train = Texts::read(train, options)?;
        let (train, valid) = match valid {
            Some(valid) => (train, Texts::read(valid, options)?),
            None => train.split(0.05, seed)?,
        };
        Self { train, valid }.checked()
    }

    /// The pairs of a file, all for validation.
    ///
    /// # Errors
    /// As [`PairFile::pairs`], and [`Error::Config`](crate::Error::Config) if the file has 4 GiB or more.
    pub fn to_validate(file: &PairFile, options: &PairFileOptions) -> Result<Self> {
        let valid = Texts::read(file, options)?;
        let train = valid.without_pairs();
        Ok(Self { train, valid })
    }

    /// Refuses an empty training or validation set.
    pub(crate) fn checked(self) -> Result<Self> {
        check_counts(self.train_len(), self.valid_len())?;
        Ok(self)
    }

    /// The number of training pairs.
    pub fn train_len(&self) -> usize {
        self.train.len
    }

    /// The number of validation pairs.
    pub fn valid_len(&self) -> usize {
        self.valid.len
    }

    /// A checksum of all tokens in their order (CRC-32), which differs for other pairs.
    pub fn checksum(&self) -> u32 {
        // A byte that occurs in no text.
        const END_OF_TOKEN: u8 = 0xfd;
        const END_OF_SEQUENCE: u8 = 0xfe;
        const END_OF_SIDE: u8 = 0xff;
        let mut sum = crc32fast::Hasher::new();
        for side in [&self.train, &self.valid] {
            for tokens in side.sequences().flatten() {
                for token in tokens {
                    sum.update(token.as_bytes());
                    sum.update(&[END_OF_TOKEN]);
                }
                sum.update(&[END_OF_SEQUENCE]);
            }
            sum.update(&[END_OF_SIDE]);
        }
        sum.finalize()
    }

    /// The vocabularies of the training pairs.
    pub fn vocabs(&self) -> Vocabs {
        let all = VocabLimits::default();
        let [source, target] = self.token_counts().map(|counts| counts.into_vocab(&all));
        Vocabs { source, target }
    }

    /// As [`vocabs`](Self::vocabs), limited to the tokens within these limits on either side.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if a limit is 0, or no token of a side is frequent enough.
    pub fn vocabs_within(&self, limits: &VocabLimits) -> Result<Vocabs> {
        limits.check()?;
        let [source, target] = self.token_counts();
        limits.check_left("source", source.most())?;
        limits.check_left("target", target.most())?;
        Ok(Vocabs {
            source: source.into_vocab(limits),
            target: target.into_vocab(limits),
        })
    }

    /// How often each token occurs in the sources and targets of the training pairs. Each subword counts once more:
    /// later texts may be divided into subwords that do not occur in these texts.
    fn token_counts(&self) -> [TokenCounts; 2] {
        let (mut sources, mut targets) = (TokenCounts::default(), TokenCounts::default());
        let train = &self.train;
        for (tokenizer, counts) in [(&train.source, &mut sources), (&train.target, &mut targets)] {
            let subwords = tokenizer.subwords.iter().flat_map(Subwords::all);
            subwords.for_each(|piece| counts.add(&piece));
        }
        for [source, target] in train.sequences() {
            source.for_each(|token| sources.add(token));
            target.for_each(|token| targets.add(token));
        }
        [sources, targets]
    }

    /// The number of tokens of the longest training target.
    pub fn longest_target(&self) -> usize {
        self.train.longest_target()
    }

    /// The number of tokens of the longest validation target.
    pub fn longest_valid_target(&self) -> usize {
        self.valid.longest_target()
    }

    /// The training pairs, as token ids.
    pub fn train_examples(&self, vocabs: &Vocabs) -> Examples {
        self.train.examples(vocabs)
    }

    /// The validation pairs, as token ids.
    pub fn valid_examples(&self, vocabs: &Vocabs) -> Examples {
        self.valid.examples(vocabs)
    }

    /// The validation pairs with a string for each token, and therefore only some ten megabytes at a time: the pairs of
    /// one source come together, however many, and sources in the order of their first pair.
    pub fn valid_chunks(&self) -> impl Iterator<Item = Vec<Pair>> {
        // About 10 MB of strings.
        self.valid.chunks(1 << 17)
    }

    /// All pairs, with a string for each token.
    pub fn into_pairs(self) -> Pairs {
        Pairs {
            train: self.train.pairs(),
            valid: self.valid.pairs(),
        }
    }

    /// Drops the training pairs, once they are numbers.
    pub fn forget_train(&mut self) {
        self.train = self.train.without_pairs();
    }
}

#[cfg(test)]
mod tests;
