//! The path that an operation takes: its kernel, if there is one, or its definition.
//!
//! `ATTENTION_KERNELS=off` runs every operation by its definition, `ATTENTION_KERNELS=-linear,-additive_score` some of
//! them; `on` is the default. At level `debug` the log says which path an operation took and why, once for each class
//! of shapes.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use burn::backend::tensor::{Device, FloatTensor};
use burn::backend::{Backend, BackendTypes, Dispatch, TensorMetadata};
use burn::tensor::{DType, Shape};
use cpu_kernels::Level;

/// The environment variable that chooses the paths.
const VARIABLE: &str = "ATTENTION_KERNELS";

/// The operations of a crate that may have kernels, as [`operations!`](crate::harness::operations::operations)
/// registers them.
#[doc(hidden)]
pub struct Operations {
    /// The names in [`VARIABLE`], one or more for each method.
    names: &'static [&'static [&'static str]],
    /// The operations of the crate that this one builds on.
    below: Option<&'static Self>,
    /// The operations that run by their definitions, as bits.
    composed: OnceLock<AtomicU32>,
}

impl Operations {
    /// Operations with these names, in a crate that builds on the crate with the operations `below`.
    pub const fn new(
        names: &'static [&'static [&'static str]],
        below: Option<&'static Self>,
    ) -> Self {
        Self {
            names,
            below,
            composed: OnceLock::new(),
        }
    }

    /// Every operation, including those of the crates below.
    pub fn all(&'static self) -> Vec<Operation> {
        let own = (0..self.names().count()).map(|index| Operation { of: self, index });
        let below = self.below.map(Self::all).unwrap_or_default();
        own.chain(below).collect()
    }

    /// The operation with this name, of this crate or one below.
    ///
    /// # Panics
    /// If there is no such operation.
    pub fn named(&'static self, name: &str) -> Operation {
        let operation = self.all().into_iter().find(|of| of.name() == name);
        operation.unwrap_or_else(|| panic!("expected the name of an operation, got {name}"))
    }

    /// Checks the environment variables that choose paths and instruction sets, before a kernel panics about the
    /// latter; returns the first wrong one, what was expected, and what came.
    pub fn check_environment(&'static self) -> Result<(), [String; 3]> {
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        let value = value.to_string_lossy();
        if !self.parse(&value).1.is_empty() {
            let names: Vec<&str> = self.all().iter().map(|of| of.name()).collect();
            let names = names.join(", ");
            let expected = format!("`on`, `off`, or some of these with `-` before each: {names}");
            return Err([VARIABLE.to_owned(), expected, format!("{value:?}")]);
        }
        let level = Level::chosen().map(drop);
        level.map_err(|[expected, found]| [Level::VARIABLE.to_owned(), expected, found])
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.iter().copied().flatten().copied()
    }

    fn composed(&self) -> &AtomicU32 {
        self.composed.get_or_init(|| {
            let value = std::env::var_os(VARIABLE).unwrap_or_default();
            let value = value.to_string_lossy();
            let (composed, unknown) = self.parse(&value);
            // The lowest crate does not know the other crates' names, so it only reports items that cannot be names.
            let is_for_this = |item: &&str| item.starts_with('-') == self.below.is_some();
            for item in unknown.into_iter().filter(is_for_this) {
                let own = self.names();
                let names: Vec<&str> = own.chain(self.below.into_iter().flat_map(Self::names)).collect();
                log::warn!(
                    "{VARIABLE}: expected `on`, `off`, or names with `-` before each, as {}; got {item:?}, which is \
                     ignored",
                    names.join(", ")
                );
            }
            AtomicU32::new(composed)
        })
    }

    /// Parses a value of [`VARIABLE`]: the operations that run by their definitions, and the items that are unknown.
    fn parse<'a>(&self, value: &'a str) -> (u32, Vec<&'a str>) {
        let (mut composed, mut unknown) = (0, Vec::new());
        match value {
            "" | "on" => return (composed, unknown),
            "off" => return (u32::MAX, unknown),
            _ => {}
        }
        for item in value.split(',').map(str::trim) {
            let is_item = |name: &str| item.strip_prefix('-') == Some(name);
            match self.names().position(is_item) {
                Some(index) => composed |= 1 << index,
                None if self.below.is_some_and(|below| below.names().any(is_item)) => {}
                None => unknown.push(item),
            }
        }
        (composed, unknown)
    }
}

/// An operation that may have a kernel.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Operation {
    of: &'static Operations,
    index: usize,
}

