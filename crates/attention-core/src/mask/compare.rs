//! Masks as text, and equality of masks.

use std::fmt;

use burn::tensor::Tensor;

use super::Mask;
use super::dense::Flags;
use super::lengths::Lengths;
use super::positions::Window;

/// The parts of the mask, joined by `&`: `valid lengths [2, 1] & causal`, with the shapes of tensors, or `none`.
impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.parts();
        let lens = own.lens.iter();
        let lens = lens.map(|of| format!("{} {:?}", of.makers, of.ends.dims()));
        let bottom_right = own.windows.bottom_right.iter().map(Window::to_string);
        let top_left = own.windows.top_left.iter();
        let top_left = top_left.map(|window| format!("{window}, top left"));
        let intervals = own.intervals.iter();
        let intervals = intervals.map(|of| format!("intervals {:?}", of.shape));
        let segments = own.segments.iter();
        let segments = segments.map(|of| format!("segments of {} rows", of.batch()));
        let flags = own.flags.iter();
        let flags = flags.map(|of| format!("{} {:?}", of.makers, of.keep.dims()));
        let of_places = bottom_right.chain(top_left).chain(intervals);
        let mut parts: Vec<String> = lens.chain(of_places).chain(segments).chain(flags).collect();
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
