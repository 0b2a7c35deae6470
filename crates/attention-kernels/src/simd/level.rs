//! Which instruction set to use.

use std::sync::OnceLock;

/// An instruction set that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(pub(super) Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

/// The environment variable that chooses a level by name.
const VARIABLE: &str = "ATTENTION_SIMD";

impl Level {
    /// Plain Rust, on every machine.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The levels of this machine, the fastest first.
    pub fn available() -> Vec<Self> {
        let mut levels = Vec::new();
        // Miri runs no vendor instructions.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                levels.push(Self(Kind::Avx512));
            }
            if avx2 {
                levels.push(Self(Kind::Avx2));
            }
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        if std::arch::is_aarch64_feature_detected!("neon") {
            levels.push(Self(Kind::Neon));
        }
        levels.push(Self::PORTABLE);
        levels
    }

    /// The level to use: the one that `ATTENTION_SIMD` names (`avx512`, `avx2`, `neon` or `portable`), or else the
    /// fastest of the machine. Read once.
    ///
    /// # Panics
    /// If `ATTENTION_SIMD` names something else, or an instruction set that this machine lacks.
    pub fn current() -> Self {
        static CURRENT: OnceLock<Level> = OnceLock::new();
        *CURRENT.get_or_init(|| match std::env::var_os(VARIABLE) {
            Some(name) => Self::by_name(&name.to_string_lossy()),
            None => Self::available()[0],
        })
    }

    /// The name by which `ATTENTION_SIMD` chooses it.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "neon",
        }
    }

    fn by_name(name: &str) -> Self {
        let levels = Self::available();
        let names: Vec<_> = levels.iter().map(|level| level.name()).collect();
        let chosen = levels.iter().find(|level| level.name() == name);
        *chosen.unwrap_or_else(|| {
            panic!(
                "{VARIABLE}: expected one of {} on this machine, got {name:?}",
                names.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_found_by_its_name() {
        for level in Level::available() {
            assert_eq!(Level::by_name(level.name()), level);
        }
    }

    #[test]
    #[should_panic(expected = "got \"sse9\"")]
    fn an_unknown_name_is_refused() {
        Level::by_name("sse9");
    }
}
