//! Gains of normalized queries and keys.

use attention_core::import::StateDict;
use attention_core::position::Rotary;
use attention_core::score::QkNormScore;

/// `rotary` with the gains `q_norm.weight` and `k_norm.weight` after `prefix`, to which `offset` is added.
pub(super) fn load_qk_norm(
    mut rotary: Rotary<QkNormScore>,
    file: &StateDict,
    prefix: &str,
    offset: f64,
) -> Result<Rotary<QkNormScore>, String> {
    let score = &mut rotary.score;
    for (gain, name) in [(&mut score.query, "q_norm"), (&mut score.key, "k_norm")] {
        let name = format!("{prefix}{name}.weight");
        *gain = file.parameter_of_offset(gain.clone(), &name, offset)?;
    }
    Ok(rotary)
}
