//! Tokens: values that only a machine with the instructions can make.

use super::{Float, Simd};

/// Work for one thread, generic over the instruction set.
pub(crate) trait Job<E: Float> {
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`, and so is what they call in inner loops.
    fn run<S: Simd<E>>(self, simd: S) -> Self::Output;
}

/// Proof that the machine has an instruction set.
pub(crate) trait Token: Copy + Send + Sync + 'static {
    /// Does the work in a function of its own, which is compiled once for each job and instruction set.
    ///
    /// # Safety
    /// The machine must have the instruction set, as it has for whoever holds the token. The signature asks once more,
    /// because only a function that is unsafe to call may be compiled for instructions in an implementation of a trait.
    unsafe fn call<E: Float, J: Job<E>>(self, job: J) -> J::Output
    where
        Self: Simd<E>;

    /// States that the caller holds the token.
    #[inline(always)]
    fn vouch(self) {}
}

/// Plain Rust, on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portable;

impl Token for Portable {
    #[inline(never)]
    unsafe fn call<E: Float, J: Job<E>>(self, job: J) -> J::Output
    where
        Self: Simd<E>,
    {
        job.run(self)
    }
}

/// Defines the token of an instruction set by the features that it is made of.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! token {
    ($(#[$doc:meta])* $token:ident, $detected:ident, [$($feature:tt),+]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $token(());

        impl $token {
            /// The token, if the machine has the instructions; Miri has none.
            pub(super) fn detect() -> Option<Self> {
                let is_there = !cfg!(miri) $(&& std::arch::$detected!($feature))+;
                is_there.then_some(Self(()))
            }
        }

        impl $crate::simd::Token for $token {
            #[inline(never)]
            $(#[target_feature(enable = $feature)])+
            unsafe fn call<E: $crate::simd::Float, J: $crate::simd::Job<E>>(self, job: J) -> J::Output
            where
                Self: Simd<E>,
            {
                job.run(self)
            }
        }
    };
}

/// Evaluates intrinsics that compute with registers alone, for whoever holds their token.
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
