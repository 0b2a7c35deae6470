//! Words for unknown tokens.

use attention_seq2seq::text::UnknownTokens;

/// The largest number of unknown tokens to name.
pub(super) const MOST_UNKNOWN: usize = 20;

/// How an unknown token was read, if it is not an error.
pub(super) fn reading(unknown: UnknownTokens) -> &'static str {
    match unknown {
        UnknownTokens::Skip => "left out",
        UnknownTokens::Error | UnknownTokens::Unk => "read as <unk>",
    }
}
