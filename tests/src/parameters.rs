//! The parameters of a module, by their paths (`score.query.weight`).

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Gradients, Tensor};

use crate::{Array, Outcome};

/// The parameters.
pub fn values(module: &impl Module) -> Outcome {
    let mut reader = Reader::default();
    module.visit(&mut reader);
    reader.values
}

/// The gradient of a tensor, zeros where there is none.
pub fn gradient<const D: usize>(tensor: &Tensor<D>, gradients: Option<&Gradients>) -> Array {
    let gradient = gradients.and_then(|gradients| tensor.grad(gradients));
    match gradient {
        Some(gradient) => Array::read(gradient),
        None => Array::full(&tensor.dims(), 0.0),
    }
}

/// The output of a call, and the gradients of leaves in a loss: its elements times drawn factors.
///
/// # Panics
/// If a gradient is missing.
pub fn results<const D: usize, const E: usize>(
    output: Tensor<D>,
    leaves: impl IntoIterator<Item = Tensor<E>>,
    seed: u64,
) -> Vec<Array> {
    let factors = Array::draw(seed, &output.dims()).tensor(&output.device(), output.dtype());
    let gradients = (output.clone() * factors).sum().backward();
    let of_leaf = |leaf: Tensor<E>| Array::read(leaf.grad(&gradients).expect("a leaf"));
    let mut results = vec![Array::read(output)];
    results.extend(leaves.into_iter().map(of_leaf));
    results
}

/// The gradients of the parameters, zeros where there is none.
pub fn gradients(module: &impl Module, gradients: Option<&Gradients>) -> Outcome {
    let mut reader = Reader {
        gradients,
        ..Reader::default()
    };
    module.visit(&mut reader);
    reader.found
}

/// The module with parameters `change(path, parameter)`.
pub fn changed<M: Module>(module: M, change: impl FnMut(&str, Array) -> Array) -> M {
    module.map(&mut Changer {
        path: Vec::new(),
        dtype: None,
        change,
    })
}

/// The module with parameters of type `dtype`.
pub fn cast<M: Module>(module: M, dtype: DType) -> M {
    module.map(&mut Changer {
        path: Vec::new(),
        dtype: Some(dtype),
        change: |_: &str, value| value,
    })
}

#[derive(Default)]
struct Reader<'a> {
    path: Vec<String>,
    gradients: Option<&'a Gradients>,
    values: Outcome,
    found: Outcome,
}

impl ModuleVisitor for Reader<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (path, tensor) = (self.path.join("."), param.val());
        let gradient = gradient(&tensor, self.gradients);
        self.found.insert(path.clone(), gradient);
        self.values.insert(path, Array::read(tensor));
    }
}

struct Changer<F> {
    path: Vec<String>,
    /// The type of the new parameters, if it changes.
    dtype: Option<DType>,
    change: F,
}

impl<F: FnMut(&str, Array) -> Array> ModuleMapper for Changer<F> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let path = self.path.join(".");
        param.map(|tensor| {
            let (device, trains) = (tensor.device(), tensor.is_require_grad());
            let dtype = self.dtype.unwrap_or(tensor.dtype());
            let value = (self.change)(&path, Array::read(tensor));
            value.tensor(&device, dtype).set_require_grad(trains)
        })
    }
}
