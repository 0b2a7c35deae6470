use super::*;
use crate::data::pair_file::{Columns, PairFile, PairFormat};
use crate::error::Result;
use crate::tests::rows;

fn read(content: &str, stress: Stress) -> Result<Vec<(String, String)>> {
    let file = PairFile::from_bytes("cmu.dict", content);
    let format = PairFormat::Dict { stress };
    let options = file.guess_of(format, Columns::default(), Default::default())?;
    let pairs = file.pairs(&options)?.into_iter();
    let texts = pairs.map(|it| (it.source.concat(), it.target.join(" ")));
    Ok(texts.collect())
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
                   #HASH-MARK  K AE1 S\n\
                   (BEGIN-PARENS  B IH0\n\
                   (2)  T UW1\n\
                   a(b)\tEY1   B IY1\n";
    let kept = [
        ("'bout", "B AW1 T"),
        ("aalborg", "AA1 L B AO0 R G"),
        ("d'artagnan", "D AH0 R T AE1 NY AH0 N"),
        ("!EXCLAMATION-POINT", "EH2 K S K L AH0"),
        ("#HASH-MARK", "K AE1 S"),
        ("(BEGIN-PARENS", "B IH0"),
        ("(2)", "T UW1"),
        ("a(b)", "EY1 B IY1"),
    ];
    let owned = |(word, phonemes): (&str, &str)| (word.to_string(), phonemes.to_string());
    assert_eq!(read(content, Stress::Keep).unwrap(), kept.map(owned));
    let dropped = kept.map(|(word, of)| (word.to_string(), of.replace(['0', '1', '2'], "")));
    assert_eq!(read(content, Stress::Drop).unwrap(), dropped);
}

/// The pairs of a file, and the layout that was recognized.
#[track_caller]
fn check(content: &str, layout: &str, pairs: &[(&str, &str)]) {
    let found = read(content, Stress::Keep).unwrap();
    let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    assert_eq!(found, pairs, "{content}");
    let file = PairFile::from_bytes("cmu.dict", content);
    let found = file.recognized(&"dict".parse().unwrap()).unwrap();
    assert_eq!(found.unwrap(), format!("cmu.dict: {layout}"));
}

/// Words and phonemes of the files below.
const PAIRS: [(&str, &str); 4] = [
    ("cat", "K AE1 T"),
    ("cats", "K AE1 T S"),
    ("read", "R IY1 D"),
    ("read", "R EH1 D"),
];

#[test]
fn words_and_phonemes_are_divided_by_spaces_or_tabs() {
    for content in [
        "cat K AE1 T\ncats  K AE1 T S\nread R IY1 D\nread(2) R EH1 D\n",
        "cat\tK AE1 T\ncats\t K  AE1 T S\nread\tR IY1 D\nread(2)\tR EH1 D\n",
        "cat\tK\tAE1\tT\ncats\tK\tAE1\tT\tS\nread\tR\tIY1\tD\nread(2)\tR\tEH1\tD\n",
        "## a list\n##of words\n;;; all\ncat K AE1 T\t# a pet\ncats\tK AE1 T S\nread R IY1 D\n;; \n\
         read(2) R EH1 D",
    ] {
        check(content, "words and phonemes", &PAIRS);
    }
}

#[test]
fn lines_without_known_phonemes_whose_words_begin_with_a_number_sign_are_counted() {
    let pairs = [PAIRS[0], PAIRS[1]];
    let layout = "words and phonemes; left out: 1 line whose word begins with # (a comment)";
    check("cat K AE1 T\n#HASH  HH\ncats K AE1 T S\n", layout, &pairs);
    let layout = "words and phonemes; left out behind words: the number of a pronunciation (as NLTK has it); left \
                  out: 2 lines whose words begin with # (comments)";
    let content = "#many of them\ncat 1 K AE1 T\n# all\n#HASH-MARK  HH M\ncats 1 K AE1 T S\n";
    check(content, layout, &pairs);
}

#[test]
fn probabilities_are_left_out() {
    // The Montreal Forced Aligner's, with a line that has none, and Kaldi's lexiconp with either space.
    let mfa = "cat\t0.99\t0.2\t1.0\t1.0\tK AE1 T\ncats\tK AE1 T S\nread\t0.71\t0.05\t1.23\t0.97\tR IY1 D\n\
               read\t0.3\t0.1\t0.0\t1e-05\tR EH1 D\n";
    let layout = "words and phonemes; left out behind words: up to 4 numbers (probabilities, as the Montreal \
                  Forced Aligner has them)";
    check(mfa, layout, &PAIRS);
    check(&mfa.replace('\t', " "), layout, &PAIRS);
    let kaldi = "cat 1.0 K AE1 T\ncats 1 K AE1 T S\nread 0.7 R IY1 D\nread 0.30 R EH1 D\n";
    let layout =
        "words and phonemes; left out behind words: a number (a probability, as Kaldi has it)";
    check(kaldi, layout, &PAIRS);
    let logarithms = "cat -0.3 K AE1 T\ncats 0 K AE1 T S\nread -1 R IY1 D\nread -2e+00 R EH1 D\n";
    check(logarithms, layout, &PAIRS);
    let ones = "cat 1\tK AE1 T\ncats 1.0\tK AE1 T S\nread 0.3\tR IY1 D\nread 0\tR EH1 D\n";
    let long = &layout.replacen("words", "words that end at a TAB", 1);
    check(ones, long, &PAIRS);
    for content in [
        "cat 1.0\tK AE1 T\ncats 1.0\tK AE1 T S\nread 0.7\tR IY1 D\nread 0.3\tR EH1 D\n",
        "cat\t1.0\tK AE1 T\ncats\t1.0\tK AE1 T S\nread\t0.7\tR IY1 D\nread\t0.3\tR EH1 D\n",
    ] {
        let tabs = &content.replace("cats", "the cats");
        check(content, layout, &PAIRS);
        let pairs = PAIRS.map(|(word, it)| (if word == "cats" { "the cats" } else { word }, it));
        check(tabs, long, &pairs);
    }
}

#[test]
fn numbers_of_pronunciations_are_left_out() {
    let layout =
        "words and phonemes; left out behind words: the number of a pronunciation (as NLTK has it)";
    let nltk = "cat 1 K AE1 T\ncats 1 K AE1 T S\nread 1 R IY1 D\nread 2 R EH1 D\n";
    check(nltk, layout, &PAIRS);
    let tabs = nltk.replace(" 1 ", "\t1\t").replace(" 2 ", "\t2\t");
    check(&tabs, layout, &PAIRS);
    // A part of such a file, and one that counts in two words.
    let pairs = [PAIRS[0], PAIRS[3], ("a", "AH0")];
    check("cat 1 K AE1 T\nread 2 R EH1 D\na 1 AH0\n", layout, &pairs);
    let long = layout.replacen("words", "words that end at a TAB", 1);
    let words = [("the cat", "K"), ("read", "R"), ("read", "D")];
    check("the cat 1\tK\nread 1\tR\nread 2\tD\n", &long, &words);
    // One entry counts nothing.
    let layout = "words that end at a TAB and phonemes";
    check("apollo 1\tK\n", layout, &[("apollo 1", "K")]);
}

#[test]
fn outputs_in_brackets_are_left_out() {
    let layout = "words and phonemes; left out behind words: an output in brackets (as HTK has it)";
    let htk = "cat\t\t[cat]  K AE1 T\ncats [CATS] K AE1 T S\nread [] R IY1 D\nread R EH1 D\n";
    check(htk, layout, &PAIRS);
    let pairs = [("[noise]", "NSN"), ("um", "[spn]")];
    check("[noise] NSN\num [um] [spn]\n", layout, &pairs);
    let words = "FOO [FOO BAR] f u\nnew york\t[New York]\tn\nnew ham [New Ham]\th [\n";
    let long = layout.replacen("words", "words that end at a TAB", 1);
    let pairs = [("FOO", "f u"), ("new york", "n"), ("new ham", "h [")];
    check(words, &long, &pairs);
    let layout = "words and phonemes; left out behind words: a number (a probability, as Kaldi has it), an output in \
                  brackets (as HTK has it)";
    let pairs = [("cat", "K"), ("read", "R D")];
    check("cat [cat] 0.5 K\nread [read] R D\n", layout, &pairs);
}

#[test]
fn a_word_before_a_tab_may_have_spaces() {
    let layout = "words that end at a TAB and phonemes";
    let pairs = [
        ("new york", "N UW1 Y AO1 R K"),
        ("cat", "K AE1 T"),
        ("windows 95", "W IH1 N"),
    ];
    for content in [
        "new york\tN UW1 Y AO1 R K\ncat\tK AE1 T\nwindows 95\tW IH1 N\n",
        "new  york(2)\tN UW1 Y AO1 R K\ncat K AE1 T\nwindows 95\tW IH1 N\n",
    ] {
        check(content, layout, &pairs);
    }
}

#[test]
fn a_phoneme_that_is_a_digit_stays() {
    let found = read("two 2 T1\nat T1 2\n", Stress::Drop).unwrap();
    assert_eq!(found[0], ("two".to_string(), "2 T".to_string()));
    // A TAB tells, and so does a word without a number whose phoneme it is.
    for (content, pairs) in [
        ("eu\t2 s\nsa\ts A\n", &[("eu", "2 s"), ("sa", "s A")][..]),
        ("un\t1 n\n", &[("un", "1 n")]),
        ("eu\t2 s\nun\t3 n\n", &[("eu", "2 s"), ("un", "3 n")]),
        ("eu 2\nsa s A\n", &[("eu", "2"), ("sa", "s A")]),
    ] {
        check(content, "words and phonemes", pairs);
    }
}

#[test]
fn lines_without_phonemes_or_that_can_be_read_in_two_ways_are_refused() {
    // The content of a file, the number of the line, and what was expected there: words in capitals stand for the texts
    // below.
    let table = r##"
two 2 T1\n | 1 | COUNTED
un 1 n\n | 1 | COUNTED
cat 0.5 K AE1 T\nsa s A\neu 2 s\n | 3 | COUNTED
cat 1 1 1 1 K\ndog 1 1 1 1 D\n | 1 | COUNTED
sa s A\neu 2 s\n | 2 | COUNTED 2 behind "eu", and 1 of 2 words with such a number (`word TAB 2 ..` has it as a phoneme)
'bout B AW1 T\n#HASH-MARK  HH AW1 M\n | 2 | COMMENT "#HASH-MARK
a a B\n#a list a of words\n | 2 | COMMENT "#a list a of words" (1 of 4 are phonemes)
cat 0.9 0.2 1.0 1.0 K\ndog 0.9 2 9 s\n | 2 | 4 numbers BEFORE 9 behind "dog", which may be a phoneme
cat 0.9 0.2 K 2\ndog 0.9 2 s\n | 2 | 2 numbers BEFORE 2 behind
cat k # t\ntag t g\ndog d # good\n | 1 | a comment behind #, which is no phoneme, found "# t"
cat K AE1 0.5 T\n | 1 | phonemes, found the number 0.5 in the entry of "cat"
cat K AE1 T 0.5\n | 1 | phonemes, found the number 0.5
cat K AE1 T\t0.5\n | 1 | ALONE "cat K AE1 T" alone
cat 0.5\n | 1 | ALONE "cat" alone
# first\nword\n | 2 | ALONE "word" alone
a EY1\nword # none\n | 2 | ALONE "word" alone
a EY1\nvitamin a\tV AY1\nb B a\n | 2 | EVERY, or in none, found "vitamin a" before a TAB, and lines without one
cat K\tAE1 T\ncats K AE1 T S\n | 1 | EVERY
um [spn] ah\nuh ah [spn]\n | 1 | brackets behind words, or among phonemes, found "[spn]" in both places: write the
a EY1\0\n | 1 | text without control characters, found U+0000 in the phonemes
"##;
    let counted = "the number of a pronunciation behind every word, or behind none, found";
    let comment = "`# ` before a comment, or a word and phonemes of other lines, found";
    for [content, line, message] in rows(table) {
        let message = message
            .replace("COUNTED", counted)
            .replace("COMMENT", comment)
            .replace("BEFORE", "behind a word, or one, found")
            .replace("ALONE", "a word and its phonemes, found")
            .replace("EVERY", "a TAB behind the word in every line");
        let error = read(&content, Stress::Keep).unwrap_err().to_string();
        let message = format!("cmu.dict:{line}: expected {message}");
        assert!(error.starts_with(&message), "{error}");
    }
    let error = read("# nothing\n", Stress::Keep).unwrap_err().to_string();
    assert!(error.starts_with("cmu.dict holds no pair; "), "{error}");
}
