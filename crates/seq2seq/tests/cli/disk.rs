//! Disks that are full or closed, bits that flip, and processes that are killed while they write.

use std::fs;
use std::path::Path;

use attention_seq2seq::{RunDir, Translator};

use crate::json::list;
use crate::program::{
    Folder, bad, command, copied, copy, device, epochs, fail, files, manifest, model_file,
    resume_args, run, succeed, text, train_args, trained,
};

/// Numbers that look random.
fn mixed(number: usize) -> usize {
    let mut mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 29;
    (mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20) as usize
}

fn flip(file: &Path, bit: usize) {
    let mut content = fs::read(file).unwrap();
    let bit = bit % (8 * content.len());
    content[bit / 8] ^= 1 << (bit % 8);
    fs::write(file, content).unwrap();
}

#[test]
fn no_flipped_bit_is_read() {
    let (folder, whole) = &copied();
    for file in [whole.join("run.json"), model_file(whole)] {
        let good = fs::read(&file).unwrap();
        for number in 0..250 {
            flip(&file, mixed(number));
            let loaded = Translator::load(&RunDir::new(whole), &device().inner());
            let error = loaded.err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| panic!("bit {number} of {file:?} was read"));
            assert_eq!(error.lines().count(), 1, "{error}");
            fs::write(&file, &good).unwrap();
        }
    }
    let args = resume_args("3", "");
    for name in "run.json checkpoint/model-2.bpk checkpoint/optim-2.bpk".split(' ') {
        let file = whole.join(name);
        let good = fs::read(&file).unwrap();
        for number in 0..8 {
            flip(&file, mixed(number));
            fail(folder, &args, name);
            fs::write(&file, &good).unwrap();
        }
    }
    assert_eq!(epochs(&succeed(folder, &args)), ["3/3"]);
}

#[test]
fn parts_of_another_run_are_not_taken() {
    let (folder, whole) = &copied();
    succeed(folder, &train_args("reverse", "2", "--out other --seed 9"));
    for part in ["model", "optim"] {
        let file = format!("checkpoint/{part}-2.bpk");
        let good = fs::read(whole.join(&file)).unwrap();
        fs::copy(folder.join("other").join(&file), whole.join(&file)).unwrap();
        fail(folder, &resume_args("3", ""), "it was changed: expected ");
        fs::write(whole.join(&file), good).unwrap();
    }
}

