//! Runs of format 2.

use super::*;
use crate::file::load_json;

/// A run of format 2: settings alone in its `run.json`, and a file for everything else.
fn of_format_2() -> (TempDir, RunDir) {
    let (folder, run) = created();
    let mut settings = serde_json::to_value(config()).unwrap();
    settings["format"] = 2.into();
    fs::write(run.config_file(), settings.to_string()).unwrap();
    for (side, vocab) in [("source", vocabs().source), ("target", vocabs().target)] {
        let file = run.path().join(format!("{side}.vocab.json"));
        fs::write(file, serde_json::to_string(&vocab).unwrap()).unwrap();
    }
    fs::create_dir_all(run.path().join("checkpoint")).unwrap();
    fs::create_dir_all(run.path().join("valid/epoch-1")).unwrap();
    for epoch in [2, 10, 11] {
        let [model, optim] = content(epoch);
        fs::write(run.file_of_model(epoch), model).unwrap();
        let file = |part: &str| run.path().join(format!("checkpoint/{part}-{epoch}.bpk"));
        fs::write(file("scheduler"), "").unwrap();
        if epoch < 11 {
            fs::write(file("optim"), optim).unwrap();
        }
    }
    (folder, run)
}

#[test]
fn a_run_of_an_earlier_version_is_read_and_goes_on() {
    let (_folder, run) = of_format_2();
    let read = run.load_config().unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", config()));
    assert_eq!(run.load_vocabs(&read.model).unwrap(), vocabs());
    assert_eq!(run.checkpoints().unwrap(), [2, 10], "whole ones, in order");
    assert!(run.history().unwrap().is_empty());
    let model = || run.model_file().unwrap().unwrap().1;
    assert_eq!(
        (model(), run.manifest().unwrap().model.is_some()),
        (10, false)
    );
    // The copy of the best.
    let copy = run.path().join("model.bpk");
    fs::write(&copy, &content(2)[0]).unwrap();
    assert_eq!(
        (model(), run.manifest().unwrap().model.is_some()),
        (2, true)
    );
    // A copy of none of them was made before training went on.
    fs::write(&copy, &content(1)[0]).unwrap();
    assert_eq!(
        (model(), run.manifest().unwrap().model.is_some()),
        (10, false)
    );

    add(&mut open(&run, Some(10)), 11, 1.0);
    assert_eq!(run.checkpoints().unwrap(), [10, 11]);
    assert_eq!(run.load_vocabs(&read.model).unwrap(), vocabs());
    assert_eq!(
        checkpoint_files(&run),
        [
            "model-10.bpk",
            "model-11.bpk",
            "optim-10.bpk",
            "optim-11.bpk"
        ]
    );
}

#[test]
fn a_run_of_an_earlier_version_may_have_a_model_alone() {
    let (_folder, run) = of_format_2();
    fs::write(run.path().join("model.bpk"), &content(1)[0]).unwrap();
    fs::remove_dir_all(run.path().join("checkpoint")).unwrap();
    assert_eq!(
        run.model_file().unwrap().unwrap(),
        (run.path().join("model.bpk"), 0)
    );
    assert_eq!(
        run.read_model(&run.manifest().unwrap(), 0).unwrap(),
        content(1)[0]
    );
    assert!(run.manifest().unwrap().model.is_some());
    assert!(
        run.checkpoints().unwrap().is_empty(),
        "nothing to go on from"
    );
}

#[test]
fn a_run_of_an_earlier_version_is_replaced_with_all_its_files() {
    let (_folder, run) = of_format_2();
    fs::create_dir(run.path().join("mine")).unwrap();
    run.create(&config(), &vocabs()).unwrap();
    assert_eq!(names(run.path()), ["checkpoint", "mine", "run.json"]);
    assert!(checkpoint_files(&run).is_empty());
}

#[test]
fn a_run_of_an_earlier_version_keeps_its_white_space() {
    let mut config = config();
    config.data = tsv();
    let (_folder, run) = created();
    run.save_config(&config).unwrap();
    let split = || {
        let data = run.load_config().unwrap().data;
        data.target_tokenizer().split("10\u{a0}000\u{3000}km")
    };
    assert_eq!(split(), ["10\u{a0}000\u{3000}km"]);

    let without_rule = |settings: &mut serde_json::Value| {
        let options = settings["data"]["tsv"]["options"].as_object_mut().unwrap();
        assert_eq!(options.remove("white_space").unwrap(), "ascii");
    };
    // As it was before, in format 3 and in format 2.
    let mut file: serde_json::Value = load_json(run.config_file()).unwrap();
    file["crc32"] = serde_json::Value::Null;
    without_rule(&mut file["run"]["settings"]);
    fs::write(run.config_file(), file.to_string()).unwrap();
    assert_eq!(split(), ["10", "000", "km"]);
    // It stays when the run goes on.
    run.save_config(&run.load_config().unwrap()).unwrap();
    assert_eq!(split(), ["10", "000", "km"]);

    let (_folder, run) = of_format_2();
    let mut settings = serde_json::to_value(&config).unwrap();
    settings["format"] = 2.into();
    without_rule(&mut settings);
    fs::write(run.config_file(), settings.to_string()).unwrap();
    let data = run.load_config().unwrap().data;
    let source = data.source_tokenizer();
    assert_eq!(source.trim(" a\u{a0}\n"), "a");
}
