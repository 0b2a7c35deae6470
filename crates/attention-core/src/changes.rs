//! The options of a call on their way to the pooling.

use crate::Positions;
use crate::functional::AttentionOptions;

/// The options of a call, whose mask is that of the memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) options: AttentionOptions,
    /// Where the queries stand; by default the last at the last key.
    pub(crate) positions: Option<Positions>,
}

impl From<AttentionOptions> for Changes {
    fn from(options: AttentionOptions) -> Self {
        Self {
            options,
            positions: None,
        }
    }
}

impl Changes {
    /// No option, for queries at `positions`.
    pub(crate) fn at(positions: Positions) -> Self {
        Self {
            positions: Some(positions),
            ..Self::default()
        }
    }

    /// Whether every query has a key.
    pub(crate) fn has_extra_keys(&self) -> bool {
        self.options.extra_keys.is_some()
    }

    /// # Panics
    /// If there is a scale.
    pub(crate) fn assert_no_scale(&self) {
        assert!(
            self.options.scale.is_none(),
            "attention: scale expected with a score that is a dot product and terms that kernels add, got {:?} with \
             another",
            self.options.scale
        );
    }
}
