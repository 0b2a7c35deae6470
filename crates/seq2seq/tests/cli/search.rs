//! Searches with beams, the formats of their outputs, alignments, dictionaries and scores.

use std::path::Path;

use serde_json::Value;

use attention_tests::assert_says;

use crate::json::{line, lines, list, number, numbers, string};
use crate::program::{
    Folder, bad, cells, ended, fail, good, rows, run_with_input, scores, succeed, text, trained,
};

const SEARCH: &str = "--beam 4 --n-best 3";

/// `translate` in a run, with these arguments.
fn translate(run: &Path, args: &str) -> String {
    succeed(run, &format!("translate --model . {args}"))
}

fn outputs(object: &Value) -> &[Value] {
    list(&object["outputs"])
}

#[test]
fn all_formats_have_the_same_outputs() {
    let (run, _) = trained();
    let texts = ["abc", "zyxwvut", "e"];
    let args = format!("{} {SEARCH}", texts.join(" "));
    let plain = translate(run, &args);
    let tsv = translate(run, &format!("{args} --format tsv"));
    let objects = lines(&translate(run, &format!("{args} --format jsonl")));
    assert_eq!(objects.len(), 3);
    let mut rows = tsv.lines();
    for ((line, object), source) in plain.lines().zip(&objects).zip(texts) {
        assert_eq!(object["source"], source);
        let outputs = outputs(object);
        let of_objects = outputs.iter().map(|output| string(&output["text"]));
        assert!(line.split('\t').eq(of_objects), "{line}");
        assert_eq!(outputs.len(), 3);
        for output in outputs {
            let [of_row, text, probability] = cells(rows.next().unwrap());
            assert_eq!([of_row, text], [source, string(&output["text"])]);
            let probability: f64 = probability.parse().unwrap();
            assert_eq!(probability, number(&output["log_probability"]));
            assert_eq!(output["score"], output["log_probability"]);
            let tokens = list(&output["tokens"]).iter();
            assert_eq!(tokens.map(string).collect::<String>(), text);
            assert!(output["ended"].is_boolean());
            assert_eq!(output["by"], "model");
        }
    }
    assert_eq!(rows.next(), None);
    // The best one alone, and greedy search as a search of one.
    let texts = texts.join(" ");
    let best = translate(run, &format!("{texts} --beam 4"));
    for (best, all) in best.lines().zip(plain.lines()) {
        assert_eq!(Some(best), all.split('\t').next());
    }
    let greedy = translate(run, &texts);
    let scored = translate(run, &format!("{texts} --format tsv"));
    for (greedy, scored) in greedy.lines().zip(scored.lines()) {
        assert_eq!(Some(greedy), scored.split('\t').nth(1));
    }
}

#[test]
fn lines_are_searched_as_texts_in_any_order_and_batches_of_any_size() {
    let (run, _) = trained();
    // More than the sources that are sorted together where a batch has one or two.
    let texts = ["abc", "zyxwvut", "e", "cab", "bca"].repeat(8);
    let args = format!("{} {SEARCH} --format jsonl", texts.join(" "));
    let in_order = translate(run, &args);
    let backwards: Vec<&str> = in_order.lines().rev().collect();
    let of_lines = |texts: &[&str], size: usize| {
        let args = format!("translate --model . {SEARCH} --format jsonl --batch-size {size}");
        let output = run_with_input(run, &args, texts.join("\n").as_bytes());
        good(&args, output)
    };
    let reversed: Vec<&str> = texts.iter().rev().copied().collect();
    for size in [1, 2, 300] {
        assert_eq!(of_lines(&texts, size), in_order, "{size}");
        let outputs = of_lines(&reversed, size);
        assert!(outputs.lines().eq(backwards.iter().copied()), "{size}");
    }
    let args = "translate abc --model . --batch-size 0";
    fail(run, args, "the batch size: expected at least 1, found 0");
}

