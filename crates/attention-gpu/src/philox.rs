//! The random numbers of dropout, the same as those of `attention_kernels::Dropout`: Philox 4x32-10.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The word of the weight of one query and key.
#[cube]
pub(crate) fn word(seed_low: u32, seed_high: u32, at: &WeightIndex) -> u32 {
    let mut c0 = at.key / 64u32 * 16u32 + at.key % 16u32;
    let mut c1 = at.query;
    let mut c2 = at.head;
    let mut c3 = at.batch;
    let mut k0 = seed_low;
    let mut k1 = seed_high;
    #[unroll]
    for _round in 0..10u32 {
        let a_low = c0 * 0xd251_1f53u32;
        let a_high = c0.mul_hi(0xd251_1f53u32);
        let b_low = c2 * 0xcd9e_8d57u32;
        let b_high = c2.mul_hi(0xcd9e_8d57u32);
        c0 = b_high ^ c1 ^ k0;
        c2 = a_high ^ c3 ^ k1;
        c1 = b_low;
        c3 = a_low;
        k0 += 0x9e37_79b9u32;
        k1 += 0xbb67_ae85u32;
    }
    let which = at.key % 64u32 / 16u32;
    let low = select(which == 0u32, c0, c1);
    let high = select(which == 2u32, c2, c3);
    select(which < 2u32, low, high)
}

/// Of which weight.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct WeightIndex {
    pub(crate) batch: u32,
    pub(crate) head: u32,
    pub(crate) query: u32,
    pub(crate) key: u32,
}
