//! The layer from rows to logits.

use attention_core::ScoringFunction;
use attention_core::import::{Place, StateDict};

use crate::language_model::LanguageModel;

const WEIGHT: &str = "lm_head.weight";

/// The reason for which a head is the embedding.
pub(super) const IS_TIED: &str = "as `tie_word_embeddings` says";

/// `model` with the head of a file. Where the head is the tensor `embedding`, the file has it once, or twice the same.
pub(super) fn load_head<S: ScoringFunction>(
    mut model: LanguageModel<S>,
    file: &StateDict,
    embedding: &str,
) -> Result<LanguageModel<S>, String> {
    model.head = match model.head {
        Some(head) => Some(file.linear(head, Place::weight_and_bias("lm_head"))?),
        None => {
            let shape = model.embedding.tokens.weight.dims();
            check_copy(file, [WEIGHT, embedding], &shape, IS_TIED)?;
            None
        }
    };
    Ok(model)
}

/// # Errors
/// If there is a tensor `copy` with other elements than those of `original`, for a `reason` the same parameter.
pub(super) fn check_copy(
    file: &StateDict,
    [copy, original]: [&str; 2],
    shape: &[usize],
    reason: &str,
) -> Result<(), String> {
    if file.contains(copy) && !file.is_same([copy, original], shape)? {
        return Err(format!(
            "`{copy}`: expected the elements of `{original}`, {reason}, got others"
        ));
    }
    Ok(())
}
