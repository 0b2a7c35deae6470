//! Wrong arguments and inputs are errors of one line, with exit code 2.

use std::fs;

use attention_seq2seq::device::{KNOWN, compiled_in_devices};

use crate::program::{
    self, Folder, bad, command, fail, files, misuse, rows, succeed, text, train_args, trained,
    translate_lines,
};

/// A device that this build does not have.
fn left_out_device() -> &'static str {
    let built = compiled_in_devices();
    let mut left_out = KNOWN.iter().filter(|name| !built.contains(name));
    left_out.next().unwrap()
}

#[test]
fn usage_errors_have_the_same_exit_code() {
    let folder = &Folder::new();
    let all = "|tarin|train reverse --hidden many|train reverse --hidden -1|train reverse --seed -1|\
               translate abc --threads -1|train reverse --attention none|train reverse --data x.tsv|\
               train --valid x.tsv|train --data x.tsv --columns 1,1|train --data x.tsv --source-tokens words|attend";
    for args in all.split('|') {
        let stderr = misuse(args, []);
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
        let has_tip = stderr.contains("tip:") && args.ends_with(" -1");
        assert!(!has_tip, "{args:?}: {stderr}");
    }
    assert!(succeed(folder, "--help").contains("Usage"));
    assert!(succeed(folder, "train --help").contains("--resume"));
    assert!(succeed(folder, "--version").starts_with("seq2seq "));
}

#[test]
fn bad_settings_of_training_leave_nothing_behind() {
    let folder = &Folder::new();
    folder.write("bad.tsv", "a\tb\nab\nc\td\n");
    folder.write("empty.tsv", "\n\n");
    folder.write("one.tsv", "a\tb\na\tc\n");
    folder.write("long.tsv", format!("a\tb\n{}\tc\n", "x".repeat(1001)));
    folder.write("control.tsv", "a\tb\0c\n");
    let before = files(folder);
    let table = r#"
revers | unknown task "revers"; expected one of: dates, reverse, copy
reverse --device tpu | unknown device "tpu"; this build has:
reverse --device LEFT_OUT | is not part of this build, which has:
reverse --threads 0 | --threads: expected 1 to 1024, found 0
reverse --threads 100000 | --threads: expected 1 to 1024, found 100000
reverse --hidden 15 | the hidden size: expected even, half for each direction of the encoder, found 15
reverse --hidden 0 | the hidden size: expected at least 1, found 0
reverse --embedding 0 | the embedding size: expected at least 1, found 0
reverse --layers 0 | the number of layers: expected at least 1, found 0
reverse --epochs 0 | the number of epochs: expected at least 1, found 0
reverse --batch-size 0 | the batch size: expected at least 1, found 0
reverse --patience 0 | the patience: expected at least 1, found 0
reverse --dropout 1.5 | the dropout: expected at least 0 and less than 1, found 1.5
reverse --dropout nan | the dropout: expected at least 0 and less than 1, found NaN
reverse --learning-rate 0 | the learning rate: expected more than 0 and at most 1, found 0
reverse --learning-rate nan | the learning rate: expected more than 0 and at most 1, found NaN
reverse --clip 0 | the clipping norm: expected more than 0, found 0
reverse --train-pairs 0 | there are no training pairs;
reverse --valid-pairs 0 | there are no validation pairs;
reverse --hidden 100000000000 | the model: expected at most 1e13 parameters, found some
reverse --embedding 18446744073709551615 | the model: expected at most 1e13 parameters, found some
reverse --layers 100000000000 | the number of layers: expected at most 1024, found 100000000000
bad.tsv | the task: expected dates, reverse, copy (a file is named by --data bad.tsv), found bad.tsv
--data long.tsv | long.tsv:2: expected a source of at most 1000 tokens (--max-tokens), found 1001
--data control.tsv | control.tsv:1: expected text without control characters, found U+0000 in column 2
--data none.tsv | cannot read none.tsv:
--data . | cannot read .:
--data bad.tsv | bad.tsv:2: expected a target in column 2, found 1 column divided by TAB
--data empty.tsv | empty.tsv holds no line;
--data one.tsv | expected at least two different sources, found one
--data one.tsv --valid bad.tsv | bad.tsv:2:
--data one.tsv --columns 3,1 | one.tsv:1: expected a source in column 3
"#;
    let of_linux = "\
reverse --hidden 600000 | the memory of the model in training: expected at most the
reverse --train-pairs 1000000000000 | the memory of the pairs: expected at most the
reverse --valid-pairs 1000000000000 | the memory of the pairs: expected at most the
";
    let known = ["", of_linux][usize::from(cfg!(target_os = "linux"))];
    for [args, message] in rows(&[table, known].concat()) {
        let args = format!("train --out run {args}").replace("LEFT_OUT", left_out_device());
        fail(folder, &args, message);
        assert_eq!(files(folder), before, "{args:?} left something");
        assert!(!folder.join("run").exists(), "{args:?} left a folder");
    }
    for out in ["bad.tsv", "bad.tsv/run"] {
        let args = train_args("reverse", "1", &format!("--out {out}"));
        fail(folder, &args, "cannot create bad.tsv");
    }
    fs::create_dir_all(folder.join("mine/checkpoint")).unwrap();
    folder.write("mine/checkpoint/data", "");
    let message = "the folder mine: expected a folder with room for a run (name another with --out), found something \
                   else's \"checkpoint\" in it";
    fail(folder, &train_args("reverse", "1", "--out mine"), message);
    assert_eq!(files(&folder.join("mine")), ["checkpoint/data"]);
    fs::remove_dir_all(folder.join("mine")).unwrap();
    let error = "cannot use the model run: no trained model is there; train one first, or name another folder";
    fail(folder, "train reverse --resume --out run", error);
    assert_eq!(files(folder), before);
}

