//! The pairs of a run, as little as they can be in memory.

use crate::batch::Examples;
use crate::data::{Pair, Pairs, PairsChecksum, check_counts, held_out_groups};
use crate::error::Result;
use crate::tokens::Tokenization;
use crate::tsv::{TsvFile, TsvOptions};
use crate::vocab::{TokenCounts, Vocab};
use crate::vocabs::Vocabs;

/// The pairs of a run: to learn from, and to validate on. Those of files are texts until they are numbers, so that they
/// take little more memory than the files; [`Pairs`] hold a string for each token.
///
/// ```
/// use attention_seq2seq::{Corpus, Task};
///
/// let corpus = Corpus::from(Task::Copy.train_valid(100, 10, 1));
/// let vocabs = corpus.vocabs();
/// let examples = corpus.train_examples(&vocabs);
/// assert_eq!((examples.len(), corpus.into_valid_pairs().len()), (100, 10));
/// ```
#[derive(Clone, Debug)]
pub struct Corpus {
    train: Side,
    valid: Side,
}

/// Pairs of one kind.
#[derive(Clone, Debug)]
enum Side {
    Pairs(Vec<Pair>),
    Texts(Texts),
}

impl From<Pairs> for Corpus {
    fn from(Pairs { train, valid }: Pairs) -> Self {
        Self {
            train: Side::Pairs(train),
            valid: Side::Pairs(valid),
        }
    }
}

impl Corpus {
    /// The pairs of files that were read: those to validate on are in a file of their own, or 5 % of the sources, held
    /// out by the seed as [`split_holdout`](crate::split_holdout) does.
    ///
    /// # Errors
    /// Those of [`TsvFile::pairs`], and [`Error::Config`](crate::Error::Config) if all pairs have one source, so that
    /// none can be held out.
    pub fn of_files(
        train: &TsvFile,
        valid: Option<&TsvFile>,
        options: &TsvOptions,
        seed: u64,
    ) -> Result<Self> {
        let train = Texts::read(train, options)?;
        let (train, valid) = match valid {
            Some(valid) => (train, Texts::read(valid, options)?),
            None => train.split(0.05, seed)?,
        };
        Self {
            train: Side::Texts(train),
            valid: Side::Texts(valid),
        }
        .checked()
    }

    /// Refuses to train on nothing, or to validate on nothing.
    pub(crate) fn checked(self) -> Result<Self> {
        check_counts(self.train_len(), self.valid_len())?;
        Ok(self)
    }

    /// The number of pairs to learn from.
    pub fn train_len(&self) -> usize {
        self.train.len()
    }

    /// The number of pairs to validate on.
    pub fn valid_len(&self) -> usize {
        self.valid.len()
    }

    /// The [checksum](Pairs::checksum) of all pairs.
    pub fn checksum(&self) -> u32 {
        let mut sum = PairsChecksum::default();
        for side in [&self.train, &self.valid] {
            side.for_each(|source, target| {
                sum.sequence(source);
                sum.sequence(target);
            });
            sum.end_of_side();
        }
        sum.finish()
    }

    /// The vocabularies of the pairs to learn from.
    pub fn vocabs(&self) -> Vocabs {
        let (mut sources, mut targets) = (TokenCounts::default(), TokenCounts::default());
        self.train.for_each(|source, target| {
            source.for_each(|token| sources.add(token));
            target.for_each(|token| targets.add(token));
        });
        Vocabs {
            source: sources.into_vocab(),
            target: targets.into_vocab(),
        }
    }

    /// The number of tokens of the longest target to learn from.
    pub fn longest_target(&self) -> usize {
        let mut longest = 0;
        self.train
            .for_each(|_, target| longest = longest.max(target.count()));
        longest
    }

    /// The pairs to learn from, as token ids.
    pub fn train_examples(&self, vocabs: &Vocabs) -> Examples {
        self.train.examples(vocabs)
    }

    /// The pairs to validate on, as token ids.
    pub fn valid_examples(&self, vocabs: &Vocabs) -> Examples {
        self.valid.examples(vocabs)
    }

