//! A trial: tensors of a call's shapes, and each candidate run on them.

use std::sync::Arc;

use attention_gpu::caught;
use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::{TensorMetadata, get_device_settings};
use burn::tensor::{DType, Shape, Slice, TensorData};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};
use burn_fused_layers::harness::kernel::{Asked, Kernel};
use burn_fused_layers::harness::optional::OptionalTensor;
use burn_fused_layers::paths::Operation;

use super::candidate::Candidate;
use super::check::agrees;
use crate::ops::attention_backend::AttentionBackend;
use crate::ops::call::Call;
use crate::ops::mask::ResolvedMask;
use crate::ops::score_modifiers::ScoreModifiers;
use crate::ops::{
    AdditiveAttentionInputs, AdditiveScoreInputs, DotProductAttentionInputs, MaskedSoftmaxInputs,
    additive_attention, additive_score, dot_product_attention, masked_softmax,
};

/// A trial of a call's candidates.
#[derive(Clone)]
pub(super) struct Trial {
    key: Arc<str>,
    call: Arc<Call>,
    candidates: Arc<[Candidate]>,
    device: CubeDevice,
    /// The tensors; `None` in the run that CubeCL adds when it has chosen: the call itself is run then.
    inputs: Option<Inputs>,
}

/// The inputs of a call, made for the trial.
#[derive(Clone)]
enum Inputs {
    AdditiveAttention(Box<AdditiveAttentionInputs<CubeBackend>>),
    DotProductAttention(Box<DotProductAttentionInputs<CubeBackend>>),
    AdditiveScore(Box<AdditiveScoreInputs<CubeBackend>>),
    MaskedSoftmax(Box<MaskedSoftmaxInputs<CubeBackend>>),
}

impl Trial {
    pub(super) fn new(
        key: String,
        call: &Call,
        candidates: Vec<Candidate>,
        device: &CubeDevice,
    ) -> Self {
        Self {
            key: key.into(),
            call: Arc::new(call.clone()),
            candidates: candidates.into(),
            device: device.clone(),
            inputs: None,
        }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The trial, ready to run, of the candidates that give what the kernel gives.
    pub(super) fn with_tensors(&self) -> Self {
        let maker = Maker {
            call: &self.call,
            device: &self.device,
        };
        let trial = Self {
            inputs: Some(maker.inputs()),
            ..self.clone()
        };
        let candidates = trial.candidates.iter().copied();
        let candidates = candidates.filter(|candidate| trial.agrees(*candidate));
        Self {
            candidates: candidates.collect(),
            ..trial
        }
    }

    /// Whether a candidate gives what the kernel gives.
    fn agrees(&self, candidate: Candidate) -> bool {
        if candidate == Candidate::Kernel {
            return true;
        }
        // The kernel last: memory that it has filled could pass for the result of a candidate that does not run.
        let results = [candidate, Candidate::Kernel].map(|of| self.clone().result(of));
        let agrees = match results {
            [Ok(Some(result)), Ok(Some(expected))] => caught(|| agrees(result, expected)),
            [Err(why), _] | [_, Err(why)] => Err(why),
            _ => Ok(false),
        };
        let why = match agrees {
            Ok(true) => return true,
            Ok(false) => "it gives something else than the kernel".to_string(),
            Err(why) => why,
        };
        log::warn!(
            "attention: the {candidate} is left out of {}: {why}",
            self.key
        );
        false
    }

    /// Runs a candidate, if it is one of the call's.
    pub(super) fn run(self, candidate: Candidate) -> Result<(), String> {
        self.result(candidate).map(drop)
    }

    /// The result of a candidate, if it is one of the call's; `None` without tensors.
    pub(super) fn result(self, candidate: Candidate) -> Result<Option<CubeTensor>, String> {
        let Some(inputs) = self.inputs else {
            return Ok(None);
        };
        if !self.candidates.contains(&candidate) {
            return Err("no candidate of this call".to_string());
        }
        let wanted = &self.call.wanted;
        let ran = caught(|| inputs.run(candidate, wanted))?;
        let result = ran.ok_or_else(|| "no candidate of this operation".to_string())?;
        Ok(Some(result))
    }
}

/// Runs the candidates of an operation: its kernel by the table, its definition of `composed`.
macro_rules! run {
    ($inputs:expr, $candidate:ident, $wanted:ident, $operation:ident) => {{
        let kernel = CubeBackend::KERNELS.$operation;
        match $candidate {
            Candidate::Kernel => run_kernel(kernel, $inputs, $wanted)?,
            Candidate::Definition if $wanted.is_empty() => $operation::composed::forward($inputs),
            #[cfg(feature = "autodiff")]
            Candidate::Definition => graph::run($inputs, $wanted, $operation::composed::forward),
            #[cfg(not(feature = "autodiff"))]
            Candidate::Definition => return None,
        }
    }};
}

impl Inputs {
    /// The result of a candidate; `None` if the operation has none such.
    fn run(self, candidate: Candidate, wanted: &[bool]) -> Option<CubeTensor> {
        let result = match self {
            Self::DotProductAttention(inputs) => {
                run!(*inputs, candidate, wanted, dot_product_attention)
            }
            Self::AdditiveAttention(inputs) => run!(*inputs, candidate, wanted, additive_attention),
            Self::AdditiveScore(inputs) => run!(*inputs, candidate, wanted, additive_score),
            Self::MaskedSoftmax(inputs) => run!(*inputs, candidate, wanted, masked_softmax),
        };
        Some(result)
    }
}

/// Runs a kernel, with its backward pass if gradients are wanted; its result.
fn run_kernel<I, S, const N: usize>(
    kernel: Option<Kernel<CubeBackend, I, S, N>>,
    inputs: I,
    wanted: &[bool],
) -> Option<CubeTensor> {
    let kernel = kernel?;
    let (result, saved) = (kernel.forward)(inputs);
    if let Ok(wanted) = wanted.try_into() {
        let dtype = result.dtype().into();
        let ones = CubeBackend::float_ones(result.shape(), &result.device(), dtype);
        (kernel.backward)(saved, ones, Asked::whole(wanted));
    }
    Some(result)
}

/// The graph of a definition.
#[cfg(feature = "autodiff")]
mod graph {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Autodiff, AutodiffBackend};
    use burn_cubecl::CubeBackend;
    use burn_cubecl::tensor::CubeTensor;
    use burn_fused_layers::harness::optional::OptionalTensor;
    use burn_fused_layers::harness::tracked::{TensorMap, TrackedInputs};

