//! Formats of pairs, normal forms, and limits of vocabularies.

use std::fs;
use std::path::Path;

use attention_tests::assert_says;
use serde_json::json;

use crate::json::{list, string};
use crate::program::{
    Folder, assert_starts, edit, epochs, fail, first_line, manifest, misuse, resume_args, rows,
    succeed, train, train_on,
};

#[track_caller]
fn eval(folder: &Path, args: &str) -> String {
    succeed(folder, &format!("eval --model run {args}"))
}

/// The options of the files that the run remembers.
fn options(folder: &Path) -> serde_json::Value {
    manifest(&folder.join("run"))["settings"]["data"]["tsv"]["options"].clone()
}

/// The tokens of the source and of the target that are not special, sorted.
pub(crate) fn vocabs(folder: &Path) -> [String; 2] {
    let vocabs = &manifest(&folder.join("run"))["vocabs"];
    ["source", "target"].map(|side| {
        let tokens = list(&vocabs[side]).iter().skip(4);
        let mut tokens: Vec<&str> = tokens.map(string).collect();
        tokens.sort();
        tokens.join(" ")
    })
}

/// The run in `run` has an epoch, and goes on for another.
#[track_caller]
fn goes_on(folder: &Path) {
    assert_eq!(epochs(&succeed(folder, &resume_args("2", ""))), ["2/2"]);
}

/// Words of four letters with a phoneme for each, as a dictionary.
fn dictionary(words: std::ops::Range<usize>) -> String {
    let letter = |word: usize, place: u32| word / 2_usize.pow(place) % 2;
    let line = |word: usize| -> String {
        let letters: String = (0..4).map(|at| ["a", "b"][letter(word, at)]).collect();
        let phonemes = [0, 1, 2, 3].map(|at| ["AH1", "B"][letter(word, at)]);
        let (number, phonemes) = (1 + word % 2, phonemes.join(" "));
        format!("{letters}({number})  {phonemes} # {word}\n")
    };
    format!(";;; letters\n{}", words.map(line).collect::<String>())
}

