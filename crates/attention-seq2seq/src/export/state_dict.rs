//! Tensors by the names that PyTorch gives them, and the file that they make.

use attention_core::transformer::Norm;
use burn::module::Param;
use burn::nn::{Embedding, Linear};
use burn::tensor::{DType, Tensor, TensorData};
use burn_fused_layers::harness::parameter::value;
use safetensors::tensor::{Dtype, TensorView};

use crate::error::{Error, Result};

/// A module whose parameters have names and layouts in PyTorch.
pub(super) trait Parameters {
    /// Adds the parameters, with `at` before the name of each.
    fn add_to(&self, tensors: &mut StateDict, at: &str);
}

/// The parameters of a module, as the `state_dict` of PyTorch's has them.
#[derive(Default)]
pub(super) struct StateDict {
    tensors: Vec<Entry>,
}

/// One tensor, row by row.
struct Entry {
    name: String,
    shape: Vec<usize>,
    elements: Tensor<1>,
}

impl StateDict {
    /// The parameters of a module.
    pub(super) fn of(module: &impl Parameters) -> Self {
        let mut tensors = Self::default();
        module.add_to(&mut tensors, "");
        tensors
    }

    /// Adds a tensor.
    pub(super) fn add<const D: usize>(&mut self, name: String, tensor: Tensor<D>) {
        self.tensors.push(Entry {
            name,
            shape: tensor.dims().to_vec(),
            elements: tensor.flatten(0, D - 1),
        });
    }

    /// Adds a parameter as it is.
    pub(super) fn add_parameter<const D: usize>(
        &mut self,
        name: String,
        parameter: &Param<Tensor<D>>,
    ) {
        self.add(name, value(parameter));
    }

    /// The number of elements of all tensors.
    #[cfg(test)]
    pub(super) fn num_elements(&self) -> usize {
        let shapes = self.tensors.iter().map(|entry| &entry.shape);
        shapes.map(|shape| shape.iter().product::<usize>()).sum()
    }

    /// The names of all tensors.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|entry| entry.name.as_str())
    }

    /// The content of a file of these tensors in f32, with one entry of metadata.
    ///
    /// # Errors
    /// [`Error::Config`] if the device fails, or the metadata are longer than the header of a file may be.
    pub(super) fn into_safetensors(self, key: &str, metadata: String) -> Result<Vec<u8>> {
        let read = |entry: &Entry| {
            let data = entry.elements.clone().try_into_data_dtype(DType::F32);
            data.map_err(|error| {
                Error::config("the device", "to read the parameters", one_line(&error))
            })
        };
        let data: Vec<TensorData> = self.tensors.iter().map(read).collect::<Result<_>>()?;
        let failed = |error| Error::config("the file", "one of safetensors", one_line(&error));
        let views = self.tensors.iter().zip(&data).map(|(entry, data)| {
            let view = TensorView::new(Dtype::F32, entry.shape.clone(), data.as_bytes());
            Ok((entry.name.as_str(), view.map_err(failed)?))
        });
        let views: Vec<_> = views.collect::<Result<_>>()?;
        let metadata = [(key.to_string(), metadata)].into_iter().collect();
        safetensors::serialize(views, Some(metadata)).map_err(failed)
    }
}

fn one_line(error: &impl std::fmt::Display) -> String {
    error.to_string().replace('\n', " ")
}

/// `weight`, `[out, in]` in PyTorch and `[in, out]` in Burn, and `bias`.
impl Parameters for Linear {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        tensors.add(format!("{at}weight"), value(&self.weight).transpose());
        if let Some(bias) = &self.bias {
            tensors.add_parameter(format!("{at}bias"), bias);
        }
    }
}

/// `weight`, `[tokens, size]`.
impl Parameters for Embedding {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        tensors.add_parameter(format!("{at}weight"), &self.weight);
    }
}

/// `weight` and `bias`.
impl Parameters for Norm {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        tensors.add_parameter(format!("{at}weight"), &self.gamma);
        if let Some(beta) = &self.beta {
            tensors.add_parameter(format!("{at}bias"), beta);
        }
    }
}
