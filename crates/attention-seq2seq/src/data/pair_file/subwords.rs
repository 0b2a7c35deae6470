//! Subwords of the texts of a file.

use super::{PairFile, PairFileOptions};
use crate::error::Result;
use crate::text::subwords::Subwords;

impl PairFile {
    /// The options with subwords learned from the sources and targets of the file, at most `source` and `target`
    /// subwords; a side without a number keeps its tokens. Subwords do not include tags.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs) and [`Subwords::learn`].
    pub fn with_subwords(
        &self,
        options: PairFileOptions,
        source: Option<usize>,
        target: Option<usize>,
    ) -> Result<PairFileOptions> {
        // Texts with many characters may have few subwords.
        let of_texts = PairFileOptions {
            source_subwords: None,
            target_subwords: None,
            max_tokens: usize::MAX,
            ..options.clone()
        };
        let tokenizer = of_texts.source();
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        self.for_each_pair(&of_texts, |of_source, of_target| {
            let (_, text) = tokenizer.divide(of_source);
            sources.extend(source.map(|_| text.to_owned()));
            targets.extend(target.map(|_| of_target.to_owned()));
        })?;
        let learn = |texts: Vec<String>, count: Option<usize>| {
            count.map(|count| Subwords::learn(texts, count)).transpose()
        };
        Ok(PairFileOptions {
            source_subwords: learn(sources, source)?,
            target_subwords: learn(targets, target)?,
            ..options
        })
    }
}

#[cfg(all(test, feature = "subwords"))]
mod tests {
    use super::*;
    use crate::data::pair_file::Columns;

    #[test]
    fn each_side_has_its_own_and_tags_have_none() {
        let lines = "go off\tV;PST\twent off\ngo\tV;PST\twent\n".repeat(3);
        let file = PairFile::from_bytes("pairs.tsv", lines);
        let columns: Columns = "source,tags,target".parse().unwrap();
        let options = file.guess(columns).unwrap();

        let both = file
            .with_subwords(options.clone(), Some(20), Some(20))
            .unwrap();
        let pairs = file.pairs(&both).unwrap();
        assert_eq!(pairs[0].source, ["V;", "PST;", "▁go", "▁off"]);
        assert_eq!(pairs[0].target, ["▁went", "▁off"]);

        let of_target = file.with_subwords(options.clone(), None, Some(20)).unwrap();
        assert_eq!(of_target.source_subwords, None);
        assert_eq!(file.pairs(&of_target).unwrap()[1].target, ["▁went"]);
        // The limit counts subwords.
        let short = PairFileOptions {
            max_tokens: 4,
            ..options
        };
        let short = file.with_subwords(short, Some(20), Some(20)).unwrap();
        assert_eq!(file.pairs(&short).unwrap(), pairs);
    }
}
