//! The pairs named by the arguments of `seq2seq train`.

use std::path::{Path, PathBuf};

use attention_seq2seq::data::{Corpus, Examples, PairFile};
use attention_seq2seq::{DataSource, Error, Result, RunDir, Task, TrainConfig, Vocab, Vocabs};

use super::TrainArgs;
use super::settings::Settings;
use crate::output::note;

/// Pairs, read only once.
pub(super) struct Data {
    pub(super) source: DataSource,
    pub(super) corpus: Corpus,
    /// The files that the run must keep, because they cannot be read again.
    pub(super) streams: Vec<PairFile>,
    /// The guesses about the files, one line each, for the user.
    pub(super) guesses: Vec<String>,
}

impl TrainArgs {
    /// The folder of the run.
    pub(super) fn folder(&self) -> PathBuf {
        if let Some(folder) = &self.out {
            return folder.clone();
        }
        let name = match (&self.data, &self.task) {
            (Some(file), _) => name_of_file(file),
            (None, Some(task)) => task.clone(),
            (None, None) => Task::Dates.to_string(),
        };
        PathBuf::from("runs").join(name)
    }

    /// Reads or generates the pairs, for a run in a folder that need not exist.
    pub(super) fn data(&self, settings: &Settings, run: &RunDir) -> Result<Data> {
        let seed = settings.seed.unwrap_or(TrainConfig::default().seed);
        let Some(path) = &self.data else {
            let source = DataSource::Task {
                task: self.task()?,
                train: settings.train_pairs.unwrap_or(24_000),
                valid: settings.valid_pairs.unwrap_or(1_000),
            };
            return Ok(Data {
                corpus: source.corpus(seed)?,
                source,
                streams: Vec::new(),
                guesses: Vec::new(),
            });
        };
        if let Some(valid) = &self.valid {
            check_files(path, valid)?;
        }
        let train = PairFile::read(path)?;
        let valid = self.valid.as_ref().map(PairFile::read).transpose()?;
        let options = settings.options(path, &train, self.preset)?;
        let place = |path: &Path, file: &PairFile| match file.is_stream() {
            true => run.stream_file(file),
            false => absolute(path),
        };
        let mut guesses = Vec::new();
        for file in [Some(&train), valid.as_ref()].into_iter().flatten() {
            guesses.extend(file.recognized(&options.format)?);
        }
        guesses.extend(settings.guesses(&options, self.preset));
        let corpus = Corpus::of_files(&train, valid.as_ref(), &options, seed)?;
        let source = DataSource::Files {
            train: place(path, &train)?,
            valid: match (&self.valid, &valid) {
                (Some(path), Some(file)) => Some(place(path, file)?),
                _ => None,
            },
            options,
        };
        let files = [Some(train), valid].into_iter().flatten();
        Ok(Data {
            source,
            corpus,
            streams: files.filter(PairFile::is_stream).collect(),
            guesses,
        })
    }

    /// Checks that the arguments do not name other data than those of a run.
    pub(super) fn check_same_data(&self, run: &RunDir, data: &DataSource) -> Result<()> {
        let found = match (&self.data, &self.task, data) {
            (None, None, _) => return Ok(()),
            (Some(file), _, DataSource::Files { train, .. }) if absolute(file)? == *train => {
                return Ok(());
            }
            (Some(file), ..) => format!("file {}", file.display()),
            (None, ..) => {
                let found = self.task()?;
                match data {
                    DataSource::Task { task, .. } if *task == found => return Ok(()),
                    _ => format!("task {found}"),
                }
            }
        };
        let what = format!("the run in {}", run.path().display());
        let expected = format!("to go on with its {data}");
        Err(Error::config(what, expected, found))
    }

    fn task(&self) -> Result<Task> {
        let Some(name) = &self.task else {
            return Ok(Task::Dates);
        };
        name.parse().map_err(|error| match error {
            Error::UnknownName { .. } if Path::new(name).is_file() => {
                let known = Task::ALL.map(|task| task.to_string()).join(", ");
                let expected = format!("{known} (a file is named by --data {name})");
                Error::config("the task", expected, name)
            }
            error => error,
        })
    }
}

