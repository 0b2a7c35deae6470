//! Inputs and gradients of the kernels of the score with a location term.

use cpu_kernels::Real;
use cpu_kernels::checks::check_shape;

use crate::{Mask, Rows};

pub(super) const OPERATION: &str = "location score";

/// Additive scores of one query per example, with a location term: `score[b,j] = sum_u weight[u] tanh(queries[b,u] +
/// keys[b,j,u] + sum_ct filters[c,t,u] alignments[b,c, j + t - width/2])`, where alignments beyond the keys are 0. The
/// scores of masked keys are 0.
///
/// Chorowski et al. 2015, "Attention-Based Models for Speech Recognition", section 2.2; with filters of width 1, the
/// coverage of See, Liu and Manning 2017, "Get To The Point", equation 11.
///
/// # Shapes
/// - queries `[batch, 1, 1, units]`
/// - keys `[batch, 1, keys, units]`
/// - weight `[units]`
/// - alignments `[batch, 1, channels, keys]`
/// - filters `[1, channels, width, units]`, the width odd
#[derive(Clone, Copy, Debug)]
pub struct LocationScoreInputs<'a, E> {
    /// Queries, projected to the hidden units.
    pub queries: Rows<'a, E>,
    /// Keys, projected to the hidden units.
    pub keys: Rows<'a, E>,
    /// The weight of each hidden unit.
    pub weight: &'a [E],
    /// The weights of earlier steps, which the filters run over.
    pub alignments: Rows<'a, E>,
    /// The filter of each channel and hidden unit.
    pub filters: Rows<'a, E>,
    /// Which keys the query attends to.
    pub mask: Mask<'a>,
}

/// The requested gradients, to which [`LocationScoreInputs::backward`] adds; contiguous.
#[derive(Debug)]
pub struct LocationScoreGradients<'a, E> {
    /// `[batch, units]`
    pub queries: Option<&'a mut [E]>,
    /// `[batch, keys, units]`
    pub keys: Option<&'a mut [E]>,
    /// `[units]`
    pub weight: Option<&'a mut [E]>,
    /// `[batch, channels, keys]`
    pub alignments: Option<&'a mut [E]>,
    /// `[channels, width, units]`
    pub filters: Option<&'a mut [E]>,
}

impl<E> LocationScoreGradients<'_, E> {
    /// No gradients.
    pub const NONE: Self = Self {
        queries: None,
        keys: None,
        weight: None,
        alignments: None,
        filters: None,
    };
}

/// The sizes of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub batch: usize,
    pub keys: usize,
    pub units: usize,
    pub channels: usize,
    pub width: usize,
}

impl<E: Real> LocationScoreInputs<'_, E> {
    /// # Panics
    /// If the shapes do not fit together.
    pub(super) fn sizes(&self) -> Sizes {
        let [batch, _, keys, units] = self.keys.shape();
        let [_, channels, width, _] = self.filters.shape();
        let check = |what, expected: [usize; 4], rows: &Rows<E>| {
            check_shape(OPERATION, what, expected, rows.shape());
        };
        check("queries", [batch, 1, 1, units], &self.queries);
        check("keys", [batch, 1, keys, units], &self.keys);
        check("alignments", [batch, 1, channels, keys], &self.alignments);
        check("filters", [1, channels, width, units], &self.filters);
        check_shape(OPERATION, "weight", [units], [self.weight.len()]);
        assert!(
            width % 2 == 1,
            "{OPERATION}: filters of odd width expected, got {width}"
        );
        self.mask.check([batch, 1, 1, keys]);
        Sizes {
            batch,
            keys,
            units,
            channels,
            width,
        }
    }
}
