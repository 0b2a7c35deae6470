//! Choices, taken from bytes.

/// Bytes to choose with; zeros follow the last.
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn next(&mut self) -> usize {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                usize::from(*first)
            }
            None => 0,
        }
    }

    /// One of `choices`.
    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.next() % choices.len()]
    }
}

/// Numbers that look random, the same for the same seed; drawn in order.
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new(seed: usize) -> Self {
        Self(seed as u64)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    /// In `-1..1`, and exact in `f32`, so that both types start from the same numbers.
    pub(super) fn number(&mut self) -> f64 {
        (self.next() >> 40) as f64 / f64::from(1_u32 << 23) - 1.0
    }
}
