//! The layer from rows to logits.

use super::super::state_dict::{Place, StateDict};
use crate::ScoringFunction;
use crate::transformer::LanguageModel;

const WEIGHT: &str = "lm_head.weight";

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
            if file.contains(WEIGHT) && !file.is_same([WEIGHT, embedding], shape)? {
                return Err(format!(
                    "`{WEIGHT}`: expected the elements of `{embedding}`, as `tie_word_embeddings` says, got others"
                ));
            }
            None
        }
    };
    Ok(model)
}
