//! The pairs of a run, as little as they can be in memory.

mod texts;

use std::cmp::Ordering;

use crate::data::examples::Examples;
use crate::data::pair_file::{PairFile, PairFileOptions};
use crate::data::pairs::{Pair, Pairs, PairsChecksum, check_counts};
use crate::error::Result;
use crate::text::subwords::Subwords;
use crate::text::vocab::{TokenCounts, Vocab, Vocabs};
use crate::text::vocab_limits::VocabLimits;
use texts::Texts;

/// The pairs of a run: to learn from, and to validate on. Pairs of files stay texts until they become numbers, so that
/// they take little more memory than the files; [`Pairs`] hold a string for each token.
///
/// ```
/// use attention_seq2seq::Task;
/// use attention_seq2seq::data::Corpus;
///
/// let corpus = Corpus::from(Task::Copy.train_valid(100, 10, 1));
/// let vocabs = corpus.vocabs();
/// let examples = corpus.train_examples(&vocabs);
/// assert_eq!((examples.len(), corpus.valid_len()), (100, 10));
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
        Self {
            train: Side::Texts(train),
            valid: Side::Texts(valid),
        }
        .checked()
    }

    /// The pairs of a file, all to validate on.
    ///
    /// # Errors
    /// As [`PairFile::pairs`], and [`Error::Config`](crate::Error::Config) if the file has 4 GiB or more.
    pub fn to_validate(file: &PairFile, options: &PairFileOptions) -> Result<Self> {
        Ok(Self {
            train: Side::Pairs(Vec::new()),
            valid: Side::Texts(Texts::read(file, options)?),
        })
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
        let all = VocabLimits::default();
        let [source, target] = self.token_counts().map(|counts| counts.into_vocab(&all));
        Vocabs { source, target }
    }

    /// As [`vocabs`](Self::vocabs), of the tokens within these limits on either side.
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

    /// How often each token occurs in sources and in targets to learn from. Each subword counts once more: texts to
    /// come may be divided into those that these texts are not.
    fn token_counts(&self) -> [TokenCounts; 2] {
        let (mut sources, mut targets) = (TokenCounts::default(), TokenCounts::default());
        if let Side::Texts(texts) = &self.train {
            for (tokenizer, counts) in
                [(&texts.source, &mut sources), (&texts.target, &mut targets)]
            {
                let subwords = tokenizer.subwords.iter().flat_map(Subwords::all);
                subwords.for_each(|piece| counts.add(&piece));
            }
        }
        self.train.for_each(|source, target| {
            source.for_each(|token| sources.add(token));
            target.for_each(|token| targets.add(token));
        });
        [sources, targets]
    }

    /// The number of tokens of the longest target to learn from.
    pub fn longest_target(&self) -> usize {
        self.train.longest_target()
    }

    /// The number of tokens of the longest target to validate on.
    pub fn longest_valid_target(&self) -> usize {
        self.valid.longest_target()
    }

    /// The pairs to learn from, as token ids.
    pub fn train_examples(&self, vocabs: &Vocabs) -> Examples {
        self.train.examples(vocabs)
    }

    /// The pairs to validate on, as token ids.
    pub fn valid_examples(&self, vocabs: &Vocabs) -> Examples {
        self.valid.examples(vocabs)
    }

    /// The pairs to validate on, a string for each token and therefore some ten megabytes at a time: the pairs of one
    /// source come together, however many, and sources in the order of their first pair.
    pub fn valid_chunks(&self) -> impl Iterator<Item = Vec<Pair>> {
        // About 10 MB of strings.
        self.valid.chunks(1 << 17)
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
            Self::Texts(texts) => texts.len,
        }
    }

    fn longest_target(&self) -> usize {
        let mut longest = 0;
        self.for_each(|_, target| longest = longest.max(target.count()));
        longest
    }

    /// Where each pair is, for [`pair`](Self::pair).
    fn places(&self) -> Vec<u32> {
        match self {
            Self::Pairs(pairs) => (0..).take(pairs.len()).collect(),
            Self::Texts(texts) => texts.places(),
        }
    }

    fn pair(&self, place: u32) -> Pair {
        match self {
            Self::Pairs(pairs) => pairs[place as usize].clone(),
            Self::Texts(texts) => texts.tokens(texts.pair(place)),
        }
    }

    fn compare_sources(&self, a: u32, b: u32) -> Ordering {
        match self {
            Self::Pairs(pairs) => pairs[a as usize].source.cmp(&pairs[b as usize].source),
            Self::Texts(texts) => texts.compare_sources(a, b),
        }
    }

    /// As [`Corpus::valid_chunks`]. A chunk that has `most` tokens takes up no further source.
    fn chunks(&self, most: usize) -> impl Iterator<Item = Vec<Pair>> {
        let places = self.places();
        let first = first_equals(places.len(), |a, b| {
            self.compare_sources(places[a], places[b])
        });
        let mut order: Vec<u32> = (0..).take(places.len()).collect();
        order.sort_unstable_by_key(|&pair| (first[pair as usize], pair));
        let mut taken = 0;
        std::iter::from_fn(move || {
            let (mut chunk, mut tokens) = (Vec::new(), 0);
            while let Some(&index) = order.get(taken) {
                if tokens >= most && first[index as usize] == index {
                    break;
                }
                let pair = self.pair(places[index as usize]);
                tokens += pair.source.len() + pair.target.len();
                chunk.push(pair);
                taken += 1;
            }
            (!chunk.is_empty()).then_some(chunk)
        })
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
                        &mut texts.source.tokens(source),
                        &mut texts.target.tokens(target),
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
            Self::Texts(texts) => texts.iter().map(|pair| texts.tokens(pair)).collect(),
        }
    }
}

/// For each of `count` things, the first that equals it.
fn first_equals(count: usize, compare: impl Fn(usize, usize) -> Ordering) -> Vec<u32> {
    let compare = |a: u32, b: u32| compare(a as usize, b as usize);
    let mut order: Vec<u32> = (0..).take(count).collect();
    order.sort_unstable_by(|&a, &b| compare(a, b).then(a.cmp(&b)));
    let mut first = vec![0; count];
    for equals in order.chunk_by(|&a, &b| compare(a, b).is_eq()) {
        equals.iter().for_each(|&it| first[it as usize] = equals[0]);
    }
    first
}

#[cfg(test)]
mod tests;
