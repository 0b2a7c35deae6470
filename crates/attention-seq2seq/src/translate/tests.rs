use burn::module::{Module, Param};
use burn::tensor::{Bytes, Tensor};
use tempfile::TempDir;

use super::*;
use crate::attention::AttentionKind;
use crate::corpus::Corpus;
use crate::data::Pair;
use crate::data::Pairs;
use crate::device::test_device as device;
use crate::error::Result;
use crate::model::{AnyModel, Seq2SeqConfig, TransformerConfig};
use crate::run::{
    CheckpointFiles, CheckpointState, DataSource, Epoch, Figures, RunConfig, RunDir, Select,
    check_max_len,
};
use crate::tasks::Task;
use crate::tokens::Tokenization::Chars;
use crate::train::Trainee;
use crate::vocab::Vocab;
use crate::vocabs::Vocabs;

mod explain;
mod search;

const MAX_LEN: usize = 5;

/// Settings of a model with six source letters and two target letters.
fn config() -> RunConfig {
    let data = DataSource::Task {
        task: Task::Reverse,
        train: 3,
        valid: 3,
    };
    RunConfig {
        max_len: MAX_LEN,
        ..RunConfig::new(sizes(), data, &[])
    }
}

fn sizes() -> Seq2SeqConfig {
    Seq2SeqConfig::new(10, 6)
        .with_embedding_size(3)
        .with_hidden_size(4)
}

fn created() -> (TempDir, RunDir) {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path().join("run"));
    let vocab = |letters: &str| Vocab::build([&Chars.split(letters)[..]]);
    let vocabs = Vocabs {
        source: vocab("abcdef"),
        target: vocab("xy"),
    };
    run.create(&config(), &vocabs).unwrap();
    (folder, run)
}

/// Adds an epoch to a run, whose model has these biases of its logits. With small ones the source decides.
fn add(run: &RunDir, epoch: usize, bias: [f32; 6]) {
    let figures = Figures {
        loss: 1.0,
        exact_match: 0.0,
        token_errors: 0.0,
        bleu: None,
    };
    let epoch_of = Epoch {
        epoch,
        train: figures,
        valid: figures,
    };
    let before = run.checkpoints().unwrap().last().copied();
    let mut journal = run.journal(before, Select::Loss).unwrap();
    journal.open().unwrap();
    let files = CheckpointFiles::of(&model(bias), b"optim");
    journal
        .add(epoch_of, CheckpointState::default(), &files)
        .unwrap();
}

fn model(bias: [f32; 6]) -> Bytes {
    let device = device();
    let AnyModel::Rnn(mut model) = config().init_model(&device) else {
        panic!("the settings are those of a recurrent model")
    };
    let [size, tokens] = model.decoder.output.weight.dims();
    let normal = burn::tensor::Distribution::Normal(0.0, 1.0);
    let weight = Tensor::random([size, tokens], normal, &device);
    model.decoder.output.weight = Param::from_tensor(weight);
    model.decoder.output.bias = Some(Param::from_tensor(Tensor::from_data(bias, &device)));
    Trainee::new(model).into_record().into_bytes().unwrap()
}

fn loaded(bias: [f32; 6]) -> (TempDir, Translator) {
    let (folder, run) = created();
    add(&run, 1, bias);
    (folder, Translator::load(&run, &device()).unwrap())
}

/// A translator with a limit that is not compared with the memory of this machine.
fn unchecked(bias: [f32; 6], max_len: usize) -> (TempDir, Translator) {
    let (folder, mut translator) = loaded(bias);
    translator.max_len = max_len;
    (folder, translator)
}

const PREDICTS_THE_END: [f32; 6] = [0.0, 0.0, 99.0, 0.0, 0.0, 0.0];
const PREDICTS_X: [f32; 6] = [0.0, 0.0, 0.0, 0.0, 99.0, 0.0];
const PREDICTS_SPECIAL_TOKENS: [f32; 6] = [99.0, 98.0, 0.0, 97.0, 0.0, 90.0];
const PREDICTS_FROM_THE_SOURCE: [f32; 6] = [-9.0, -9.0, 0.0, 0.0, 0.0, 0.0];

