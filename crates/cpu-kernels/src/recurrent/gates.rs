//! The gates of a forward pass, to be read or replaced by their values.

/// The input projection of the gates, `[examples, steps, G, hidden_size]`.
#[derive(Debug)]
pub(crate) enum Gates<'a, E> {
    /// To be read only.
    Read(&'a [E]),
    /// For the backward pass, replaced by the values of the gates; other values that it needs, `[examples, steps,
    /// values, hidden_size]`, are saved.
    Replaced {
        gates: &'a mut [E],
        saved: &'a mut [E],
    },
}

impl<'a, E> Gates<'a, E> {
    #[inline(always)]
    pub(super) fn elements(&self) -> &[E] {
        match self {
            Self::Read(gates) => gates,
            Self::Replaced { gates, .. } => gates,
        }
    }

    /// The space for saved values; empty if there are none.
    #[inline(always)]
    pub(super) fn saved(&self) -> &[E] {
        match self {
            Self::Read(_) => &[],
            Self::Replaced { saved, .. } => saved,
        }
    }

    /// Cuts them into parts of `units` units; a unit has `gates_of` gates and `saved_of` saved values.
    pub(super) fn parts(self, units: usize, [gates_of, saved_of]: [usize; 2]) -> Vec<Self> {
        match self {
            Self::Read(gates) => gates.chunks(gates_of * units).map(Self::Read).collect(),
            Self::Replaced { gates, saved } => {
                let mut saved = saved.chunks_mut((saved_of * units).max(1));
                let gates = gates.chunks_mut(gates_of * units);
                let parts = gates.map(|gates| Self::Replaced {
                    gates,
                    saved: saved.next().unwrap_or_default(),
                });
                parts.collect()
            }
        }
    }
}