    type Training = Autodiff<CubeBackend>;

    /// Runs a definition and Burn's backward pass through its graph; the definition's result.
    pub(super) fn run<I, const N: usize>(
        inputs: I,
        wanted: &[bool],
        definition: fn(I::On<Training>) -> FloatTensor<Training>,
    ) -> CubeTensor
    where
        I: TrackedInputs<CubeBackend, N>,
    {
        let tracked = definition(inputs.map(&mut Leaves(wanted.iter())));
        let result = Training::inner(tracked.clone());
        Training::backward(tracked);
        result
    }

    /// Puts tensors on a graph, as leaves where their gradient is wanted.
    struct Leaves<'a>(std::slice::Iter<'a, bool>);

    impl TensorMap<CubeBackend, Training> for Leaves<'_> {
        fn tracked(&mut self, tensor: CubeTensor) -> FloatTensor<Training> {
            let is_wanted = self.0.next().is_some_and(|is_wanted| *is_wanted);
            Training::float_set_require_grad(Training::from_inner(tensor), is_wanted)
        }

        fn tracked_option(
            &mut self,
            tensor: OptionalTensor<CubeBackend>,
        ) -> OptionalTensor<Training> {
            match tensor.into_option() {
                Some(tensor) => Some(self.tracked(tensor)).into(),
                None => {
                    self.0.next();
                    OptionalTensor::Absent
                }
            }
        }

        fn constant(&mut self, tensor: OptionalTensor<CubeBackend>) -> OptionalTensor<Training> {
            tensor.into_option().map(Training::from_inner).into()
        }
    }
}

/// Makes the inputs of a call.
struct Maker<'a> {
    call: &'a Call,
    device: &'a CubeDevice,
}

