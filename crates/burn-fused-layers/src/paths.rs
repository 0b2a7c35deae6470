//! Which path an operation takes: its kernel, where there is one, or its definition.
//!
//! `ATTENTION_KERNELS=off` runs every operation by its definition, `ATTENTION_KERNELS=-linear,-additive_score` some of
//! them; `on` is the default. At level `debug` the log says which path an operation took and why, once for each class
//! of shapes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;

/// The environment variable that chooses the paths.
const VARIABLE: &str = "ATTENTION_KERNELS";

/// The operations, each with its name in [`VARIABLE`].
macro_rules! operations {
    ($($operation:ident: $name:literal),+ $(,)?) => {
        /// An operation that may have a kernel, of this crate or of `attention-core`: one variable names them all.
        #[doc(hidden)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "methods of `LayerOps` and `AttentionOps`; attention is two, by its score")]
        pub enum Operation {
            $($operation),+
        }

        impl Operation {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$operation),+];

            /// The name in `ATTENTION_KERNELS`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$operation => $name),+
                }
            }
        }
    };
}

operations! {
    AdditiveAttention: "additive_attention",
    DotProductAttention: "dot_product_attention",
    AdditiveScore: "additive_score",
    MaskedSoftmax: "masked_softmax",
    Rotate: "rotate",
    Linear: "linear",
    SelectRows: "select_rows",
    Activate: "activate",
    ActivateLinear: "activate_linear",
    Normalize: "normalize",
    LinearCrossEntropy: "linear_cross_entropy",
    Recurrent: "recurrent",
    DropoutFactors: "dropout_factors",
}

impl Operation {
    /// A set of this one alone.
    pub fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Whether its kernel is not switched off.
    pub fn is_on(self) -> bool {
        COMPOSED.load(Ordering::Relaxed) & self.bit() == 0
    }
}

/// The operations that run by their definitions, in bits.
static COMPOSED: LazyLock<AtomicU32> = LazyLock::new(|| {
    let composed = std::env::var_os(VARIABLE).map_or(0, |value| {
        let value = value.to_string_lossy();
        parse(&value).unwrap_or_else(|expected| {
            log::warn!("{VARIABLE}: expected {expected}, got {value:?}; it counts as `on`");
            0
        })
    });
    AtomicU32::new(composed)
});

/// Parses a value of [`VARIABLE`] to the operations that run by their definitions, or says what was expected.
fn parse(value: &str) -> Result<u32, String> {
    match value {
        "" | "on" => return Ok(0),
        "off" => return Ok(Operation::ALL.iter().map(|operation| operation.bit()).sum()),
        _ => {}
    }
    let mut composed = 0;
    for item in value.split(',') {
        let name = item.trim().strip_prefix('-');
        let mut all = Operation::ALL.iter();
        let operation = all.find(|operation| Some(operation.name()) == name);
        let operation = operation.ok_or_else(|| {
            let names: Vec<&str> = Operation::ALL.iter().map(|of| of.name()).collect();
            let names = names.join(", ");
            format!("`on`, `off`, or some of these with `-` before each: {names}")
        })?;
        composed |= operation.bit();
    }
    Ok(composed)
}

/// Whether the kernel of an operation runs where there is one, or else its definition, whatever the variable says. For
/// benches and tests.
#[doc(hidden)]
pub fn set_kernel(operation: Operation, runs: bool) {
    if runs {
        COMPOSED.fetch_and(!operation.bit(), Ordering::Relaxed);
    } else {
        COMPOSED.fetch_or(operation.bit(), Ordering::Relaxed);
    }
}

static DEFERS: AtomicBool = AtomicBool::new(true);

/// Whether gradients of what many steps read may be deferred. They may by default. For benches.
#[doc(hidden)]
pub fn set_defers(defers: bool) {
    DEFERS.store(defers, Ordering::Relaxed);
}

/// Whether they may.
#[doc(hidden)]
pub fn defers() -> bool {
    DEFERS.load(Ordering::Relaxed)
}

/// Why an operation takes the path that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Path {
    Kernel,
    /// By [`VARIABLE`] or [`set_kernel`].
    SwitchedOff,
    /// The backend has none, or none for what is asked.
    NoKernel,
    /// The backend has one, but not for the device and the type.
    NotHere,
}

/// The kernel, if it runs: `has` says whether with the type of `like` on its device.
pub fn chosen<B: Backend, K>(
    operation: Operation,
    kernel: Option<K>,
    like: &FloatTensor<B>,
    has: impl FnOnce() -> bool,
) -> Option<K> {
    let path = match &kernel {
        None => Path::NoKernel,
        Some(_) if !operation.is_on() => Path::SwitchedOff,
        Some(_) if !has() => Path::NotHere,
        Some(_) => Path::Kernel,
    };
    if log::log_enabled!(log::Level::Debug) {
        say::<B>(operation, path, like);
    }
    kernel.filter(|_| path == Path::Kernel)
}

/// Says it, if it has not been said of tensors of about this shape.
fn say<B: Backend>(operation: Operation, path: Path, like: &FloatTensor<B>) {
    static SAID: LazyLock<Mutex<HashSet<(Operation, Path, String)>>> =
        LazyLock::new(Mutex::default);
    let (shape, dtype) = (like.shape(), like.dtype());
    let about = format!("{dtype:?} on {:?}", like.device());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.insert((operation, path, format!("{:?} {about}", class(&shape)))) {
        return;
    }
    drop(said);
    let why = match path {
        Path::Kernel => "by its kernel".to_string(),
        Path::SwitchedOff => "by its definition, as its kernel is switched off".to_string(),
        Path::NoKernel => "by its definition, as there is no kernel".to_string(),
        Path::NotHere => format!("by its definition, as the device has no kernel for {dtype:?}"),
    };
    let name = operation.name();
    log::debug!("{name} of {:?} {about}: {why}", shape.to_vec());
}

/// The powers of two next to the sizes.
fn class(shape: &Shape) -> Vec<u32> {
    let sizes = shape.to_vec().into_iter();
    sizes.map(|size| size.next_power_of_two().ilog2()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_chooses_paths_by_name() {
        let of = |operations: &[Operation]| operations.iter().map(|of| of.bit()).sum::<u32>();
        assert_eq!(parse(""), Ok(0));
        assert_eq!(parse("on"), Ok(0));
        assert_eq!(parse("off"), Ok(of(Operation::ALL)));
        let both = of(&[Operation::Linear, Operation::Recurrent]);
        assert_eq!(parse("-linear, -recurrent"), Ok(both));
        assert_eq!(both.count_ones(), 2);
        for wrong in [
            "linear",
            "-lines",
            "off,-linear",
            "-linear,",
            "--linear",
            "+linear",
        ] {
            let expected = parse(wrong).expect_err("unknown");
            assert!(expected.contains(" dot_product_attention,"), "{expected}");
        }
    }

    #[test]
    fn shapes_of_about_the_same_size_are_of_one_class() {
        assert_eq!(class(&Shape::new([8, 100])), class(&Shape::new([7, 128])));
        assert_ne!(class(&Shape::new([8, 100])), class(&Shape::new([8, 130])));
    }
}
