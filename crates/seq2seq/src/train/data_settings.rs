//! The settings of files of pairs.

use std::path::Path;

use attention_seq2seq::data::{PairFile, PairFileOptions, PairFormat};
use attention_seq2seq::text::{Normalization, Subwords, TextKind, VocabLimits};
use attention_seq2seq::{Error, Result, Tokenization};

use super::presets::Preset;
use super::settings::Settings;

impl Settings {
    /// How to read a file: as set, otherwise according to the preset, the file's name and its content.
    pub(super) fn options(
        &self,
        path: &Path,
        file: &PairFile,
        preset: Option<Preset>,
    ) -> Result<PairFileOptions> {
        let mut format = match &self.input_format {
            Some(format) => format.clone(),
            None if self.columns.is_some() => PairFormat::of_path(path),
            None => file.format()?,
        };
        for (setting, is_set, of) in [
            ("--columns", self.columns.is_some(), "tsv"),
            ("--fields", self.fields.is_some(), "jsonl"),
            ("--stress", self.stress.is_some(), "dict"),
        ] {
            if is_set && format.to_string() != of {
                let expected = format!("a file in the format {of}");
                return Err(Error::config(setting, expected, format));
            }
        }
        match (&mut format, &self.fields, self.stress) {
            (PairFormat::Jsonl(fields), Some(set), _) => fields.clone_from(set),
            (PairFormat::Dict { stress }, _, Some(set)) => *stress = set,
            _ => {}
        }
        let kinds = preset.map(Preset::texts).unwrap_or_default();
        let guessed = file.guess_of(format, self.columns.unwrap_or_default(), kinds)?;
        let source_tokens = self.source_tokens.unwrap_or(guessed.source_tokens);
        // If words are tokens, nothing can be learned from the form of their letters.
        let normalization = match source_tokens {
            Tokenization::Chars => guessed.normalization,
            Tokenization::Spaces => Normalization::default(),
        };
        let options = PairFileOptions {
            source_tokens,
            target_tokens: self.target_tokens.unwrap_or(guessed.target_tokens),
            max_tokens: self.max_tokens.unwrap_or(guessed.max_tokens),
            normalization: self.unicode.unwrap_or(normalization),
            ..guessed
        };
        let Some(count) = self.subwords else {
            return Ok(options);
        };
        let unless = |tokens: Option<Tokenization>| tokens.is_none().then_some(count);
        let (source, target) = (unless(self.source_tokens), unless(self.target_tokens));
        if (source, target) == (None, None) {
            let expected = "a side without --source-tokens or --target-tokens";
            return Err(Error::config("--subwords", expected, "both"));
        }
        file.with_subwords(options, source, target)
    }

    /// The options that were guessed instead of set, one line each, for the user.
    pub(super) fn guesses(&self, options: &PairFileOptions, preset: Option<Preset>) -> Vec<String> {
        let mut lines = Vec::new();
        let is_told = self.source_tokens.is_some() && self.target_tokens.is_some();
        if !is_told && self.subwords.is_none() {
            let (source, target) = (options.source_tokens, options.target_tokens);
            let by_what = match preset.map(Preset::texts).unwrap_or_default() {
                [TextKind::Any, TextKind::Any] => "guessed",
                _ => "of the preset",
            };
            lines.push(format!(
                "source tokens: {source}, target tokens: {target} ({by_what}; --source-tokens and --target-tokens tell)"
            ));
        }
        if self.unicode.is_none() && options.normalization != Normalization::default() {
            let form = options.normalization;
            lines.push(format!(
                "unicode: {form} (guessed from the sources; --unicode tells)"
            ));
        }
        lines
    }

    /// These settings, with the options for a file.
    pub(super) fn with_options(self, options: &PairFileOptions) -> Self {
        let source_subwords = options.source_subwords.as_ref();
        let target_subwords = options.target_subwords.as_ref();
        let unless = |subwords: Option<&Subwords>, tokens| subwords.is_none().then_some(tokens);
        let mut all = Self {
            input_format: Some(options.format.clone()),
            unicode: Some(options.normalization),
            source_tokens: unless(source_subwords, options.source_tokens),
            target_tokens: unless(target_subwords, options.target_tokens),
            subwords: source_subwords.or(target_subwords).map(Subwords::count),
            max_tokens: Some(options.max_tokens),
            ..self
        };
        match &options.format {
            PairFormat::Tsv => all.columns = Some(options.columns),
            PairFormat::Dict { stress } => all.stress = Some(*stress),
            PairFormat::Jsonl(fields) => all.fields = Some(fields.clone()),
        }
        all
    }

    /// The limits of the vocabularies.
    pub(super) fn vocab_limits(&self) -> VocabLimits {
        VocabLimits {
            min_count: self.min_count.unwrap_or(1),
            max_tokens: self.max_vocab,
        }
    }
}
