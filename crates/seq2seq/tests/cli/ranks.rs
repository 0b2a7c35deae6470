//! Training on several processes that `mpirun` starts.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use attention_seq2seq::RunDir;
use serde_json::Value;

use attention_tests::assert_says;

use crate::program::{self, Folder, command, faults, files, succeed, text, train_args};
use crate::signals::{ENDLESS, ENDLESSLY};

/// The time that a training, or its end after a process has died, may take: one that hangs is to fail, and not to hold
/// up all tests.
const LIMIT: Duration = Duration::from_secs(300);

/// `mpirun` of `seq2seq` with these arguments in `folder`, one list for each group of ranks, with its size.
fn mpirun(folder: &Path, groups: &[(usize, &str)]) -> Command {
    let mut mpirun = Command::new("mpirun");
    // More ranks than cores, as root in a container, among other tests.
    mpirun
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("OMPI_MCA_hwloc_base_binding_policy", "none")
        .env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    for (index, (ranks, args)) in groups.iter().enumerate() {
        if index > 0 {
            mpirun.arg(":");
        }
        let program = command(folder, *args);
        mpirun.args(["-n", &ranks.to_string()]);
        mpirun.arg(program.get_program()).args(program.get_args());
    }
    mpirun
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    mpirun
}

/// The output of `mpirun`, which is killed with its ranks after [`LIMIT`].
#[track_caller]
fn output(mut mpirun: Command) -> Output {
    let mpirun = mpirun.spawn().unwrap();
    let process = mpirun.id();
    let (ended, end) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        let hangs = end.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout);
        if hangs {
            ranks_of(process).into_iter().for_each(kill);
            kill(process);
        }
        hangs
    });
    let output = mpirun.wait_with_output().unwrap();
    drop(ended);
    let stderr = text(&output.stderr);
    assert!(!watch.join().unwrap(), "hung for {LIMIT:?}: {stderr}");
    output
}

/// The process of each rank, once it runs.
fn ranks_of(mpirun: u32) -> Vec<u32> {
    let parent = mpirun.to_string();
    let children = Command::new("pgrep").args(["-P", &parent]).output();
    let children = text(&children.unwrap().stdout);
    children.lines().map(|it| it.parse().unwrap()).collect()
}

fn kill(process: u32) {
    let args = ["-KILL", &process.to_string()];
    Command::new("kill").args(args).status().unwrap();
}

/// The epochs that a training on `ranks` ranks tells of, as `mpirun` hands its log on.
#[track_caller]
fn train_on(ranks: usize, folder: &Path, args: &str) -> Vec<usize> {
    let output = output(mpirun(folder, &[(ranks, &format!("{args} --json"))]));
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(faults(&output.stderr), "");
    let stdout = text(&output.stdout);
    let events = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let epochs = events.filter(|event| event["event"] == "epoch");
    let numbers = epochs.map(|event| event["epoch"].as_u64().unwrap() as usize);
    numbers.collect()
}

/// The lines of our own in the standard error of a training that failed: `mpirun` adds some.
#[track_caller]
fn errors_of(folder: &Path, groups: &[(usize, &str)]) -> Vec<String> {
    let output = output(mpirun(folder, groups));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let ours = stderr.lines().filter(|line| line.starts_with("error: "));
    ours.map(str::to_string).collect()
}

#[test]
fn ranks_train_what_one_process_trains() {
    let folder = &Folder::new();
    let args = |out: &str| train_args("reverse", "4", &format!("--dropout 0 --out {out}"));
    succeed(folder, &args("one"));
    let figures = |out: &str| RunDir::new(folder.join(out)).history().unwrap();
    let expected = figures("one");
    for ranks in [2, 3] {
        let out = format!("of-{ranks}");
        assert_eq!(train_on(ranks, folder, &args(&out)), [1, 2, 3, 4]);
        let [of_ranks, of_one] = [&out[..], "one"].map(|out| files(&folder.join(out)));
        assert_eq!(of_ranks, of_one);
        for (found, one) in figures(&out).iter().zip(&expected) {
            for (found, expected) in [(found.train, one.train), (found.valid, one.valid)] {
                let is_near = (found.loss - expected.loss).abs() < 1e-3;
                assert!(is_near, "{found:?} {expected:?}");
            }
        }
        succeed(folder, &format!("translate abc --model {out}"));
    }
}

