use std::fs;

use super::*;
use crate::data::Pair;
use crate::error::{Error, Result};
use crate::normalization::Normalization;
use crate::tokens::Tokenization::{Chars, Spaces};

fn options(columns: &str) -> PairFileOptions {
    PairFileOptions {
        columns: columns.parse().unwrap(),
        ..PairFileOptions::new(Spaces, Spaces)
    }
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
    assert_eq!(
        plain,
        [
            Pair {
                source: Spaces.split("a b"),
                target: Spaces.split("X Y")
            },
            Pair {
                source: Spaces.split("c"),
                target: Spaces.split("Z")
            },
        ]
    );
    for same in [
        "a b\tX Y\r\nc\tZ\r\n\r\n",
        "\u{feff}a b\tX Y\nc\tZ",
        "a b\tX Y\nc\tZ\n\n \n\n",
        "a  b \tX Y\tnote\nc\t Z\t\n",
    ] {
        assert_eq!(load(same, &options("1,2")).unwrap(), plain, "{same:?}");
    }
    assert_eq!(load("X Y\ta b\nZ\tc\n", &options("2,1")).unwrap(), plain);
    assert_eq!(
        load("1\tX Y\ta b\n2\tZ\tc\n", &options("3,2")).unwrap(),
        plain
    );
}

#[test]
fn characters_keep_the_spaces_between_them() {
    let options = chars();
    let pairs = load("5 Mai\t05\r\n", &options).unwrap();
    assert_eq!(pairs[0].source, ["5", " ", "M", "a", "i"]);
    assert_eq!(pairs[0].target, ["0", "5"]);
}

fn chars() -> PairFileOptions {
    PairFileOptions {
        source_tokens: Chars,
        target_tokens: Chars,
        ..options("1,2")
    }
}

#[test]
fn white_space_beyond_ascii_is_text() {
    // No-break, ideographic and thin spaces, a line separator, and a byte order mark that begins no file.
    for other in ['\u{a0}', '\u{3000}', '\u{2009}', '\u{2028}', '\u{feff}'] {
        let line = format!("\u{feff}1\t2\r\n {other}a{other}b  c \td{other} \r\n");
        let pairs = load(&line, &options("1,2")).unwrap();
        let source = [format!("{other}a{other}b"), "c".to_owned()];
        assert_eq!(
            (&pairs[0].source[0], &pairs[1].source[..]),
            (&"1".to_owned(), &source[..])
        );
        assert_eq!(pairs[1].target, [format!("d{other}")]);
        let pairs = load(&line, &chars()).unwrap();
        assert_eq!(pairs[1].target, ["d".to_owned(), other.to_string()]);
        // It makes a column, and a line at the end of the file.
        let pairs = load(format!("a\t{other}\n{other}\t{other}"), &chars()).unwrap();
        assert_eq!(pairs[1].target, [other.to_string()]);
    }
}

#[test]
fn a_bad_line_is_named_by_its_number() {
    for (content, line, message) in [
        (
            &b"a\tb\na b\n"[..],
            2,
            "expected a target in column 2, found 1 column divided by TAB (a dictionary, as --input-format dict reads \
             it, may be divided by spaces)",
        ),
        (
            b"a\tb\r\n\r\nc\td\r\n",
            2,
            "expected a pair, found an empty line",
        ),
        (
            b"a\tb\nc\td\n \te\n",
            3,
            "expected a source in column 1, found an empty column",
        ),
        (
            b"a\tb\nc\t\nd\te",
            2,
            "expected a target in column 2, found an empty column",
        ),
        (
            b"a\tb\nc\tab\xff\nd\te",
            2,
            "expected UTF-8 text, found other bytes from byte 5 on; `iconv -f LATIN1 -t UTF-8` may convert the file",
        ),
    ] {
        let error = load(content, &options("1,2")).unwrap_err();
        assert!(
            matches!(error, Error::PairLine { line: found, .. } if found == line),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .ends_with(&format!("pairs.tsv:{line}: {message}")),
            "{error}"
        );
    }
    let error = load("a\tb\n", &options("3,1")).unwrap_err().to_string();
    let message = "pairs.tsv:1: expected a source in column 3, found 2 columns divided by TAB";
    assert!(error.ends_with(message), "{error}");
}

#[test]
fn no_lines_and_no_file_are_different_errors() {
    assert!(matches!(
        load("\u{feff}\r\n\n", &options("1,2")),
        Err(Error::EmptyData { .. })
    ));
    assert!(matches!(
        load_pairs("/no/such/file", &options("1,2")),
        Err(Error::Io { .. })
    ));
}

#[test]
fn columns_are_checked_when_a_file_is_read() {
    let zero = PairFileOptions {
        columns: Columns {
            source: 0,
            target: 1,
            tags: None,
        },
        ..options("1,2")
    };
    assert!(matches!(load("a\tb\n", &zero), Err(Error::Config { .. })));
}

