//! Presets: settings for a kind of data. Those for pronunciations were tuned on CMUdict and Dutch.

use attention_seq2seq::text::TextKind::{self, Any, Letters, Words};
use clap::ValueEnum;

use super::settings::Settings;

/// The name of a preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// pronunciations and transliterations: letters to phonemes
    G2p,
    /// dates and numbers to a normal form
    Dates,
    /// short translations
    Translation,
    /// a lemma and tags to an inflected form
    Inflection,
    /// some hundred pairs
    Small,
}

impl Preset {
    /// The number of pairs from which a preset for many pairs is used, if there are two.
    const MANY: usize = 30_000;

    /// The settings for this number of pairs; the others have their defaults.
    pub(super) fn settings(self, pairs: usize) -> Settings {
        toml::from_str(self.text(pairs)).expect("a preset is a file of settings")
    }

    /// The kinds of sources and targets, whose tokens are known.
    pub(super) fn texts(self) -> [TextKind; 2] {
        match self {
            Self::G2p => [Letters, Words],
            Self::Dates | Self::Inflection => [Letters, Letters],
            Self::Translation => [Words, Words],
            Self::Small => [Any, Any],
        }
    }

    /// The settings as a file.
    fn text(self, pairs: usize) -> &'static str {
        match self {
            Self::G2p if pairs < Self::MANY => include_str!("presets/g2p_few.toml"),
            Self::G2p => include_str!("presets/g2p.toml"),
            Self::Dates => include_str!("presets/dates.toml"),
            Self::Translation => include_str!("presets/translation.toml"),
            Self::Inflection => include_str!("presets/inflection.toml"),
            Self::Small => include_str!("presets/small.toml"),
        }
    }
}

/// The name on the command line.
impl std::fmt::Display for Preset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_files_of_settings() {
        for preset in Preset::value_variants() {
            for pairs in [1, 100_000] {
                let settings = preset.settings(pairs);
                assert_ne!(settings, Settings::default(), "{preset}");
                assert!(settings.check_model().is_ok(), "{preset}");
                assert!(settings.check_data(true).is_ok() && settings.check_data(false).is_ok());
            }
        }
    }
}