#[test]
fn commands_but_train_print_once_and_nothing_has_escape_codes() {
    let folder = &Folder::new();
    let args = train_args("reverse", "2", "--out run");
    let told = text(&output(mpirun(folder, &[(2, &args)])).stdout);
    let holds = told.contains("epoch  2/2") && !told.contains('\x1b');
    assert!(holds, "{told:?}");
    let all = "translate abc --model run|eval --model run|attend abc --model run|info run|--help";
    for args in all.split('|') {
        let [expected, _] = program::ended(folder, args, 0);
        let found = output(mpirun(folder, &[(3, args)]));
        assert_eq!(text(&found.stdout), expected, "{args}");
        let stderr = text(&found.stderr);
        let note = "note: the first of 3 processes does this alone";
        let is_told = stderr.matches(note).count();
        assert_eq!(is_told, usize::from(args != "--help"), "{stderr}");
    }
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let folder = &Folder::new();
    let args = train_args("reverse", "1", "--dropout 0.2 --out run");
    succeed(folder, &args);
    for (ranks, last) in [(2, 2), (3, 3), (1, 4)] {
        let args = format!("train --resume --out run --threads 1 --epochs {last}");
        assert_eq!(train_on(ranks, folder, &args), [last]);
    }
}

#[test]
fn a_rank_with_other_settings_or_data_is_named() {
    let folder = &Folder::new();
    let args = |changed: &str| {
        format!("train reverse --epochs 1 --overwrite --out run --threads 1 {changed}")
    };
    let first = args("--train-pairs 64 --hidden 8");
    let table = "
--train-pairs 64 --hidden 8 --learning-rate 0.5 | settings
--train-pairs 65 --hidden 8 | training pairs
--train-pairs 64 --hidden 10 | parameters
";
    for [others, what] in program::rows(table) {
        let errors = errors_of(folder, &[(1, &first), (1, &args(others))]);
        let expected = format!("error: rank 1 has other {what} than rank 0: ");
        let holds = errors.len() == 1 && errors[0].starts_with(&expected);
        assert!(holds, "{errors:?}");
    }
}

#[test]
fn a_rank_that_cannot_begin_says_so_alone_and_all_end() {
    let folder = &Folder::new();
    let args = train_args("reverse", "1", "--out run");
    let missing = "train --data missing.tsv --out run";
    for (rank, groups) in [(1, &[(1, &*args), (2, missing)][..]), (0, &[(3, missing)])] {
        let expected = format!("error: rank {rank}: cannot read missing.tsv: ");
        let errors = errors_of(folder, groups);
        let is_alone = errors.len() == 1 && errors[0].starts_with(&expected);
        assert!(is_alone, "{errors:?}");
    }
}

#[test]
fn processes_that_mpi_does_not_connect_train_nothing() {
    let folder = &Folder::new();
    let mut alone = command(folder, &train_args("reverse", "1", "--out run"));
    // As the `mpirun` of another MPI library, or of none.
    let output = alone
        .envs([("PMI_RANK", "0"), ("PMI_SIZE", "2")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected = "error: MPI: expected the 2 processes that its launcher started";
    assert_says(text(&output.stderr), expected);
    assert!(!folder.join("run").exists());
}

/// A training whose processes are killed if its test fails.
struct Launched(Child);

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn rank_of(process: u32) -> String {
    let variables = fs::read(format!("/proc/{process}/environ")).unwrap();
    let variables = text(&variables);
    let mut variables = variables.split('\0');
    let rank = variables.find_map(|it| it.strip_prefix("OMPI_COMM_WORLD_RANK="));
    rank.unwrap().to_string()
}

fn runs(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mut lines = status.lines();
    lines.any(|line| line.starts_with("State:") && !line.contains('Z'))
}

#[test]
fn a_rank_that_dies_ends_all_and_the_run_goes_on() {
    let folder = &Folder::new();
    let run = RunDir::new(folder.join("run"));
    let newest = || run.checkpoints().unwrap_or_default().last().copied();
    let mut args = train_args("reverse", ENDLESS, ENDLESSLY);
    for victim in ["1", "0", "2"] {
        let next = newest().unwrap_or(0) + 2;
        let stderr = fs::File::create(folder.join("stderr")).unwrap();
        let mut mpirun = mpirun(folder, &[(3, &args)]);
        mpirun.stdout(Stdio::null()).stderr(stderr);
        let mut launched = Launched(mpirun.spawn().unwrap());
        let started = Instant::now();
        while newest() < Some(next) {
            assert!(launched.0.try_wait().unwrap().is_none(), "ended too early");
            assert!(started.elapsed() < LIMIT, "never ready");
            thread::sleep(Duration::from_millis(20));
        }
        let ranks = ranks_of(launched.0.id());
        assert_eq!(ranks.len(), 3);
        kill(*ranks.iter().find(|&&it| rank_of(it) == victim).unwrap());
        let killed = Instant::now();
        while launched.0.try_wait().unwrap().is_none() || ranks.iter().any(|&it| runs(it)) {
            let holds = killed.elapsed() < LIMIT;
            assert!(holds, "a process goes on without rank {victim}");
            thread::sleep(Duration::from_millis(20));
        }
        assert!(!launched.0.wait().unwrap().success());
        let stderr = fs::read_to_string(folder.join("stderr")).unwrap();
        assert_says(&stderr, &format!("process rank {victim} "));
        args = "train --resume --out run --threads 1".to_string();
    }
    let output = program::run(folder, "translate abc --model run");
    assert!(output.status.success());
}
