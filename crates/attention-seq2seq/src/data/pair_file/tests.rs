use std::fs;

use attention_tests::assert_says;

use super::*;
use crate::data::pairs::Pair;
use crate::error::{Error, Result};
use crate::tests::{line, rows};
use crate::text::tokens::Tokenization::{Chars, Spaces};

fn options(columns: &str) -> PairFileOptions {
    PairFileOptions {
        columns: columns.parse().unwrap(),
        ..PairFileOptions::new(Spaces, Spaces)
    }
}

/// The error of loading, which is one line.
#[track_caller]
fn error(content: impl AsRef<[u8]>, options: &PairFileOptions) -> String {
    line(load(content, options))
}

fn load(content: impl AsRef<[u8]>, options: &PairFileOptions) -> Result<Vec<Pair>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.tsv");
    fs::write(&path, content).unwrap();
    load_pairs(path, options)
}

#[test]
fn plain_windows_and_marked_files_read_alike() {
    let plain = load("a b\tX Y\nc\tZ\n", &options("1,2")).unwrap();
    let pair = |source: &str, target: &str| Pair {
        source: Spaces.split(source),
        target: Spaces.split(target),
    };
    assert_eq!(plain, [pair("a b", "X Y"), pair("c", "Z")]);
    for same in [
        "a b\tX Y\r\nc\tZ\r\n\r\n",
        "\u{feff}a b\tX Y\nc\tZ",
        "a b\tX Y\nc\tZ\n\n \n\n",
        "a  b \tX Y\tnote\nc\t Z\t\n",
    ] {
        assert_eq!(load(same, &options("1,2")).unwrap(), plain, "{same:?}");
    }
    assert_eq!(load("X Y\ta b\nZ\tc\n", &options("2,1")).unwrap(), plain);
    let third = load("1\tX Y\ta b\n2\tZ\tc\n", &options("3,2"));
    assert_eq!(third.unwrap(), plain);
}

#[test]
fn white_space_beyond_ascii_is_text() {
    let chars = PairFileOptions::new(Chars, Chars);
    let pairs = load("5 Mai\t05\r\n", &chars).unwrap();
    assert_eq!(pairs[0].source, ["5", " ", "M", "a", "i"]);
    assert_eq!(pairs[0].target, ["0", "5"]);
    // No-break, ideographic and thin spaces, a line separator, and a byte order mark that begins no file.
    for other in ['\u{a0}', '\u{3000}', '\u{2009}', '\u{2028}', '\u{feff}'] {
        let line = format!("\u{feff}1\t2\r\n {other}a{other}b  c \td{other} \r\n");
        let pairs = load(&line, &options("1,2")).unwrap();
        let source = [format!("{other}a{other}b"), "c".to_owned()];
        let expected = (&"1".to_owned(), &source[..]);
        assert_eq!((&pairs[0].source[0], &pairs[1].source[..]), expected);
        assert_eq!(pairs[1].target, [format!("d{other}")]);
        let pairs = load(&line, &chars).unwrap();
        assert_eq!(pairs[1].target, ["d".to_owned(), other.to_string()]);
        // It makes a column, and a line at the end of the file.
        let pairs = load(format!("a\t{other}\n{other}\t{other}"), &chars).unwrap();
        assert_eq!(pairs[1].target, [other.to_string()]);
    }
}