#[test]
fn lines_that_cannot_be_translated_stay_in_line() {
    let (run, _) = trained();
    let input = "abc\n\na?\u{e9}\ncab\n";
    for format in ["text", "tsv"] {
        let args = format!("translate --model . --format {format}");
        let output = run_with_input(run, &args, input.as_bytes());
        let stdout = text(&output.stdout);
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines[1..3], [""; 2], "{stdout}");
        assert_eq!(lines.len(), 4);
        let message = "line 3 of the standard input: unknown token \"?\" at position 2; ";
        bad(&args, output, message);
    }
    let args = "translate --model . --format jsonl";
    let objects = lines(&text(&run_with_input(run, args, input.as_bytes()).stdout));
    let counts: Vec<usize> = objects.iter().map(|object| outputs(object).len()).collect();
    assert_eq!(counts, [1, 0, 0, 1]);
    assert_eq!(objects[2]["source"], "a?\u{e9}");
    assert!(string(&objects[2]["error"]).contains("unknown token \"?\""));
    assert!(objects[0].get("error").is_none());
}

#[test]
fn outputs_are_aligned_with_their_sources() {
    let (run, _) = trained();
    let aligned = |args: &str| translate(run, &format!("abc zyxw {SEARCH} {args}"));
    let weights = lines(&aligned("--format jsonl --alignments json"));
    let links = lines(&aligned("--format jsonl --alignments pharaoh"));
    let columns = aligned("--format tsv --alignments pharaoh");
    let columns = columns.lines().map(|line| cells::<4>(line)[3]);
    let mut all = Vec::new();
    for (weights, links) in weights.iter().zip(&links) {
        for (output, linked) in outputs(weights).iter().zip(outputs(links)) {
            let alignment = &output["alignment"];
            let tokens = list(&output["tokens"]);
            let rows = list(&alignment["weights"]);
            // The end has weights, but no link.
            let ended = usize::from(output["ended"] == true);
            assert_eq!(rows.len(), tokens.len() + ended);
            assert_eq!(list(&alignment["target"])[..tokens.len()], tokens[..]);
            let link = |(target, row): (usize, &Value)| {
                let row = numbers(row);
                assert_eq!(row.len(), string(&weights["source"]).len());
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5);
                let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
                format!("{}-{target}", best.unwrap())
            };
            let expected = rows[..tokens.len()].iter().enumerate().map(link);
            let expected: Vec<String> = expected.collect();
            assert_eq!(string(&linked["alignment"]), expected.join(" "));
            all.push(expected.join(" "));
        }
    }
    assert!(columns.eq(&all), "{all:?}");
    let one = translate(run, "abc --alignments pharaoh");
    let (output, links) = one.trim_end_matches('\n').split_once('\t').unwrap();
    assert_eq!(links.split_whitespace().count(), output.len());
    let args = "translate abc --alignments json --model . --n-best 2";
    let message = "--alignments: expected --format tsv or jsonl, where sources may have several outputs, found \
                   --format text";
    fail(run, args, message);
}

#[test]
fn a_dictionary_comes_before_the_model() {
    let (run, _) = trained();
    let folder = &Folder::new();
    // A source that the model does not know, and one with two targets; one target comes twice.
    folder.write("known.tsv", "?!\tab\nabc\tx\nabc\ty\nabc\tx\n");
    let file = folder.join("known.tsv");
    let known = |args: &str| translate(run, &format!("{args} --dictionary {}", file.display()));
    let by_model = translate(run, "cab");
    assert_eq!(known("?! abc cab"), format!("ab\nx\n{by_model}"));
    let args = "abc cab --n-best 5 --format jsonl --alignments json";
    let all = lines(&known(args));
    let texts = outputs(&all[0]).iter().map(|it| string(&it["text"]));
    assert!(texts.eq(["x", "y"]));
    for (object, by) in all.iter().zip(["dictionary", "model"]) {
        for output in outputs(object) {
            assert_eq!(output["by"], by);
            assert_eq!(output["log_probability"].is_null(), by == "dictionary");
            assert_eq!(output.get("alignment").is_some(), by == "model");
        }
    }
    assert_eq!(known("abc --format tsv"), "abc\tx\t\n");
    let missing = "translate abc --model . --dictionary missing.tsv";
    fail(run, missing, "cannot read missing.tsv");
}

