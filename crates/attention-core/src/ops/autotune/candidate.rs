//! The candidates of a call.

use std::fmt;

use burn::tensor::DType;
use burn_fused_layers::paths::{Fastest, Operation};

use super::limits::Limits;
use crate::ops::call::{Call, MaskForm, ModifierForms};

/// A way to run a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    Kernel,
    Definition,
    Burns,
}

impl Candidate {
    pub(super) const ALL: [Self; 3] = [Self::Kernel, Self::Definition, Self::Burns];

    /// Those of a call. The kernel is the first: CubeCL takes the first where it can measure none.
    pub(super) fn of(call: &Call, limits: &Limits) -> Vec<Self> {
        let is_one = |candidate: &Self| match candidate {
            Self::Kernel => true,
            Self::Definition => {
                !call.has_dropout && Self::is_precise(call) && limits.hold_definition(call)
            }
            Self::Burns => limits.has_matrix_units && Self::is_burns(call),
        };
        Self::ALL.into_iter().filter(is_one).collect()
    }

    /// Whether the definition rounds no more than the kernel, which computes half precision in f32. That of a softmax
    /// does so too; others round scores to the type of the call.
    fn is_precise(call: &Call) -> bool {
        call.dtype.size() >= size_of::<f32>() || call.operation == Operation::MaskedSoftmax
    }

    /// Whether Burn's attention has kernels for a call, and gives what ours gives. They multiply in f16, whatever the
    /// type: bf16 beyond 65,504 would become infinite.
    fn is_burns(call: &Call) -> bool {
        call.operation == Operation::DotProductAttention
            && call.dtype == DType::F16
            && call.is_plain_product
            && call.key_heads == call.heads
            && call.mask == MaskForm::default()
            && call.modifiers == ModifierForms::default()
            && !call.has_dropout
            // Under autodiff it is composed.
            && !call.is_on_graph
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Definition => "definition",
            Self::Burns => "Burn's",
        })
    }
}

impl From<Candidate> for Fastest {
    fn from(candidate: Candidate) -> Self {
        match candidate {
            Candidate::Kernel => Self::Kernel,
            Candidate::Definition => Self::Definition,
            Candidate::Burns => Self::Burns,
        }
    }
}
