//! The kernels.

use attention_kernels::{
    AdditiveScoreGradients, AdditiveScoreInputs, AttentionGradients, AttentionInputs,
    AttentionOutputs, AttentionReal, KeyValueGradients, LogSumExp, ModifierGradients, Rows, Score,
    ScoreModifiers,
};
use cpu_kernels::{Buffer, Level};

use super::case::{Case, Kind};
use super::exact::Found;
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
        let narrow = |elements: &[f64]| elements.iter().map(|x| E::from_f64(*x)).collect();
        Self {
            case,
            queries: case.queries.stored(storage),
            keys: case.keys.stored(storage),
            values: case.values.stored(storage),
            bias: case.bias.as_ref().map(|bias| bias.stored(storage)),
            relative_bias: case.relative_bias.as_ref().map(|bias| bias.stored(storage)),
            sinks: case.sinks.as_deref().map(narrow),
            context_gradient: case.context_gradient.stored(storage),
            score_gradient: case.score_gradient.stored(storage),
            weight: narrow(&case.weight),
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

    pub(super) fn additive_score<'b>(&'b self, packed_keys: Option<&'b [E]>) -> Score<'b, E> {
        Score::Additive {
            weight: &self.weight,
            packed_keys,
        }
    }

    /// Attention by the score of the case.
    pub(super) fn attention(&self) -> AttentionInputs<'_, E> {
        AttentionInputs {
            queries: self.case.queries.view(&self.queries),
            keys: self.case.keys.view(&self.keys),
            values: self.case.values.view(&self.values),
            modifiers: self.modifiers(),
            mask: self.case.mask.mask(),
            score: match self.case.kind {
                Kind::AdditiveScore | Kind::AdditiveAttention => self.additive_score(None),
                Kind::DotProduct => Score::DotProduct {
                    scale: E::from_f64(self.case.scale),
                },
                Kind::Pairwise => Score::Pairwise {
                    kernel: &TanhOfDifference,
                    weight: Some(&self.weight),
                },
            },
            dropout: self.case.dropout,
        }
    }

    pub(super) fn packed_keys(&self, level: Level) -> Buffer<E> {
        let AdditiveScoreInputs { keys, mask, .. } = self.score();
        AdditiveScoreInputs::packed_keys(keys, mask, self.case.sizes.queries, level)
    }
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
    let attention = inputs.attention();
    match case.kind {
        Kind::AdditiveScore => run_score(&inputs, level),
        Kind::AdditiveAttention if packed => {
            let packed = inputs.packed_keys(level);
            let score = inputs.additive_score(Some(&packed));
            run_attention(&inputs, AttentionInputs { score, ..attention }, level)
        }
        _ => run_attention(&inputs, attention, level),
    }
}

/// Zeros for the gradient of a tensor.
fn zeros<E: AttentionReal>(rows: Rows<E>) -> Vec<E> {
    vec![E::ZERO; rows.shape().iter().product()]
}

/// With the gradient of the weight, if the score has one.
fn run_attention<E: AttentionReal>(
    inputs: &Inputs<E>,
    attention: AttentionInputs<E>,
    level: Level,
) -> Found<E> {
    let [context, lse] = inputs.case.output_lens();
    let (mut context, mut lse) = (outputs::<E>(context), terms(lse));
    attention.forward(level, &mut context, &mut lse);
    let sum = |terms: &LogSumExp| E::from_f64(attention.log_sum_exp(*terms));
    let sums = lse.iter().map(sum).collect();
    let tensors = [attention.queries, attention.keys, attention.values];
    let [mut queries, mut keys, mut values] = tensors.map(zeros);
    let modifiers = attention.modifiers;
    let biases = [modifiers.bias, modifiers.relative_bias];
    let [mut bias, mut relative_bias] = biases.map(|bias| bias.map(zeros));
    let mut sinks = modifiers.sinks.map(|sinks| vec![E::ZERO; sinks.len()]);
    let has_weight = !matches!(attention.score, Score::DotProduct { .. });
    let mut weight = has_weight.then(|| vec![E::ZERO; inputs.weight.len()]);
    let gradients = AttentionGradients {
        queries: Some(&mut queries),
        keys_and_values: KeyValueGradients::Added {
            keys: Some(&mut keys),
            values: Some(&mut values),
        },
        modifiers: ModifierGradients {
            bias: bias.as_deref_mut(),
            relative_bias: relative_bias.as_deref_mut(),
            sinks: sinks.as_deref_mut(),
        },
        weight: weight.as_deref_mut(),
    };
    let gradient = inputs.case.context_gradient.view(&inputs.context_gradient);
    let outputs = AttentionOutputs {
        context: Rows::contiguous(&context, gradient.shape()),
        lse: &lse,
        weights: None,
        context_gradient: gradient,
    };
    attention.backward(level, &outputs, gradients);
    let [bias, relative_bias, sinks] = [bias, relative_bias, sinks].map(Option::unwrap_or_default);
    let mut found = vec![
        ("context", context),
        ("log-sum-exp", sums),
        ("gradient of queries", queries),
        ("gradient of keys", keys),
        ("gradient of values", values),
        ("gradient of bias", bias),
        ("gradient of relative bias", relative_bias),
        ("gradient of sinks", sinks),
    ];
    found.extend(weight.map(|weight| ("gradient of weight", weight)));
    found
}

fn run_score<E: AttentionReal>(inputs: &Inputs<E>, level: Level) -> Found<E> {
    let score = inputs.score();
    let [mut queries, mut keys] = [score.queries, score.keys].map(zeros);
    let mut scores = outputs(inputs.case.sizes.pairs());
    let mut weight = vec![E::ZERO; inputs.weight.len()];
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
