//! Kernels of the distance, for smoothing without softmax.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::harness::wide::{wide, widened};

use super::ScoringFunction;
use super::norms::{safe_sqrt, squared_norms};
use crate::functional;
use crate::mask::Mask;

/// Up to this number of components, distances are sums of squared differences: exact to rounding, with one pass over
/// all pairs per component. Beyond it, they come from one matrix product, which is faster but subject to cancellation.
const FEW_COMPONENTS: usize = 8;

/// A smoothing kernel: how much a key at distance `x`, in widths, counts.
#[derive(Config, Debug, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// `exp(-x^2 / 2)`.
    Gaussian,
    /// 1 where `x < 1`, else 0, without a gradient: the mean of the nearby values ("boxcar").
    Box,
    /// `max(0, 1 - x^2)`, the kernel of Epanechnikov 1969. (Its factor 3/4 cancels in the weights.)
    Epanechnikov,
    /// `max(0, 1 - x)`, which *Dive into Deep Learning* calls "epanechikov".
    Triangular,
    /// 1, without a gradient: the mean of all unmasked values.
    Constant,
}

/// Configuration of [`KernelScore`].
#[derive(Config, Debug)]
pub struct KernelScoreConfig {
    /// The kernel.
    pub kernel: Kernel,
    /// The distance that counts as `x = 1`.
    #[config(default = 1.0)]
    pub width: f64,
}

impl KernelScoreConfig {
    /// The score; it has no parameters.
    ///
    /// # Panics
    /// If `width` is not finite or not above 0.
    pub fn init(&self) -> KernelScore {
        let width = self.width;
        assert!(
            width.is_finite() && width > 0.0,
            "KernelScoreConfig: width expected a finite number above 0, got {width}"
        );
        KernelScore {
            kernel: self.kernel,
            width,
        }
    }
}

/// `a(q, k) = K(|q - k| / width)` for a [`Kernel`] `K`, for queries and keys of one size.
///
/// With [`Normalizer::SumNormalized`](crate::Normalizer::SumNormalized) this is the Nadaraya-Watson estimator,
/// `f(q) = sum_j v_j K(q, k_j) / sum_j K(q, k_j)`, for any kernel. It stores scores and weights; a Gaussian kernel that
/// streams is [`GaussianScore`](crate::score::GaussianScore) with softmax.
///
/// A Gaussian kernel vanishes in f32 at some 13 widths, and a query that far from all keys has weights 0;
/// [`GaussianScore`](crate::score::GaussianScore) with softmax has no such limit. For half precision, scores are f32
/// and vanish no sooner. Distances with up to 8 components are computed by differences, others as `|q|^2 + |k|^2 - 2 q
/// . k`, whose error is about the rounding of its terms.
///
/// Nadaraya 1964, "On Estimating Regression"; Watson 1964, "Smooth Regression Analysis"; *Dive into Deep Learning*,
/// section 11.2.
///
/// ```
/// use attention_core::{Attention, Mask, Normalizer};
/// use attention_core::score::{Kernel, KernelScoreConfig};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let score = KernelScoreConfig::new(Kernel::Box).with_width(2.0).init();
/// let regression = Attention::new(score, 0.0).with_normalizer(Normalizer::SumNormalized);
/// let x = Tensor::<3>::from_floats([[[0.0], [1.0], [5.0]]], &device);
/// let y = Tensor::<3>::from_floats([[[2.0], [4.0], [7.0]]], &device);
/// let at = Tensor::<3>::from_floats([[[0.5], [5.0], [9.0]]], &device);
/// let estimate = regression.forward(at, x, y, &Mask::none());
/// // The mean of two, one alone, and none within reach.
/// assert_eq!(estimate.into_data().to_vec::<f32>().unwrap(), [3.0, 7.0, 0.0]);
/// ```
#[derive(Module, Debug)]
pub struct KernelScore {
    #[module(skip)]
    kernel: Kernel,
    width: f64,
}

impl ScoringFunction for KernelScore {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        let [batch, heads, num_queries, size] = queries.dims();
        let [_, _, num_keys, _] = keys.dims();
        assert_shape!(keys, [batch, heads, num_keys, size]);
        let shape = [batch, heads, num_queries, num_keys];
        let options = (&queries.device(), wide(queries.dtype()));
        if shape.contains(&0) {
            return Tensor::zeros(shape, options);
        }
        let squared = self.squared_distances(widened(queries), widened(keys), mask);
        match self.kernel {
            Kernel::Gaussian => (squared * -0.5).exp(),
            Kernel::Box => {
                let inside = squared.clone().lower_elem(1.0);
                squared.zeros_like().mask_fill(inside, 1.0)
            }
            Kernel::Epanechnikov => relu(1.0 - squared),
            Kernel::Triangular => relu(1.0 - safe_sqrt(squared)),
            Kernel::Constant => squared.ones_like(),
        }
    }
}

impl KernelScore {
    /// `|q - k|^2 / width^2`, set to 0 where masked before anything is squared: the gradient of a square multiplies by
    /// the content of a masked key.
    fn squared_distances(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        let [_, _, _, size] = queries.dims();
        // A multiplication: Burn 0.22 rounds the gradient of a division by a number to f32.
        let inverse_width = 1.0 / self.width;
        if size > FEW_COMPONENTS {
            let [_, heads, num_queries, _] = queries.dims();
            let keys = functional::fill_padding(keys, mask, [heads, num_queries]);
            let (queries, keys) = (queries * inverse_width, keys * inverse_width);
            let key_norms = squared_norms(keys.clone()).swap_dims(2, 3);
            let norms = squared_norms(queries.clone()) + key_norms;
            let products = functional::dot_product_score(queries, keys, mask, 2.0);
            return functional::fill_masked(norms - products, mask, 0.0).clamp_min(0.0);
        }
        let keys = keys.swap_dims(2, 3);
        let squares = (0..size).map(|at| {
            let difference = queries.clone().narrow(3, at, 1) - keys.clone().narrow(2, at, 1);
            let difference = functional::fill_masked(difference * inverse_width, mask, 0.0);
            difference.clone() * difference
        });
        squares.reduce(Tensor::add).unwrap_or_else(|| {
            let [batch, heads, num_queries, _] = queries.dims();
            let [_, _, _, num_keys] = keys.dims();
            let options = (&queries.device(), queries.dtype());
            Tensor::zeros([batch, heads, num_queries, num_keys], options)
        })
    }
}
