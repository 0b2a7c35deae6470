//! Training and translating on the device of a worker, and workers that are lost.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::tempdir;

use crate::program::{
    bad, command, epochs, fail, manifest, resume_args, succeed, text, train_args,
};

/// A worker on flex, which ends with the test.
struct Worker {
    child: Child,
    device: String,
}

impl Worker {
    fn start() -> Self {
        Self::listen("127.0.0.1:0")
    }

    fn listen(at: &str) -> Self {
        let args = [
            "worker",
            "--listen",
            at,
            "--device",
            "flex",
            "--threads",
            "1",
        ];
        let mut command = command(Path::new("."), &args);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening at ");
        let device = address.and_then(|rest| rest.split(',').next());
        let device = device.unwrap_or_else(|| panic!("{line}")).to_string();
        Self { child, device }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The losses of each epoch, in training and validation.
fn losses(run: &Path) -> Vec<[f64; 2]> {
    let manifest = manifest(run);
    let history = manifest["history"].as_array().unwrap().iter();
    let loss = |figures: &Value| figures["loss"].as_f64().unwrap();
    history
        .map(|epoch| [loss(&epoch["train"]), loss(&epoch["valid"])])
        .collect()
}

#[test]
fn a_worker_trains_as_this_process_does() {
    let folder = tempdir().unwrap();
    let worker = Worker::start();
    for (model, others) in [
        ("gru", &[][..]),
        ("lstm", &["--cell", "lstm", "--attention", "dot"]),
    ] {
        let run = |device: &str| {
            let out = format!("{model}-{}", device.len());
            let args = [&["--out", &out, "--device", device], others].concat();
            let stdout = succeed(folder.path(), &train_args("reverse", "2", &args));
            assert_eq!(epochs(&stdout), ["1/2", "2/2"]);
            losses(&folder.path().join(out))
        };
        let (local, there) = (run("flex"), run(&worker.device));
        assert_eq!(local.len(), 2);
        // Gradients are added in another order, and the optimizer is composed there.
        for (local, there) in local.iter().flatten().zip(there.iter().flatten()) {
            let difference = (local - there).abs();
            assert!(difference <= 1e-4 * local, "{model}: {local} {there}");
        }
    }
    let run = format!("gru-{}", worker.device.len());
    let on = |args: &[&str], device: &str| {
        let args = [args, &["--model", &run, "--device", device]].concat();
        succeed(folder.path(), &args)
    };
    for args in [&["translate", "abc", "zyx"][..], &["eval"]] {
        assert_eq!(on(args, &worker.device), on(args, "flex"), "{args:?}");
    }
    let shown = on(&["attend", "cab"], &worker.device);
    assert!(shown.contains("c a b"), "{shown}");
    // The first epochs there, the last one here.
    let resumed = [
        "train", "--resume", "--out", &run, "--epochs", "3", "--device", "flex",
    ];
    assert_eq!(epochs(&succeed(folder.path(), &resumed)), ["3/3"]);
}

#[test]
fn two_workers_train_as_this_process_does() {
    let folder = tempdir().unwrap();
    let (one, mut other) = (Worker::start(), Worker::start());
    let both = format!("{},{}", one.device, other.device);
    let run = |device: &str, out: &str| {
        let args = ["--out", out, "--device", device];
        let stdout = succeed(folder.path(), &train_args("reverse", "2", &args));
        assert_eq!(epochs(&stdout), ["1/2", "2/2"]);
        losses(&folder.path().join(out))
    };
    let (local, there) = (run("flex", "local"), run(&both, "both"));
    for (local, there) in local.iter().flatten().zip(there.iter().flatten()) {
        let difference = (local - there).abs();
        assert!(difference <= 1e-4 * local, "{local} {there}");
    }
    let resumed = [
        "train",
        "--resume",
        "--out",
        "both",
        "--epochs",
        "3",
        "--device",
        &one.device,
    ];
    assert_eq!(epochs(&succeed(folder.path(), &resumed)), ["3/3"]);
    // The second is lost: one line names it.
    let others = [&ENDLESS[..], &["--device", &both]].concat();
    let args = train_args("reverse", "100000", &others);
    let training = begun(folder.path(), &args);
    other.kill();
    let lost = format!("the worker at {} was lost: ", other.device);
    check_lost(folder.path(), &args, training, &lost);
}

#[test]
fn an_address_without_a_worker_is_an_error() {
    let folder = tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let train = |device: &str, message: &str| {
        let args = train_args("reverse", "1", &["--out", "run", "--device", device]);
        fail(folder.path(), &args, message);
        assert!(!folder.path().join("run").exists());
    };
    train("ws://localhost", "expected ws://HOST:PORT");
    train("tcp://localhost:1", "expected ws://HOST:PORT");
    train(
        "ws://localhost:1,ws://LOCALHOST:1/",
        "expected each device once, found ws://localhost:1 twice",
    );
    train(
        "ws://localhost:1,tcp://localhost:1",
        "expected ws://HOST:PORT",
    );
    for several in ["flex,ws://localhost:1", "flex,flex", "ws://localhost:1,"] {
        train(several, "expected one device, or several of a kind");
    }
    fail(
        folder.path(),
        &["worker", "--listen", &taken],
        &format!("cannot listen at {taken}: "),
    );
    fail(
        folder.path(),
        &[
            "worker",
            "--listen",
            "127.0.0.1:0",
            "--device",
            "ws://localhost:1",
        ],
        "expected a device of this machine",
    );
    drop(listener);
    train(&format!("ws://{taken}"), "no worker is there");
}

/// Options with which a training does not end by itself.
const ENDLESS: [&str; 4] = ["--out", "run", "--patience", "100000"];

/// Checks that training ended with one line, and goes on from its last checkpoint on this machine.
fn check_lost(folder: &Path, args: &[&str], training: Child, message: &str) {
    let started = Instant::now();
    let output = training.wait_with_output().unwrap();
    assert!(started.elapsed() < HANG, "it hung");
    bad(args, output, message);
    check_goes_on(folder);
}

/// Checks that the run goes on from its last checkpoint on this machine, to its end.
fn check_goes_on(folder: &Path) {
    let run = folder.join("run");
    let trained = manifest(&run)["history"].as_array().map_or(0, Vec::len);
    // Of more epochs than there were: at least one is trained.
    let patience = (trained + 1).to_string();
    let others = [
        "--device",
        "flex",
        "--threads",
        "1",
        "--patience",
        &patience,
    ];
    let stdout = succeed(folder, &resume_args("100000", &others));
    let next = format!("{}/100000", trained + 1);
    assert_eq!(epochs(&stdout).first(), Some(&next.as_str()), "{stdout}");
    succeed(
        folder,
        &["translate", "--model", "run", "abc", "--device", "flex"],
    );
}

/// After this time a program hangs. Not a measure of its speed: no test comes near.
const HANG: Duration = Duration::from_secs(1200);

/// A training on a worker that has written a checkpoint.
fn begun(folder: &Path, args: &[&str]) -> Child {
    let mut training = command(folder, args).spawn().unwrap();
    let started = Instant::now();
    while !folder.join("run/checkpoint/model-1.bpk").exists() {
        if training.try_wait().unwrap().is_some() {
            let output = training.wait_with_output().unwrap();
            panic!("no epoch ended: {}", text(&output.stderr));
        }
        assert!(started.elapsed() < HANG, "no epoch ended");
        thread::sleep(Duration::from_millis(5));
    }
    training
}

#[test]
fn a_worker_that_is_killed_ends_training_with_one_line() {
    let folder = tempdir().unwrap();
    let mut worker = Worker::start();
    let device = worker.device.clone();
    let others = [&ENDLESS[..], &["--device", &device]].concat();
    let args = train_args("reverse", "100000", &others);
    let training = begun(folder.path(), &args);
    worker.kill();
    check_lost(folder.path(), &args, training, "was lost: ");
}

#[cfg(unix)]
#[test]
fn a_worker_that_stalls_ends_training_with_one_line() {
    let folder = tempdir().unwrap();
    let worker = Worker::start();
    let timeout = ["--device", &worker.device, "--worker-timeout", "20"];
    let others = [&ENDLESS[..], &timeout].concat();
    let args = train_args("reverse", "100000", &others);
    let training = begun(folder.path(), &args);
    let stop = std::process::Command::new("kill")
        .args(["-STOP", &worker.child.id().to_string()])
        .status();
    assert!(stop.unwrap().success());
    check_lost(folder.path(), &args, training, "was lost: ");
}

/// Workers killed at ten moments of a training, which goes on with another after each.
#[test]
#[ignore = "ten trainings, and as many workers: `.ci/full` runs it"]
fn ten_kills_break_no_run() {
    let folder = tempdir().unwrap();
    for kill in 0..10 {
        let mut worker = Worker::start();
        let device = worker.device.clone();
        let others = [&ENDLESS[..], &["--device", &device]].concat();
        let begin = train_args("reverse", "100000", &others);
        let go_on = resume_args("100000", &["--device", &device]);
        let has_run = folder.path().join("run/run.json").exists();
        let args = if has_run { go_on } else { begin };
        let training = if has_run {
            command(folder.path(), &args).spawn().unwrap()
        } else {
            begun(folder.path(), &args)
        };
        // Of a hasher, random numbers are to be had without a crate.
        let random = RandomState::new().build_hasher().finish();
        thread::sleep(Duration::from_millis(random % 4_000));
        worker.kill();
        let started = Instant::now();
        let output = training.wait_with_output().unwrap();
        assert!(started.elapsed() < HANG, "kill {kill}: it hung");
        let [_, stderr] = crate::program::written(&args, &output, 2);
        assert_eq!(stderr.lines().count(), 1, "kill {kill}: {stderr}");
        assert!(stderr.starts_with("error: the "), "kill {kill}: {stderr}");
        for file in fs::read_dir(folder.path()).unwrap() {
            assert_eq!(file.unwrap().file_name(), "run");
        }
    }
    check_goes_on(folder.path());
}
