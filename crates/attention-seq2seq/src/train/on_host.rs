//! Parameters and gradients in this process's memory, on their way from a device to another.
//!
//! Burn 0.22.1 moves a tensor between two servers past the client. They then have to reach each other by the client's
//! addresses, each tensor is a round trip, and one whose request comes while it is being exposed is waited for without
//! an end (docs/upstream.md). So tensors go by way of this process, many of a type in one read.

use std::collections::{HashMap, HashSet};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, ExecutionError, Shape, Tensor, TensorData};

/// The most bytes that are concatenated to be read at once: far below the largest message of Burn (1 GiB) and what a
/// GPU allows for a buffer.
const MOST_BYTES: usize = 64 << 20;

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

    /// The module with these parameters on `device`.
    pub(super) fn load_into<M: Module>(&self, module: M, device: &Device) -> M {
        module.map(&mut Loading {
            parameters: self,
            device,
        })
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
    groups: Vec<Group>,
}

/// Tensors of one type that are read at once, each with its parameter, if it is of one.
struct Group {
    dtype: DType,
    bytes: usize,
    places: Vec<(Option<ParamId>, Shape)>,
    elements: Vec<Tensor<1>>,
}

impl<'a> Reading<'a> {
    fn new(gradients: Option<&'a GradientsParams>) -> Self {
        Self {
            gradients,
            seen: HashSet::new(),
            groups: Vec::new(),
        }
    }

    fn add<const D: usize>(&mut self, id: Option<ParamId>, value: Tensor<D>) {
        let (dtype, shape) = (value.dtype(), value.shape());
        let bytes = shape.num_elements() * dtype.size();
        let has_room = |group: &Group| group.dtype == dtype && group.bytes + bytes <= MOST_BYTES;
        let at = self.groups.iter().position(has_room);
        let at = at.unwrap_or_else(|| {
            self.groups.push(Group {
                dtype,
                bytes: 0,
                places: Vec::new(),
                elements: Vec::new(),
            });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        group.bytes += bytes;
        group.elements.push(value.reshape([shape.num_elements()]));
        group.places.push((id, shape));
    }

    /// Reads each group at once: the tensors of parameters, and the one of none.
    fn read(self) -> Result<(HashMap<ParamId, TensorData>, Option<TensorData>), ExecutionError> {
        let (mut of_parameters, mut other) = (HashMap::new(), None);
        for group in self.groups {
            let data = Tensor::cat(group.elements, 0).try_into_data()?;
            let mut rest = data.as_bytes();
            for (id, shape) in group.places {
                let (bytes, after) = rest.split_at(shape.num_elements() * group.dtype.size());
                rest = after;
                let data = TensorData::from_bytes_vec(bytes.to_vec(), shape, group.dtype);
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

struct Loading<'a> {
    parameters: &'a OnHost,
    device: &'a Device,
}

impl ModuleMapper for Loading<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, value, mapper) = param.consume();
        let Some(data) = self.parameters.0.get(&id) else {
            return Param::from_mapped_value(id, value, mapper);
        };
        let dtype = data.dtype();
        let loaded = Tensor::from_data(data.clone(), (self.device, dtype));
        let loaded = loaded.set_require_grad(value.is_require_grad());
        Param::from_mapped_value(id, loaded, mapper)
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
