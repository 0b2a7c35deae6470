//! Which path an operation takes: its kernel, or its definition.
//!
//! `ATTENTION_KERNELS=on` runs every operation by its kernel, where there is one, `off` by its definition;
//! `ATTENTION_KERNELS=-linear,+additive_score` runs one by its definition and another by its kernel. `auto`, the
//! default, is `on`, but for attention on a GPU in a build with the feature `autotune` of `attention-core`: there each
//! device chooses, by trying. At level `debug` the log says which path an operation took and why, once for each class
//! of shapes.

use std::collections::HashSet;
#[cfg(feature = "remote")]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;

/// The environment variable that chooses the paths.
const VARIABLE: &str = "ATTENTION_KERNELS";

/// An operation that may have a kernel, of this crate or of `attention-core`: one variable names them all.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(
    missing_docs,
    reason = "the methods of `LayerOps` and `AttentionOps` say it"
)]
pub enum Operation {
    AdditiveAttention,
    DotProductAttention,
    AdditiveScore,
    MaskedSoftmax,
    Rotate,
    Linear,
    SelectRows,
    Activate,
    ActivateLinear,
    Normalize,
    LinearCrossEntropy,
    Recurrent,
    DropoutFactors,
}

impl Operation {
    /// Every one.
    pub const ALL: [Self; 13] = [
        Self::AdditiveAttention,
        Self::DotProductAttention,
        Self::AdditiveScore,
        Self::MaskedSoftmax,
        Self::Rotate,
        Self::Linear,
        Self::SelectRows,
        Self::Activate,
        Self::ActivateLinear,
        Self::Normalize,
        Self::LinearCrossEntropy,
        Self::Recurrent,
        Self::DropoutFactors,
    ];

    /// The name of its method.
    fn name(self) -> &'static str {
        match self {
            Self::AdditiveAttention => "additive_attention",
            Self::DotProductAttention => "dot_product_attention",
            Self::AdditiveScore => "additive_score",
            Self::MaskedSoftmax => "masked_softmax",
            Self::Rotate => "rotate",
            Self::Linear => "linear",
            Self::SelectRows => "select_rows",
            Self::Activate => "activate",
            Self::ActivateLinear => "activate_linear",
            Self::Normalize => "normalize",
            Self::LinearCrossEntropy => "linear_cross_entropy",
            Self::Recurrent => "recurrent",
            Self::DropoutFactors => "dropout_factors",
        }
    }

    /// A set of this one alone.
    pub fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Whether its kernel is not switched off.
    pub fn is_on(self) -> bool {
        COMPOSED.load(Ordering::Relaxed) & self.bit() == 0
    }

    /// Whether a device may choose its path.
    fn is_auto(self) -> bool {
        (COMPOSED.load(Ordering::Relaxed) | FORCED.load(Ordering::Relaxed)) & self.bit() == 0
    }
}

/// Settings of [`VARIABLE`], in bits of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Settings {
    /// Operations that run by their definitions.
    composed: u32,
    /// Operations that run by their kernels, where there are some.
    forced: u32,
}

static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    std::env::var_os(VARIABLE).map_or_else(Settings::default, |value| {
        let value = value.to_string_lossy();
        parse(&value).unwrap_or_else(|expected| {
            log::warn!("{VARIABLE}: expected {expected}, got {value:?}; it counts as `auto`");
            Settings::default()
        })
    })
});

static COMPOSED: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(SETTINGS.composed));

static FORCED: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(SETTINGS.forced));

