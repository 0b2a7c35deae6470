//! Formats of pairs, normal forms, and limits of vocabularies.

use std::fs;
use std::path::Path;

use attention_tests::assert_says;

use crate::program::{
    Folder, edit, epochs, fail, first_line, manifest, resume_args, rows, run_with_usage_error,
    succeed,
};

/// `seq2seq train` of a tiny model into `run`, with these arguments.
#[track_caller]
fn train(folder: &Path, args: &str) -> String {
    let sizes = "--out run --overwrite --hidden 8 --embedding 4 --epochs 1 --threads 1";
    succeed(folder, &format!("train {args} {sizes}"))
}

#[track_caller]
fn eval(folder: &Path, args: &str) -> String {
    succeed(folder, &format!("eval --model run {args}"))
}

/// The options of the files that the run remembers.
fn options(folder: &Path) -> serde_json::Value {
    manifest(&folder.join("run"))["settings"]["data"]["tsv"]["options"].clone()
}

/// The tokens of a vocabulary that are not special, sorted.
pub(crate) fn vocab(folder: &Path, side: &str) -> Vec<String> {
    let vocabs = &manifest(&folder.join("run"))["vocabs"];
    let tokens = vocabs[side].as_array().unwrap().iter().skip(4);
    let mut tokens: Vec<String> = tokens.map(|it| it.as_str().unwrap().to_string()).collect();
    tokens.sort();
    tokens
}

/// Words of four letters with a phoneme for each, as a dictionary.
fn dictionary(folder: &Path, name: &str, words: std::ops::Range<usize>) {
    let letter = |word: usize, place: u32| word / 2_usize.pow(place) % 2;
    let line = |word: usize| -> String {
        let letters: String = (0..4).map(|at| ["a", "b"][letter(word, at)]).collect();
        let phonemes: Vec<&str> = (0..4).map(|at| ["AH1", "B"][letter(word, at)]).collect();
        let (variant, phonemes) = (1 + word % 2, phonemes.join(" "));
        format!("{letters}({variant})  {phonemes} # {word}\n")
    };
    let lines: String = words.map(line).collect();
    fs::write(folder.join(name), format!(";;; letters\n{lines}")).unwrap();
}

#[test]
fn a_dictionary_is_known_by_its_ending() {
    let folder = &Folder::new();
    dictionary(folder, "cmu.dict", 0..12);
    dictionary(folder, "valid.dict", 12..16);
    let stdout = train(folder, "--data cmu.dict --valid valid.dict --stress drop");
    for said in [
        "12 training pairs, 4 validation pairs; ",
        "source tokens: chars, target tokens: spaces",
    ] {
        assert!(stdout.contains(said), "{stdout}");
    }
    let format = serde_json::json!({"dict": {"stress": "drop"}});
    assert_eq!(options(folder)["format"], format);
    assert_eq!(vocab(folder, "source"), ["a", "b"]);
    assert_eq!(vocab(folder, "target"), ["AH", "B"]);
    let evaluated = eval(folder, "");
    assert!(stdout.contains(first_line(&evaluated)), "{evaluated}");
    assert_eq!(eval(folder, "--data valid.dict"), evaluated);
    assert_eq!(epochs(&succeed(folder, &resume_args("2", ""))), ["2/2"]);

    // The dictionary of a translation is read as it was.
    let args = "translate abab --dictionary cmu.dict --model run";
    assert_eq!(succeed(folder, &args), "AH B AH B\n");

    // With its stress, and under another name.
    fs::rename(folder.join("cmu.dict"), folder.join("cmu.txt")).unwrap();
    let args = "--data cmu.txt --valid valid.dict --input-format dict";
    train(folder, args);
    assert_eq!(vocab(folder, "target"), ["AH1", "B"]);
    // A model of a dictionary is evaluated on pairs in columns.
    fs::write(folder.join("valid.tsv"), "ab\tAH1 B\n").unwrap();
    let evaluated = eval(folder, "--data valid.tsv --input-format tsv");
    assert!(evaluated.starts_with("1 sources: "), "{evaluated}");
    // Another ending tells another format.
    let object = r#"{"source": "ab", "target": "AH1 B"}"#;
    fs::write(folder.join("valid.jsonl"), object).unwrap();
    assert_eq!(eval(folder, "--data valid.jsonl"), evaluated);
}

