//! Tokens: values that can only be made on a machine with the instructions.

#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use super::sealed::Sealed;
use super::{Float, Simd};
#[cfg(target_arch = "x86_64")]
use super::{avx2::Avx2, avx512::Avx512};

/// Defines the function of a job that is compiled for an instruction set.
///
/// These are methods of the job, not of the token, whose trait could have a generic one: rustc puts a method into the
/// codegen unit of its `Self`, so the kernels are compiled in parallel instead of all kernels of an instruction set in
/// one unit.
macro_rules! compiled_for {
    ($run:ident, $token:ident, [$($feature:tt),*]) => {
        /// Does the work in a function of its own, compiled for one instruction set.
        ///
        /// # Safety
        /// The machine must have the instruction set, as it does for any holder of the token. The signature requires it
        /// again, because in a trait only an unsafe function may be compiled for special instructions.
        #[doc(hidden)]
        #[inline(never)]
        $(#[target_feature(enable = $feature)])*
        unsafe fn $run(self, token: $token) -> Self::Output
        where
            $token: Simd<E>,
        {
            self.run(token)
        }
    };
}

/// Work for one thread, generic over the instruction set.
pub trait Job<E: Float>: Sized {
    /// Its result.
    type Output;

    /// Does the work. Implementations must be `#[inline(always)]`, like all they call in inner loops.
    fn run<S: Simd<E>>(self, simd: S) -> Self::Output;

    compiled_for!(run_portable, Portable, []);
    #[cfg(target_arch = "x86_64")]
    compiled_for!(run_avx2, Avx2, ["avx2", "fma"]);
    #[cfg(target_arch = "x86_64")]
    compiled_for!(run_avx512, Avx512, ["avx512f", "avx512dq", "avx2", "fma"]);
    #[cfg(target_arch = "aarch64")]
    compiled_for!(run_neon, Neon, ["neon"]);
}

/// Proof that the machine has an instruction set.
pub trait Token: Sealed + Copy + Send + Sync + 'static {
    /// Does the work in the job's function for this instruction set.
    fn call<E: Float, J: Job<E>>(self, job: J) -> J::Output
    where
        Self: Simd<E>;

    /// States that the caller holds the token.
    #[inline(always)]
    fn vouch(self) {}
}

/// Plain Rust, on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portable;

impl Sealed for Portable {}

impl Token for Portable {
    #[inline(always)]
    fn call<E: Float, J: Job<E>>(self, job: J) -> J::Output
    where
        Self: Simd<E>,
    {
        // SAFETY: it needs no instructions that a machine may lack.
        unsafe { job.run_portable(self) }
    }
}

/// Defines the token of an instruction set, given by its CPU features.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! token {
    ($(#[$doc:meta])* $token:ident, $run:ident, $detected:ident, [$($feature:tt),+]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $token(());

        impl $token {
            /// The token, if the machine has the instructions; Miri has none.
            pub(super) fn detect() -> Option<Self> {
                let is_there = !cfg!(miri) $(&& std::arch::$detected!($feature))+;
                is_there.then_some(Self(()))
            }
        }

        impl $crate::simd::sealed::Sealed for $token {}

        impl $crate::simd::Token for $token {
            #[inline(always)]
            fn call<E: $crate::simd::Float, J: $crate::simd::Job<E>>(self, job: J) -> J::Output
            where
                Self: Simd<E>,
            {
                // SAFETY: the token is only made where its instruction set was detected.
                unsafe { job.$run(self) }
            }
        }
    };
}

/// Evaluates intrinsics that only use registers, for any holder of their token.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! registers {
    ($token:expr, $intrinsics:expr) => {{
        $crate::simd::Token::vouch($token);
        #[allow(
            clippy::macro_metavars_in_unsafe,
            reason = "loads and stores stand in blocks of their own"
        )]
        // SAFETY: the token proves that the machine has the instructions, and none of them touches memory.
        unsafe {
            $intrinsics
        }
    }};
}

/// Methods of a token whose bodies are [`registers!`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! register_methods {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),+) -> $output:ty { $intrinsics:expr })+) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            fn $name(self, $($argument: $type),+) -> $output {
                registers!(self, $intrinsics)
            }
        )+
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use {register_methods, registers, token};
