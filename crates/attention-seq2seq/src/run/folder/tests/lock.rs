//! Locks that are held, given back, and lost.

use super::*;

/// Every way to write into the folder of a run.
fn writes(run: &RunDir, journal: &mut Journal<'_>) -> Vec<Result<()>> {
    let files = CheckpointFiles::of(b"model", b"optim");
    vec![
        run.create(&config(), &vocabs()),
        run.save_config(&config()),
        run.keep_best().map(drop),
        journal.open(),
        journal.add(epoch_of(2, 1.0), &files),
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
        let clone = run.clone();
        let mut journal = clone.journal(Some(1), Select::Loss).unwrap();
        for write in writes(&clone, &mut journal) {
            let line = line(write, &run);
            let expected = "the lock RUN/lock: expected the file that this training locked (without it another may \
                            write there, so this one stopped), found ";
            assert_eq!(line, format!("{expected}{found}"));
        }
        assert!(clone.check_lock().is_err());
        assert_eq!(fs::read(run.config_file()).unwrap(), before);
        assert_eq!(checkpoint_files(&run), ["model-1.bpk", "optim-1.bpk"]);
        // Who has none is not held up, nor who takes it anew.
        drop((lock, other));
        run.keep_best().unwrap();
        let _lock = run.lock().unwrap();
        run.keep_best().unwrap();
    }
}