    /// The pairs to validate on.
    pub fn into_valid_pairs(self) -> Vec<Pair> {
        self.valid.into_pairs()
    }

    /// All pairs, a string for each token.
    pub fn into_pairs(self) -> Pairs {
        Pairs {
            train: self.train.into_pairs(),
            valid: self.valid.into_pairs(),
        }
    }

    /// Forgets the pairs to learn from, once they are numbers.
    pub fn forget_train(&mut self) {
        self.train = Side::Pairs(Vec::new());
    }
}

/// The tokens of a source or a target.
type Tokens<'i, 'text> = &'i mut dyn Iterator<Item = &'text str>;

impl Side {
    fn len(&self) -> usize {
        match self {
            Self::Pairs(pairs) => pairs.len(),
            Self::Texts(texts) => texts.ends.len(),
        }
    }

    /// Hands the tokens of each source and target to `take`.
    fn for_each(&self, mut take: impl FnMut(Tokens<'_, '_>, Tokens<'_, '_>)) {
        match self {
            Self::Pairs(pairs) => {
                for Pair { source, target } in pairs {
                    take(
                        &mut source.iter().map(String::as_str),
                        &mut target.iter().map(String::as_str),
                    );
                }
            }
            Self::Texts(texts) => {
                for (source, target) in texts.iter() {
                    take(
                        &mut texts.source_tokens.tokens(source),
                        &mut texts.target_tokens.tokens(target),
                    );
                }
            }
        }
    }

    fn examples(&self, vocabs: &Vocabs) -> Examples {
        let mut tokens = 0;
        self.for_each(|source, target| tokens += source.count() + target.count());
        let mut examples = Examples::with_capacity(self.len(), tokens);
        let id = |vocab: &Vocab, token: &str| vocab.id(token).unwrap_or(Vocab::UNK);
        self.for_each(|source, target| {
            examples.push(
                source.map(|token| id(&vocabs.source, token)),
                target.map(|token| id(&vocabs.target, token)),
            );
        });
        examples
    }

    fn into_pairs(self) -> Vec<Pair> {
        match self {
            Self::Pairs(pairs) => pairs,
            Self::Texts(texts) => {
                let pair = |(source, target)| Pair {
                    source: texts.source_tokens.split(source),
                    target: texts.target_tokens.split(target),
                };
                texts.iter().map(pair).collect()
            }
        }
    }
}

/// The texts of pairs, one after the other.
#[derive(Clone, Debug)]
struct Texts {
    source_tokens: Tokenization,
    target_tokens: Tokenization,
    text: String,
    /// Where the source and the target of each pair end.
    ends: Vec<[usize; 2]>,
}

impl Texts {
    fn read(file: &TsvFile, options: &TsvOptions) -> Result<Self> {
        let mut texts = Self::empty(options.source_tokens, options.target_tokens);
        texts.text.reserve_exact(file.bytes().len());
        file.for_each_pair(options, |source, target| texts.push(source, target))?;
        Ok(texts)
    }

    fn empty(source_tokens: Tokenization, target_tokens: Tokenization) -> Self {
        Self {
            source_tokens,
            target_tokens,
            text: String::new(),
            ends: Vec::new(),
        }
    }

    fn push(&mut self, source: &str, target: &str) {
        self.text.push_str(source);
        let source_end = self.text.len();
        self.text.push_str(target);
        self.ends.push([source_end, self.text.len()]);
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        self.ends.iter().map(move |&[source_end, end]| {
            let pair = (&self.text[start..source_end], &self.text[source_end..end]);
            start = end;
            pair
        })
    }

