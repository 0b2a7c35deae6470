//! The rates of a GPU, measured on it: multiply-adds, reciprocals and bytes a second.

use std::time::Duration;

use burn::tensor::{DType, Shape};
use burn_cubecl::cubecl;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::Client;
use cubecl::prelude::*;

use crate::compare::timed;
use crate::floors::Rates;
use crate::gpu::Gpu;

/// The units of a cube.
const UNITS: usize = 256;
/// The chains that a unit computes at once: no result waits for another.
const CHAINS: usize = 16;
/// The links of a chain. Mesa's software Vulkan ends longer loops than 65,535.
const STEPS: usize = 1024;
/// A measurement lasts at least so long, that launching it does not count.
const SHORTEST: Duration = Duration::from_millis(20);
/// How often something is counted; the fastest count is taken, as disturbances take time.
const TRIES: usize = 5;
/// The bytes that are copied, many times what a cache holds; less where a buffer cannot be so large.
const COPIED: u64 = 1 << 28;
/// The elements that a unit copies, all loads under way together.
const LOADS: usize = 4;

impl Gpu {
    /// Measures the device.
    ///
    /// # Panics
    /// If a kernel does not run on it.
    pub fn rates(&self) -> Rates {
        let arithmetic = (UNITS * CHAINS * STEPS) as f64;
        let bytes = COPIED.min(self.limits().largest_buffer) as usize;
        let cubes = bytes / size_of::<f32>() / (UNITS * LOADS);
        Rates {
            // x = x / 2 + 1 ends at 2.
            multiply_adds: arithmetic * self.cubes_a_second(2.0, multiply_adds::launch),
            // x = 1 / (x + 1) ends at the golden ratio.
            reciprocals: arithmetic * self.cubes_a_second(0.618_034, reciprocals::launch),
            bytes: self.bytes_a_second(cubes),
        }
    }

    /// The cubes of a kernel of chains that run in a second; every chain ends at `end`.
    fn cubes_a_second(&self, end: f32, launch: Launch) -> f64 {
        let client = self.cube.client();
        let result = self.empty(1);
        let run = |cubes: usize| {
            self.timed(|| {
                launch(
                    &client,
                    cube_count(&client, cubes),
                    CubeDim::new_1d(UNITS as u32),
                    result.clone().into_buffer_arg(),
                    1.0,
                );
            })
        };
        let rate = fastest(64, run);
        let ends = self.read(result)[0] / CHAINS as f32;
        assert!((ends - end).abs() < 1e-4, "chains end at {end}, got {ends}");
        rate
    }

    /// The bytes a second that a copy by `cubes` cubes reads and writes.
    fn bytes_a_second(&self, cubes: usize) -> f64 {
        let client = self.cube.client();
        let elements = cubes * UNITS * LOADS;
        let (from, to) = (self.empty(elements), self.empty(elements));
        let rate = fastest(1, |copies| {
            self.timed(|| {
                for _ in 0..copies {
                    copy::launch(
                        &client,
                        cube_count(&client, cubes),
                        CubeDim::new_1d(UNITS as u32),
                        from.clone().into_buffer_arg(),
                        to.clone().into_buffer_arg(),
                    );
                }
            })
        });
        client.check([&to.handle]).expect("a device copies");
        drop((from, to));
        self.device.memory_cleanup();
        rate * (2 * elements * size_of::<f32>()) as f64
    }

    fn empty(&self, elements: usize) -> CubeTensor {
        empty_device_contiguous_dtype(
            self.cube.client(),
            self.cube.clone(),
            Shape::new([elements]),
            DType::F32,
        )
    }

    fn read(&self, tensor: CubeTensor) -> Vec<f32> {
        let bytes = self.cube.client().read_one(tensor.handle);
        f32::from_bytes(&bytes.expect("a kernel wrote it")).to_vec()
    }

    /// How long the device has to do with `work`.
    fn timed(&self, work: impl FnOnce()) -> Duration {
        let sync = || self.device.sync().expect("a device finishes its work");
        sync();
        timed(|| {
            work();
            sync();
        })
        .0
    }
}

/// So many cubes, in whatever dimensions the device counts them.
fn cube_count(client: &Client, cubes: usize) -> CubeCount {
    cubecl::calculate_cube_count_elemwise(client, cubes, CubeDim::new_single())
}

/// Launches a kernel of chains.
type Launch = fn(&Client, CubeCount, CubeDim, BufferArg, f32);

/// The most of something that is done in a second; `run` does a given number and says how long it took.
fn fastest(first: usize, run: impl Fn(usize) -> Duration) -> f64 {
    run(first); // Compiles.
    let mut count = first;
    while run(count) < SHORTEST {
        count *= 2;
    }
    let times = (0..TRIES).map(|_| run(count));
    count as f64 / times.min().unwrap_or(Duration::MAX).as_secs_f64()
}

#[cube(launch)]
fn multiply_adds(result: &mut [f32], one: f32) {
    let mut chains = Array::<f32>::new(CHAINS);
    #[unroll]
    for n in 0..CHAINS {
        chains[n] = f32::cast_from(UNIT_POS + n as u32);
    }
    for _ in 0..STEPS {
        #[unroll]
        for n in 0..CHAINS {
            chains[n] = fma(chains[n], 0.5f32 * one, one);
        }
    }
    keep(&chains, result);
}

#[cube(launch)]
fn reciprocals(result: &mut [f32], one: f32) {
    let mut chains = Array::<f32>::new(CHAINS);
    #[unroll]
    for n in 0..CHAINS {
        chains[n] = f32::cast_from(UNIT_POS + n as u32);
    }
    for _ in 0..STEPS {
        #[unroll]
        for n in 0..CHAINS {
            chains[n] = 1.0f32 / (chains[n] + one);
        }
    }
    keep(&chains, result);
}

/// The sum of the chains of one unit is the result. What a compiler cannot know: no other's is negative.
#[cube]
fn keep(chains: &Array<f32>, result: &mut [f32]) {
    let mut sum = 0.0f32;
    #[unroll]
    for n in 0..CHAINS {
        sum += chains[n];
    }
    if ABSOLUTE_POS == 0 || sum < 0.0f32 {
        result[0] = sum;
    }
}

/// A cube has [`UNITS`] times [`LOADS`] neighbouring elements.
#[cube(launch)]
fn copy(from: &[f32], to: &mut [f32]) {
    let first = CUBE_POS * comptime!(UNITS * LOADS) + UNIT_POS as usize;
    #[unroll]
    for n in 0..LOADS {
        let at = first + n * UNITS;
        to[at] = from[at];
    }
}
