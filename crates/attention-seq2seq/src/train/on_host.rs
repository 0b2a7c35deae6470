//! Parameters and gradients in this process's memory, on their way from a device to another.
//!
//! Burn 0.22.1 moves a tensor between two servers past the client. They then have to reach each other by the client's
//! addresses, each tensor is a question of its own, and a question asked while its answer is being laid out is never
//! answered (burn-communication's `get_exposed_tensor_bytes` looks first, and waits for a notice that has gone by). So
//! tensors go by way of this process, all of a type in one message each way.

use std::collections::{HashMap, HashSet};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, ExecutionError, Shape, Tensor, TensorData};

/// The float parameters of a module, or their gradients.
pub(super) struct OnHost(HashMap<ParamId, TensorData>);

impl OnHost {
    /// Reads the parameters of a module.
    pub(super) fn parameters(module: &impl Module) -> Result<Self, ExecutionError> {
        let mut reading = Reading::new(None);
        module.visit(&mut reading);
        Ok(Self(reading.read()?.0))
    }

    /// Reads a loss, and the gradients that there are of a module's parameters.
    pub(super) fn gradients(
        loss: Tensor<1>,
        gradients: &GradientsParams,
        module: &impl Module,
    ) -> Result<(f64, Self), ExecutionError> {
        let mut reading = Reading::new(Some(gradients));
        reading.add(None, loss);
        module.visit(&mut reading);
        let (all, loss) = reading.read()?;
        let loss = loss.and_then(|loss| loss.iter::<f64>().next());
        Ok((loss.unwrap_or(f64::NAN), Self(all)))
    }

    /// The module with these parameters, to train on `device`.
    pub(super) fn place<M: Module>(&self, module: M, device: &Device) -> M {
        let mut placing = Placing {
            parameters: self,
            device,
        };
        // Burn moves what is no parameter, if there is anything.
        module.map(&mut placing).fork(device)
    }

    /// The gradients of a module's parameters, on `device`.
    pub(super) fn into_gradients(self, module: &impl Module, device: &Device) -> GradientsParams {
        let mut handing = Handing {
            data: self.0,
            device,
            gradients: GradientsParams::new(),
        };
        module.visit(&mut handing);
        handing.gradients
    }
}

/// Tensors that are to be read.
struct Reading<'a> {
    /// Those that are read instead of the parameters.
    gradients: Option<&'a GradientsParams>,
    /// A parameter that a module has twice is read once.
    seen: HashSet<ParamId>,
    kinds: Vec<Kind>,
}

/// Tensors of one type, by their parameter, if they are of one.
struct Kind {
    dtype: DType,
    places: Vec<(Option<ParamId>, Shape)>,
    elements: Vec<Tensor<1>>,
}

impl<'a> Reading<'a> {
    fn new(gradients: Option<&'a GradientsParams>) -> Self {
        Self {
            gradients,
            seen: HashSet::new(),
            kinds: Vec::new(),
        }
    }

    fn add<const D: usize>(&mut self, id: Option<ParamId>, value: Tensor<D>) {
        let (dtype, shape) = (value.dtype(), value.shape());
        let at = self.kinds.iter().position(|kind| kind.dtype == dtype);
        let at = at.unwrap_or_else(|| {
            self.kinds.push(Kind {
                dtype,
                places: Vec::new(),
                elements: Vec::new(),
            });
            self.kinds.len() - 1
        });
        let kind = &mut self.kinds[at];
        kind.elements.push(value.reshape([shape.num_elements()]));
        kind.places.push((id, shape));
    }

    /// Reads all of a type at once: the tensors of parameters, and the one of none.
    fn read(self) -> Result<(HashMap<ParamId, TensorData>, Option<TensorData>), ExecutionError> {
        let (mut of_parameters, mut other) = (HashMap::new(), None);
        for kind in self.kinds {
            let data = Tensor::cat(kind.elements, 0).try_into_data()?;
            let mut rest = data.as_bytes();
            for (id, shape) in kind.places {
                let (bytes, after) = rest.split_at(shape.num_elements() * kind.dtype.size());
                rest = after;
                let data = TensorData::from_bytes_vec(bytes.to_vec(), shape, kind.dtype);
                match id {
                    Some(id) => {
                        of_parameters.insert(id, data);
                    }
                    None => other = Some(data),
                }
            }
        }
        Ok((of_parameters, other))
    }
}

impl ModuleVisitor for Reading<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = match self.gradients {
            Some(gradients) => gradients.get::<D>(param.id),
            None => Some(param.val().without_autodiff()),
        };
        if let Some(value) = value
            && self.seen.insert(param.id)
        {
            self.add(Some(param.id), value);
        }
    }
}

struct Placing<'a> {
    parameters: &'a OnHost,
    device: &'a Device,
}

impl ModuleMapper for Placing<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, value, mapper) = param.consume();
        let Some(data) = self.parameters.0.get(&id) else {
            return Param::from_mapped_value(id, value, mapper);
        };
        let dtype = data.dtype();
        let placed = Tensor::from_data(data.clone(), (self.device, dtype));
        let placed = match value.is_require_grad() {
            true => placed.require_grad(),
            false => placed,
        };
        Param::from_mapped_value(id, placed, mapper)
    }
}

struct Handing<'a> {
    data: HashMap<ParamId, TensorData>,
    device: &'a Device,
    gradients: GradientsParams,
}

impl ModuleVisitor for Handing<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(data) = self.data.remove(&param.id) {
            let dtype = data.dtype();
            let gradient = Tensor::<D>::from_data(data, (self.device, dtype));
            self.gradients.register(param.id, gradient);
        }
    }
}