#[test]
fn objects_have_fields_by_any_names() {
    let folder = &Folder::new();
    let line = |at: usize| format!("{{\"id\": {at}, \"de\": \"x{at:02}\", \"en\": \"{at:02}\"}}\n");
    let lines: String = (0..40).map(line).collect();
    fs::write(folder.join("pairs.jsonl"), &lines).unwrap();
    train(folder, "--data pairs.jsonl --fields en,de");
    assert_eq!(vocab(folder, "source").concat(), "0123456789");
    assert_eq!(vocab(folder, "target").concat(), "0123456789x");
    let fields = serde_json::json!({"jsonl": {"source": "en", "target": "de"}});
    assert_eq!(options(folder)["format"], fields);
    let args = "train --data pairs.jsonl --out other --epochs 1";
    let message = "pairs.jsonl:1: expected a text \"source\" in the object, found none";
    fail(folder, &args, message);
}

#[test]
fn settings_of_a_format_are_refused_for_others() {
    let folder = &Folder::new();
    fs::write(folder.join("a.tsv"), "a\tb\n").unwrap();
    fs::write(folder.join("a.dict"), "a B\n").unwrap();
    fs::write(folder.join("valid.tsv"), "a\tb\n").unwrap();
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
    let other = tempfile::tempdir().unwrap();
    for option in [
        "input-format dict",
        "fields a,b",
        "stress drop",
        "unicode nfc",
    ] {
        let stderr = run_with_usage_error(other.path(), &format!("train reverse --{option}"));
        assert!(stderr.contains("cannot be used with"), "{stderr}");
    }
}

#[test]
fn tags_stand_before_a_lemma() {
    let folder = &Folder::new();
    let line = |at: usize| {
        let (tag, end) = [("PST", "ed"), ("PTCP", "ing")][at % 2];
        format!("w{at:02}\tV;{tag}\tw{at:02}{end}\n")
    };
    let lines: String = (0..40).map(line).collect();
    fs::write(folder.join("verbs.tsv"), &lines).unwrap();
    let args = "--data verbs.tsv --columns lemma,tags,form";
    let stdout = train(folder, args);
    assert!(stdout.contains("V;PTCP; w"), "{stdout}");
    assert_eq!(vocab(folder, "source").concat(), "0123456789PST;PTCP;V;w");
    // Either form of a text is the same source; the tags of another language are unknown.
    let translate = |text: &str| succeed(folder, &["translate", text, "--model", "run"]);
    assert_eq!(translate("V;PST w07"), translate("V;PST\tw07"));
    let of_future = ["translate", "V;FUT w07", "--model", "run"];
    fail(folder, &of_future, "unknown token \"FUT;\" at position 2; ");
    assert_eq!(epochs(&succeed(folder, &resume_args("2", ""))), ["2/2"]);
    let printed = succeed(folder, &format!("train {args} --print-config"));
    let columns = "columns = \"source,tags,target\"";
    assert!(printed.contains(columns), "{printed}");
}

#[test]
fn a_normal_form_is_kept_with_the_model() {
    let folder = &Folder::new();
    // Sources in either form, targets apart.
    let line = |at: usize| {
        let letter = ["\u{e9}", "e\u{301}"][at % 2];
        format!("{letter}{:06b}\tu\u{308}{}\n", at, at % 2)
    };
    let lines: String = (0..40).map(line).collect();
    fs::write(folder.join("pairs.tsv"), &lines).unwrap();
    let translate = |text: &str| succeed(folder, &["translate", text, "--model", "run"]);
    for (form, source, target) in [
        ("", "01\u{e9}", "01\u{fc}"),
        ("--unicode nfc", "01\u{e9}", "01\u{fc}"),
        ("--unicode nfd", "01e\u{301}", "01u\u{308}"),
    ] {
        train(folder, &format!("--data pairs.tsv {form}"));
        assert_eq!(vocab(folder, "source").concat(), source, "{form}");
        assert_eq!(vocab(folder, "target").concat(), target, "{form}");
        assert_eq!(translate("\u{e9}01"), translate("e\u{301}01"));
        let apart = translate("\u{e9}01").contains("u\u{308}");
        assert!(!apart, "outputs are composed");
        assert_eq!(epochs(&succeed(folder, &resume_args("2", ""))), ["2/2"]);
    }
    train(folder, "--data pairs.tsv --unicode none");
    assert_eq!(vocab(folder, "source").concat(), "01e\u{e9}\u{301}");
    assert_eq!(vocab(folder, "target").concat(), "01u\u{308}");
}

