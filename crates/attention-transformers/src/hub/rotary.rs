//! Rotary position embedding, from the fields of a config.

use attention_core::position::{
    Llama3ScalingConfig, RotaryConfig, RotaryLayout, RotaryScaling, YarnScalingConfig,
};
use attention_import::Reason;

use super::fields::Fields;
use super::layer_types::LAYER_TYPES;
use crate::position_embedding::PositionLimit;

/// The supported kinds of angles, by their `rope_type`.
const KINDS: [&str; 6] = ["default", "linear", "yarn", "llama3", "dynamic", "longrope"];

/// The families that may rotate only part of a head.
const PARTIAL: [&str; 1] = ["phi3"];

/// The smallest limit of positions, whatever the config says: sines of 512 MiB. Tables grow with the texts.
const MIN_ANGLES: usize = 1 << 27;

/// The largest size of a head, so that a config cannot exhaust memory.
const MAX_HEAD: usize = 1 << 16;

/// The length of texts in training, if it is not `max_position_embeddings`.
pub(super) const ORIGINAL: &str = "original_max_position_embeddings";

/// The object with the angles: `rope_scaling` before version 5 of `transformers`, `rope_parameters` since.
fn parameters(fields: &Fields) -> Result<Option<Fields>, Reason> {
    let scaling = fields.object("rope_scaling")?;
    let parameters = match scaling.filter(|scaling| !scaling.is_empty()) {
        Some(parameters) => Some(parameters),
        None => fields.object("rope_parameters")?,
    };
    // A length next to the object takes precedence over the one inside.
    let original = fields.optional_size(ORIGINAL)?;
    Ok(parameters.map(|parameters| match original {
        Some(original) => parameters.with(ORIGINAL, Some(original.into())),
        None => parameters,
    }))
}

/// The angles of rotary embedding.
pub(super) struct Angles {
    pub(super) rotary: RotaryConfig,
    /// The length up to which they are known, if longer texts would change the angles of all tokens.
    pub(super) limit: Option<PositionLimit>,
}

/// The rotation of heads of `head_size`: pairs are made of the halves of a head, and rotation follows a normalization
/// of queries and keys. As in `transformers`, texts may be longer than `max_position_embeddings`.
///
/// `theta` is the base if the fields have none.
pub(super) fn rotary(fields: &Fields, head_size: usize, theta: f64) -> Result<Angles, Reason> {
    let parameters = parameters(fields)?;
    for kind in LAYER_TYPES {
        if let Some(parameters) = &parameters {
            parameters.refuse(kind, "all layers of the family have the same angles")?;
        }
    }
    let theta = fields.optional_positive("rope_theta")?.unwrap_or(theta);
    rotary_of(fields, parameters.as_ref(), head_size, theta)
}

/// [`rotary`] with the angles of `parameters`, if there are any.
pub(super) fn rotary_of(
    fields: &Fields,
    parameters: Option<&Fields>,
    head_size: usize,
    theta: f64,
) -> Result<Angles, Reason> {
    let max_positions = fields.size("max_position_embeddings")?;
    if !head_size.is_multiple_of(2) || head_size > MAX_HEAD {
        let expected = match head_size > MAX_HEAD {
            true => &format!("at most {MAX_HEAD}"),
            false => "an even number, for pairs of features",
        };
        return Err(fields.wrong("head_dim", expected, head_size));
    }
    let mut rotated_size = head_size;
    for of in [parameters, Some(fields)].into_iter().flatten() {
        if let Some(factor) = of.optional_positive("partial_rotary_factor")? {
            if factor != 1.0 {
                rotated_size = partial(fields, of, head_size, factor)?;
            }
            break;
        }
    }
    let own = parameters.map(|of| of.optional_positive("rope_theta"));
    let theta = own.transpose()?.flatten().unwrap_or(theta);
    let (scaling, limit) = match parameters {
        Some(parameters) => {
            let is_phi3 = fields.text("model_type")? == "phi3";
            scaling(parameters, max_positions, theta, rotated_size, is_phi3)?
        }
        None => (RotaryScaling::None, None),
    };
    let max_positions = match limit {
        Some(limit) => limit.max_positions,
        None => max_positions.max(MIN_ANGLES / (head_size / 2)),
    };
    let rotary = RotaryConfig::new(head_size, max_positions)
        .with_theta(theta)
        .with_layout(RotaryLayout::HalfSplit)
        .with_rotated_size((rotated_size < head_size).then_some(rotated_size))
        .with_scaling(scaling)
        .with_after_projection(true);
    Ok(Angles { rotary, limit })
}

/// The number of features of a head that are rotated, given by the `factor` in the fields `of`; for an invalid factor,
/// the error names a valid one.
fn partial(fields: &Fields, of: &Fields, head_size: usize, factor: f64) -> Result<usize, Reason> {
    let wrong = |expected: &str| of.wrong("partial_rotary_factor", expected, factor);
    if !PARTIAL.contains(&fields.text("model_type")?) {
        return Err(wrong("1, as the family has it"));
    }
    let rotated_size = (head_size as f64 * factor) as usize;
    let is_fit = (2..=head_size).contains(&rotated_size) && rotated_size.is_multiple_of(2);
    let expected = format!("a part of the {head_size} features of a head, for pairs of them");
    let fitting = is_fit.then_some(rotated_size);
    fitting.ok_or_else(|| wrong(&expected))
}

