//! Dropout of weights: the random numbers of `attention_kernels::Dropout`, Philox 4x32-10.

use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Dropout of weights, after softmax.
///
/// The dropped weights are those of `attention_kernels::Dropout` with the seed `s0 << 48 | s1 << 32 | s2 << 16 | s3`,
/// where `si` are the first sixteen bits of the tensor's fractions.
#[derive(Clone, Debug)]
pub struct Dropout {
    /// The probability to drop a weight; the other weights are divided by its complement.
    pub probability: f64,
    /// Four elements in `[0, 1)`, in f32.
    pub seed: CubeTensor,
}

impl Dropout {
    /// The argument of the kernels; without dropout, one that keeps all weights.
    pub(crate) fn arg(dropout: Option<&Self>) -> WeightDropoutLaunch {
        let probability = dropout.map_or(0.0, |dropout| dropout.probability);
        let seed = dropout.map(|dropout| dropout.seed.clone().into_tensor_arg());
        WeightDropoutLaunch::new(
            seed.into(),
            // As on the CPU.
            (probability * 4_294_967_296.0).min(4_294_967_295.0) as u32,
            if probability < 1.0 {
                (1.0 / (1.0 - probability)) as f32
            } else {
                0.0
            },
        )
    }
}

/// Dropout of weights in a kernel, or none.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct WeightDropout {
    seed: ComptimeOption<OwnedTensor<f32>>,
    /// A weight is kept if its random word is not below this.
    threshold: u32,
    /// The factor on kept weights.
    scale: f32,
}

/// The position of a weight, for which its random word is drawn.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct WeightIndex {
    pub(crate) batch: u32,
    pub(crate) head: u32,
    pub(crate) query: u32,
    pub(crate) key: u32,
}

#[cube]
impl WeightDropout {
    /// The factor on a weight: 0 if it is dropped.
    pub(crate) fn factor(&self, at: &WeightIndex) -> f32 {
        #[comptime]
        match &self.seed {
            ComptimeOption::Some(seed) => {
                let low = bits(seed[2]) << 16u32 | bits(seed[3]);
                let high = bits(seed[0]) << 16u32 | bits(seed[1]);
                let is_kept = word(low, high, at) >= self.threshold;
                select(is_kept, self.scale, 0.0f32)
            }
            ComptimeOption::None => 1.0f32.runtime(),
        }
    }
}

/// The first sixteen bits of a fraction.
#[cube]
fn bits(fraction: f32) -> u32 {
    u32::cast_from(fraction * 65536.0f32)
}

/// The random word of one weight.
#[cube]
fn word(seed_low: u32, seed_high: u32, at: &WeightIndex) -> u32 {
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

#[cfg(test)]
mod tests {
    use attention_kernels::HeadIndex;
    use burn_backend::DType;
    use cubecl::wgpu::WgpuDevice;

    use super::*;
    use crate::host::tensors::empty;

    #[cube(launch)]
    fn factors(dropout: &WeightDropout, to: &mut [f32]) {
        let at = WeightIndex {
            batch: 1u32.runtime(),
            head: 2u32.runtime(),
            query: 3u32.runtime(),
            key: ABSOLUTE_POS as u32,
        };
        if ABSOLUTE_POS < to.len() {
            to[ABSOLUTE_POS] = dropout.factor(&at);
        }
    }

    #[test]
    fn drops_what_the_cpu_drops() {
        const KEYS: usize = 500;
        let device = cubecl::Device::Wgpu(WgpuDevice::default());
        let client = device.client();
        let halves: [u32; 4] = [0x1234, 0xffff, 0x0001, 0xabcd];
        let fractions = halves.map(|half| half as f32 / 65536.0 + 1e-6);
        let seed = client.create_from_slice(f32::as_bytes(&fractions));
        let seed = CubeTensor::new_contiguous(client.clone(), device, [4].into(), seed, DType::F32);
        let result = empty(&seed, [KEYS], DType::F32);
        let probability = 0.3_f64;
        let dropout = Dropout { probability, seed };
        factors::launch(
            &client,
            CubeCount::Static(KEYS.div_ceil(64) as u32, 1, 1),
            CubeDim::new_1d(64),
            Dropout::arg(Some(&dropout)),
            result.clone().into_buffer_arg(),
        );
        let bytes = client.read_one_unchecked(result.handle);
        let kept: Vec<bool> = f32::from_bytes(&bytes).iter().map(|x| *x != 0.0).collect();
        let seed = halves
            .iter()
            .fold(0, |seed, half| seed << 16 | u64::from(*half));
        let at = HeadIndex { batch: 1, head: 2 };
        let expected = attention_kernels::Dropout::new(probability, seed).keeps(at, 3, 0..KEYS);
        assert_eq!(kept, expected);
        assert!(expected.contains(&true) && expected.contains(&false));
    }
}
