//! Limits of a device for the candidates: definitions store tensors of all pairs.

use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::ir::{ElemType, FloatKind};
use burn_fused_layers::paths::Operation;

use crate::ops::call::Call;

/// Tensors of all pairs that the graph of a definition keeps until its backward pass, about: scores and weights, their
/// parts that are finite and the rest, and masks. In inference each goes when the next ones are there.
const KEPT: u64 = 8;

/// The part of a device's memory that what one call keeps may take. A model has dozens of calls, and the rest of a
/// training step wants memory, too.
const PART_OF_MEMORY: u64 = 64;

/// The part of a device's memory that one tensor may take in inference: a few are there at a time, beside the model.
const PART_IN_INFERENCE: u64 = 8;

/// The memory of a device that does not state it, as none does in WGSL (cubecl-wgpu 0.11.3): a small device's.
const UNSTATED_MEMORY: u64 = 1 << 30;

/// Limits of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of one tensor.
    pub(super) largest_buffer: u64,
    /// Bytes of all tensors, where the device states them.
    pub(super) memory: Option<u64>,
    /// Whether matrix products of f32 may be rounded to TF32.
    pub(super) has_tf32: bool,
    /// Whether additive scores are composed wherever they are part of a definition, with the hidden units of all pairs.
    pub(super) composes_scores: bool,
}

impl Limits {
    pub(super) fn of(client: &Client) -> Self {
        let properties = client.properties();
        Self {
            largest_buffer: properties.memory.max_page_size,
            memory: properties.memory.max_memory(),
            has_tf32: properties.supports_type(ElemType::Float(FloatKind::TF32)),
            composes_scores: !Operation::AdditiveScore.is_on(),
        }
    }

    /// Whether the tensors of a call's definition fit: each into a buffer, so that it is not computed in chunks, and in
    /// inference into [a part](PART_IN_INFERENCE) of the memory; what the graph of autodiff keeps also into one buffer,
    /// and into [a smaller part](PART_OF_MEMORY). Without that, attention that trains in memory for queries and keys
    /// would take memory for their product because it is faster, until it fails.
    pub(super) fn hold_definition(&self, call: &Call) -> bool {
        let product = |factors: &[usize]| {
            let factors = factors.iter().map(|factor| *factor as u64);
            factors.fold(1, u64::saturating_mul)
        };
        let elements_of_pair = match call.operation {
            Operation::AdditiveScore => call.size,
            // Else its score is an operation of its own, with limits of its own.
            Operation::AdditiveAttention if self.composes_scores => call.size,
            _ => 1,
        };
        // Softmax of half precision is computed in f32.
        let size = call.dtype.size().max(size_of::<f32>());
        let rows = [call.batch, call.heads, call.keys, size];
        let pairs = product(&rows).saturating_mul(product(&[call.queries, elements_of_pair]));
        // Keys and values that heads share are repeated for each.
        let repeated = product(&rows).saturating_mul(product(&[call.size.max(call.value_size)]));
        let part = |part: u64| self.memory.unwrap_or(UNSTATED_MEMORY) / part;
        if call.wanted.is_empty() {
            let largest = pairs.max(repeated);
            largest <= self.largest_buffer.min(part(PART_IN_INFERENCE))
        } else {
            // The graph keeps both, and copies of their parts.
            let kept = pairs.saturating_add(repeated).saturating_mul(KEPT);
            kept <= self.largest_buffer.min(part(PART_OF_MEMORY))
        }
    }
}