/// The scaling, and the limit of [`Angles`].
fn scaling(
    parameters: &Fields,
    max_positions: usize,
    theta: f64,
    rotated_size: usize,
    is_phi3: bool,
) -> Result<(RotaryScaling, Option<PositionLimit>), Reason> {
    let reason = "queries are not scaled by their positions";
    parameters.refuse("llama_4_scaling_beta", reason)?;
    // The second is the older name.
    let field = if parameters.has("rope_type") {
        "rope_type"
    } else {
        "type"
    };
    let kind = parameters.optional_text(field)?.unwrap_or("default");
    let original_max_positions = || {
        let own = parameters.optional_size(ORIGINAL)?;
        Ok::<_, Reason>(own.unwrap_or(max_positions))
    };
    let scaling = match kind {
        "default" => RotaryScaling::None,
        "linear" => RotaryScaling::Linear {
            factor: parameters.positive("factor")?,
        },
        "yarn" if !is_phi3 => {
            let original = original_max_positions()?;
            RotaryScaling::Yarn(yarn(parameters, [original, max_positions], theta)?)
        }
        "llama3" => RotaryScaling::Llama3(llama3(parameters, original_max_positions()?)?),
        "dynamic" => {
            parameters.positive("factor")?;
            let limit = PositionLimit {
                max_positions,
                reason: "`dynamic` has other angles for all tokens of a longer text",
            };
            return Ok((RotaryScaling::None, Some(limit)));
        }
        // The older names of Phi-3, which has no other `yarn`.
        "longrope" | "su" | "yarn" => {
            let original = original_max_positions()?;
            let scaling = longrope(parameters, [original, max_positions], theta, rotated_size)?;
            let limit = PositionLimit {
                max_positions: original.min(max_positions),
                reason: "`longrope` has other angles for all tokens of a longer text",
            };
            return Ok((scaling, Some(limit)));
        }
        other => return Err(parameters.unknown(field, &KINDS, other)),
    };
    Ok((scaling, None))
}

/// The angles for texts within the original length.
fn longrope(
    parameters: &Fields,
    lengths: [usize; 2],
    theta: f64,
    rotated_size: usize,
) -> Result<RotaryScaling, Reason> {
    if lengths[0] == 1 {
        return Err(parameters.wrong(ORIGINAL, "more than 1 position", "1"));
    }
    let short = parameters.positives("short_factor", rotated_size / 2)?;
    let pairs = short.iter().enumerate();
    let frequency =
        |(at, factor): (usize, &f64)| theta.powf(-2.0 * at as f64 / rotated_size as f64) / factor;
    let factor = parameters.optional_positive("factor")?;
    let factor = factor.unwrap_or_else(|| growth(lengths));
    let by_factor = if factor > 1.0 {
        (1.0 + factor.ln() / (lengths[0] as f64).ln()).sqrt()
    } else {
        1.0
    };
    let attention_factor = parameters.optional_positive("attention_factor")?;
    Ok(RotaryScaling::Custom {
        frequencies: pairs.map(frequency).collect(),
        attention_factor: attention_factor.unwrap_or(by_factor),
    })
}

/// The ratio of the length of texts to the original length.
fn growth([original, max_positions]: [usize; 2]) -> f64 {
    max_positions as f64 / original as f64
}

fn yarn(parameters: &Fields, lengths: [usize; 2], theta: f64) -> Result<YarnScalingConfig, Reason> {
    if theta <= 1.0 {
        return Err(parameters.wrong("rope_theta", "a number above 1", theta));
    }
    let fast = parameters.optional_positive("beta_fast")?.unwrap_or(32.0);
    let slow = parameters.optional_positive("beta_slow")?.unwrap_or(1.0);
    if fast < slow {
        return Err(parameters.wrong("beta_fast", &format!("at least `beta_slow`, {slow}"), fast));
    }
    // As in `transformers`, either one without the other is ignored.
    let mscale = parameters.optional_positive("mscale")?;
    let both = mscale.zip(parameters.optional_positive("mscale_all_dim")?);
    let factor = match parameters.optional_positive("factor")? {
        None if parameters.has("factor") => growth(lengths),
        _ => parameters.positive("factor")?,
    };
    Ok(YarnScalingConfig::new(factor, lengths[0])
        .with_beta_fast(fast)
        .with_beta_slow(slow)
        .with_truncate(parameters.flag("truncate", !parameters.has("truncate"))?)
        .with_attention_factor(parameters.optional_positive("attention_factor")?)
        .with_mscale(both.map(|(mscale, _)| mscale))
        .with_mscale_all_dim(both.map(|(_, all_dim)| all_dim)))
}

fn llama3(
    parameters: &Fields,
    original_max_positions: usize,
) -> Result<Llama3ScalingConfig, Reason> {
    let low = parameters.positive("low_freq_factor")?;
    let high = parameters.positive("high_freq_factor")?;
    if high <= low {
        let expected = format!("more than `low_freq_factor`, {low}");
        return Err(parameters.wrong("high_freq_factor", &expected, high));
    }
    let config = Llama3ScalingConfig::new(parameters.positive("factor")?, original_max_positions);
    Ok(config.with_low_freq_factor(low).with_high_freq_factor(high))
}
