//! Limits of the process: memory and threads that it may not have are an error of one line. An allocation that fails
//! all the same costs no epoch that was written.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::disk::check_ended;
use crate::program::{
    Folder, bad, copied, ended, manifest, resume_args, succeed, text, train_args,
};
use crate::resume::contents;

/// `seq2seq` on flex under a limit of the shell's `ulimit`. A GPU's driver hangs where its allocation fails, and Burn
/// restores an optimizer on its default device, whatever `--device` says.
fn limited(folder: &Path, limit: &str, args: &str) -> Output {
    let device = ["--device flex", ""][usize::from(args == "--version")];
    let args = format!("{args} {device}");
    let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_seq2seq")])
        .args(args.split_whitespace())
        .current_dir(folder)
        .env("RUST_BACKTRACE", "1")
        .env("BURN_DEVICE", "flex")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Whether an allocation failed: Rust says so, and aborts. Any other end is an ordinary one.
fn has_aborted(what: &str, output: &Output) -> bool {
    let stderr = text(&output.stderr);
    let aborted = output.status.code().is_none();
    if aborted {
        assert!(stderr.contains("memory allocation of "), "{what}: {stderr}");
        assert!(!stderr.contains("panicked"), "{what}: {stderr}");
    } else {
        check_ended(what, output.status.code(), &stderr);
    }
    aborted
}

/// Limits of 0.5 GiB, on address space and on data: far below what any machine that builds this has free.
const HALF: [&str; 2] = ["-v 524288", "-d 524288"];

/// The address space, in KiB, that the program needs to start.
fn start(folder: &Path) -> u64 {
    let starts = |limit: &u64| {
        let output = limited(folder, &format!("-v {limit}"), "--version");
        output.status.success()
    };
    (1..).map(|step| 4096 * step).find(starts).unwrap()
}

#[test]
fn a_model_beyond_a_limit_is_refused_before_it_is_made() {
    let folder = &Folder::new();
    for limit in HALF {
        // With more threads, on a machine of many cores, their stacks would not fit.
        let args = "train reverse --hidden 6000 --threads 1 --out run";
        let output = limited(folder, limit, args);
        let stderr = text(&output.stderr);
        let message = "the memory of the model in training: expected at most the 0.5 GiB of memory that are free, \
                       found 4.6 GiB";
        bad(&args, output, message);
        assert!(!folder.join("run").exists(), "{stderr}");
    }
}

#[test]
fn a_model_that_a_limit_does_not_let_in_is_refused_before_it_is_read() {
    let (folder, whole) = &copied();
    crate::program::edit(whole, "\"hidden_size\": 8", "\"hidden_size\": 9000");
    for command in ["translate abc", "eval", "attend abc"] {
        let args = format!("{command} --model run --threads 1");
        let output = limited(folder, HALF[0], &args);
        let message = "the memory of the model: expected at most the 0.5 GiB";
        bad(&args, output, message);
    }
}

#[test]
fn threads_that_may_not_be_started_are_an_error() {
    let (folder, _) = &copied();
    // Their stacks take 2 GiB.
    for args in [
        "train reverse --threads 1024 --out other",
        "translate abc --model run --threads 1024",
        "eval --model run --threads 1024",
    ] {
        let output = limited(folder, "-v 1000000", args);
        let message =
            "--threads: expected a number that the limits of this process allow to start, found ";
        bad(args, output, message);
    }
    assert!(!folder.join("other").exists());
}

/// Under each of 16 limits, from one where the program can only just start: training, use of what it left and, without
/// a limit, the rest of the training.
#[test]
fn memory_that_ends_anywhere_costs_no_epoch_that_was_written() {
    let folder = &Folder::new();
    let train = train_args("reverse", "2", "--dropout 0.1 --out run");
    succeed(folder, &train);
    let whole = contents(&folder.join("run"));
    let start = start(folder);
    let mut failed = 0;
    for step in 0..16 {
        fs::remove_dir_all(folder.join("run")).unwrap_or_default();
        let limit = format!("-v {}", start + 256 * step * step);
        for args in [
            &train[..],
            "translate abc --model run",
            "eval --model run --threads 1",
            "attend abc --model run --threads 1",
        ] {
            let output = limited(folder, &limit, args);
            let aborted = has_aborted(&format!("{limit}, {args}"), &output);
            failed += usize::from(args == train && aborted);
        }
        let go_on = "train --resume --threads 1 --out run";
        match folder.join("run/run.json").exists() {
            true => succeed(folder, go_on),
            false => succeed(folder, &train),
        };
        let is_same = contents(&folder.join("run")) == whole;
        assert!(is_same, "{limit}: another run");
    }
    assert!((3..16).contains(&failed), "{failed} of 16 failed");
}

#[test]
fn the_last_whole_epoch_is_what_a_failed_allocation_leaves() {
    let (folder, whole) = &copied();
    let before = manifest(whole);
    let start = start(folder);
    let go_on = resume_args("3", "--threads 1");
    // Until the limit lets it end: whichever allocation fails before, all of the run is there.
    let mut failed = 0;
    for step in 1.. {
        let limit = format!("-v {}", start + 1024 * step);
        let output = limited(folder, &limit, &go_on);
        has_aborted(&limit, &output);
        if manifest(whole)["checkpoints"] != before["checkpoints"] {
            break;
        }
        assert!(!output.status.success(), "{limit}");
        failed += 1;
        ended(folder, "translate abc --model run", 0);
    }
    assert!(failed > 0, "it never failed");
    succeed(folder, &go_on);
}