#[test]
fn a_bad_line_is_named_by_its_number() {
    let table = r#"
a\tb\na b\n | 2 | target in column 2, found 1 column divided by TAB (a dictionary, as --input-format dict reads it,
a\tb\r\n\r\nc\td\r\n | 2 | pair, found an empty line
a\tb\nc\td\n \te\n | 3 | source in column 1, found an empty column
a\tb\nc\t\nd\te | 2 | target in column 2, found an empty column
"#;
    for [content, line, message] in rows(table) {
        let expected = format!("pairs.tsv:{line}: expected a {message}");
        assert_says(error(content, &options("1,2")), &expected);
    }
    let expected = "pairs.tsv:2: expected UTF-8 text, found other bytes from byte 5 on; `iconv -f LATIN1 -t UTF-8` may";
    assert_says(error(b"a\tb\nc\tab\xff\nd\te", &options("1,2")), expected);
    let mut zero = options("1,2");
    zero.columns.source = 0;
    assert!(matches!(load("a\tb\n", &zero), Err(Error::Config { .. })));
}

#[test]
fn the_whole_of_a_sorted_file_tells_its_tokens() {
    // The shortest lines come first: a word each, and no space.
    let line = |at: usize| match at {
        0..2_000 => format!("w{at}\tx\n"),
        _ => format!("w{at} is on its way\tx y\n"),
    };
    let lines: String = (0..10_000).map(line).collect();
    let file = PairFile::from_bytes("pairs.tsv", lines);
    let guessed = file.guess(Columns::default()).unwrap();
    let expected = (Spaces, Spaces);
    assert_eq!((guessed.source_tokens, guessed.target_tokens), expected);
    // Comments stand where a line would have been read.
    let file = PairFile::from_bytes("words.dict", "# a\nab A B\n".repeat(1_500));
    assert!(file.guess(Columns::default()).is_ok());
}

#[test]
fn a_pair_of_too_many_tokens_is_refused_by_its_line() {
    let mut options = options("1,2");
    options.max_tokens = 3;
    assert_eq!(load("a b c\tX\nc\tX Y Z\n", &options).unwrap().len(), 2);
    for (line, side) in [("a b c d\tX\n", "source"), ("a\tX Y Z U\n", "target")] {
        let error = error(format!("a\tb\n{line}"), &options);
        let message =
            format!("pairs.tsv:2: expected a {side} of at most 3 tokens (--max-tokens), found 4");
        assert!(error.ends_with(&message), "{error}");
    }
}

#[test]
fn control_characters_are_refused_by_their_line() {
    for (control, name) in [
        ("\0", "U+0000"),
        ("\u{1b}[31m", "U+001B"),
        ("\r", "U+000D"),
        ("\u{85}", "U+0085"),
        ("\u{b}", "U+000B"),
        ("\u{c}", "U+000C"),
    ] {
        let error = error(format!("a\tb\nc{control}d\te\n"), &options("1,2"));
        let message = "pairs.tsv:2: expected text without control characters, found";
        let message = format!("{message} {name} in column 1");
        assert!(error.ends_with(&message), "{error}");
    }
    // So are they at either end of a column, and of the file; a tab or line end there is none.
    for control in ['\u{b}', '\u{c}', '\u{85}'] {
        for line in ["CONTROLa\tb\nc\td", "c\taCONTROL\t\r\n"] {
            let line = line.replace("CONTROL", &control.to_string());
            let message = "pairs.tsv:1: expected text without control characters, found U+00";
            assert_says(error(&line, &options("1,2")), message);
        }
    }
    // In a column that is not read it hurts nobody.
    assert_eq!(load("a\tb\t\0\n", &options("1,2")).unwrap().len(), 1);
}

#[test]
fn tags_are_tokens_before_the_source_wherever_their_column_is() {
    let pair = |source: &[&str], target: &str| Pair {
        source: source.iter().map(|it| it.to_string()).collect(),
        target: Chars.split(target),
    };
    let expected = [
        pair(&["V;", "PST;", "g", "o"], "went"),
        pair(&["N;", "o", "x"], "oxen"),
    ];
    for (columns, content) in [
        ("lemma,form,tags", "go\twent\tV;PST\nox\toxen\tN\n"),
        ("lemma,tags,form", "go\tV;PST\twent\nox\tN;\toxen\n"),
        ("-,tags,form,lemma", "1\tV;PST\twent\tgo\r\n2\tN\toxen\tox"),
    ] {
        let file = PairFile::from_bytes("pairs.tsv", content);
        let options = file.guess(columns.parse().unwrap()).unwrap();
        let chars = (Chars, Chars);
        assert_eq!((options.source_tokens, options.target_tokens), chars);
        assert_eq!(file.pairs(&options).unwrap(), expected, "{columns}");
    }
    let table = r#"
go\twent\n | in column 3, found 2 columns divided by TAB
go\twent\t \tx\n | in column 3, found an empty column
go\twent\tV PST\n | divided by ; without spaces, found "V PST"
"#;
    for [line, message] in rows(table) {
        let error = error(line, &options("lemma,form,tags"));
        let expected = format!("pairs.tsv:1: expected tags {message}");
        assert!(error.ends_with(&expected), "{error}");
    }
}
