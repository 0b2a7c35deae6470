//! Programs whose output nobody reads, and Ctrl-C.
#![cfg(unix)]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use attention_seq2seq::RunDir;

use attention_tests::assert_says;

use crate::program::{
    Args, Folder, command, copied, edit, epochs, fail, files, first_line, good, newest, quiet,
    resume_args, succeed, text, train_args, trained, written,
};

/// The first line that `head` takes from the output of a program that goes on.
fn first_of(child: &mut Child) -> String {
    let stdout = child.stdout.take().unwrap();
    let head = Command::new("head").arg("-1").stdin(stdout).output();
    text(&head.unwrap().stdout)
}

#[test]
fn every_command_ends_quietly_in_a_pipe_to_head() {
    let (run, _) = trained();
    for (args, first) in [
        ("attend abc --model .", ""),
        ("eval --model .", "10 sources: "),
        ("--help", "Trains sequence-to-sequence models"),
    ] {
        let mut child = command(run, args).spawn().unwrap();
        let line = first_of(&mut child);
        let is_first = line.starts_with(first) && line.lines().count() == 1;
        assert!(is_first, "{line}");
        good(args, child.wait_with_output().unwrap());
    }
}

#[test]
fn a_translation_without_a_reader_ends_before_its_input_does() {
    let (run, _) = trained();
    let args = "translate --model .";
    let mut endless = Command::new("yes")
        .arg("abc")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let input = endless.stdout.take().unwrap();
    let mut child = command(run, args).stdin(input).spawn().unwrap();
    assert_eq!(first_of(&mut child).lines().count(), 1);
    good(&args, child.wait_with_output().unwrap());
    // Nobody reads it any more.
    assert!(!endless.wait().unwrap().success());
}

/// More epochs than any machine gets through before a test stops the training.
pub(crate) const ENDLESS: &str = "1000000";

/// The arguments of a training in `run` that nothing else stops either.
pub(crate) const ENDLESSLY: &str = "--patience 1000000 --out run";

/// After this time a program hangs. Not a measure of its speed: no test comes near.
const HANG: Duration = Duration::from_secs(1200);

/// A program that is killed if its test fails. It is read as it writes: a full pipe would stop it.
pub(crate) struct Running {
    child: Child,
    stdout: Reader,
    stderr: Reader,
}

type Reader = JoinHandle<Vec<u8>>;

