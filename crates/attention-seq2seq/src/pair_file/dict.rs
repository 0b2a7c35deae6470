//! Lines of a pronunciation dictionary.

use std::borrow::Cow;

use super::Stress;
use super::line::{LineError, LineResult, Texts, check_characters};
use crate::tokens::trim;

/// The word and the phonemes of one line, none if it is empty or a comment.
pub(super) fn texts(line: &str, stress: Stress) -> LineResult<Option<Texts<'_>>> {
    let line = trim(line);
    let mut fields = line.split([' ', '\t']).filter(|field| !field.is_empty());
    let word = match fields.next() {
        None | Some("#") => return Ok(None),
        Some(field) if field.starts_with(";;;") => return Ok(None),
        Some(word) => without_variant(word),
    };
    let phonemes: Vec<&str> = fields
        .take_while(|field| !field.starts_with('#'))
        .map(|phoneme| match stress {
            Stress::Keep => phoneme,
            Stress::Drop => without_stress(phoneme),
        })
        .collect();
    if phonemes.is_empty() {
        let found = format!("{word:?} alone");
        return Err(LineError::new("a word and its phonemes", found));
    }
    let target = phonemes.join(" ");
    check_characters(word, "in the word")?;
    check_characters(&target, "in the phonemes")?;
    Ok(Some(Texts {
        source: Cow::Borrowed(word),
        target: Cow::Owned(target),
    }))
}

/// A word without the number of its variant: `read` of `read(2)`.
fn without_variant(word: &str) -> &str {
    let variant = word.strip_suffix(')').and_then(|it| it.rsplit_once('('));
    match variant {
        Some((word, number))
            if !word.is_empty()
                && !number.is_empty()
                && number.bytes().all(|it| it.is_ascii_digit()) =>
        {
            word
        }
        _ => word,
    }
}

/// A phoneme without the digit of its stress: `AH` of `AH0`.
fn without_stress(phoneme: &str) -> &str {
    let bare = phoneme.strip_suffix(['0', '1', '2']);
    bare.filter(|bare| !bare.is_empty()).unwrap_or(phoneme)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::pair_file::{Columns, PairFile, PairFormat};

    fn read(content: &str, stress: Stress) -> Result<Vec<(String, String)>> {
        let file = PairFile::from_bytes("cmu.dict", content);
        let options = file.guess_as(PairFormat::Dict { stress }, Columns::default())?;
        let pairs = file.pairs(&options)?.into_iter();
        Ok(pairs
            .map(|it| (it.source.concat(), it.target.join(" ")))
            .collect())
    }

    #[test]
    fn words_have_their_variants_and_no_comments() {
        // Lines of cmudict.dict and of cmudict-0.7b.
        let content = ";;; # CMUdict  --  Major Version: 0.07\n\
                       # a comment\n\
                       #\n\
                       \n\
                       'bout B AW1 T\n\
                       aalborg(2) AA1 L B AO0 R G\r\n\
                       d'artagnan D AH0 R T AE1 NY AH0 N # foreign french\n\
                       !EXCLAMATION-POINT  EH2 K S K L AH0\n\
                       #HASH-MARK  HH AE1 M\n\
                       (BEGIN-PARENS  B IH0\n\
                       (2)  T UW1\n\
                       a(b)\tEY1   B IY1\n";
        let kept = [
            ("'bout", "B AW1 T"),
            ("aalborg", "AA1 L B AO0 R G"),
            ("d'artagnan", "D AH0 R T AE1 NY AH0 N"),
            ("!EXCLAMATION-POINT", "EH2 K S K L AH0"),
            ("#HASH-MARK", "HH AE1 M"),
            ("(BEGIN-PARENS", "B IH0"),
            ("(2)", "T UW1"),
            ("a(b)", "EY1 B IY1"),
        ];
        let owned = |(word, phonemes): (&str, &str)| (word.to_string(), phonemes.to_string());
        assert_eq!(read(content, Stress::Keep).unwrap(), kept.map(owned));
        let dropped = kept.map(|(word, phonemes)| (word, phonemes.replace(['0', '1', '2'], "")));
        let dropped = dropped.map(|(word, phonemes)| (word.to_string(), phonemes));
        assert_eq!(read(content, Stress::Drop).unwrap(), dropped);
    }

    #[test]
    fn a_phoneme_that_is_a_digit_stays() {
        let found = read("two 2 T1\n", Stress::Drop).unwrap();
        assert_eq!(found, [("two".to_string(), "2 T".to_string())]);
    }

    #[test]
    fn faults_are_named_by_their_line() {
        for (content, message) in [
            (
                "# first\nword\n",
                "cmu.dict:2: expected a word and its phonemes, found \"word\" alone",
            ),
            (
                "a EY1\nword # none\n",
                "cmu.dict:2: expected a word and its phonemes, found \"word\" alone",
            ),
            (
                "a EY1\u{0}\n",
                "cmu.dict:1: expected text without control characters, found U+0000 in the phonemes",
            ),
            ("# nothing\n", "cmu.dict holds no pair; "),
        ] {
            let error = read(content, Stress::Keep).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
