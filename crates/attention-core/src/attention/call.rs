//! The options of a call and the positions of its queries, on their way to the pooling.

use crate::functional::AttentionOptions;
use crate::position::Positions;

/// The options of a call; of its masks, the one of its keys and values is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) options: &'a AttentionOptions,
    /// The positions of the queries; by default the last query stands at the last key.
    pub(crate) positions: Option<&'a Positions>,
    /// The key at which the first query of each example stands; by default `keys - queries` in every example.
    pub(crate) starts: Option<&'a [i64]>,
}

impl<'a> Call<'a> {
    /// A call with these options, whose queries stand at their default positions.
    pub(crate) fn with(options: &'a AttentionOptions) -> Self {
        Self {
            options,
            positions: None,
            starts: None,
        }
    }

    /// This call with its queries at `positions`.
    pub(crate) fn at(mut self, positions: &'a Positions) -> Self {
        self.positions = Some(positions);
        self
    }

    /// Whether the options have extra keys.
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