/// Reads to the end in a thread.
fn reader(mut from: impl Read + Send + 'static) -> Reader {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

impl Running {
    pub(crate) fn start(folder: &Path, args: &(impl Args + ?Sized)) -> Self {
        let mut child = command(folder, args).spawn().unwrap();
        Self {
            stdout: reader(child.stdout.take().unwrap()),
            stderr: reader(child.stderr.take().unwrap()),
            child,
        }
    }

    /// Waits for its end, and takes what it wrote.
    fn output(&mut self) -> Output {
        let status = self.child.wait().unwrap();
        let written = |reader: &mut Reader| {
            let reader = std::mem::replace(reader, std::thread::spawn(Vec::new));
            reader.join().unwrap()
        };
        Output {
            status,
            stdout: written(&mut self.stdout),
            stderr: written(&mut self.stderr),
        }
    }

    /// Waits until `ready`, or the program's end.
    pub(crate) fn wait_until(&mut self, ready: impl Fn() -> bool) {
        let started = Instant::now();
        while !ready() && self.child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < HANG, "neither ready nor ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until it ends by itself.
    pub(crate) fn end(mut self) -> Output {
        self.wait_until(|| false);
        self.output()
    }

    /// Waits until `ready`, then sends the signal of Ctrl-C.
    fn interrupt_when(mut self, ready: impl Fn() -> bool) -> Output {
        self.wait_until(ready);
        assert!(self.child.try_wait().unwrap().is_none(), "ended too early");
        let process = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &process]).status();
        assert!(sent.unwrap().success());
        self.output()
    }

    /// Kills the program once `ready`; `false` if it came to its end before.
    pub(crate) fn kill_when(mut self, ready: impl Fn() -> bool) -> bool {
        self.wait_until(ready);
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success() || status.code().is_none(), "{status}");
        !status.success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn ctrl_c_leaves_a_model_and_a_run_that_goes_on() {
    let folder = &Folder::new();
    let run = folder.join("run");
    let args = train_args("reverse", ENDLESS, ENDLESSLY);
    let running = Running::start(folder, &args);
    let newest = || newest(&run);
    let stdout = quiet(&args, running.interrupt_when(|| newest() >= Some(2)), 130);
    assert_says(&stdout, "stopped; epoch ");
    assert_says(&stdout, "is kept as the model, `--resume` goes on (in run)");
    let done = epochs(&stdout).len();
    assert!(done >= 2, "{stdout}");
    succeed(folder, "translate abc --model run");
    assert!(!files(&run).iter().any(|file| file.contains("tmp")));

    // An epoch is printed after its checkpoint was written.
    let next = newest().unwrap() + 1;
    assert!(next == done || next == done + 1, "{next} after {stdout}");
    let args = "train --resume --out run --threads 1";
    let output = Running::start(folder, &args).interrupt_when(|| newest() >= Some(next));
    let stdout = quiet(&args, output, 130);
    assert_eq!(epochs(&stdout)[0], format!("{next}/{ENDLESS}"));
    succeed(folder, "translate abc --model run");
}

#[test]
fn one_training_at_a_time_writes_into_a_folder() {
    let folder = &Folder::new();
    let run = folder.join("run");
    let args = train_args("reverse", ENDLESS, ENDLESSLY);
    let running = Running::start(folder, &args);
    let started = || run.join("checkpoint/model-1.bpk").exists();
    let output = running.interrupt_when(|| {
        if !started() {
            return false;
        }
        let message = "the folder run: expected a folder that no training writes into";
        fail(folder, "train --resume --out run", message);
        let overwrite = train_args("copy", "1", "--out run --overwrite");
        fail(folder, &overwrite, message);
        true
    });
    // It noticed nothing, and left the folder to the next.
    quiet(&args, output, 130);
    succeed(folder, "translate abc --model run");
    succeed(folder, &train_args("copy", "1", "--out run --overwrite"));
}

#[test]
fn ctrl_c_before_the_first_checkpoint_leaves_no_model() {
    let folder = &Folder::new();
    let run = folder.join("run");
    // The first epoch would take minutes.
    let long = "train reverse --train-pairs 60000 --hidden 128 --epochs 1 --out run";
    let output = Running::start(folder, &long).interrupt_when(|| run.join("run.json").exists());
    let stdout = quiet(&long, output, 130);
    let told = "stopped before the first checkpoint; nothing is left to use in run";
    assert_says(&stdout, told);
    assert!(RunDir::new(&run).model_file().unwrap().is_none());
    let message = "its training was stopped before the first checkpoint; train again with --resume";
    fail(folder, "translate abc --model run", message);
    let args = train_args("reverse", "1", "--out run");
    let message = "the folder run: expected a folder without a run";
    fail(folder, &args, message);
    // It begins anew, with the settings of the run.
    edit(&run, "\"train\": 60000", "\"train\": 64");
    edit(&run, "\"hidden_size\": 128", "\"hidden_size\": 8");
    // Which are other pairs.
    let settings = fs::read_to_string(run.join("run.json")).unwrap();
    let checksum = settings.lines().find(|line| line.contains("data_checksum"));
    edit(&run, checksum.unwrap(), "");
    let stdout = succeed(folder, &resume_args("1", ""));
    assert_eq!(epochs(&stdout)[0].split('/').next(), Some("1"));
    succeed(folder, "translate abc --model run");
}

#[test]
fn the_model_of_a_killed_training_is_the_newest_and_the_program_says_so() {
    let (folder, run) = &copied();
    let args = resume_args(ENDLESS, "--patience 1000000");
    let running = Running::start(folder, &args);
    let newest = || newest(run);
    assert!(running.kill_when(|| newest() >= Some(4)), "ended too early");
    let newest = newest().unwrap();
    let args = "translate abc --model run";
    let [_, notes] = written(&args, &crate::program::run(folder, &args), 0);
    // Such a model may not know when to end: a line says that, too.
    let note = "note: the training in run has not ended; this is its newest checkpoint, of epoch";
    assert_eq!(first_line(&notes), format!("{note} {newest}"));
}
