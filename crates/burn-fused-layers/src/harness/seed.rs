//! Seeds of kernels, from the generator of a backend.

/// The seed from four random elements in `[0, 1)`: sixteen bits of each. An `f32` below 1 has at least that many.
///
/// ```
/// use burn_fused_layers::harness::seed::seed_of_uniform;
///
/// assert_eq!(seed_of_uniform([0.0, 0.5, 0.25, 1.0 / 65536.0]), 0x8000_4000_0001);
/// ```
pub fn seed_of_uniform(drawn: impl IntoIterator<Item = f32>) -> u64 {
    let bits = |seed: u64, element: f32| seed << 16 | (f64::from(element) * 65536.0) as u64;
    drawn.into_iter().fold(0, bits)
}
