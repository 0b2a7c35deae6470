//! Presets: settings that have proved themselves, for a kind of data.

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
    /// The settings, the others by default.
    pub(super) fn settings(self) -> Settings {
        toml::from_str(self.text()).expect("a preset is a file of settings")
    }

    /// The settings as a file.
    fn text(self) -> &'static str {
        match self {
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
            assert_ne!(preset.settings(), Settings::default(), "{preset}");
            assert!(preset.settings().check_model().is_ok(), "{preset}");
        }
    }
}
