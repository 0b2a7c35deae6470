//! The kernels.

use attention_kernels::AttentionReal;
use attention_kernels::{
    AdditiveScoreGradients, AdditiveScoreInputs, AttentionGradients, AttentionInputs,
    AttentionOutputs, KeyValueGradients, LogSumExp, ModifierGradients, Rows, Score, ScoreModifiers,
};
use cpu_kernels::{Buffer, Level};

use super::case::{Case, Kind};
use super::exact::Found;
use super::sizes::Sizes;
use super::tensor::{Storage, Stored};
use super::terms::TanhOfDifference;

/// The elements of a case in type `E`.
pub(super) struct Inputs<'a, E> {
    pub(super) case: &'a Case,
    queries: Stored<E>,
    keys: Stored<E>,
    values: Stored<E>,
    bias: Option<Stored<E>>,
    relative_bias: Option<Stored<E>>,
    sinks: Option<Vec<E>>,
    pub(super) context_gradient: Stored<E>,
    pub(super) score_gradient: Stored<E>,
    pub(super) weight: Vec<E>,
}

/// Slices of this many elements, for what kernels write: NaN shows what they do not write.
pub(super) fn outputs<E: AttentionReal>(len: usize) -> Vec<E> {
    vec![E::from_f64(f64::NAN); len]
}

/// Log-sum-exps for a kernel to write, as [`outputs`].
pub(super) fn terms(len: usize) -> Vec<LogSumExp> {
    vec![[f64::NAN; 2]; len]
}

impl<'a, E: AttentionReal> Inputs<'a, E> {
    pub(super) fn new(case: &'a Case, storage: Storage) -> Self {
        Self {
            case,
            queries: case.queries.stored(storage),
            keys: case.keys.stored(storage),
            values: case.values.stored(storage),
            bias: case.bias.as_ref().map(|bias| bias.stored(storage)),
            relative_bias: case.relative_bias.as_ref().map(|bias| bias.stored(storage)),
            sinks: case
                .sinks
                .as_ref()
                .map(|sinks| sinks.iter().map(|x| E::from_f64(*x)).collect()),
            context_gradient: case.context_gradient.stored(storage),
            score_gradient: case.score_gradient.stored(storage),
            weight: case.weight.iter().map(|x| E::from_f64(*x)).collect(),
        }
    }

    pub(super) fn score(&self) -> AdditiveScoreInputs<'_, E> {
        AdditiveScoreInputs {
            queries: self.case.queries.view(&self.queries),
            keys: self.case.keys.view(&self.keys),
            weight: &self.weight,
            mask: self.case.mask.mask(),
        }
    }

    fn modifiers(&self) -> ScoreModifiers<'_, E> {
        let case = self.case;
        let bias = case.bias.as_ref().zip(self.bias.as_ref());
        let relative_bias = case.relative_bias.as_ref().zip(self.relative_bias.as_ref());
        ScoreModifiers {
            soft_cap: case.soft_cap.map(E::from_f64),
            bias: bias.map(|(tensor, elements)| tensor.view(elements)),
            relative_bias: relative_bias.map(|(tensor, elements)| tensor.view(elements)),
            sinks: self.sinks.as_deref(),
            score_mod: None,
        }
    }

    pub(super) fn additive(&self) -> AttentionInputs<'_, E> {
        AttentionInputs {
            score: self.additive_score(None),
            ..self.dot_product()
        }
    }

    pub(super) fn additive_score<'b>(&'b self, packed_keys: Option<&'b [E]>) -> Score<'b, E> {
        Score::Additive {
            weight: &self.weight,
            packed_keys,
        }
    }

    pub(super) fn pairwise(&self) -> AttentionInputs<'_, E> {
        AttentionInputs {
            score: Score::Pairwise {
                kernel: &TanhOfDifference,
                weight: Some(&self.weight),
            },
            ..self.dot_product()
        }
    }

    pub(super) fn dot_product(&self) -> AttentionInputs<'_, E> {
        AttentionInputs {
            queries: self.case.queries.view(&self.queries),
            keys: self.case.keys.view(&self.keys),
            values: self.case.values.view(&self.values),
            modifiers: self.modifiers(),
            mask: self.case.mask.mask(),
            score: Score::DotProduct {
                scale: E::from_f64(self.case.scale),
            },
            dropout: self.case.dropout,
        }
    }

    pub(super) fn packed_keys(&self, level: Level) -> Buffer<E> {
        let AdditiveScoreInputs { keys, mask, .. } = self.score();
        AdditiveScoreInputs::packed_keys(keys, mask, self.case.sizes.queries, level)
    }
}