impl Maker<'_> {
    fn inputs(&self) -> Inputs {
        let Call {
            operation,
            dtype,
            batch,
            heads,
            key_heads,
            queries: num_queries,
            keys: num_keys,
            size,
            value_size,
            ..
        } = *self.call;
        let scale = 1.0 / (size as f64).sqrt();
        let queries = || self.tensor([batch, heads, num_queries, size], dtype);
        let keys = || self.tensor([batch, key_heads, num_keys, size], dtype);
        let values = || self.tensor([batch, key_heads, num_keys, value_size], dtype);
        let weight = || self.tensor([size], dtype);
        let mask = self.mask();
        match operation {
            Operation::AdditiveAttention => {
                Inputs::AdditiveAttention(Box::new(AdditiveAttentionInputs {
                    queries: queries(),
                    keys: keys(),
                    values: values(),
                    weight: weight(),
                    packed_keys: OptionalTensor::Absent,
                    modifiers: self.modifiers(),
                    mask,
                    dropout: 0.0,
                    shared: None,
                }))
            }
            Operation::AdditiveScore => Inputs::AdditiveScore(Box::new(AdditiveScoreInputs {
                queries: queries(),
                keys: keys(),
                weight: weight(),
                mask,
            })),
            Operation::MaskedSoftmax => Inputs::MaskedSoftmax(Box::new(MaskedSoftmaxInputs {
                scores: self.tensor([batch, heads, num_queries, num_keys], dtype),
                mask,
            })),
            _ => Inputs::DotProductAttention(Box::new(DotProductAttentionInputs {
                queries: queries(),
                keys: keys(),
                values: values(),
                modifiers: self.modifiers(),
                mask,
                scale,
                dropout: 0.0,
                shared: None,
            })),
        }
    }

    /// A few thousand sines over and over: no random numbers, and little to upload.
    fn tensor(&self, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
        const PERIOD: usize = 4093;
        let shape: Shape = shape.into();
        let count: usize = shape.iter().product();
        // From 1: the only sine of an integer that is 0 is that of 0.
        let sines: Vec<f32> = (1..=PERIOD).map(|n| (n as f32).sin()).collect();
        let sines = TensorData::new(sines, [1, PERIOD]);
        let sines = CubeBackend::float_from_data(sines, self.device);
        let periods = count.div_ceil(PERIOD);
        let sines = CubeBackend::float_repeat_dim(sines, 0, periods);
        let sines = CubeBackend::float_reshape(sines, [periods * PERIOD].into());
        let sines = CubeBackend::float_slice(sines, &[Slice::from(0..count)]);
        attention_gpu::cast(CubeBackend::float_reshape(sines, shape), dtype)
    }

    fn modifiers(&self) -> ScoreModifiers<CubeBackend> {
        let forms = &self.call.modifiers;
        let bias = |form: &Option<([usize; 4], DType)>| {
            form.map(|(shape, dtype)| self.tensor(shape, dtype)).into()
        };
        let sinks = forms.sinks;
        ScoreModifiers {
            bias: bias(&forms.bias),
            relative_bias: bias(&forms.relative_bias),
            sinks: sinks
                .map(|dtype| self.tensor([self.call.heads], dtype))
                .into(),
            soft_cap: forms.soft_cap,
        }
    }

    /// The call's kind of mask: causal where each query has its own interval; where each example has one, of half of
    /// the keys to all of them, as sentences of a batch; and flags that leave every pair.
    fn mask(&self) -> ResolvedMask<CubeBackend> {
        let Call { queries, keys, .. } = *self.call;
        let intervals = self.call.mask.intervals.map(|[batch, rows]| {
            let ends = (0..batch).flat_map(|example| {
                (0..rows).map(move |query| {
                    if rows > 1 {
                        (keys + query + 1).saturating_sub(queries).min(keys)
                    } else {
                        keys - keys / 2 * example / batch
                    }
                })
            });
            let ends: Vec<i32> = ends.map(|end| end as i32).collect();
            let starts = vec![0; ends.len()];
            [starts, ends].map(|bounds| {
                let data = TensorData::new(bounds, [batch, 1, rows, 1]);
                CubeBackend::int_from_data(data, self.device)
            })
        });
        let keep = self.call.mask.keep.map(|shape| {
            let dtype = get_device_settings::<CubeBackend>(self.device).bool_dtype;
            CubeBackend::bool_ones(shape.into(), self.device, dtype)
        });
        ResolvedMask::on_device(intervals, keep)
    }
}