/// A line for each side on which many tokens occur once: often the tokenization is not the intended one.
pub(super) fn notes_of_rare(vocabs: &Vocabs, train: &Examples) -> impl Iterator<Item = String> {
    /// The reciprocal of the fraction of tokens that counts as many.
    const MANY: usize = 4;
    let (source, target) = (vocabs.source.len(), vocabs.target.len());
    let sides = [("source", source), ("target", target)];
    let notes = sides.into_iter().zip(train.once());
    notes.filter_map(|((side, tokens), once)| {
        let all = tokens - Vocab::SPECIAL_TOKENS;
        let occur = if once == 1 { "occurs" } else { "occur" };
        (once > 0 && MANY * once >= all).then(|| {
            format!(
                "note: {once} of {all} {side} tokens {occur} once, and little is learned of them: see --{side}-tokens, \
                 --min-count, --subwords"
            )
        })
    })
}

/// Refuses to read one stream for both kinds of pairs, before it is read, and says so for a file.
fn check_files(data: &Path, valid: &Path) -> Result<()> {
    let refused = |what: &str| {
        let expected = format!("{what} for one of them at most: it can be read once");
        let found = format!("{} and {}", data.display(), valid.display());
        Error::config("--data and --valid", expected, found)
    };
    if is_standard_input(data) && is_standard_input(valid) {
        return Err(refused("the standard input"));
    }
    if !is_same(data, valid) {
        return Ok(());
    }
    match data.metadata() {
        Ok(file) if file.is_file() => note(
            "note: --data and --valid are one file: the model is validated on what it has learned",
        ),
        Ok(file) if !file.is_dir() => return Err(refused("a stream")),
        // A file that cannot be read gives an error when it is read.
        _ => {}
    }
    Ok(())
}

fn is_standard_input(file: &Path) -> bool {
    let names = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
    names.iter().any(|name| file == Path::new(name))
}

/// Whether two names refer to the same file, as far as the system can tell. `-` refers to none.
fn is_same(a: &Path, b: &Path) -> bool {
    let is_file = |it: &Path| it != Path::new("-");
    let found = (a.canonicalize(), b.canonicalize());
    is_file(a) && is_file(b) && (a == b || matches!(found, (Ok(a), Ok(b)) if a == b))
}

/// The name of a run on a file: without the ending, unless a task has that name.
fn name_of_file(file: &Path) -> String {
    let name = |part: Option<&std::ffi::OsStr>| part.map(|it| it.to_string_lossy().into_owned());
    let of_process = ["/dev/stdin", "/dev/fd", "/proc", "-"];
    let is_named = !of_process.iter().any(|it| file.starts_with(it));
    let stem = name(file.file_stem()).filter(|_| is_named);
    match stem {
        Some(stem) if stem.parse::<Task>().is_err() => stem,
        Some(stem) => name(file.file_name())
            .filter(|it| *it != stem)
            .unwrap_or(stem + "-pairs"),
        None => "pairs".to_string(),
    }
}

/// Absolute, because the model may be evaluated, and the run resumed, from another folder.
fn absolute(path: &Path) -> Result<PathBuf> {
    if path.to_str().is_none() {
        let what = "the name of a file of pairs";
        let expected = "UTF-8, to be noted in the run (a pipe has no name: --data -)";
        return Err(Error::config(what, expected, format!("{path:?}")));
    }
    std::path::absolute(path).map_err(|source| Error::io("find", path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_on_a_file_has_a_name_of_its_own() {
        for (file, name) in [
            ("words.tsv", "words"),
            ("deep/words", "words"),
            ("dates.tsv", "dates.tsv"),
            ("copy", "copy-pairs"),
            ("-", "pairs"),
            ("/dev/fd/63", "pairs"),
            ("/dev/stdin", "pairs"),
        ] {
            assert_eq!(name_of_file(Path::new(file)), name);
        }
    }
}
