//! The end of a training.

use attention_seq2seq::data::{Corpus, group_by_source};
use attention_seq2seq::model::AttentionHead;
use attention_seq2seq::train::TrainingEnd;
use attention_seq2seq::{Pair, Result, RunDir, Translator};
use burn::tensor::Device;
use unicode_width::UnicodeWidthStr;

use super::log::{Event, Log, Quality};
use crate::output::{escaped, say};
use crate::{attend, eval};

/// The number of translations shown at the end.
const SHOWN: usize = 8;
/// The largest number of characters of each text in them.
const MOST_CHARACTERS: usize = 200;
/// The fraction of exact outputs above which no advice is given to train longer.
const GOOD: f64 = 0.9;

fn first_sources(corpus: &Corpus, count: usize) -> Vec<Pair> {
    let (mut pairs, mut sources) = (Vec::<Pair>::new(), 0);
    for pair in corpus.valid_chunks().flatten() {
        if pairs.last().is_none_or(|last| last.source != pair.source) {
            if sources == count {
                break;
            }
            sources += 1;
        }
        pairs.push(pair);
    }
    pairs
}

/// The beginning of a long text, with an ellipsis.
fn shortened(text: String) -> String {
    let mut text = escaped(&text);
    if let Some((end, _)) = text.char_indices().nth(MOST_CHARACTERS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Makes the best checkpoint the model, and shows some of its translations.
pub(super) fn finish(
    run: &RunDir,
    corpus: &Corpus,
    end: TrainingEnd,
    seconds: f64,
    log: Log,
    device: &Device,
) -> Result<()> {
    let folder = run.path().display();
    let ended = |model, valid| Event::Ended {
        reason: end,
        seconds,
        model,
        valid,
    };
    let Some(epoch) = run.keep_best()? else {
        log.tell(&ended(None, None))?;
        return log.say(format_args!(
            "stopped before the first checkpoint; nothing is left to use in {folder}"
        ));
    };
    if end == TrainingEnd::Interrupted {
        log.say_to_anyone(format_args!(
            "stopped; epoch {epoch} is kept as the model, `--resume` goes on (in {folder})"
        ))?;
    }
    let translator = Translator::load(run, device)?;
    let pairs = first_sources(corpus, SHOWN);
    let groups = group_by_source(&pairs);
    let attended = translator.attend(groups[0].source, AttentionHead::default())?;
    let drawn = attend::draw(&attended)?;
    let picture = drawn.fits().then(|| run.path().join("attention.svg"));
    if let Some(picture) = &picture {
        run.write(picture, &drawn.to_file(picture)?)?;
    }
    // From here on, output is only for readers.
    if log == Log::Quiet {
        return Ok(());
    }
    log.say(format_args!(
        "the model of epoch {epoch}, on the validation pairs:"
    ))?;
    let errors = translator.valid_errors(corpus)?;
    if log == Log::Json {
        return log.tell(&ended(Some(epoch), Some(Quality::from(&errors))));
    }
    eval::report(&errors, &translator)?;
    let history = run.history()?;
    let is_last = history.len() > 1 && history.last().is_some_and(|last| last.epoch == epoch);
    if end == TrainingEnd::LastEpoch && is_last && errors.exact_match() < GOOD {
        say(format_args!(
            "the last epoch is the one that was kept: `--resume --epochs {}` goes on (in {folder})",
            2 * epoch
        ))?;
    }
    let sources: Vec<&[String]> = groups.iter().map(|group| group.source).collect();
    for (group, output) in groups.iter().zip(translator.translate_tokens(&sources)?) {
        let right = group.targets.contains(&output.tokens.as_slice());
        let mark = if right { ' ' } else { '!' };
        let source = shortened(translator.source_text(group.source));
        let space = " ".repeat(32_usize.saturating_sub(source.width()));
        let end = if output.ended { "" } else { " (cut off)" };
        let output = shortened(output.text);
        say(format_args!("{mark} {source}{space} -> {output}{end}"))?;
    }
    say("\nwhat each output attended to:")?;
    drawn.show(picture.as_deref())?;
    if let Some(picture) = &picture {
        say(attend::saved(picture))?;
    }
    say(format_args!(
        "model, vocabularies and figures are in {folder}"
    ))
}
