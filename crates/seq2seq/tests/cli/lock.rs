//! A lock that was removed, replaced or moved away under the training that holds it.
#![cfg(unix)]

use std::fs;
use std::path::Path;

use crate::json::list;
use crate::program::{
    Folder, bad, ended, files, manifest, newest, resume_args, succeed, train_args,
};
use crate::signals::{ENDLESS, ENDLESSLY, Running};

const LOST: &str = "the lock run/lock: expected the file that this training locked";

/// A training of many epochs in `run`, after the second.
fn training(folder: &Path, args: &str) -> Running {
    let mut running = Running::start(folder, args);
    running.wait_until(|| newest(&folder.join("run")) >= Some(2));
    running
}

#[test]
fn a_second_training_is_let_in_by_no_removed_lock_beside_the_first() {
    let folder = &Folder::new();
    let args = train_args("reverse", ENDLESS, ENDLESSLY);
    let first = training(folder, &args);
    fs::remove_file(folder.join("run/lock")).unwrap();
    succeed(folder, &train_args("copy", "2", "--out run --overwrite"));
    bad(&args, first.end(), LOST);
    // The run is the second's, and whole.
    let run = manifest(&folder.join("run"));
    assert_eq!(list(&run["history"]).len(), 2);
    assert_eq!(run["settings"]["data"]["task"]["task"], "copy");
    succeed(folder, "eval --model run");
    succeed(folder, &resume_args("3", ""));
}

#[test]
fn nothing_is_written_where_the_folder_was_moved_or_replaced() {
    for replaced in [false, true] {
        let folder = &Folder::new();
        let args = train_args("reverse", ENDLESS, ENDLESSLY);
        let running = training(folder, &args);
        fs::rename(folder.join("run"), folder.join("moved")).unwrap();
        if replaced {
            fs::create_dir_all(folder.join("run/checkpoint")).unwrap();
            folder.write("run/lock", "");
        }
        // Between the two calls above there is none, in whichever write the training is.
        bad(&args, running.end(), LOST);
        let run = folder.join("run");
        if replaced {
            assert_eq!(files(&run), ["lock"]);
        }
        assert_eq!(run.exists(), replaced);
        // The folder that was moved is whole.
        ended(folder, "eval --model moved", 0);
    }
}
