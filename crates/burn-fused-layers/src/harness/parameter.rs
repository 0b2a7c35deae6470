//! Reading the parameters of modules.
//!
//! Burn's quantisation (`Module::quantize_weights`) turns any parameter of a module into a quantised tensor. Layers
//! compute with floats, so one rule serves all modules: a quantised parameter is dequantised when it is read, to the
//! float type of its device. Quantised parameters are not trained.

use std::any::Any;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::Linear;
use burn::tensor::{DType, Tensor};

/// The parameter, dequantised if necessary.
pub fn value<const D: usize>(parameter: &Param<Tensor<D>>) -> Tensor<D> {
    dequantized(parameter.val())
}

/// The tensor, dequantised if necessary.
pub fn dequantized<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    match tensor.dtype() {
        DType::QFloat(_) => tensor.dequantize(),
        _ => tensor,
    }
}

/// Weight and bias of a linear layer.
pub fn of_linear(layer: &Linear) -> (Tensor<2>, Option<Tensor<1>>) {
    (value(&layer.weight), layer.bias.as_ref().map(value))
}

/// The shape of the parameter's value, without computing the value: `[in, out]` for any linear layer.
///
/// A `load_mapper` gets zeros, in the shape used in records and `[1; D]`.
pub fn shape<const D: usize>(parameter: &Param<Tensor<D>>) -> [usize; D] {
    let shape = parameter.lazy_shape();
    if parameter.is_initialized() {
        return shape.dims();
    }
    // Before initialization Burn (0.22.1) has the shape used in records, `[out, in]` for `LinearLayout::Col`.
    let record = Tensor::<D>::zeros([1; D], &parameter.lazy_device()).expand(shape);
    let (_, _, mapper) = with_zeros(parameter).consume();
    mapper.on_load(record).dims()
}

/// The parameter with another value. Its previous or initial value is not computed. Everything else stays: whether it
/// requires gradients, the layout in records, a reparameterization such as LoRA, whose base gets the value.
///
/// The value must be on the parameter's device. A `load_mapper` gets zeros of shape `[1; D]`.
pub fn with_value<const D: usize>(
    parameter: Param<Tensor<D>>,
    value: Tensor<D>,
) -> Param<Tensor<D>> {
    // Only a mapper keeps a reparameterization in Burn 0.22.1.
    Module::map(parameter, &mut Replace(Some(Box::new(value))))
}

/// Replaces the value of the first parameter, the base; the parameters of its reparameterization follow.
struct Replace(Option<Box<dyn Any>>);

impl ModuleMapper for Replace {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let value = self.0.take();
        let value = value.and_then(|value| value.downcast::<Tensor<D>>().ok());
        let Some(value) = value else {
            return parameter;
        };
        let (id, zeros, mapper) = with_zeros(&parameter).consume();
        let value = value.set_require_grad(zeros.is_require_grad());
        Param::from_mapped_value(id, value, mapper)
    }
}

/// The parameter with a value of zeros: Burn (0.22.1) returns the mapper and the requirement of gradients only together
/// with a value, and the parameter's own may not be initialized.
fn with_zeros<const D: usize>(parameter: &Param<Tensor<D>>) -> Param<Tensor<D>> {
    let zeros = Tensor::zeros([1; D], &parameter.lazy_device());
    parameter.clone().transform_for_load(zeros, parameter.id)
}

/// Whether a parameter of the module is reparameterized, for example by LoRA.
pub fn is_reparameterized(module: &impl Module) -> bool {
    struct Finder(bool);
    impl ModuleVisitor for Finder {
        fn enter_module(&mut self, _name: &str, container_type: &str) {
            self.0 |= container_type == "Reparameterization";
        }
    }
    let mut finder = Finder(false);
    module.visit(&mut finder);
    finder.0
}
