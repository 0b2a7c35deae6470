//! Residual connections around sublayers.

use burn::config::Config;
use burn::module::Module;
use burn::nn::Dropout;
use burn::tensor::Tensor;
use burn_fused_layers::dropout_beside;
use burn_fused_layers::harness::wide::widened;

use crate::norm::{Norm, normalized};

/// The place of the normalizations around a sublayer `f`.
#[derive(Config, Debug, Copy, PartialEq, Eq)]
pub enum NormOrder {
    /// `x + f(norm(x))`, which trains without a warm-up of the learning rate: Xiong et al. 2020, "On Layer
    /// Normalization in the Transformer Architecture", section 3. PyTorch's `norm_first=True`.
    Pre,
    /// `norm(x + f(x))`, the original order: Vaswani et al. 2017, "Attention Is All You Need", section 3.1. PyTorch's
    /// default, and D2L's `AddNorm`.
    Post,
    /// `x + norm'(f(norm(x)))`: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size", section
    /// 2.
    Sandwich,
}

/// A residual connection around a sublayer, with its normalizations and dropout on the sublayer's output.
#[derive(Module, Debug)]
pub struct Residual {
    /// The normalization before the sublayer, or with [`NormOrder::Post`] after the sum.
    pub norm: Norm,
    /// The normalization of the sublayer's output, with [`NormOrder::Sandwich`].
    pub output_norm: Option<Norm>,
    /// Dropout on the sublayer's output, active while training.
    pub dropout: Dropout,
    #[module(skip)]
    pub(crate) order: NormOrder,
}

impl Residual {
    /// The rows after a sublayer. If either the rows or the output are f32 and the other is in half precision, their
    /// sum is f32.
    ///
    /// # Shapes
    /// - rows, the input and output of the sublayer, and result `[batch, rows, size]`
    pub fn forward(
        &self,
        rows: Tensor<3>,
        sublayer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        let input = match self.order {
            NormOrder::Pre | NormOrder::Sandwich => self.norm.forward(rows.clone()),
            NormOrder::Post => rows.clone(),
        };
        let output = normalized(&self.output_norm, sublayer(input));
        let added = dropout_beside(&self.dropout, output, [self.norm.gamma.device()]);
        let sum = if rows.dtype() == added.dtype() {
            rows + added
        } else {
            widened(rows) + widened(added)
        };
        match self.order {
            NormOrder::Pre | NormOrder::Sandwich => sum,
            NormOrder::Post => self.norm.forward(sum),
        }
    }
}