/// Parses a value of [`VARIABLE`], or says what was expected.
fn parse(value: &str) -> Result<Settings, String> {
    let mut settings = Settings::default();
    let all = Operation::ALL.iter().map(|operation| operation.bit()).sum();
    match value {
        "" | "auto" => return Ok(settings),
        "on" => {
            settings.forced = all;
            return Ok(settings);
        }
        "off" => {
            settings.composed = all;
            return Ok(settings);
        }
        _ => {}
    }
    for item in value.split(',') {
        let item = item.trim();
        let named = |sign: char| {
            let name = item.strip_prefix(sign)?;
            let mut all = Operation::ALL.into_iter();
            all.find(|operation| operation.name() == name)
        };
        let before = settings.composed | settings.forced;
        let bit = if let Some(operation) = named('-') {
            settings.composed |= operation.bit();
            operation.bit()
        } else if let Some(operation) = named('+') {
            settings.forced |= operation.bit();
            operation.bit()
        } else {
            let names = Operation::ALL.map(Operation::name).join(", ");
            return Err(format!(
                "`auto`, `on`, `off`, or some of these with `-` or `+` before each: {names}"
            ));
        };
        if before & bit != 0 {
            return Err("each operation once".to_string());
        }
    }
    Ok(settings)
}

/// Whether the kernel of an operation runs where there is one, or else its definition, whatever the variable says. For
/// benches and tests.
#[doc(hidden)]
pub fn set_kernel(operation: Operation, runs: bool) {
    let [set, unset] = if runs {
        [&FORCED, &COMPOSED]
    } else {
        [&COMPOSED, &FORCED]
    };
    set.fetch_or(operation.bit(), Ordering::Relaxed);
    unset.fetch_and(!operation.bit(), Ordering::Relaxed);
}

/// Leaves the path of an operation to the device, whatever the variable says. For benches and tests.
#[doc(hidden)]
pub fn set_auto(operation: Operation) {
    for bits in [&FORCED, &COMPOSED] {
        bits.fetch_and(!operation.bit(), Ordering::Relaxed);
    }
}

/// The operations whose path is not left to the device, as the variable names them; empty if there are none.
#[doc(hidden)]
pub fn settled() -> String {
    let [composed, forced] = [&COMPOSED, &FORCED].map(|bits| bits.load(Ordering::Relaxed));
    names(Settings { composed, forced })
}

/// The value of [`VARIABLE`] for some settings.
fn names(Settings { composed, forced }: Settings) -> String {
    let name = |operation: Operation| {
        let name = operation.name();
        if composed & operation.bit() != 0 {
            Some(format!("-{name}"))
        } else if forced & operation.bit() != 0 {
            Some(format!("+{name}"))
        } else {
            None
        }
    };
    let names: Vec<String> = Operation::ALL.into_iter().filter_map(name).collect();
    names.join(",")
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

#[cfg(feature = "remote")]
static SERVED: [AtomicU64; Operation::ALL.len()] =
    [const { AtomicU64::new(0) }; Operation::ALL.len()];

/// Counts a call of a kernel by a client of this process.
#[cfg(feature = "remote")]
pub(crate) fn count_served(operation: Operation) {
    SERVED[operation as usize].fetch_add(1, Ordering::Relaxed);
}

/// How many calls of the kernel of an operation this process has run for its clients, forward and backward; see
/// [`remote`](crate::remote).
#[cfg(feature = "remote")]
pub fn served(operation: Operation) -> u64 {
    SERVED[operation as usize].load(Ordering::Relaxed)
}

/// The fastest way to run a call, of those that a device tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fastest {
    /// The operation's kernel.
    Kernel,
    /// Its definition.
    Definition,
}

/// A choice that a device made.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The way to run the call.
    pub fastest: Fastest,
    /// The calls that it was made for, in words.
    pub calls: String,
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
    /// The device chose.
    Tried(Fastest),
}

/// The kernel, if it runs: `has` says whether with the type of `like` on its device.
pub fn chosen<B: Backend, K>(
    operation: Operation,
    kernel: Option<K>,
    like: &FloatTensor<B>,
    has: impl FnOnce() -> bool,
) -> Option<K> {
    chosen_by_trial::<B, K>(operation, kernel, like, has, || None)
}

