//! Which checkpoints count, and which are kept.

use super::*;

#[test]
fn the_newest_checkpoints_and_the_best_are_kept() {
    let (_folder, run) = created();
    let mut journal = open(&run, None);
    for (epoch, loss, kept) in [
        (1, 3.0, &[1][..]),
        (2, 1.0, &[1, 2]),
        (3, 2.0, &[2, 3]),
        (4, 2.0, &[2, 3, 4]),
        (5, f64::NAN, &[2, 4, 5]),
        (6, 1.0, &[2, 5, 6]),
        (7, 0.5, &[6, 7]),
    ] {
        add(&mut journal, epoch, loss);
        assert_eq!(run.checkpoints().unwrap(), kept);
        let files = checkpoint_files(&run);
        assert_eq!(files.len(), 2 * kept.len(), "{files:?}");
    }
    let history = run.history().unwrap();
    let losses: Vec<f64> = history.iter().map(|it| it.valid.loss).collect();
    assert_eq!((losses.len(), losses[6]), (7, 0.5));
    assert!(losses[4].is_nan());
}

#[test]
fn a_checkpoint_whose_files_were_removed_does_not_count() {
    let (_folder, run) = created();
    let mut journal = open(&run, None);
    (1..=3).for_each(|epoch| add(&mut journal, epoch, 1.0));
    for (file, kept) in [("optim-3.bpk", &[1, 2][..]), ("model-2.bpk", &[1])] {
        fs::remove_file(run.path().join("checkpoint").join(file)).unwrap();
        assert_eq!(run.checkpoints().unwrap(), kept);
    }
    // Later epochs are forgotten, with their files.
    let mut journal = open(&run, Some(1));
    assert_eq!(journal.history().len(), 1);
    assert_eq!(checkpoint_files(&run), ["model-1.bpk", "optim-1.bpk"]);
    let read = journal.checkpoint(1).unwrap();
    assert_eq!([read.model, read.optim], content(1));
    assert!(read.weights.is_none());
    add(&mut journal, 2, 1.0);
    assert_eq!(run.checkpoints().unwrap(), [1, 2]);
    let line = line(journal.checkpoint(3), &run);
    let expected = "RUN: it has no checkpoint of epoch 3 to go on from";
    assert!(line.ends_with(expected), "{line}");
}

#[test]
fn the_weights_beside_an_average_are_a_part_of_a_checkpoint() {
    let (_folder, run) = created();
    let mut journal = open(&run, None);
    add(&mut journal, 1, 1.0);
    let clock = crate::run::TrainingClock {
        seconds: 1.25,
        validation_seconds: 0.5,
        steps: 7,
    };
    let mut files = CheckpointFiles::of(b"average", b"optim");
    files.weights = Some(b"weights".to_vec());
    files.clock = Some(clock);
    journal.add(epoch_of(2, 0.5), &files).unwrap();
    let journal = open(&run, Some(2));
    assert_eq!(journal.checkpoint(2).unwrap().weights, files.weights);
    assert_eq!(journal.clock(2), Some(clock));
    assert_eq!(run.checkpoints().unwrap(), [1, 2]);
    fs::remove_file(run.path().join("checkpoint/weights-2.bpk")).unwrap();
    assert_eq!(run.checkpoints().unwrap(), [1]);
}

#[test]
fn files_that_the_manifest_does_not_name_do_not_count() {
    let (_folder, run) = created();
    add(&mut open(&run, None), 1, 1.0);
    // As a process leaves them that was killed before it named them.
    for name in ["model-2.bpk", "optim-2.bpk", ".attention-x.tmp", "notes"] {
        fs::write(run.path().join("checkpoint").join(name), "half").unwrap();
    }
    fs::write(run.path().join(".attention-y.tmp"), "half").unwrap();
    assert_eq!(run.checkpoints().unwrap(), [1]);
    assert_eq!(run.model_file().unwrap().unwrap().1, 1);
    open(&run, Some(1));
    let expected = ["model-1.bpk", "notes", "optim-1.bpk"];
    assert_eq!(checkpoint_files(&run), expected);
    assert_eq!(names(run.path()), ["checkpoint", "run.json"]);
}

