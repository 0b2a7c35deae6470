//! Random numbers that can be drawn again, for dropout without a stored mask.
//!
//! No crate replaces this: generators in crates are streams, whose state would have to be kept or sought; here the
//! number of a weight depends on its position alone, in whatever order and on whatever thread it is drawn.
//!
//! Philox 4x32-10 (Salmon et al. 2011) maps a counter of four words and a key of two to four random words; there is no
//! state. The key is the seed. The counter is `[slot, query, head, batch]`, where 64 keys share 16 slots: key `j` uses
//! word `j % 64 / 16` of slot `16 (j / 64) + j % 16`, so that four whole vectors of random words are in the order of
//! the keys for any number of lanes.

use std::ops::Range;

use cpu_kernels::Real;

use crate::HeadIndex;

/// The number of keys whose numbers are drawn together.
const GROUP: usize = 64;
const SLOTS: usize = 16;

/// Dropout of attention weights: each is set to 0 with some probability, and the others are scaled by
/// `1 / (1 - probability)`.
///
/// Whether a weight is kept depends only on the seed and on its example, head, query and key.
///
/// Srivastava et al. 2014, "Dropout"; random numbers: Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2,
/// 3". PyTorch equivalent: `dropout_p` of `F.scaled_dot_product_attention`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    probability: f64,
    seed: u64,
}

impl Dropout {
    /// # Panics
    /// If `probability` is not in `0..=1`.
    pub fn new(probability: f64, seed: u64) -> Self {
        assert!(
            (0.0..=1.0).contains(&probability),
            "Dropout: expected a probability in 0..=1, got {probability}"
        );
        Self { probability, seed }
    }

    /// The factor of a kept weight: `1 / (1 - probability)`, or 0 if nothing is kept.
    pub fn scale(&self) -> f64 {
        if self.probability < 1.0 {
            1.0 / (1.0 - self.probability)
        } else {
            0.0
        }
    }

    /// Writes the factors of the weights of one query and the keys `start..start + factors.len()`: 0 or
    /// [`scale`](Self::scale).
    pub fn factors<E: Real>(&self, at: HeadIndex, query: usize, start: usize, factors: &mut [E]) {
        self.fill(at, query, start, E::from_f64(self.scale()), factors);
    }

    /// As [`factors`](Self::factors), inlined, with `kept` in place of the scale.
    #[inline(always)]
    pub(crate) fn fill<E: Real>(
        &self,
        at: HeadIndex,
        query: usize,
        start: usize,
        kept: E,
        factors: &mut [E],
    ) {
        // A word is below the threshold with the probability to drop a weight, to within 2^-32.
        let threshold = (self.probability * 4_294_967_296.0).min(4_294_967_295.0) as u32;
        let key = [self.seed as u32, (self.seed >> 32) as u32];
        let end = start + factors.len();
        let mut done = 0;
        while done < factors.len() {
            let group = (start + done) / GROUP;
            let within = (start + done) % GROUP;
            let count = (GROUP - within).min(end - start - done);
            let counter = [
                (group * SLOTS) as u32,
                query as u32,
                at.head as u32,
                at.batch as u32,
            ];
            let mut drawn = [E::ZERO; GROUP];
            for (drawn, words) in drawn.chunks_exact_mut(SLOTS).zip(draw(key, counter)) {
                for (drawn, word) in drawn.iter_mut().zip(words) {
                    *drawn = if word as u32 >= threshold {
                        kept
                    } else {
                        E::ZERO
                    };
                }
            }
            if count == GROUP {
                factors[done..done + GROUP].copy_from_slice(&drawn);
            } else {
                factors[done..done + count].copy_from_slice(&drawn[within..within + count]);
            }
            done += count;
        }
    }

    /// Whether each weight of one query and the keys `keys` is kept.
    pub fn keeps(&self, at: HeadIndex, query: usize, keys: Range<usize>) -> Vec<bool> {
        let mut factors = vec![0.0_f32; keys.len()];
        self.fill(at, query, keys.start, 1.0, &mut factors);
        factors.into_iter().map(|factor| factor != 0.0).collect()
    }
}

/// The four words of 16 counters whose first words follow each other.
///
/// Each word is kept in 64 bits, of which only the lower half counts: a product of lower halves is one instruction, its
/// high word a shift away, and nothing moves between the lanes of vectors. The upper halves of the result are
/// undefined.
#[inline(always)]
fn draw(key: [u32; 2], counter: [u32; 4]) -> [[u64; SLOTS]; 4] {
    const LOW: u64 = 0xffff_ffff;
    let [slot, query, head, batch] = counter;
    let (slot, query) = (u64::from(slot), u64::from(query));
    let (head, batch) = (u64::from(head), u64::from(batch));
    let mut c0: [u64; SLOTS] = std::array::from_fn(|lane| slot + lane as u64);
    let (mut c1, mut c2, mut c3) = ([query; SLOTS], [head; SLOTS], [batch; SLOTS]);
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let (key0, key1) = (u64::from(k0), u64::from(k1));
        for lane in 0..SLOTS {
            let a = (c0[lane] & LOW) * 0xd251_1f53;
            let b = (c2[lane] & LOW) * 0xcd9e_8d57;
            (c0[lane], c2[lane]) = ((b >> 32) ^ c1[lane] ^ key0, (a >> 32) ^ c3[lane] ^ key1);
            (c1[lane], c3[lane]) = (b, a);
        }
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    [c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_random123() {
        let first = |key, counter| draw(key, counter).map(|words| words[0] as u32);
        assert_eq!(
            first([0; 2], [0; 4]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            first([u32::MAX; 2], [u32::MAX; 4]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            first(
                [0xa409_3822, 0x299f_31d0],
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn a_key_draws_the_same_from_wherever_it_is_asked() {
        let at = |batch, head| HeadIndex { batch, head };
        let dropout = Dropout::new(0.4, 17);
        let all = dropout.keeps(at(1, 2), 3, 0..200);
        for start in [0, 1, 15, 63, 64, 65, 130] {
            for end in [start, start + 1, 131, 200] {
                assert_eq!(
                    dropout.keeps(at(1, 2), 3, start..end.max(start)),
                    all[start..end.max(start)]
                );
            }
        }
        for (other, query) in [(at(0, 2), 3), (at(1, 0), 3), (at(1, 2), 4)] {
            assert_ne!(dropout.keeps(other, query, 0..200), all);
        }
        for seed in [18, 17 + (1 << 32)] {
            assert_ne!(Dropout::new(0.4, seed).keeps(at(1, 2), 3, 0..200), all);
        }
    }

    #[test]
    fn the_kept_fraction_is_as_asked() {
        let queries = if cfg!(miri) { 1 } else { 100 };
        for probability in [0.0, 0.1, 0.5, 0.9, 1.0] {
            let dropout = Dropout::new(probability, 3);
            let kept: usize = (0..queries)
                .flat_map(|query| dropout.keeps(HeadIndex::default(), query, 0..1000))
                .filter(|&kept| kept)
                .count();
            let count = queries as f64 * 1000.0;
            let deviation = (count * probability * (1.0 - probability)).sqrt();
            let expected = count * (1.0 - probability);
            assert!(
                (kept as f64 - expected).abs() <= 4.0 * deviation,
                "{probability}: {kept}"
            );
        }
    }
}