/// Either attention, whose inputs have methods of the same names; of the additive one with the gradient of its weight.
macro_rules! attention {
    ($inputs:ident, $attention:expr, $level:ident, $weight:expr) => {{
        let (attention, weight): (_, Option<&mut [E]>) = ($attention, $weight);
        let [mut queries, mut keys, mut values] = zeros(&$inputs.case.sizes);
        let [context, lse] = $inputs.case.output_lens();
        let (mut context, mut lse) = (outputs::<E>(context), terms(lse));
        let mut modifiers = OfModifiers::zeros(&attention.modifiers);
        attention.forward($level, &mut context, &mut lse);
        let sum = |terms: &LogSumExp| E::from_f64(attention.log_sum_exp(*terms));
        let sums = lse.iter().map(sum).collect();
        let gradients = AttentionGradients {
            queries: Some(&mut queries),
            keys_and_values: KeyValueGradients::Added {
                keys: Some(&mut keys),
                values: Some(&mut values),
            },
            modifiers: modifiers.wanted(),
            weight,
        };
        let gradient = $inputs
            .case
            .context_gradient
            .view(&$inputs.context_gradient);
        let outputs = AttentionOutputs {
            context: Rows::contiguous(&context, gradient.shape()),
            lse: &lse,
            weights: None,
            context_gradient: gradient,
        };
        attention.backward($level, &outputs, gradients);
        let OfModifiers {
            bias,
            relative_bias,
            sinks,
        } = modifiers;
        vec![
            ("context", context),
            ("log-sum-exp", sums),
            ("gradient of queries", queries),
            ("gradient of keys", keys),
            ("gradient of values", values),
            ("gradient of bias", bias.unwrap_or_default()),
            (
                "gradient of relative bias",
                relative_bias.unwrap_or_default(),
            ),
            ("gradient of sinks", sinks.unwrap_or_default()),
        ]
    }};
}

/// Forward, and backward onto zeros. `packed` keys are for additive attention.
pub(super) fn run<E: AttentionReal>(case: &Case, level: Level, packed: bool) -> Found<E> {
    run_stored(case, Storage::Whole, level, packed)
}

/// As [`run`], of inputs that lie in memory as `storage`.
pub(super) fn run_stored<E: AttentionReal>(
    case: &Case,
    storage: Storage,
    level: Level,
    packed: bool,
) -> Found<E> {
    let inputs = Inputs::new(case, storage);
    match case.kind {
        Kind::AdditiveScore => additive_score(&inputs, level),
        Kind::AdditiveAttention => {
            let packed = packed.then(|| inputs.packed_keys(level));
            let attention = AttentionInputs {
                score: inputs.additive_score(packed.as_deref()),
                ..inputs.additive()
            };
            let mut weight = vec![E::ZERO; inputs.weight.len()];
            let mut found = attention!(inputs, attention, level, Some(&mut weight));
            found.push(("gradient of weight", weight));
            found
        }
        Kind::DotProduct => attention!(inputs, inputs.dot_product(), level, None),
        Kind::Pairwise => {
            let mut weight = vec![E::ZERO; inputs.weight.len()];
            let mut found = attention!(inputs, inputs.pairwise(), level, Some(&mut weight));
            found.push(("gradient of weight", weight));
            found
        }
    }
}

/// Zeros for the gradients of queries, keys and values.
fn zeros<E: AttentionReal>(sizes: &Sizes) -> [Vec<E>; 3] {
    let Sizes {
        batch,
        heads,
        key_heads,
        queries,
        keys,
        size,
        value_size,
    } = *sizes;
    [
        batch * heads * queries * size,
        batch * key_heads * keys * size,
        batch * key_heads * keys * value_size,
    ]
    .map(|len| vec![E::ZERO; len])
}

/// The gradients of modifiers.
struct OfModifiers<E> {
    bias: Option<Vec<E>>,
    relative_bias: Option<Vec<E>>,
    sinks: Option<Vec<E>>,
}

impl<E: AttentionReal> OfModifiers<E> {
    fn zeros(modifiers: &ScoreModifiers<E>) -> Self {
        let zeros = |rows: Rows<E>| vec![E::ZERO; rows.shape().iter().product()];
        Self {
            bias: modifiers.bias.map(zeros),
            relative_bias: modifiers.relative_bias.map(zeros),
            sinks: modifiers.sinks.map(|sinks| vec![E::ZERO; sinks.len()]),
        }
    }

    fn wanted(&mut self) -> ModifierGradients<'_, E> {
        ModifierGradients {
            bias: self.bias.as_deref_mut(),
            relative_bias: self.relative_bias.as_deref_mut(),
            sinks: self.sinks.as_deref_mut(),
        }
    }
}

fn additive_score<E: AttentionReal>(inputs: &Inputs<E>, level: Level) -> Found<E> {
    let [mut queries, mut keys, _] = zeros(&inputs.case.sizes);
    let mut scores = outputs(inputs.case.sizes.pairs());
    let mut weight = vec![E::ZERO; inputs.weight.len()];
    let score = inputs.score();
    score.forward(level, &mut scores);
    let gradients = AdditiveScoreGradients {
        queries: Some(&mut queries),
        keys: Some(&mut keys),
        weight: Some(&mut weight),
    };
    let gradient = inputs.case.score_gradient.view(&inputs.score_gradient);
    score.backward(level, gradient, gradients);
    vec![
        ("scores", scores),
        ("gradient of queries", queries),
        ("gradient of keys", keys),
        ("gradient of weight", weight),
    ]
}