#[test]
fn syllables_are_read_as_their_letters() {
    let folder = &Folder::new();
    // 399 syllables of 19 consonants and 21 vowels, with the last consonant or without.
    let syllables =
        (0..798u32).map(|at| char::from_u32(0xac00 + 28 * (at / 2) + 4 * (at % 2)).unwrap());
    let lines: String = syllables.map(|it| format!("{it}\tx\n")).collect();
    fs::write(folder.join("pairs.tsv"), &lines).unwrap();
    let said = train(folder, "--data pairs.tsv");
    let guess = "unicode: nfd (guessed from the sources; --unicode tells)";
    assert!(said.lines().any(|line| line == guess), "{said}");
    assert_eq!(vocab(folder, "source").len(), 19 + 21 + 1);

    // Words of syllables: only `--source-tokens chars` makes their letters tokens.
    let spaced = lines.replace("\tx", " 가\tx");
    fs::write(folder.join("spaced.tsv"), spaced).unwrap();
    let said = train(folder, "--data spaced.tsv");
    assert!(!said.contains(guess), "{said}");
    let said = train(folder, "--data spaced.tsv --source-tokens chars");
    assert!(said.contains(guess), "{said}");

    let said = train(folder, "--data pairs.tsv --unicode nfc");
    assert!(!said.contains("guessed from the sources"), "{said}");
    assert!(vocab(folder, "source").len() > 700);
}

#[test]
fn a_run_from_before_there_were_formats_goes_on_as_it_was() {
    let folder = &Folder::new();
    let line = |at: usize| format!("e\u{301}{at:06b}\t{at}\n");
    let lines: String = (0..40).map(line).collect();
    fs::write(folder.join("pairs.tsv"), &lines).unwrap();
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
        let last = field.trim_end().ends_with(',');
        match last {
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
    assert_eq!(epochs(&succeed(folder, &resume_args("2", ""))), ["2/2"]);
}

#[test]
fn rare_tokens_are_not_in_a_vocabulary() {
    let folder = &Folder::new();
    let line = |at: usize| format!("{}\t{}\n", ["ab", "abc"][at % 2], ["xy", "x"][at % 2]);
    let mut lines: String = (0..40).map(line).collect();
    lines.push_str("dd\tz\n");
    fs::write(folder.join("pairs.tsv"), &lines).unwrap();
    let args = "--data pairs.tsv --valid pairs.tsv";
    let noted = |others: &str| {
        // The note that both are one file is no fault.
        let sizes = "--out run --overwrite --hidden 8 --embedding 4 --epochs 1 --threads 1";
        let args = format!("train {args} {others} {sizes}");
        let output = crate::program::run(folder, &args);
        assert!(output.status.success(), "{args}");
    };
    noted("--min-count 3");
    assert_eq!(vocab(folder, "source"), ["a", "b", "c"]);
    assert_eq!(vocab(folder, "target"), ["x", "y"]);
    let evaluated = eval(folder, "");
    let unknown = "unknown source tokens, read as <unk>: \"d\"\n";
    assert!(evaluated.contains(unknown), "{evaluated}");
    assert_eq!(epochs(&succeed(folder, &resume_args("2", ""))), ["2/2"]);
    noted("--max-vocab 1");
    assert_eq!(vocab(folder, "source"), ["a"]);
    assert_eq!(vocab(folder, "target"), ["x"]);
    let args = "train copy --min-count 2 --max-vocab 3 --print-config";
    let printed = succeed(folder, args);
    assert_says(&printed, "min-count = 2\nmax-vocab = 3\n");
}
