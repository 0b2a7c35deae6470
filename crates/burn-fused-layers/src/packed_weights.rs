//! Weights of a module that many passes read.

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor};

use crate::linear;
use crate::ops::is_in_host_memory;
use crate::ops::kept_weights::{Found, KeptWeights, Place, Scope, within};

/// The weights of a module's linear layers, packed once for all passes in a [`scope`](Self::scope): for inference with
/// few rows at a time, as of one sentence, where packing a weight takes about as long as multiplying it. Results are
/// the same to the bit.
///
/// It has the weights of modules called `Linear`, as [Burn's](burn::nn::Linear), in `f32` or (feature `f64`) `f64` on
/// the CPU, whose rows are contiguous, which are neither quantised nor reparameterized, and which no clone copies, as
/// ndarray's clones do (Burn 0.22.1) what it read from a file. All others are multiplied as without it. So is a weight
/// that is replaced or changed later: make another `PackedWeights` then. This one holds the former weights and their
/// packings until it is dropped, each packing about as large as its weight, in columns of 64. An optimizer cannot write
/// in place what this holds, and copies it first.
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
/// assert_eq!([packed.num_weights(), packed.num_packed()], [1, 1]);
/// ```
#[derive(Clone)]
pub struct PackedWeights(Arc<KeptWeights>);

impl PackedWeights {
    /// The weights of the linear layers in `module`, none of them packed yet. Reads each of them.
    pub fn of(module: &impl Module) -> Self {
        let mut visitor = Visitor::default();
        module.visit(&mut visitor);
        Self(Arc::new(visitor.weights))
    }

    /// Runs `call`, whose products on this thread read and fill the packings: in [`linear`],
    /// [`activate_linear`](crate::activate_linear), [`activate_gated_linear`](crate::activate_gated_linear), and the
    /// layers made of them, for 7 to 127 rows. Products on other threads are as without it. Scopes may be nested; the
    /// weights of all of them are packed.
    ///
    /// # Panics
    /// If `call` does; the scope ends then, too.
    pub fn scope<R>(&self, call: impl FnOnce() -> R) -> R {
        within(Scope::Read(self.0.clone()), call)
    }

    /// The number of weights.
    pub fn num_weights(&self) -> usize {
        self.0.len()
    }

    /// The number of weights that products have packed so far.
    pub fn num_packed(&self) -> usize {
        self.0.values().filter(|weight| weight.is_packed()).count()
    }
}

impl fmt::Debug for PackedWeights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("PackedWeights");
        fields.field("weights", &self.num_weights());
        fields.field("packed", &self.num_packed()).finish()
    }
}

#[derive(Default)]
struct Visitor {
    /// The types of the modules around the parameter.
    containers: Vec<String>,
    weights: KeptWeights,
    /// The last parameter's weight, if it is one of them and was not there before.
    last: Option<Place>,
}

impl ModuleVisitor for Visitor {
    fn enter_module(&mut self, _name: &str, container_type: &str) {
        // A reparameterized weight is computed anew for each product; Burn 0.22.1 visits its base just
        // before.
        if container_type == "Reparameterization"
            && let Some(base) = self.last.take()
        {
            self.weights.remove(&base);
        }
        self.containers.push(container_type.into());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.containers.pop();
    }

    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        self.last = None;
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
            let before = self.weights.insert(*place, kept.clone());
            self.last = before.is_none().then_some(*place);
        }
    }
}

/// The weight as a product reads it, if a kernel does: there is no other way from a tensor to its elements' place.
fn find(weight: &Tensor<2>) -> Option<Found> {
    let weight = weight.clone().inner();
    let (device, dtype) = (weight.device(), weight.dtype());
    if !(is_in_host_memory(&device) && matches!(dtype, DType::F32 | DType::F64)) {
        return None;
    }
    let [from, _] = weight.dims();
    let found = Found::default();
    let row = Tensor::<2>::zeros([1, from], (&device, dtype));
    within(Scope::Find(Rc::clone(&found)), || linear(row, weight, None));
    Some(found)
}