#[test]
fn bad_inputs_of_a_model_are_errors_of_one_line() {
    let (run, _) = trained();
    let folder = &Folder::new();
    let missing = folder.join("missing/x.png");
    let unknown = folder.join("x.bmp");
    let (missing, unknown) = (missing.to_str().unwrap(), unknown.to_str().unwrap());
    let table = r#"
translate abC | unknown token "C" at position 3; did you mean "c"?
translate abc 4 | unknown token "4" at position 1; expected one of:
translate abc --device LEFT_OUT | is not part of this build
translate abc --threads 0 | --threads: expected 1 to 1024, found 0
attend abc --output UNKNOWN | does not end in a supported format: use .svg, .png, .html
attend abc --output MISSING | missing/x.png: No such file
eval --data x.tsv | --data: expected a model that was trained on a file
"#;
    for [args, message] in rows(table) {
        let args = args.replace("LEFT_OUT", left_out_device());
        let args = args.replace("UNKNOWN", unknown).replace("MISSING", missing);
        fail(run, &format!("{args} --model ."), message);
    }
    let none = "the text to translate: expected at least one token, found none";
    for (command, text, message) in [
        ("translate", "", none),
        ("translate", "a b", "unknown token \" \" at position 2; "),
        ("attend", "", none),
        ("attend", "a\nb", "unknown token \"\\n\" at position 2; "),
    ] {
        fail(run, &[command, text, "--model", "."], message);
    }
    let message = "no trained model is there; train one first, or name another folder";
    for args in ["translate abc", "attend abc", "eval"] {
        let of_none = format!("cannot use the model none: {message}");
        fail(run, &format!("{args} --model none"), &of_none);
        // So is the default model.
        let of_default = "cannot use the model runs/dates: no trained model is there";
        fail(folder, args, of_default);
    }
    assert!(files(folder).is_empty());

    // Lines that cannot be translated stop nothing, and have an empty one as their output.
    let good = translate_lines(run, b"abc\n\n\n\nabc\n");
    let unknown = "unknown token \" \" at position 2; ";
    let bytes = "its text: expected UTF-8, found other bytes from byte 3 on";
    for (line, message) in [(&b"x yz"[..], unknown), (b"ab\xff", bytes)] {
        let output = translate_lines(run, &[b"abc\n\n", line, b"\n\nabc\n"].concat());
        assert_eq!(text(&output.stdout), text(&good.stdout));
        let message = format!("line 3 of the standard input: {message}");
        bad("translate", output, &message);
    }
}

#[test]
fn an_error_is_one_line_that_can_be_read() {
    let (run, _) = trained();
    let long = "y".repeat(100_000);
    let long = format!("ab{long}é");
    let of_model = vec!["eval", "--model", "a\nb"];
    let of_text = vec!["translate", "--model", ".", &long];
    let expected = "a\\nb: no trained model is there";
    for (args, message) in [(&of_model, expected), (&of_text, "unknown")] {
        let output = program::run(run, args);
        assert!(output.stderr.len() < 1000, "{} bytes", output.stderr.len());
        bad(args, output, message);
    }
}

#[test]
fn an_error_without_a_reader_has_its_exit_code() {
    let folder = &Folder::new();
    let mut child = command(folder, "eval --model none").spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}
