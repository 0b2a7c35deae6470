//! The instruction set to use.

use std::fmt;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use super::token::Portable;

/// An instruction set of this machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Level(pub(super) Kind);

/// The tokens: a level can only be made from one that was detected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Portable(Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl Level {
    /// The environment variable that chooses a level by name.
    pub const VARIABLE: &str = "ATTENTION_SIMD";

    /// Plain Rust, on every machine.
    pub const PORTABLE: Self = Self(Kind::Portable(Portable));

    /// The levels of this machine, fastest first.
    pub fn available() -> Vec<Self> {
        let found = [
            #[cfg(target_arch = "x86_64")]
            Avx512::detect().map(Kind::Avx512),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(Kind::Avx2),
            #[cfg(target_arch = "aarch64")]
            Neon::detect().map(Kind::Neon),
            Some(Kind::Portable(Portable)),
        ];
        found.into_iter().flatten().map(Self).collect()
    }

    /// The level to use: the one named by `ATTENTION_SIMD` (`avx512`, `avx2`, `neon` or `portable`), otherwise the
    /// fastest of the machine. The variable is read once.
    ///
    /// # Panics
    /// If it names no level of this machine; [`chosen`](Self::chosen) reports that in advance.
    pub fn current() -> Self {
        static CURRENT: OnceLock<Level> = OnceLock::new();
        *CURRENT.get_or_init(|| {
            Self::chosen().unwrap_or_else(|[expected, found]| {
                panic!("{}: expected {expected}, got {found}", Self::VARIABLE)
            })
        })
    }

    /// The level named by `ATTENTION_SIMD`; the fastest if it is empty or not set.
    ///
    /// # Errors
    /// The levels of this machine, and the given name, if it is not one of them.
    pub fn chosen() -> Result<Self, [String; 2]> {
        let name = std::env::var_os(Self::VARIABLE).unwrap_or_default();
        let name = name.to_string_lossy();
        let levels = Self::available();
        if name.is_empty() {
            return Ok(levels[0]);
        }
        Self::by_name(&name).ok_or_else(|| {
            let names: Vec<_> = levels.iter().map(|level| level.name()).collect();
            let expected = format!("one of {}, the levels of this machine", names.join(", "));
            [expected, format!("{name:?}")]
        })
    }

    /// The name by which `ATTENTION_SIMD` chooses this level.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(_) => "neon",
        }
    }

    fn by_name(name: &str) -> Option<Self> {
        let mut levels = Self::available().into_iter();
        levels.find(|level| level.name() == name)
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Level({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_found_by_its_name() {
        for level in Level::available() {
            assert_eq!(Level::by_name(level.name()), Some(level));
        }
        assert_eq!(Level::by_name("sse9"), None);
    }
}