#[test]
fn tokenizations_are_guessed_by_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.tsv");
    fs::write(&path, "cab\tK AE B\nbad\tB AE D\n").unwrap();
    let guessed = PairFileOptions::guess(&path, Columns::default()).unwrap();
    assert_eq!(
        (guessed.source_tokens, guessed.target_tokens),
        (Chars, Spaces)
    );
    let swapped = PairFileOptions::guess(&path, "2,1".parse().unwrap()).unwrap();
    assert_eq!(
        (swapped.source_tokens, swapped.target_tokens),
        (Spaces, Chars)
    );
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
    assert_eq!(
        (guessed.source_tokens, guessed.target_tokens),
        (Spaces, Spaces)
    );
    // Comments stand where a line would have been read.
    let commented = "# a\nab A B\n".repeat(1_500);
    let file = PairFile::from_bytes("words.dict", commented);
    assert!(file.guess(Columns::default()).is_ok());
}

#[test]
fn a_pair_of_too_many_tokens_is_refused_by_its_line() {
    let options = PairFileOptions {
        max_tokens: 3,
        ..options("1,2")
    };
    assert_eq!(load("a b c\tX\nc\tX Y Z\n", &options).unwrap().len(), 2);
    for (line, side) in [("a b c d\tX\n", "source"), ("a\tX Y Z U\n", "target")] {
        let error = load(format!("a\tb\n{line}"), &options)
            .unwrap_err()
            .to_string();
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
        let error = load(format!("a\tb\nc{control}d\te\n"), &options("1,2"));
        let error = error.unwrap_err().to_string();
        let message = format!(
            "pairs.tsv:2: expected text without control characters, found {name} in column 1"
        );
        assert!(error.ends_with(&message), "{error}");
    }
    // So are they at either end of a column, and of the file; a tab or line end there is none.
    for control in ['\u{b}', '\u{c}', '\u{85}'] {
        for line in [
            format!("{control}a\tb\nc\td"),
            format!("c\ta{control}\t\r\n"),
        ] {
            let error = load(&line, &options("1,2")).unwrap_err().to_string();
            let message = "pairs.tsv:1: expected text without control characters, found U+00";
            assert!(error.contains(message), "{line:?}: {error}");
        }
    }
    // In a column that is not read it hurts nobody.
    assert_eq!(load("a\tb\t\0\n", &options("1,2")).unwrap().len(), 1);
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let writer = {
        let path = path.clone();
        std::thread::spawn(move || fs::write(path, "cab\tK AE B\n"))
    };
    let file = PairFile::read(&path).unwrap();
    writer.join().unwrap().unwrap();
    assert!(file.is_stream());
    let options = file.guess(Columns::default()).unwrap();
    assert_eq!(file.pairs(&options).unwrap()[0].target, ["K", "AE", "B"]);

    let path = folder.path().join("file");
    fs::write(&path, "a\tb\n").unwrap();
    assert!(!PairFile::read(&path).unwrap().is_stream());
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
        assert_eq!(
            (options.source_tokens, options.target_tokens),
            (Chars, Chars)
        );
        assert_eq!(file.pairs(&options).unwrap(), expected, "{columns}");
    }
    for (line, message) in [
        (
            "go\twent\n",
            "expected tags in column 3, found 2 columns divided by TAB",
        ),
        (
            "go\twent\t \tx\n",
            "expected tags in column 3, found an empty column",
        ),
        (
            "go\twent\tV PST\n",
            "expected tags divided by ; without spaces, found \"V PST\"",
        ),
    ] {
        let error = load(line, &options("lemma,form,tags"))
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with(&format!("pairs.tsv:1: {message}")),
            "{error}"
        );
    }
}

#[test]
fn letters_and_their_accents_are_the_same_however_they_are_written() {
    let content = "\u{e9}\te\u{301}\ne\u{301}\t\u{e9}\n";
    let file = PairFile::from_bytes("pairs.tsv", content);
    let guessed = file.guess(Columns::default()).unwrap();
    assert_eq!(guessed.normalization, Normalization::Nfc);
    for (normalization, lens) in [
        (Normalization::None, [1, 2]),
        (Normalization::Nfc, [1, 1]),
        (Normalization::Nfd, [2, 2]),
    ] {
        let options = PairFileOptions {
            normalization,
            ..guessed.clone()
        };
        let pairs = file.pairs(&options).unwrap();
        let [first, second] = &pairs[..] else {
            panic!("two lines")
        };
        assert_eq!(
            [first.source.len(), first.target.len()],
            lens,
            "{normalization}"
        );
        assert_eq!(
            (&first.source, &first.target),
            (&second.target, &second.source)
        );
    }
}

#[test]
fn options_saved_before_there_were_formats_are_read() {
    let columns = r#""columns":{"source":2,"target":1}"#;
    let tokens = r#""source_tokens":"chars","target_tokens":"spaces","max_tokens":9"#;
    let saved = format!("{{{columns},{tokens}}}");
    let options: PairFileOptions = serde_json::from_str(&saved).unwrap();
    let expected = PairFileOptions {
        columns: "2,1".parse().unwrap(),
        max_tokens: 9,
        normalization: Normalization::None,
        ..PairFileOptions::new(Chars, Spaces)
    };
    assert_eq!(options, expected);
    let again = serde_json::to_string(&expected).unwrap();
    assert_eq!(
        serde_json::from_str::<PairFileOptions>(&again).unwrap(),
        expected
    );
}
