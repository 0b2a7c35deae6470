//! The tokens of a file: guessed, known from a preset, and those that read as special ones.

use std::path::Path;

use attention_tests::assert_says;

use crate::json::list;
use crate::program::{Folder, epochs, manifest, resume_args, rows, succeed, train_on};

/// The tokens of a training on a file: `source-tokens = ..` and `target-tokens = ..` of its settings.
#[track_caller]
fn tokens(folder: &Path, args: &str) -> [String; 2] {
    let printed = succeed(folder, &format!("train --print-config --data {args}"));
    ["source", "target"].map(|side| {
        let setting = format!("{side}-tokens = ");
        let line = printed.lines().find_map(|line| line.strip_prefix(&setting));
        line.unwrap_or("").trim_matches('"').to_string()
    })
}

#[test]
fn words_of_several_syllables_are_read_as_letters() {
    let folder = &Folder::new();
    // More than half of the words hold a space.
    folder.write("vie_hanoi.tsv", include_str!("vie_hanoi.tsv"));
    for args in ["", " --preset g2p", " --preset small"] {
        let found = tokens(folder, &format!("vie_hanoi.tsv{args}"));
        assert_eq!(found, ["chars", "spaces"], "{args}");
        let swapped = tokens(folder, &format!("vie_hanoi.tsv --columns 2,1{args}"));
        let expected = match args {
            " --preset g2p" => ["chars", "spaces"],
            _ => ["spaces", "chars"],
        };
        assert_eq!(swapped, expected, "{args}");
    }
    let told = tokens(folder, "vie_hanoi.tsv --preset g2p --source-tokens spaces");
    assert_eq!(told, ["spaces", "spaces"]);
    // Few syllables that come again and again.
    let line = |at: usize| format!("ba{} ca{}\tb a k a\n", at % 5, at % 4);
    folder.write_lines("few.txt", 60, line);
    assert_eq!(tokens(folder, "few.txt --preset g2p"), ["chars", "spaces"]);
}

#[test]
fn a_preset_knows_its_tokens() {
    let folder = &Folder::new();
    let forms = |at: usize| format!("a merge{at}\tam fi mers{at}\tV;PST\n");
    let dates = |at: usize| {
        let day = 1 + at % 7;
        format!("{day} May 19{:02}\t{day} 5 {at}\n", at % 9)
    };
    let phrases = |at: usize| format!("good day{at}\tguten tag{at}\n");
    let apart = |at: usize| format!("c a {at}\tK AE {at}\n");
    // Syllables of two phonemes, a line of one among every five, and targets without a space.
    let syllables = |at: usize| match at % 5 {
        0 => format!("{at}\ta{at}\n"),
        _ => format!("{at}\tzh{at} ang{}\n", at % 4),
    };
    let joined = |at: usize| format!("{at}\tzhang{at}\n");
    for (name, line) in [
        ("forms.tsv", &forms as &dyn Fn(usize) -> String),
        ("dates.tsv", &dates),
        ("phrases.tsv", &phrases),
        ("apart.tsv", &apart),
        ("syllables.tsv", &syllables),
        ("joined.tsv", &joined),
    ] {
        folder.write_lines(name, 90, line);
    }
    let table = "
forms.tsv --columns lemma,form,tags --preset inflection | chars chars
forms.tsv --columns lemma,form,tags | chars chars
dates.tsv | spaces spaces
dates.tsv --preset dates | chars chars
phrases.tsv | chars chars
phrases.tsv --preset translation | spaces spaces
apart.tsv --preset g2p | chars spaces
syllables.tsv --preset g2p | chars spaces
joined.tsv --preset g2p | chars chars
";
    for [args, expected] in rows(table) {
        assert_eq!(tokens(folder, args).join(" "), expected, "{args}");
    }
}

#[test]
fn tokens_that_occur_once_are_worth_a_note() {
    let folder = &Folder::new();
    let pairs = ["a b\tx\nc a\tx y\na d\tx\nb a\tx\n", "a\tx\n"];
    let args = "--source-tokens spaces --target-tokens spaces";
    let said = train_on(folder, pairs, args);
    assert_says(&said, "\nnote: 2 of 4 source tokens occur once");
    assert_says(&said, "\nnote: 1 of 2 target tokens occurs once");
    let said = train_on(folder, pairs, &format!("{args} --min-count 2"));
    assert!(!said.contains(" once, "), "{said}");
}

#[test]
fn tokens_that_read_as_special_ones_are_learned() {
    let folder = &Folder::new();
    let line = |letter: char| {
        let target = letter.to_ascii_uppercase();
        format!("<bos> {letter} <eos>\t<bos> {target} <unk> <eos> <pad>\n")
    };
    let lines: String = ('a'..='h').map(line).collect();
    folder.write("pairs.tsv", &lines);
    folder.write("valid.tsv", &lines);
    let args = "train --data pairs.tsv --valid valid.tsv --hidden 16 --embedding 16 --batch-size 4 --epochs 60 \
                --learning-rate 0.02 --patience 60 --source-tokens spaces --target-tokens spaces --threads 1 --out run";
    assert_says(succeed(folder, &args), "\n8 sources: exact match 100.00 %");
    let found = succeed(folder, &["translate", "<bos> c <eos>", "--model", "run"]);
    assert_eq!(found, "<bos> C <unk> <eos> <pad>\n");
}

#[test]
fn a_training_ends_after_its_steps() {
    let folder = &Folder::new();
    let steps = |epochs: usize| {
        let run = manifest(&folder.join("run"));
        let found = list(&run["checkpoints"]).last().unwrap();
        assert_eq!(found["epoch"], epochs);
        found["clock"]["steps"].clone()
    };
    // Eight steps make an epoch.
    for (count, all) in [(3, ["1/1"].to_vec()), (11, ["1/2", "2/2"].to_vec())] {
        let args = format!(
            "train copy --train-pairs 64 --valid-pairs 4 --batch-size 8 --hidden 8 --steps {count} --out run \
             --overwrite --threads 1"
        );
        assert_eq!(epochs(&succeed(folder, &args)), all);
        assert_eq!(steps(all.len()), count);
    }
    // With more epochs it goes on, and without it does not.
    assert!(epochs(&succeed(folder, "train --resume --out run")).is_empty());
    assert_eq!(epochs(&succeed(folder, &resume_args("3", ""))), ["3/3"]);
    let settings = &manifest(&folder.join("run"))["settings"]["train"];
    assert!(settings.get("steps").is_none(), "{settings}");
}
