//! Weights of a module that many passes read.

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor};

use crate::linear;
use crate::ops::is_in_host_memory;
use crate::ops::kept_weights::{Found, KeptWeights, Scope, within};

/// The weights of a module's linear layers, packed once for all passes in a [`scope`](Self::scope): for inference with
/// few rows at a time, as of one sentence, where packing a weight takes about as long as multiplying it. Results are
/// the same to the bit.
///
/// It has the weights that [`Linear`](burn::nn::Linear) holds in `f32` or `f64` on the CPU, contiguous and not
/// quantised; all others are multiplied as without it. So is a weight that the module has from later on: make another
/// `PackedWeights` of the module then. A packing takes as much memory as its weight, so that each weight is held a
/// second time once a product has packed it. An optimizer cannot write in place what this holds, and copies it first.
///
/// ```
/// use burn_fused_layers::{PackedWeights, linear};
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let layer = LinearConfig::new(5, 7).init(&device);
/// let packed = PackedWeights::of(&layer);
/// for _ in 0..3 {
///     let input = Tensor::<2>::ones([8, 5], &device);
///     let output = packed.scope(|| linear(input, layer.weight.val(), None));
///     assert_eq!(output.dims(), [8, 7]);
/// }
/// assert_eq!([packed.weights(), packed.packed()], [1, 1]);
/// ```
#[derive(Clone)]
pub struct PackedWeights(Arc<KeptWeights>);

impl PackedWeights {
    /// The weights of the linear layers in `module`, none of them packed yet.
    pub fn of(module: &impl Module) -> Self {
        let mut visitor = Visitor::default();
        module.visit(&mut visitor);
        Self(Arc::new(visitor.weights))
    }

    /// Runs `call`, whose products on this thread read and fill the packings: in [`linear`],
    /// [`activate_linear`](crate::activate_linear), [`activate_gated_linear`](crate::activate_gated_linear), and the
    /// layers made of them, for 6 to 127 rows. Products on other threads are as without it. Scopes may be nested; the
    /// weights of all of them are packed.
    ///
    /// # Panics
    /// If `call` does; the scope ends then, too.
    pub fn scope<R>(&self, call: impl FnOnce() -> R) -> R {
        within(Scope::Read(self.0.clone()), call)
    }

    /// The number of weights.
    pub fn weights(&self) -> usize {
        self.0.len()
    }

    /// The number of weights that products have packed so far.
    pub fn packed(&self) -> usize {
        self.0.values().filter(|weight| weight.is_packed()).count()
    }
}

impl fmt::Debug for PackedWeights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("PackedWeights");
        fields.field("weights", &self.weights());
        fields.field("packed", &self.packed()).finish()
    }
}

#[derive(Default)]
struct Visitor {
    /// The types of the modules around the parameter.
    containers: Vec<String>,
    weights: KeptWeights,
}

impl ModuleVisitor for Visitor {
    fn enter_module(&mut self, _name: &str, container_type: &str) {
        self.containers.push(container_type.into());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.containers.pop();
    }

    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        // A reparameterized weight is computed anew for each product, and its base has another container.
        if D != 2
            || self
                .containers
                .last()
                .is_none_or(|of| of != "Struct:Linear")
        {
            return;
        }
        let value = parameter.val();
        let Some(weight) = (&value as &dyn Any).downcast_ref::<Tensor<2>>() else {
            return;
        };
        // A weight that is copied to be read lies elsewhere each time, while the first copy is held.
        if let (Some(first), Some(second)) = (find(weight), find(weight))
            && let (Some((place, kept)), Some((again, _))) = (first.get(), second.get())
            && place == again
        {
            self.weights.insert(*place, kept.clone());
        }
    }
}

/// The weight as a product reads it, if a kernel does: there is no other way from a tensor to its elements' place.
fn find(weight: &Tensor<2>) -> Option<Found> {
    let device = weight.device();
    let dtype = weight.dtype();
    if !(is_in_host_memory(&device) && matches!(dtype, DType::F32 | DType::F64)) {
        return None;
    }
    let [from, _] = weight.dims();
    let found = Found::default();
    let row = Tensor::<2>::zeros([1, from], (&device, dtype));
    within(Scope::Find(Rc::clone(&found)), || {
        linear(row, weight.clone(), None)
    });
    Some(found)
}