#[test]
fn nothing_is_forgotten_before_the_checkpoint_was_read() {
    let (_folder, run) = created();
    let mut journal = open(&run, None);
    (1..=3).for_each(|epoch| add(&mut journal, epoch, 1.0));
    let journal = run.journal(Some(2), Select::Loss).unwrap();
    assert_eq!(journal.history().len(), 2);
    assert_eq!(run.checkpoints().unwrap(), [1, 2, 3]);
    journal.open().unwrap();
    assert_eq!(run.checkpoints().unwrap(), [1, 2]);
}

/// Adds an epoch that ended within a row of refused steps.
fn add_refused(journal: &mut Journal<'_>, number: usize, refused: usize, loss: f64, model: &[u8]) {
    let mut files = CheckpointFiles::of(model, b"optim");
    files.refused = refused;
    journal.add(epoch_of(number, loss), &files).unwrap();
}

#[test]
fn a_divergence_leaves_the_newest_checkpoint_of_other_parameters_or_a_sound_one() {
    const NAN: f64 = f64::NAN;
    // The steps that were refused, the loss and the model of each epoch; the epochs that are kept, and those left.
    #[rustfmt::skip]
    let cases = [
        // Every step since the second epoch was refused: the epoch of the lowest loss is kept, too.
        (&[(0, 1.0, b"a"), (0, 2.0, b"b"), (4, 2.0, b"b"), (8, 2.0, b"b")][..], &[1, 2, 3, 4][..], &[1, 2][..]),
        // The last step of the second epoch broke the parameters.
        (&[(0, 1.0, b"a"), (0, NAN, b"b"), (4, NAN, b"b"), (8, NAN, b"b")], &[1, 3, 4], &[1]),
        // A step in the middle of it did.
        (&[(0, 1.0, b"a"), (3, NAN, b"b"), (7, NAN, b"b")], &[1, 2, 3], &[1]),
        // Nothing speaks against the newest.
        (&[(0, 1.0, b"a"), (0, 2.0, b"b")], &[1, 2], &[1, 2]),
        // The first step of all was refused.
        (&[(4, NAN, b"a"), (8, NAN, b"a")], &[1, 2], &[]),
    ];
    for (epochs, kept, left) in cases {
        let (_folder, run) = created();
        let mut journal = open(&run, None);
        for (number, &(refused, loss, model)) in (1..).zip(epochs) {
            add_refused(&mut journal, number, refused, loss, model);
        }
        assert_eq!(run.checkpoints().unwrap(), kept, "{epochs:?}");
        journal.forget_diverged().unwrap();
        assert_eq!(run.checkpoints().unwrap(), left, "{epochs:?}");
        assert_eq!(journal.newest(), left.last().copied());
        assert_eq!(run.last_checkpoint().unwrap(), left.last().copied());
        assert_eq!(run.history().unwrap().len(), left.len());
        assert_eq!(checkpoint_files(&run).len(), 2 * left.len());
    }
}

#[test]
fn the_model_is_the_epoch_with_the_best_of_the_figure_that_selects() {
    for (select, best, next) in [
        (Select::Loss, 1, 4),
        (Select::ErrorRate, 2, 4),
        (Select::Bleu, 3, 4),
    ] {
        let (_folder, run) = created();
        let mut config = config();
        config.train.select = select;
        run.save_config(&config).unwrap();
        assert_eq!(run.keep_best().unwrap(), None);
        let mut journal = run.journal(None, select).unwrap();
        journal.open().unwrap();
        for epoch in 1..=4 {
            let is_best = |of: usize| f64::from(u8::from(epoch == of));
            let mut figures = epoch_of(epoch, 3.0 - is_best(1));
            figures.valid.exact_match = 50.0 + is_best(2);
            figures.valid.bleu = Some(5.0 + is_best(3));
            let files = CheckpointFiles::of(b"model", b"optim");
            journal.add(figures, &files).unwrap();
        }
        assert!(!run.is_chosen().unwrap());
        assert_eq!(run.keep_best().unwrap(), Some(best));
        assert_eq!(run.model_file().unwrap().unwrap().1, best);
        assert!(run.is_chosen().unwrap());
        // Without its files the best of the others, the first of equals.
        let checkpoint = run.path().join("checkpoint");
        fs::remove_file(checkpoint.join(format!("model-{best}.bpk"))).unwrap();
        let next = if best < 3 { 3 } else { next };
        assert_eq!(run.keep_best().unwrap(), Some(next));
    }
}