    /// Holds out a share of the sources: all pairs of one source are on one side.
    fn split(self, fraction: f64, seed: u64) -> Result<(Self, Self)> {
        // Equal sources lie together, and their first pair stands for them.
        let pairs: Vec<(&str, &str)> = self.iter().collect();
        let tokens = |index: u32| self.source_tokens.tokens(pairs[index as usize].0);
        let mut order: Vec<u32> = (0..).take(pairs.len()).collect();
        order.sort_by(|&a, &b| tokens(a).cmp(tokens(b)));
        let mut first = vec![0_u32; pairs.len()];
        for run in order.chunk_by(|&a, &b| tokens(a).eq(tokens(b))) {
            run.iter().for_each(|&pair| first[pair as usize] = run[0]);
        }
        // Groups are numbered by their first pairs.
        let mut number = vec![0_u32; pairs.len()];
        let mut groups = 0;
        for (index, &first) in first.iter().enumerate() {
            if first as usize == index {
                number[index] = groups;
                groups += 1;
            }
        }
        let held_out = held_out_groups(groups as usize, fraction, seed)?;
        let mut sides = [false, true].map(|_| Self::empty(self.source_tokens, self.target_tokens));
        for (&(source, target), &first) in pairs.iter().zip(&first) {
            let group = number[first as usize];
            sides[usize::from(held_out[group as usize])].push(source, target);
        }
        let [train, valid] = sides;
        Ok((train, valid))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::data::split_holdout;
    use crate::tasks::Task;

    fn options(tokens: Tokenization) -> TsvOptions {
        TsvOptions {
            columns: "1,2".parse().unwrap(),
            source_tokens: tokens,
            target_tokens: tokens,
            max_tokens: 50,
        }
    }

    /// A corpus of texts, and the same as pairs.
    #[track_caller]
    fn check(corpus: &Corpus, pairs: &Pairs) {
        assert_eq!(corpus.clone().into_pairs(), *pairs);
        assert_eq!(corpus.checksum(), pairs.checksum());
        let same = Corpus::from(pairs.clone());
        assert_eq!(same.checksum(), pairs.checksum());
        let vocabs = Vocabs::build(&pairs.train);
        assert_eq!(
            (corpus.vocabs(), same.vocabs()),
            (vocabs.clone(), vocabs.clone())
        );
        for corpus in [corpus, &same] {
            let counts = (corpus.train_len(), corpus.valid_len());
            assert_eq!(counts, (pairs.train.len(), pairs.valid.len()));
            assert_eq!(corpus.clone().into_valid_pairs(), pairs.valid);
            let longest = pairs.train.iter().map(|pair| pair.target.len()).max();
            assert_eq!(corpus.longest_target(), longest.unwrap_or(0));
            let train = Examples::from(vocabs.encode(&pairs.train));
            assert_eq!(corpus.train_examples(&vocabs), train);
            let valid = Examples::from(vocabs.encode(&pairs.valid));
            assert_eq!(corpus.valid_examples(&vocabs), valid);
        }
    }

    #[test]
    fn texts_are_the_pairs_that_they_stand_for() {
        let lines = "a  b c\tü ö\nb a\tx\na b c\ty z\nc\tü\n";
        let file = TsvFile::from_bytes("pairs.tsv", lines);
        for tokens in [Tokenization::Chars, Tokenization::Spaces] {
            let options = options(tokens);
            let pairs = file.pairs(&options).unwrap();
            for seed in 0..9 {
                let corpus = Corpus::of_files(&file, None, &options, seed).unwrap();
                check(&corpus, &split_holdout(pairs.clone(), 0.05, seed).unwrap());
            }
            let corpus = Corpus::of_files(&file, Some(&file), &options, 1).unwrap();
            let (train, valid) = (pairs.clone(), pairs);
            check(&corpus, &Pairs { train, valid });
        }
    }

    #[test]
    fn generated_pairs_are_a_corpus() {
        let pairs = Task::Dates.train_valid(20, 5, 3);
        check(&Corpus::from(pairs.clone()), &pairs);
        let mut corpus = Corpus::from(pairs);
        corpus.forget_train();
        assert_eq!((corpus.train_len(), corpus.valid_len()), (0, 5));
    }

    #[test]
    fn one_source_cannot_be_split() {
        let file = TsvFile::from_bytes("pairs.tsv", "a  b\tx\na b\ty\n");
        let error = Corpus::of_files(&file, None, &options(Tokenization::Spaces), 1);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("at least two different sources, found one"),
            "{error}"
        );
    }
}