fn line<T>(result: Result<T>) -> String {
    let line = result.err().unwrap().to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn outputs_come_in_the_order_of_their_sources() {
    let texts = ["fade", "a", "bed", "a", "decade", "cab", "f"];
    let sources = texts.map(|text| Chars.split(text));
    let sources: Vec<&[String]> = sources.iter().map(Vec::as_slice).collect();
    // The test needs outputs that differ; now and then a new model gives the same for all sources.
    let models = (0..100).map(|_| loaded(PREDICTS_FROM_THE_SOURCE));
    let mut translations = models.map(|(folder, translator)| {
        let outputs = translator.translate_tokens(&sources);
        (folder, translator, outputs)
    });
    let (_folder, translator, outputs) = translations
        .find(|(_, _, outputs)| outputs.iter().any(|output| *output != outputs[0]))
        .unwrap();
    for (source, output) in sources.iter().zip(&outputs) {
        assert_eq!(&translator.translate_tokens(&[source])[0], output);
        assert_eq!(&translator.attend(source).unwrap().output, output);
    }
    assert!(translator.translate_tokens(&[]).is_empty());
}

#[test]
fn weights_have_a_row_for_every_token_and_for_the_end() {
    let source = Chars.split("cab");
    let check = |bias, target: &[&str]| {
        let (_folder, translator) = loaded(bias);
        let attended = translator.attend(&source).unwrap();
        assert_eq!(attended.source, source);
        assert_eq!(attended.target, target);
        assert_eq!(attended.output.ended, target.ends_with(&["<eos>"]));
        assert_eq!(attended.output, translator.translate_tokens(&[&source])[0]);
        assert_eq!(attended.weights.len(), target.len() * source.len());
        for row in attended.weights.chunks(source.len()) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
        }
    };
    check(PREDICTS_THE_END, &["<eos>"]);
    check(PREDICTS_X, &["x"; MAX_LEN]);
}

#[test]
fn an_output_has_no_special_tokens() {
    let (_folder, translator) = loaded(PREDICTS_SPECIAL_TOKENS);
    let source = Chars.split("cab");
    let expected = Hypothesis {
        tokens: vec!["y".to_string(); MAX_LEN],
        text: "yyyyy".to_string(),
        ended: false,
    };
    assert_eq!(
        translator.translate_tokens(&[&source]),
        std::slice::from_ref(&expected)
    );
    assert_eq!(translator.attend(&source).unwrap().output, expected);
}

#[test]
fn an_output_is_cut_off_at_the_limit_that_is_set() {
    let (_folder, translator) = loaded(PREDICTS_X);
    assert_eq!(translator.max_len(), MAX_LEN);
    let pairs = [Pair {
        source: Chars.split("a"),
        target: Chars.split("x"),
    }];
    for max_len in [1, 2, 300] {
        let (_folder, translator) = loaded(PREDICTS_X);
        let translator = translator.with_max_len(max_len).unwrap();
        let outputs = translator.translate(["fade", "a"]).unwrap();
        for output in &outputs {
            assert_eq!((output.tokens.len(), output.ended), (max_len, false));
        }
        let attended = translator.attend(&Chars.split("fade")).unwrap();
        assert_eq!(attended.weights.len(), 4 * max_len);
        let errors = translator.errors(&pairs);
        // Right or wrong, it was cut off.
        assert_eq!((errors.sequences(), errors.cut_off()), (1, 1));
        assert_eq!(errors.exact_match(), if max_len == 1 { 1.0 } else { 0.0 });
    }
    let (_folder, translator) = unchecked(PREDICTS_THE_END, 1_000_000);
    assert_eq!(translator.errors(&pairs).cut_off(), 0);
    // Several batches: outputs might be long.
    assert_eq!(translator.batch_size(), 8);
    let outputs = translator.translate(["a"; 20]).unwrap();
    assert_eq!(outputs.iter().filter(|output| output.ended).count(), 20);
}

#[test]
fn a_limit_that_is_out_of_range_is_refused() {
    for (max_len, message) in [
        (
            0,
            "the length of outputs: expected at least 1 token, found 0",
        ),
        (
            1_000_001,
            "the length of outputs: expected at most 1000000 tokens, found 1000001",
        ),
    ] {
        let (_folder, translator) = loaded(PREDICTS_X);
        assert_eq!(line(translator.with_max_len(max_len)), message);
    }
    assert!(check_max_len(1_000_000).is_ok());
}

#[cfg(target_os = "linux")]
#[test]
fn weights_that_fit_into_no_memory_are_refused() {
    // 520 TiB of them.
    let (_folder, translator) = unchecked(PREDICTS_X, 1 << 40);
    let line = line(translator.attend(&Chars.split("a")));
    let message = "the memory of the attention weights: expected at most the ";
    assert!(line.starts_with(message), "{line}");
}

#[test]
fn a_source_is_checked_where_a_user_wrote_it() {
    let (_folder, translator) = loaded(PREDICTS_X);
    assert_eq!(
        line(translator.source_tokens("ab?")),
        "unknown token \"?\" at position 3; expected one of: \"a\" \"b\" \"c\" \"d\" \"e\" \"f\""
    );
    assert_eq!(
        line(translator.source_tokens("")),
        "the text to translate: expected at least one token, found none"
    );
    let tokens = translator.source_tokens(" \tcab\r\n").unwrap();
    assert_eq!(tokens, Chars.split("cab"));
    // Other white space is text, as in a file of pairs.
    for other in ["\u{a0}", "\u{3000}", "\u{feff}", "\u{c}"] {
        assert!(!translator.is_blank(other));
        let line = line(translator.source_tokens(&format!("cab{other}")));
        assert!(line.starts_with("unknown token "), "{line}");
        assert!(line.contains("at position 4; "), "{line}");
    }
    assert!(translator.is_blank("") && translator.is_blank(" \t\r\n"));
    // Pairs to validate on may hold any token.
    let unknown = Chars.split("a?");
    assert_eq!(
        translator.translate_tokens(&[&unknown])[0].tokens,
        ["x"; MAX_LEN]
    );
    assert_eq!(translator.attend(&unknown).unwrap().source, unknown);
    assert_eq!(translator.target_text(&Chars.split("xyx")), "xyx");
}

