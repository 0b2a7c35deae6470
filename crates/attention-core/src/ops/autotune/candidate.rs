//! The candidates of a call.

use std::fmt;

use burn::tensor::DType;
use burn_fused_layers::paths::{Fastest, Operation};

use super::limits::Limits;
use crate::ops::call::Call;

/// A way to run a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    Kernel,
    Definition,
}

impl Candidate {
    pub(super) const ALL: [Self; 2] = [Self::Kernel, Self::Definition];

    /// The candidates of a call. The kernel is the first: CubeCL takes the first where it can measure none.
    pub(super) fn of(call: &Call, limits: &Limits) -> Vec<Self> {
        let is_one = |candidate: &Self| match candidate {
            Self::Kernel => true,
            Self::Definition => {
                // A browser can read no result before it goes on, so nothing is compared there.
                !cfg!(target_family = "wasm")
                    && !call.has_dropout
                    && Self::is_precise(call, limits)
                    && limits.hold_definition(call)
            }
        };
        Self::ALL.into_iter().filter(is_one).collect()
    }

    /// Whether the definition rounds no more than the kernel, which computes in f32. The softmax of half precision does
    /// so too, and has no products; other definitions round scores to the type of the call, and matrix products of f32
    /// to TF32 where the device has it (`adjust_dtypes` of cubek-matmul 0.3.1).
    fn is_precise(call: &Call, limits: &Limits) -> bool {
        let is_f32 = call.dtype == DType::F32 && !limits.has_tf32;
        is_f32 || call.operation == Operation::MaskedSoftmax
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Definition => "definition",
        })
    }
}

impl From<Candidate> for Fastest {
    fn from(candidate: Candidate) -> Self {
        match candidate {
            Candidate::Kernel => Self::Kernel,
            Candidate::Definition => Self::Definition,
        }
    }
}