impl Operation {
    /// The name in `ATTENTION_KERNELS`.
    pub fn name(self) -> &'static str {
        self.of.names().nth(self.index).expect("an index of a name")
    }

    /// Whether its kernel is switched on.
    pub fn is_on(self) -> bool {
        self.of.composed().load(Ordering::Relaxed) & 1 << self.index == 0
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Sets whether an operation runs its kernel, if there is one, or its definition, whatever the variable says. For
/// benchmarks and tests.
#[doc(hidden)]
pub fn set_kernel(operation: Operation, runs: bool) {
    let (composed, bit) = (operation.of.composed(), 1 << operation.index);
    if runs {
        composed.fetch_and(!bit, Ordering::Relaxed);
    } else {
        composed.fetch_or(bit, Ordering::Relaxed);
    }
}

static DEFERS: AtomicBool = AtomicBool::new(true);

/// Sets whether gradients of tensors that many steps read may be deferred. By default they may. For benchmarks.
#[doc(hidden)]
pub fn set_defers(defers: bool) {
    DEFERS.store(defers, Ordering::Relaxed);
}

/// Whether gradients may be deferred.
#[doc(hidden)]
pub fn defers() -> bool {
    DEFERS.load(Ordering::Relaxed)
}

/// The reason for the path of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Path {
    Kernel,
    /// [`VARIABLE`] or [`set_kernel`] switched the kernel off.
    SwitchedOff,
    /// The backend has no kernel, or none for this request.
    NoKernel,
    /// The backend has a kernel, but not for the device and the type.
    NotHere,
    /// The operation was composed before it reached the backend, for this reason.
    InSteps(&'static str),
}

/// The kernel, if it runs with tensors like this one, of the backend `B` or of its autodiff: `runs_on` tells whether it
/// runs on a device, with a type.
#[doc(hidden)]
pub fn chosen<B: Backend, A, K>(
    operation: Operation,
    kernel: Option<K>,
    like: &FloatTensor<A>,
    runs_on: fn(&Device<B>, DType, Operation) -> bool,
) -> Option<K>
where
    A: Backend + BackendTypes<Device = Device<B>>,
{
    let path = match &kernel {
        None => Path::NoKernel,
        Some(_) if !operation.is_on() => Path::SwitchedOff,
        Some(_) if !runs_on(&like.device(), like.dtype(), operation) => Path::NotHere,
        Some(_) => Path::Kernel,
    };
    if log::log_enabled!(log::Level::Debug) {
        say::<A>(operation.name(), path, like);
    }
    kernel.filter(|_| path == Path::Kernel)
}

/// Logs that an operation is composed before it reaches a backend, and why.
#[doc(hidden)]
pub fn composed(name: &'static str, why: &'static str, like: &FloatTensor<Dispatch>) {
    if log::log_enabled!(log::Level::Debug) {
        say::<Dispatch>(name, Path::InSteps(why), like);
    }
}

/// Logs the path, unless it was already logged for tensors of about this shape.
fn say<B: Backend>(name: &'static str, path: Path, like: &FloatTensor<B>) {
    type Said = HashSet<(&'static str, Path, String)>;
    static SAID: LazyLock<Mutex<Said>> = LazyLock::new(Mutex::default);
    let (shape, dtype) = (like.shape(), like.dtype());
    let about = format!("{dtype:?} on {:?}", like.device());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.insert((name, path, format!("{:?} {about}", class(&shape)))) {
        return;
    }
    drop(said);
    let why = match path {
        Path::Kernel => "by its kernel".to_string(),
        Path::SwitchedOff => "by its definition, as its kernel is switched off".to_string(),
        Path::NoKernel => "by its definition, as there is no kernel".to_string(),
        Path::NotHere => format!("by its definition, as the device has no kernel for {dtype:?}"),
        Path::InSteps(why) => format!("by its definition, as {why}"),
    };
    log::debug!("{name} of {:?} {about}: {why}", shape.to_vec());
}

/// The sizes, rounded to powers of two.
fn class(shape: &Shape) -> Vec<u32> {
    let sizes = shape.to_vec().into_iter();
    sizes.map(|size| size.next_power_of_two().ilog2()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_chooses_paths_by_name() {
        static BELOW: Operations = Operations::new(&[&["linear"], &["recurrent"]], None);
        static ABOVE: Operations =
            Operations::new(&[&["additive", "dot"], &[], &["rotate"]], Some(&BELOW));
        assert_eq!(
            format!("{:?}", ABOVE.all()),
            "[additive, dot, rotate, linear, recurrent]"
        );
        for on in ["", "on"] {
            assert_eq!(ABOVE.parse(on), (0, vec![]));
        }
        assert_eq!(ABOVE.parse("off").0 & 0b111, 0b111);
        assert_eq!(ABOVE.parse("-linear, -rotate"), (0b100, vec![]));
        assert_eq!(BELOW.parse("-linear, -rotate"), (0b1, vec!["-rotate"]));
        for (wrong, item) in [
            ("linear", "linear"),
            ("-lines", "-lines"),
            ("off,-dot", "off"),
            ("-dot,", ""),
            ("--dot", "--dot"),
            ("+dot", "+dot"),
        ] {
            assert_eq!(ABOVE.parse(wrong).1, [item], "{wrong}");
        }
        set_kernel(ABOVE.named("dot"), false);
        set_kernel(ABOVE.named("recurrent"), false);
        let on = ABOVE.all().into_iter().map(Operation::is_on);
        assert_eq!(on.collect::<Vec<_>>(), [true, false, true, true, false]);
    }

    #[test]
    fn shapes_of_about_the_same_size_are_of_one_class() {
        assert_eq!(class(&Shape::new([8, 100])), class(&Shape::new([7, 128])));
        assert_ne!(class(&Shape::new([8, 100])), class(&Shape::new([8, 130])));
    }
}
