//! Masks as text, and equality of masks.

use std::fmt;

use burn::tensor::Tensor;

use super::dense::Flags;
use super::lengths::Lengths;
use super::positions::Window;
use super::{Mask, Parts};

/// The parts of the mask, joined by `&`: `valid lengths [2, 1] & causal`, with the shapes of tensors, or `none`.
impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts {
            lens,
            windows,
            intervals,
            segments,
            flags,
            ..
        } = self.parts();
        let mut parts = Vec::new();
        parts.extend(
            lens.as_ref()
                .map(|of| format!("{} {:?}", of.makers, of.ends.dims())),
        );
        parts.extend(windows.bottom_right.map(|window| window.to_string()));
        parts.extend(windows.top_left.map(|window| format!("{window}, top left")));
        parts.extend(
            intervals
                .as_ref()
                .map(|of| format!("intervals {:?}", of.shape)),
        );
        parts.extend(
            segments
                .iter()
                .map(|of| format!("segments of {} rows", of.batch())),
        );
        parts.extend(
            flags
                .as_ref()
                .map(|of| format!("{} {:?}", of.makers, of.keep.dims())),
        );
        if parts.is_empty() {
            parts.push("none".to_owned());
        }
        f.pad(&parts.join(" & "))
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |keys: Option<usize>| keys.map_or("all".to_owned(), |keys| keys.to_string());
        match self {
            &Self::CAUSAL => f.write_str("causal"),
            Self { before, after } => write!(f, "window ({}, {})", side(*before), side(*after)),
        }
    }
}

/// Masks are equal if they have the same parts with the same numbers; two that mask the same keys in other ways differ.
/// Tensors are read to the host.
impl PartialEq for Mask {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl PartialEq for Lengths {
    fn eq(&self, other: &Self) -> bool {
        let data =
            |of: &Self| [Some(&of.ends), of.of_examples.as_ref()].map(|of| of.map(Tensor::to_data));
        data(self) == data(other)
    }
}

impl PartialEq for Flags {
    fn eq(&self, other: &Self) -> bool {
        let data =
            |of: &Self| [Some(&of.keep), of.of_keys.as_ref()].map(|of| of.map(Tensor::to_data));
        data(self) == data(other)
    }
}
