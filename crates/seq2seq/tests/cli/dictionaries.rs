//! Pronunciation dictionaries as other programs write them.

use attention_tests::assert_says;

use crate::formats::vocabs;
use crate::program::{self, Folder, ended, fail, rows, run_with_input, succeed, text};

/// The output of a training on `file`, with the same words to validate on.
#[track_caller]
fn train(folder: &Folder, file: &str, content: &[u8]) -> String {
    folder.write(file, content);
    folder.write("valid.dict", "cat K AE1 T\n");
    let format = ["", "--input-format dict"][usize::from(file.ends_with(".txt"))];
    let args = format!("--data {file} --valid valid.dict {format}");
    program::train(folder, &args)
}

#[test]
fn what_stands_behind_words_is_left_out_and_named() {
    let folder = &Folder::new();
    let files = r#"
mfa.dict | cat\t0.99\t0.2\t1.0\t1.0\tK AE1 T\ndog\t0.5\t0.1\t1.2\t1.0\tD AO1 G\n | Montreal Forced Aligner
lexiconp.txt | cat 1.0\tK AE1 T\ndog 0.5\tD AO1 G\n | Kaldi
cmudict | cat 1 K AE1 T\ndog 1 D AO1 G\n | NLTK
voxforge.dict | cat [CAT] K AE1 T\ndog [DOG] D AO1 G\n | HTK
cmudict-0.7b | ;;; CMUdict\n## words\ncat  K AE1 T\ndog  D AO1 G\n | words and phonemes.
pets.dict | cat\tK AE1 T\na dog\tD AO1 G\n | words that end at a TAB
"#;
    for [file, content, named] in rows(files) {
        let content = content.replace("\\n", "\n").replace("\\t", "\t");
        let said = train(folder, file, content.as_bytes());
        let is_of_file = |line: &&str| line.starts_with(&format!("{file}: "));
        let line = said.lines().find(is_of_file).unwrap();
        assert!(format!("{line}.").contains(named), "{said}");
        assert_eq!(vocabs(folder)[1], "AE1 AO1 D G K T", "{file}");
        // A later file is told by itself, and by the same line on the standard error.
        let scored = succeed(folder, &["score", "cat", "K AE1 T", "--model", "run"]);
        let known = ["translate", "cat", "--model", "run", "--dictionary", file];
        #[rustfmt::skip]
        let cases = [
            (&known[..], "K AE1 T\n"),
            (&["score", "--data", file, "--model", "run"], &scored),
            (&["eval", "--data", file, "--model", "run", "--input-format", "dict"], ""),
        ];
        for (args, stdout) in cases {
            let [found, noted] = ended(folder, args, 0);
            assert!(found.starts_with(stdout), "{args:?}: {found}");
            assert!(noted.starts_with(&format!("{line}\n")), "{args:?}: {noted}");
        }
    }
}

#[test]
fn a_dictionary_is_known_by_its_first_line_and_its_name() {
    let folder = &Folder::new();
    let words = ";;; CMUdict\ncat K AE1 T\ndog D AO1 G\n";
    folder.write("words", words);
    for file in ["words", "-"] {
        let args = ["train", "--data", file, "--print-config"];
        let printed = run_with_input(folder, &args, words.as_bytes());
        assert_says(text(&printed.stdout), "input-format = \"dict\"");
    }
}

#[test]
fn a_file_that_may_be_read_in_two_ways_is_refused_with_what_to_do() {
    let folder = &Folder::new();
    let probable = "cat 1.0\tK AE1 T\ndog 0.5\tD AO1 G\n";
    let most = "cat\t0.9\tK AE1 T\ndog\tD AO1 G\npig\t1\tP IH1 G\n";
    for (file, content) in [
        ("cmudict-0.7b", &b"CAT  K AE1 T\nD\xc9J\xc0  D EY2\n"[..]),
        ("wide.tsv", b"\xff\xfea\0\t\0b\0\n\0"),
        ("lexiconp.txt", probable.as_bytes()),
        ("numbers.tsv", probable.as_bytes()),
        ("mfa", b"cat\t1.0\t0.3\t1.0\t1.0\tK AE1 T\n"),
        ("digit.dict", b"sa s A\neu 2 s\n"),
        ("most.txt", most.as_bytes()),
        ("ones", b"cat 1\tK AE1 T\ndog 1\tD AO1 G\n"),
        ("spaces.txt", b"cat K AE1 T\n"),
    ] {
        folder.write(file, content);
    }
    // By its ending it is columns, whatever they hold.
    succeed(folder, "train --data numbers.tsv --print-config");
    let table = "
cmudict-0.7b | cmudict-0.7b:2: expected UTF-8 text, found other bytes from byte 2 on; `iconv -f LATIN1 -t UTF-8` may
wide.tsv | found other bytes from byte 1 on; `iconv -f UTF-16 -t UTF-8`
lexiconp.txt | the format of lexiconp.txt: expected --input-format dict (what
mfa | the format of mfa: expected --input-format dict (what
ones | the format of ones: expected --input-format dict (what
most.txt | the format of most.txt: expected --input-format dict (what
spaces.txt | found 1 column divided by TAB (a dictionary, as --input-format dict
digit.dict | digit.dict:2: expected the number of a pronunciation behind every word, or behind none
";
    for [file, message] in rows(table) {
        fail(folder, &format!("train --data {file} --out run"), message);
    }
    // Told, either is read.
    for told in ["--input-format dict", "--input-format tsv", "--columns 2,1"] {
        let args = format!("train --data lexiconp.txt {told} --print-config");
        succeed(folder, &args);
    }
}