#[test]
fn a_dictionary_is_known_by_its_ending() {
    let folder = &Folder::new();
    folder.write("cmu.dict", dictionary(0..12));
    folder.write("valid.dict", dictionary(12..16));
    let stdout = train(folder, "--data cmu.dict --valid valid.dict --stress drop");
    assert_says(&stdout, "12 training pairs, 4 validation pairs; ");
    assert_says(&stdout, "source tokens: chars, target tokens: spaces");
    let format = json!({"dict": {"stress": "drop"}});
    assert_eq!(options(folder)["format"], format);
    assert_eq!(vocabs(folder), ["a b", "AH B"]);
    let evaluated = eval(folder, "");
    assert!(stdout.contains(first_line(&evaluated)), "{evaluated}");
    assert_eq!(eval(folder, "--data valid.dict"), evaluated);
    goes_on(folder);

    // The dictionary of a translation is read as it was.
    let translated = succeed(folder, "translate abab --dictionary cmu.dict --model run");
    assert_eq!(translated, "AH B AH B\n");

    // With its stress, and under another name.
    fs::rename(folder.join("cmu.dict"), folder.join("cmu.txt")).unwrap();
    let args = "--data cmu.txt --valid valid.dict --input-format dict";
    train(folder, args);
    assert_eq!(vocabs(folder)[1], "AH1 B");
    // A model of a dictionary is evaluated on pairs in columns.
    folder.write("valid.tsv", "ab\tAH1 B\n");
    let evaluated = eval(folder, "--data valid.tsv --input-format tsv");
    assert_starts(&evaluated, "1 sources: ");
    // Another ending tells another format.
    folder.write("valid.jsonl", r#"{"source": "ab", "target": "AH1 B"}"#);
    assert_eq!(eval(folder, "--data valid.jsonl"), evaluated);
}

#[test]
fn objects_have_fields_by_any_names() {
    let folder = &Folder::new();
    let line = |at: usize| format!("{{\"id\": {at}, \"de\": \"x{at:02}\", \"en\": \"{at:02}\"}}\n");
    folder.write_lines("pairs.jsonl", 40, line);
    train(folder, "--data pairs.jsonl --fields en,de");
    let digits = "0 1 2 3 4 5 6 7 8 9";
    assert_eq!(vocabs(folder), [digits, &format!("{digits} x")]);
    let fields = json!({"jsonl": {"source": "en", "target": "de"}});
    assert_eq!(options(folder)["format"], fields);
    let message = "pairs.jsonl:1: expected a text \"source\" in the object, found none";
    fail(folder, "train --data pairs.jsonl --out other", message);
}

#[test]
fn settings_of_a_format_are_refused_for_others() {
    let folder = &Folder::new();
    folder.write("a.tsv", "a\tb\n");
    folder.write("a.dict", "a B\n");
    folder.write("valid.tsv", "a\tb\n");
    let table = "
a.tsv --stress drop | --stress: expected a file in the format dict, found tsv
a.dict --fields a,b | --fields: expected a file in the format jsonl, found dict
a.dict --columns 2,1 | --columns: expected a file in the format tsv, found dict
a.tsv --min-count 0 | --min-count: expected at least 1, found 0
a.tsv --max-vocab 0 | --max-vocab: expected at least 1, found 0
";
    for [args, message] in rows(table) {
        let args = format!("train --valid valid.tsv --out run --data {args}");
        fail(folder, &args, &format!("error: {message}"));
    }
    for option in "input-format dict|fields a,b|stress drop|unicode nfc".split('|') {
        misuse(&format!("train reverse --{option}"), "cannot be used with");
    }
}

#[test]
fn tags_stand_before_a_lemma() {
    let folder = &Folder::new();
    let line = |at: usize| {
        let (tag, end) = [("PST", "ed"), ("PTCP", "ing")][at % 2];
        format!("w{at:02}\tV;{tag}\tw{at:02}{end}\n")
    };
    folder.write_lines("verbs.tsv", 40, line);
    let args = "--data verbs.tsv --columns lemma,tags,form";
    assert_says(train(folder, args), "V;PTCP; w");
    assert_eq!(vocabs(folder)[0], "0 1 2 3 4 5 6 7 8 9 PST; PTCP; V; w");
    // Either form of a text is the same source; the tags of another language are unknown.
    let translate = |text: &str| succeed(folder, &["translate", text, "--model", "run"]);
    assert_eq!(translate("V;PST w07"), translate("V;PST\tw07"));
    let of_future = ["translate", "V;FUT w07", "--model", "run"];
    fail(folder, &of_future, "unknown token \"FUT;\" at position 2; ");
    goes_on(folder);
    let printed = succeed(folder, &format!("train {args} --print-config"));
    assert_says(&printed, "columns = \"source,tags,target\"");
}

#[test]
fn a_normal_form_is_kept_with_the_model() {
    let folder = &Folder::new();
    // Sources in either form, targets apart.
    let line = |at: usize| {
        let letter = ["\u{e9}", "e\u{301}"][at % 2];
        format!("{letter}{:06b}\tu\u{308}{}\n", at, at % 2)
    };
    folder.write_lines("pairs.tsv", 40, line);
    let translate = |text: &str| succeed(folder, &["translate", text, "--model", "run"]);
    for (form, source, target) in [
        ("", "0 1 \u{e9}", "0 1 \u{fc}"),
        ("--unicode nfc", "0 1 \u{e9}", "0 1 \u{fc}"),
        ("--unicode nfd", "0 1 e \u{301}", "0 1 u \u{308}"),
    ] {
        train(folder, &format!("--data pairs.tsv {form}"));
        assert_eq!(vocabs(folder), [source, target], "{form}");
        assert_eq!(translate("\u{e9}01"), translate("e\u{301}01"));
        let apart = translate("\u{e9}01").contains("u\u{308}");
        assert!(!apart, "outputs are composed");
        goes_on(folder);
    }
    train(folder, "--data pairs.tsv --unicode none");
    assert_eq!(vocabs(folder), ["0 1 e \u{e9} \u{301}", "0 1 u \u{308}"]);
}

#[test]
fn syllables_are_read_as_their_letters() {
    let folder = &Folder::new();
    // 399 syllables of 19 consonants and 21 vowels, with the last consonant or without.
    let all = (0..798u32).map(|at| char::from_u32(0xac00 + 28 * (at / 2) + 4 * (at % 2)).unwrap());
    let lines: String = all.map(|it| format!("{it}\tx\n")).collect();
    folder.write("pairs.tsv", &lines);
    let said = train(folder, "--data pairs.tsv");
    let guess = "unicode: nfd (guessed from the sources; --unicode tells)";
    assert!(said.lines().any(|line| line == guess), "{said}");
    let tokens = || vocabs(folder)[0].split(' ').count();
    assert_eq!(tokens(), 19 + 21 + 1);

    // Words of syllables: only `--source-tokens chars` makes their letters tokens.
    folder.write("spaced.tsv", lines.replace("\tx", " 가\tx"));
    let said = train(folder, "--data spaced.tsv");
    assert!(!said.contains(guess), "{said}");
    let said = train(folder, "--data spaced.tsv --source-tokens chars");
    assert_says(&said, guess);

    let said = train(folder, "--data pairs.tsv --unicode nfc");
    assert!(!said.contains("guessed from the sources"), "{said}");
    assert!(tokens() > 700);
}

#[test]
fn a_run_from_before_there_were_formats_goes_on_as_it_was() {
    let folder = &Folder::new();
    let line = |at: usize| format!("e\u{301}{at:06b}\t{at}\n");
    folder.write_lines("pairs.tsv", 40, line);
    train(folder, "--data pairs.tsv --unicode none");
    let before = eval(folder, "");
    let run = folder.join("run");
    let text = fs::read_to_string(run.join("run.json")).unwrap();
    let field = |name: &str| -> String {
        let of_name = |line: &&str| line.trim_start().starts_with(name);
        let lines = text.lines().filter(of_name);
        lines.map(|line| format!("{line}\n")).collect()
    };
    for name in ["\"format\": \"tsv\"", "\"normalization\": "] {
        let field = field(name);
        match field.trim_end().ends_with(',') {
            true => edit(&run, &field, ""),
            // The comma before it goes, too.
            false => edit(&run, &format!(",\n{}", field.trim_end()), ""),
        }
    }
    let limits =
        "\"vocab_limits\": {\n        \"min_count\": 1,\n        \"max_tokens\": null\n      },";
    edit(&run, limits, "");
    let options = options(folder);
    assert!(options.get("format").is_none() && options.get("normalization").is_none());
    assert_eq!(eval(folder, ""), before);
    goes_on(folder);
}

#[test]
fn rare_tokens_are_not_in_a_vocabulary() {
    let folder = &Folder::new();
    let line = |at: usize| format!("{}\t{}\n", ["ab", "abc"][at % 2], ["xy", "x"][at % 2]);
    let mut lines: String = (0..40).map(line).collect();
    lines.push_str("dd\tz\n");
    let train = |args| train_on(folder, [&lines, &lines], args);
    train("--min-count 3");
    assert_eq!(vocabs(folder), ["a b c", "x y"]);
    let unknown = "unknown source tokens, read as <unk>: \"d\"\n";
    assert_says(eval(folder, ""), unknown);
    goes_on(folder);
    train("--max-vocab 1");
    assert_eq!(vocabs(folder), ["a", "x"]);
    let args = "train copy --min-count 2 --max-vocab 3 --print-config";
    assert_says(succeed(folder, args), "min-count = 2\nmax-vocab = 3\n");
}