/// The kernel, if it runs as [`chosen`] says, unless the definition was faster when the device tried. `try_all` has it
/// try, and is not called where the path is settled; it returns `None` if there is no choice.
pub fn chosen_by_trial<B: Backend, K>(
    operation: Operation,
    kernel: Option<K>,
    like: &FloatTensor<B>,
    has: impl FnOnce() -> bool,
    try_all: impl FnOnce() -> Option<Tried>,
) -> Option<K> {
    let mut calls = None;
    let path = match &kernel {
        None => Path::NoKernel,
        Some(_) if !operation.is_on() => Path::SwitchedOff,
        Some(_) if !has() => Path::NotHere,
        Some(_) if !operation.is_auto() => Path::Kernel,
        Some(_) => try_all().map_or(Path::Kernel, |tried| {
            calls = Some(tried.calls);
            Path::Tried(tried.fastest)
        }),
    };
    if log::log_enabled!(log::Level::Debug) {
        say::<B>(operation, path, like, calls);
    }
    kernel.filter(|_| matches!(path, Path::Kernel | Path::Tried(Fastest::Kernel)))
}

/// Says it, if it has not been said of these calls, or else of tensors of about this shape.
fn say<B: Backend>(operation: Operation, path: Path, like: &FloatTensor<B>, calls: Option<String>) {
    static SAID: LazyLock<Mutex<HashSet<(Operation, Path, String)>>> =
        LazyLock::new(Mutex::default);
    let (shape, dtype) = (like.shape(), like.dtype());
    let about = format!("{dtype:?} on {:?}", like.device());
    let about_calls = calls.as_ref().map(|calls| format!(", {calls}"));
    let class = calls.unwrap_or_else(|| format!("{:?}", class(&shape)));
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.insert((operation, path, format!("{class} {about}"))) {
        return;
    }
    drop(said);
    let why = match path {
        Path::Kernel => "by its kernel".to_string(),
        Path::SwitchedOff => "by its definition, as its kernel is switched off".to_string(),
        Path::NoKernel => "by its definition, as there is no kernel".to_string(),
        Path::NotHere => format!("by its definition, as the device has no kernel for {dtype:?}"),
        Path::Tried(Fastest::Kernel) => "by its kernel, the fastest here".to_string(),
        Path::Tried(Fastest::Definition) => "by its definition, the fastest here".to_string(),
    };
    let name = operation.name();
    let about_calls = about_calls.unwrap_or_default();
    log::debug!("{name} of {:?} {about}: {why}{about_calls}", shape.to_vec());
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
        let of = |operations: &[Operation]| -> u32 { operations.iter().map(|of| of.bit()).sum() };
        let all = of(&Operation::ALL);
        let settings = |composed, forced| Ok(Settings { composed, forced });
        assert_eq!(parse(""), settings(0, 0));
        assert_eq!(parse("auto"), settings(0, 0));
        assert_eq!(parse("on"), settings(0, all));
        assert_eq!(parse("off"), settings(all, 0));
        let both = of(&[Operation::Linear, Operation::Recurrent]);
        assert_eq!(parse("-linear, -recurrent"), settings(both, 0));
        let [linear, score] = [Operation::Linear, Operation::AdditiveScore].map(Operation::bit);
        assert_eq!(parse("+additive_score,-linear"), settings(linear, score));
        assert_eq!(all.count_ones() as usize, Operation::ALL.len());
        for wrong in ["linear", "-lines", "off,-linear", "-linear,", "+-linear"] {
            let expected = parse(wrong).expect_err("unknown");
            assert!(expected.contains(" dot_product_attention,"), "{expected}");
        }
        let settled = Settings {
            composed: linear,
            forced: score,
        };
        assert_eq!(names(settled), "+additive_score,-linear");
        assert_eq!(names(Settings::default()), "");
        for twice in ["-linear,+linear", "+linear, -recurrent, +linear"] {
            assert_eq!(parse(twice), Err("each operation once".to_string()));
        }
    }

    #[test]
    fn shapes_of_about_the_same_size_are_of_one_class() {
        assert_eq!(class(&Shape::new([8, 100])), class(&Shape::new([7, 128])));
        assert_ne!(class(&Shape::new([8, 100])), class(&Shape::new([8, 130])));
    }
}