#[test]
fn any_of_several_targets_is_right() {
    let (_folder, translator) = loaded(PREDICTS_X);
    let pair = |source: &str, target: &str| Pair {
        source: Chars.split(source),
        target: Chars.split(target),
    };
    let pairs = vec![
        pair("a", "xxxxx"),
        pair("b", "yy"),
        pair("a", "y"),
        pair("b", "xxxxx"),
        pair("c", "xxxy"),
    ];
    let errors = translator.errors(&pairs);
    let train = Vec::new();
    let corpus = Corpus::from(Pairs {
        train,
        valid: pairs,
    });
    assert_eq!(translator.valid_errors(&corpus), errors);
    assert_eq!(errors.sequences(), 3);
    assert_eq!(errors.exact_match(), 2.0 / 3.0);
    assert_eq!(errors.token_error_rate(), 2.0 / 14.0);
}

#[test]
fn the_newest_model_is_loaded_until_one_is_chosen() {
    let (_folder, run) = created();
    assert_eq!(
        line(Translator::load(&run, &device()))
            .split_once(": ")
            .unwrap()
            .1,
        "its training was stopped before the first checkpoint; train again with --resume"
    );
    add(&run, 1, PREDICTS_SPECIAL_TOKENS);
    add(&run, 2, PREDICTS_THE_END);
    let load = || Translator::load(&run, &device()).unwrap();
    let target = || load().attend(&Chars.split("a")).unwrap().target;
    assert_eq!(target(), ["<eos>"]);
    assert_eq!((load().epoch(), load().is_chosen()), (2, false));
    run.choose_model(1).unwrap();
    assert_eq!(target(), ["y"; MAX_LEN]);
    assert_eq!((load().epoch(), load().is_chosen()), (1, true));
    // Training goes on: it was chosen among others.
    add(&run, 3, PREDICTS_X);
    assert_eq!(target(), ["x"; MAX_LEN]);
    assert_eq!((load().epoch(), load().is_chosen()), (3, false));
}

#[test]
fn a_model_of_other_sizes_is_an_error() {
    let (_folder, run) = created();
    add(&run, 1, PREDICTS_X);
    let mut other = config();
    for change in [
        |config: &mut RunConfig| config.model = sizes().with_hidden_size(6).into(),
        |config: &mut RunConfig| config.model = sizes().with_layers(2).into(),
        |config: &mut RunConfig| config.model = sizes().with_bidirectional(false).into(),
        |config: &mut RunConfig| {
            config.model = TransformerConfig::new(10, 6).with_hidden_size(4).into();
            config.attention = AttentionKind::Dot;
        },
        |config: &mut RunConfig| config.attention = AttentionKind::Dot,
    ] {
        change(&mut other);
        run.save_config(&other).unwrap();
        let line = line(Translator::load(&run, &device()));
        assert!(line.starts_with("cannot use the model"), "{line}");
        assert!(line.contains("model-1.bpk: "), "{line}");
        other = config();
    }
    run.save_config(&other).unwrap();
    assert!(Translator::load(&run, &device()).is_ok());
}

#[test]
fn texts_are_translated_in_order_or_refused_at_the_first_unknown_token() {
    let (_folder, translator) = loaded(PREDICTS_X);
    let x = "x".repeat(MAX_LEN);
    let outputs = translator.translate(["fade", "a"]).unwrap();
    assert_eq!(outputs.len(), 2);
    assert!(outputs.iter().all(|output| output.text == x));
    let refused = line(translator.translate(["fade", "a?", "!"]));
    assert!(
        refused.starts_with("unknown token \"?\" at position 2; "),
        "{refused}"
    );
    assert_eq!(translator.source_text(&Chars.split("fade")), "fade");
}

#[test]
fn the_checkpoint_with_the_best_translations_is_kept() {
    let (_folder, run) = created();
    let pairs = [Pair {
        source: Chars.split("a"),
        target: Chars.split("xxxxx"),
    }];
    let keep_best = || Translator::keep_best(&run, &pairs, &device()).unwrap();
    assert_eq!(keep_best(), None);
    assert!(run.model_file().unwrap().is_none());
    add(&run, 1, PREDICTS_X);
    add(&run, 2, PREDICTS_THE_END);
    assert_eq!(keep_best(), Some(1));
    let target = || {
        Translator::load(&run, &device())
            .unwrap()
            .attend(&pairs[0].source)
            .unwrap()
            .target
    };
    assert_eq!(target(), ["x"; MAX_LEN]);
    add(&run, 3, PREDICTS_X);
    assert_eq!(keep_best(), Some(3), "of equals the newest");
}
