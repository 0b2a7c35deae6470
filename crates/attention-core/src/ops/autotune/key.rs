//! Keys: calls for which one choice holds.

use burn_cubecl::cubecl::tune::anchor;
use burn_fused_layers::paths;

use super::candidate::Candidate;
use crate::ops::call::{Call, MaskForm, ModifierForms};

/// The key of a call, in words that the log repeats.
pub(super) fn of(call: &Call, candidates: &[Candidate]) -> String {
    let Call {
        operation,
        dtype,
        batch,
        heads,
        key_heads,
        queries,
        keys,
        size,
        value_size,
        mask,
        modifiers,
        has_dropout: _,
        wanted,
    } = call;
    let about = |number: usize| anchor(number, None, None, None);
    let rows = about(batch * heads);
    let group = heads / key_heads.max(&1);
    let [queries, keys] = [queries, keys].map(|number| about(*number));
    let mask = of_mask(mask);
    let modifiers = of_modifiers(modifiers);
    let phase = if wanted.is_empty() {
        "inference".to_string()
    } else {
        let wanted = wanted.iter().map(|is| if *is { '1' } else { '0' });
        format!("training, gradients {}", wanted.collect::<String>())
    };
    let names: Vec<String> = candidates.iter().map(ToString::to_string).collect();
    let names = names.join(", ");
    // Operations within a definition have paths of their own, which may be settled.
    let settled = paths::settled();
    let settled = if settled.is_empty() {
        settled
    } else {
        format!("; settled {settled}")
    };
    format!(
        "{operation:?}, {dtype:?}, {phase}: {rows} examples and heads, {group} to a key head, {queries} queries, \
         {keys} keys of {size}, values of {value_size}, {mask}, {modifiers}; of {names}{settled}"
    )
}

fn of_mask(mask: &MaskForm) -> String {
    let several = |sizes: &[usize]| -> String {
        let sizes = sizes.iter().map(|size| if *size > 1 { 'n' } else { '1' });
        sizes.collect()
    };
    match (&mask.intervals, &mask.keep) {
        (None, None) => "no mask".to_string(),
        (Some(intervals), None) => format!("intervals {}", several(intervals)),
        (None, Some(keep)) => format!("flags {}", several(keep)),
        (Some(intervals), Some(keep)) => {
            format!(
                "intervals {} and flags {}",
                several(intervals),
                several(keep)
            )
        }
    }
}

fn of_modifiers(modifiers: &ModifierForms) -> String {
    let ModifierForms {
        bias,
        relative_bias,
        sinks,
        soft_cap,
    } = modifiers;
    let mut parts = Vec::new();
    for (name, form) in [("bias", bias), ("distances", relative_bias)] {
        if let Some((shape, dtype)) = form {
            let axes = shape.iter().take(3);
            let axes: String = axes.map(|size| if *size > 1 { 'n' } else { '1' }).collect();
            parts.push(format!("{name} {axes} of {dtype:?}"));
        }
    }
    parts.extend(sinks.map(|dtype| format!("sinks of {dtype:?}")));
    parts.extend(soft_cap.map(|_| "soft-cap".to_string()));
    if parts.is_empty() {
        "plain scores".to_string()
    } else {
        parts.join(", ")
    }
}
