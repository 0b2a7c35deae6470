//! Ours, and its peers made of Burn's operations.

use attention_benches::compare::{Candidate, Local};
use attention_benches::composed;
use attention_benches::devices::Named;
use attention_benches::tensors::{Call, call, call_of, leaf, numbers, random};
use attention_benches::work::{Kind, Work};
use attention_core::{AdditiveAttentionConfig, DotProductAttentionConfig, Mask, Memory};
use burn::tensor::module::attention;
use burn::tensor::{Device, Tensor};

use crate::rows::{Row, Rows, Who};

/// The candidate that stores all pairs.
pub(crate) const COMPOSED: &str = "composed";

/// Ours with keys and values that want no gradient.
const FROZEN: &str = "ours, frozen";

/// A call, and what makes it.
pub(crate) struct Attention {
    pub(crate) who: Who,
    pub(crate) name: &'static str,
    pub(crate) call: Call,
}

impl Attention {
    fn new(who: Who, name: &'static str, call: Call) -> Self {
        Self { who, name, call }
    }
}

/// Ours and its peers on every device; ours on the first comes first.
pub(crate) fn on_hosts(work: &Work, devices: &[&Named]) -> Rows<Box<dyn Candidate>> {
    let mut rows = Vec::new();
    for &named in devices {
        let (_, device) = named;
        let [forward, backward] =
            [device.clone(), device.clone().autodiff()].map(|device| attentions(work, &device));
        for (forward, backward) in forward.into_iter().zip(backward) {
            let Attention { who, name, .. } = forward;
            let calls = [forward.call, backward.call];
            let of_passes = calls.map(|call| Some(candidate(name, named, call)));
            rows.push(Row { who, of_passes });
        }
    }
    rows
}

/// `call`, called by `name` and its device.
pub(crate) fn candidate(name: &str, (backend, device): &Named, call: Call) -> Box<dyn Candidate> {
    Box::new(Local::new(format!("{name}, {backend}"), call).on(device))
}

/// Ours and its peers; with gradients on a device that trains.
pub(crate) fn attentions(work: &Work, device: &Device) -> Vec<Attention> {
    match work.kind {
        Kind::Additive => additive(work, device),
        Kind::Decoding => decoding(work, device),
        Kind::DotProduct => dot_product(work, device),
    }
}

fn additive(work: &Work, device: &Device) -> Vec<Attention> {
    let module = AdditiveAttentionConfig::new(work.size, work.size, work.hidden).init(device);
    let inputs = [work.queries, work.keys, work.keys]
        .map(|rows| random([work.batch, rows, work.size], device));
    let score = module.score.clone();
    let parameters = [&score.query, &score.key, &score.value].map(|linear| linear.weight.val());
    let ours = move |[q, k, v]: [Tensor<3>; 3]| module.forward(q, k, v, Mask::none());
    let composed = move |inputs| composed::additive(inputs, &score);
    vec![
        Attention::new(Who::Ours, "ours", call(inputs.clone(), &parameters, ours)),
        Attention::new(Who::Burn, COMPOSED, call(inputs, &parameters, composed)),
    ]
}

fn decoding(work: &Work, device: &Device) -> Vec<Attention> {
    let (batch, queries, keys) = (work.batch, work.queries, work.keys);
    let (size, hidden) = (work.size, work.hidden);
    let module = AdditiveAttentionConfig::new(size, size, hidden).init(device);
    let inputs = [(queries, size), (keys, hidden), (keys, size)]
        .map(|(rows, size)| random([batch, rows, size], device));
    let score = module.score.clone();
    let parameters = [&score.query, &score.value].map(|linear| linear.weight.val());
    let ours = |is_frozen: bool| -> Call {
        let module = module.clone();
        if device.is_autodiff() {
            // A memory carries the graph of its projection, which the gradients would go through and use up. So the
            // projected keys are a leaf here.
            let inputs = inputs.clone();
            let inputs = inputs.map(|tensor| leaf(tensor.unsqueeze_dim::<4>(1)));
            let inputs = if is_frozen { freeze(inputs) } else { inputs };
            call(inputs, &parameters, move |[q, k, v]| {
                module.attend(q, &Memory::of_projected(k, v, Mask::none()), Mask::none())
            })
        } else {
            let [queries, _, values] = inputs.clone();
            let keys = random([batch, keys, size], device);
            let memory = module.prepare(keys, values, Mask::none());
            call_of(device, move || {
                module.attend(queries.clone(), &memory, Mask::none())
            })
        }
    };
    let (ours, frozen) = (ours(false), ours(true));
    let composed = move |inputs| composed::additive_decoding(inputs, &score);
    vec![
        Attention::new(Who::Ours, "ours", ours),
        Attention::new(Who::Frozen, FROZEN, frozen),
        Attention::new(Who::Burn, COMPOSED, call(inputs, &parameters, composed)),
    ]
}

/// Queries as they are, keys and values without a gradient. (Burn's `detach` of a leaf is a leaf again.)
fn freeze([queries, keys, values]: [Tensor<4>; 3]) -> [Tensor<4>; 3] {
    let [keys, values] = [keys, values].map(|rows| rows.set_require_grad(false));
    [queries, keys, values]
}

fn dot_product(work: &Work, device: &Device) -> Vec<Attention> {
    let inputs = [work.queries, work.keys, work.keys].map(|rows| {
        leaf(numbers([work.batch, work.heads, rows, work.size], device).cast(work.dtype))
    });
    let module = DotProductAttentionConfig::new().init();
    let ours = move |[q, k, v]: [Tensor<4>; 3]| module.forward(q, k, v, Mask::none());
    let burns = |[q, k, v]: [Tensor<4>; 3]| attention(q, k, v, None, None, Default::default());
    let composed = call(inputs.clone(), &[], composed::dot_product);
    vec![
        Attention::new(Who::Ours, "ours", call(inputs.clone(), &[], ours.clone())),
        Attention::new(Who::Frozen, FROZEN, call(freeze(inputs.clone()), &[], ours)),
        Attention::new(Who::Burn, COMPOSED, composed),
        Attention::new(Who::Burn, "Burn's attention", call(inputs, &[], burns)),
    ]
}
