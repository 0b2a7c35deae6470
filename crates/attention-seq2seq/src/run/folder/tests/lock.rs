//! Locks that are held, given back, and lost.

use super::*;

#[test]
fn a_lock_is_one_at_a_time() {
    let (_folder, run) = created();
    let lock = run.lock().unwrap();
    lock.check().unwrap();
    let other = RunDir::new(run.path());
    let line = line(other.lock(), &run);
    assert!(line.contains("found a training under way"), "{line}");
    drop(lock);
    other.lock().unwrap();
}

/// Every way to write into the folder of a run.
fn writes(run: &RunDir) -> Vec<Result<()>> {
    let mut journal = run.journal(Some(1), Select::Loss).unwrap();
    let epoch = Epoch {
        epoch: 2,
        train: figures(1.0),
        valid: figures(1.0),
    };
    vec![
        run.create(&config(), &vocabs()),
        run.save_config(&config()),
        run.choose_model(1),
        journal.open(),
        journal.add(
            epoch,
            CheckpointState::default(),
            &CheckpointFiles::of(b"model", b"optim"),
        ),
    ]
}

#[cfg(unix)]
#[test]
fn nothing_is_written_once_the_lock_is_lost() {
    for found in ["none", "another"] {
        let (_folder, run) = created();
        add(&mut open(&run, None), 1, 1.0);
        let lock = run.lock().unwrap();
        let file = run.path().join("lock");
        fs::remove_file(&file).unwrap();
        let other = (found == "another").then(|| RunDir::new(run.path()).lock().unwrap());
        let before = fs::read(run.config_file()).unwrap();
        // A clone writes under the same lock.
        for write in writes(&run.clone()) {
            let line = line(write, &run);
            let expected = "the lock RUN/lock: expected the file that this training locked (without it another may \
                            write there, so this one stopped), found ";
            assert_eq!(line, format!("{expected}{found}"));
        }
        assert!(lock.check().is_err());
        assert_eq!(fs::read(run.config_file()).unwrap(), before);
        assert_eq!(checkpoint_files(&run), ["model-1.bpk", "optim-1.bpk"]);
        // Who has none is not held up, nor who takes it anew.
        drop((lock, other));
        run.choose_model(1).unwrap();
        let _lock = run.lock().unwrap();
        run.choose_model(1).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_was_moved_is_not_made_again() {
    let (folder, run) = created();
    let mut journal = open(&run, None);
    add(&mut journal, 1, 1.0);
    let _lock = run.lock().unwrap();
    fs::rename(run.path(), folder.path().join("moved")).unwrap();
    let epoch = Epoch {
        epoch: 2,
        train: figures(1.0),
        valid: figures(1.0),
    };
    let results = [
        run.create(&config(), &vocabs()),
        journal.open(),
        journal.add(
            epoch,
            CheckpointState::default(),
            &CheckpointFiles::of(b"model", b"optim"),
        ),
    ];
    for result in results {
        let line = line(result, &run);
        assert!(line.ends_with("found none"), "{line}");
    }
    assert!(!run.path().exists());
}
