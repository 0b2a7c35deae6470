//! Random elements, the same every time.

#![allow(dead_code, reason = "each test uses a part")]

use cpu_kernels::Real;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Drawn in order from a seed.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// One of `0..count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    /// In `0..1`.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// In `-1..1`, and exact in `f32`, so that all types compute with the same.
    pub(crate) fn element(&mut self) -> f64 {
        f64::from(self.0.random_range(-1.0_f32..1.0))
    }

    /// A sum of uniform ones, rounded to `f32` so that all types compute with the same.
    pub(crate) fn normal<E: Real>(&mut self) -> E {
        let sum: f64 = (0..12).map(|_| self.uniform()).sum();
        E::from_f64(f64::from((sum - 6.0) as f32))
    }
}
