//! The sizes and options of a call, as the kernels read them.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::philox::{self, WeightIndex};

/// The sizes of a call.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) key_heads: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    /// Of queries and keys.
    pub(crate) size: usize,
    pub(crate) value_size: usize,
    /// How far apart the biases of examples are, and of heads.
    pub(crate) bias_batch: usize,
    pub(crate) bias_head: usize,
    /// The factor on the products.
    pub(crate) scale: f32,
}

/// Dropout of weights, or none.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Dropout {
    /// Four elements in `[0, 1)`, sixteen bits each.
    pub(crate) seed: ComptimeOption<OwnedTensor<f32>>,
    /// A weight is kept if its word is not below.
    pub(crate) threshold: u32,
    /// What a kept weight is multiplied with.
    pub(crate) scale: f32,
}

#[cube]
impl Dropout {
    /// What a weight is multiplied with.
    pub(crate) fn factor(&self, at: &WeightIndex) -> f32 {
        #[comptime]
        match &self.seed {
            ComptimeOption::Some(seed) => {
                let low = bits(seed[2]) << 16u32 | bits(seed[3]);
                let high = bits(seed[0]) << 16u32 | bits(seed[1]);
                let is_kept = philox::word(low, high, at) >= self.threshold;
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

#[cfg(test)]
mod tests {
    use attention_kernels::HeadIndex;
    use burn_backend::DType;
    use burn_cubecl::tensor::CubeTensor;
    use cubecl::wgpu::WgpuDevice;

    use super::*;
    use crate::tensors::empty;

    #[cube(launch)]
    fn factors(dropout: Dropout, to: &mut [f32]) {
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
        factors::launch(
            &client,
            CubeCount::Static(KEYS.div_ceil(64) as u32, 1, 1),
            CubeDim::new_1d(64),
            DropoutLaunch::new(
                Some(seed.into_tensor_arg()).into(),
                (probability * 4_294_967_296.0) as u32,
                1.0,
            ),
            result.clone().into_buffer_arg(),
        );
        let bytes = client.read_one_unchecked(result.handle);
        let kept: Vec<bool> = f32::from_bytes(&bytes).iter().map(|x| *x == 1.0).collect();
        let seed = halves
            .iter()
            .fold(0, |seed, half| seed << 16 | u64::from(*half));
        let at = HeadIndex { batch: 1, head: 2 };
        let expected = attention_kernels::Dropout::new(probability, seed).keeps(at, 3, 0..KEYS);
        assert_eq!(kept, expected);
        assert!(expected.contains(&true) && expected.contains(&false));
    }
}