/// A folder where nothing can be written; `None` where the user may write everywhere.
#[cfg(unix)]
fn closed(folder: &Path) -> Option<impl Drop> {
    use std::os::unix::fs::PermissionsExt;
    struct Open(std::path::PathBuf);
    impl Drop for Open {
        fn drop(&mut self) {
            let _ = fs::set_permissions(&self.0, fs::Permissions::from_mode(0o755));
        }
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).unwrap();
    let open = Open(folder.to_path_buf());
    fs::write(folder.join("probe"), "").is_err().then_some(open)
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_is_an_error_of_one_line() {
    let (folder, whole) = &copied();
    for closed_folder in ["", "checkpoint"] {
        let path = whole.join(closed_folder);
        let Some(_open) = closed(&path) else {
            println!("skipped: this user may write everywhere");
            return;
        };
        fail(folder, &resume_args("3", ""), "Permission denied");
        let overwrite = train_args("copy", "1", "--out run --overwrite");
        fail(folder, &overwrite, "Permission denied");
    }
    succeed(folder, "translate abc --model run");
}

/// One line on the standard error with exit code 2, or nothing and 0.
#[cfg(target_os = "linux")]
#[track_caller]
pub(crate) fn check_ended(what: &str, code: Option<i32>, stderr: &str) {
    let lines = stderr.lines().filter(|line| !line.starts_with("note: "));
    let lines = lines.collect::<Vec<_>>();
    let is_right = match code {
        Some(0) => lines.is_empty(),
        Some(2) => lines.len() == 1 && lines[0].starts_with("error: "),
        _ => false,
    };
    assert!(is_right, "{what}: {code:?}: {stderr}");
}

/// On a disk of each of 40 sizes: training, use of what it left, and, once there is room, the rest of the training.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_no_epoch_that_was_written() {
    let folder = &Folder::new();
    let train = train_args("reverse", "2", "--dropout 0.1");
    fs::create_dir(folder.join("disk")).unwrap();
    let script = format!(
        "for size in $(seq 4 4 160); do
            mount -t tmpfs -o size=${{size}}k tmpfs disk || exit 77
            step() {{ \"$0\" \"$@\" >out 2>err; echo \"$size $1 $? $(tr '\\n' '|' <err)\"; }}
            step {train} --out disk/run
            step translate abc --model disk/run
            mount -o remount,size=10m disk
            if test -e disk/run/run.json
            then step train --resume --threads 1 --out disk/run
            else step {train} --out disk/run
            fi
            step translate abc --model disk/run
            sha256sum disk/run/run.json | sed \"s/^/$size sum 0 /\"
            umount disk
        done"
    );
    let output = std::process::Command::new("unshare")
        .args(["-rm", "sh", "-c", &script, env!("CARGO_BIN_EXE_seq2seq")])
        .current_dir(folder)
        .output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        println!("skipped: no disk of one's own can be mounted here");
        return;
    };
    let stdout = text(&output.stdout);
    let mut sums = Vec::new();
    let mut failed = 0;
    for steps in stdout.lines().collect::<Vec<_>>().chunks(5) {
        for (at, step) in steps.iter().enumerate() {
            let mut words = step.splitn(4, ' ');
            let (size, what) = (words.next().unwrap(), words.next().unwrap());
            let (code, rest) = (words.next().unwrap(), words.next().unwrap_or_default());
            let what = format!("{size}k, step {at}, {what}");
            if at == 4 {
                sums.push(rest.split(' ').next().unwrap().to_string());
                continue;
            }
            check_ended(&what, code.parse().ok(), &rest.replace('|', "\n"));
            failed += usize::from(at == 0 && code == "2");
            assert!(at < 2 || code == "0", "{what}: {rest}");
        }
    }
    assert_eq!(sums.len(), 40, "{stdout}");
    assert!((5..40).contains(&failed), "{failed} of 40 failed: {stdout}");
    // A training that went on gives the same as one that did not stop.
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{stdout}");
}

/// Runs the program under strace, which kills it at the `number`th call of a kind; `None` where there is no strace that
/// may do so. True if the program had ended before.
#[cfg(target_os = "linux")]
fn kill(folder: &Path, args: &str, call: &str, number: usize) -> Option<bool> {
    let inject = format!("inject={call}:signal=KILL:when={number}");
    let trace = format!("trace={call}");
    let killed = std::process::Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null"])
        .args(["-e", &trace, "-e", &inject, env!("CARGO_BIN_EXE_seq2seq")])
        .args(args.split_whitespace())
        .current_dir(folder)
        .output()
        .ok()?;
    let stderr = text(&killed.stderr);
    if stderr.contains("strace:") {
        return None;
    }
    assert!(!stderr.contains("panicked"), "{inject}: {stderr}");
    Some(killed.status.success())
}

/// Killed at every system call that changes a file, and resumed.
#[cfg(target_os = "linux")]
#[test]
fn a_process_killed_while_it_writes_costs_no_epoch_that_was_written() {
    let folder = &Folder::new();
    let train = train_args("reverse", "2", "--dropout 0.1 --out run");
    succeed(folder, &train);
    let whole = crate::resume::contents(&folder.join("run"));
    fs::remove_dir_all(folder.join("run")).unwrap();
    let mut points = 0;
    // Where a file is created, written and made whole; "write" is also a line on the terminal.
    for (call, step) in [("fsync", 1), ("/^rename", 1), ("write", 3), ("/^mkdir", 1)] {
        let before = points;
        for number in (1..).step_by(step) {
            let Some(ended) = kill(folder, &train, call, number) else {
                println!("skipped: no strace");
                return;
            };
            let what = format!("{call} {number}");
            let used = run(folder, "translate abc --model run");
            check_ended(&what, used.status.code(), &text(&used.stderr));
            let go_on = "train --resume --threads 1 --out run";
            match folder.join("run/run.json").exists() {
                true => succeed(folder, &go_on),
                false => succeed(folder, &train),
            };
            let parts = crate::resume::contents(&folder.join("run"));
            assert!(parts == whole, "{what}: {:?}", files(&folder.join("run")));
            fs::remove_dir_all(folder.join("run")).unwrap();
            if ended {
                break;
            }
            points += 1;
        }
        assert!(points > before, "no call of {call} killed it");
    }
    assert!(points > 20, "killed at {points} calls only");
    println!("killed at {points} calls");
}

/// Killed while it replaces another run: that is there, or the new one.
#[cfg(target_os = "linux")]
#[test]
fn a_run_is_replaced_whole_or_not_at_all() {
    let (folder, whole) = &copied();
    let train = train_args("reverse", "2", "--dropout 0.1 --out run --overwrite");
    let before = manifest(whole);
    let (mut replaced, mut left) = (0, 0);
    for call in ["fsync", "/^rename", "/^unlink"] {
        for number in 1.. {
            let Some(ended) = kill(folder, &train, call, number) else {
                println!("skipped: no strace");
                return;
            };
            if manifest(whole) == before {
                assert!(!ended);
                succeed(folder, "translate abc --model run");
                left += 1;
            } else {
                succeed(folder, "train --resume --threads 1 --out run");
                assert_eq!(list(&manifest(whole)["history"]).len(), 2);
                fs::remove_dir_all(whole).unwrap();
                copy(&trained().0, whole);
                replaced += 1;
            }
            if ended {
                break;
            }
        }
    }
    let holds = left >= 2 && replaced > 10;
    assert!(holds, "{left} left, {replaced} replaced");
}

#[test]
fn settings_that_cannot_be_trained_leave_the_run_that_is_there() {
    let (folder, whole) = &copied();
    let before = manifest(whole);
    for size in ["hidden 100000000000", "layers 100000000000", "hidden 7"] {
        let args = format!("train copy --out run --overwrite --{size}");
        fail(folder, &args, "expected ");
    }
    assert_eq!(manifest(whole), before);
    succeed(folder, "translate abc --model run");
}

/// As where a disk is damaged, and also for a user who may write everywhere.
#[test]
fn a_file_where_a_folder_should_be_is_an_error_of_one_line() {
    let (folder, whole) = &copied();
    fs::remove_dir_all(whole.join("checkpoint")).unwrap();
    fs::write(whole.join("checkpoint"), "").unwrap();
    for args in [&*resume_args("3", ""), "translate abc --model run"] {
        fail(folder, args, "cannot read run/checkpoint/model-");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_is_full_leaves_no_folder() {
    let folder = &Folder::new();
    let args = train_args("reverse", "1", "--out run");
    let mut command = command(folder, &args);
    let full = fs::File::create("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    bad(&args, output, "cannot write the standard output: ");
    assert!(!folder.join("run").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_no_text_leaves_no_folder() {
    use std::os::unix::ffi::OsStrExt;
    let folder = &Folder::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.tsv");
    fs::write(folder.join(name), "a\tb\nc\td\n").unwrap();
    let args = "train --out run --data";
    let mut command = command(folder, args);
    let output = command.arg(name).output().unwrap();
    bad(args, output, "the name of a file of pairs: expected UTF-8");
    assert!(!folder.join("run").exists());
}