#[test]
fn given_outputs_have_a_score() {
    let (run, _) = trained();
    let stdout = succeed(run, "score abc cba e e --model .");
    assert_eq!(stdout.lines().count(), 2);
    for (line, pair) in stdout.lines().zip([["abc", "cba"], ["e", "e"]]) {
        let [source, target, sum, _] = cells(line);
        assert_eq!([source, target], pair);
        let (sum, tokens): (f64, _) = (sum.parse().unwrap(), scores(line));
        // The tokens and the end.
        assert_eq!(tokens.len(), target.len() + 1);
        assert!((tokens.iter().sum::<f64>() - sum).abs() < 1e-9 && sum < 0.0);
    }
    // An output of a search has the score that the search found.
    let found = translate(run, &format!("abc {SEARCH} --format jsonl"));
    let object = &line(&found);
    for output in outputs(object).iter().filter(|it| it["ended"] == true) {
        let args = ["score", "abc", string(&output["text"]), "--model", "."];
        let scored = succeed(run, &args);
        let scored: f64 = cells::<4>(&scored)[2].parse().unwrap();
        assert_eq!(scored, number(&output["log_probability"]));
    }
    // Pairs of a file and of the standard input; one that has no score is empty.
    let input = b"abc\tcba\ncab\t?\ne\te\n";
    let args = "score --model .";
    let output = run_with_input(run, args, input);
    assert_eq!(text(&output.stdout), stdout.replacen('\n', "\n\n", 1));
    bad(args, output, "pair 2: unknown token \"?\" at position 1; ");
    let folder = &Folder::new();
    folder.write("pairs.tsv", "abc\tcba\ne\te\n");
    let args = format!("score --model . --data {}/pairs.tsv", folder.display());
    assert_eq!(succeed(run, &args), stdout);
    let message = "the texts to score: expected a source and an output each, found \"abc\" alone";
    fail(run, "score abc --model .", message);
}

#[test]
fn settings_of_a_search_are_checked_before_the_input_is_read() {
    let (run, _) = trained();
    let table = r#"
--beam 0 | the beam: expected 1 to 10000, found 0
--beam 2 --n-best 3 | the number of best outputs: expected 1 to 2,
--mass 1.5 | the probability of the best outputs: expected above 0 and at most 1, found 1.5
--length-penalty 0.6 | expected none, average:0.6 (log p / n^0.6,
--length-penalty 0.6 | or gnmt:0.6 (log p / ((5 + n) / 6)^0.6, as JoeyNMT and opennmt-tf), found 0.6
--length-penalty wu:1 | expected none, average:A (log p / n^A,
--beam 2 --length-penalty gnmt:-1 | the exponent of the length penalty: expected a number from 0, found -1
--length-penalty gnmt:1 | the length and coverage penalty: expected a beam of two or more, whose outputs they order,
--beam 1 --coverage-penalty 0.2 | a beam of two or more, whose outputs they order, found a beam of 1
--repetition-penalty 0 | the repetition penalty: expected a number above 0, found 0
--min-length 9 --max-length 9 | the minimum length: expected less than 9,
--prefix a? | unknown token "?" at position 2;
"#;
    for [args, message] in rows(table) {
        fail(run, &format!("translate --model . {args}"), message);
    }
    let prefixed = translate(run, "abc --prefix zz --min-length 4");
    let is_long = prefixed.trim_end().len() >= 4;
    assert!(is_long && prefixed.starts_with("zz"), "{prefixed}");
    let unlike = translate(run, "abcabcabc --no-repeat-ngram-size 1 --min-length 4");
    let mut letters: Vec<char> = unlike.trim_end().chars().collect();
    let count = letters.len();
    letters.sort_unstable();
    letters.dedup();
    assert_eq!(letters.len(), count, "{unlike}");
    let free = translate(run, "abcabcabc --min-length 4");
    let penalized = translate(run, "abcabcabc --min-length 4 --repetition-penalty 50");
    assert_ne!(penalized, free);
    assert_eq!(translate(run, "abc --mass 1e-300").split('\t').count(), 1);
    // Outputs of a mass come by their probability.
    let mass = "translate --model . abc --beam 8 --mass 0.5";
    let [expected, _] = ended(run, mass, 0);
    let [found, note] = ended(run, &format!("{mass} --length-penalty gnmt:9"), 0);
    assert_eq!(found, expected);
    assert_says(&note, "--length-penalty and --coverage-penalty are idle");
}
