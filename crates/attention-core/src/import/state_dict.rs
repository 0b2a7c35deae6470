//! The tensors of a file that PyTorch wrote, as they are.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use burn::module::Param;
use burn::nn::Linear;
use burn::store::{ModuleStore, PytorchStore, SafetensorsStore, bridge};
use burn::tensor::{Tensor, TensorData};

/// All tensors whose names start with a prefix.
pub(super) struct StateDict {
    /// By name, without the prefix.
    tensors: BTreeMap<String, TensorData>,
    /// All names in the file, to tell what there was.
    names: Vec<String>,
}

/// Where the weight or bias of a linear layer stands: in a tensor of its own, or among the `rows` of a fused one.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) start: usize,
    pub(super) rows: Option<usize>,
}

impl Place {
    /// A tensor of its own.
    pub(super) fn whole(name: String) -> Self {
        Self {
            name,
            start: 0,
            rows: None,
        }
    }

    /// `name.weight` and `name.bias`.
    pub(super) fn weight_and_bias(name: &str) -> [Self; 2] {
        ["weight", "bias"].map(|kind| Self::whole(format!("{name}.{kind}")))
    }
}

impl StateDict {
    /// Reads the tensors of the file at `path` whose names start with `prefix`.
    pub(super) fn read(path: &Path, prefix: &str) -> Result<Self, String> {
        File::open(path).map_err(|source| source.to_string())?;
        // Names stay as they are: the numbers of layers are part of a prefix.
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("pt" | "pth" | "bin") => Self::collect(
                PytorchStore::from_file(path).map_indices_contiguous(false),
                prefix,
            ),
            Some("safetensors") => Self::collect(
                SafetensorsStore::from_file(path).map_indices_contiguous(false),
                prefix,
            ),
            _ => Err("expected a file ending in .pt, .pth, .bin or .safetensors".to_string()),
        }
    }

    fn collect(mut store: impl ModuleStore, prefix: &str) -> Result<Self, String> {
        let one_line = |error: String| error.replace('\n', " ");
        let all = store
            .get_all_tensors()
            .map_err(|error| one_line(error.to_string()))?;
        let mut tensors = BTreeMap::new();
        for (name, tensor) in all {
            if let Some(name) = name.strip_prefix(prefix) {
                let data = bridge::to_data(tensor).map_err(|error| one_line(error.to_string()))?;
                tensors.insert(name.to_string(), data);
            }
        }
        let names = all.keys().cloned().collect();
        Ok(Self { tensors, names })
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.tensors.keys()
    }

    /// `linear` with the parameters at `[weight, bias]`.
    pub(super) fn linear(
        &self,
        linear: Linear,
        [weight, bias]: [Place; 2],
    ) -> Result<Linear, String> {
        let [from, to] = linear.weight.shape().dims();
        let data = self.find(&weight, &[weight.rows.unwrap_or(to), from])?;
        let param = linear.weight;
        let options = (&param.device(), param.dtype());
        let tensor = Tensor::<2>::from_data(data, options).narrow(0, weight.start, to);
        let weight = loaded(param, tensor.transpose());
        let bias = match linear.bias {
            Some(param) => {
                let data = self.find(&bias, &[bias.rows.unwrap_or(to)])?;
                let options = (&param.device(), param.dtype());
                let tensor = Tensor::<1>::from_data(data, options).narrow(0, bias.start, to);
                Some(loaded(param, tensor))
            }
            None if self.contains(&bias.name) => {
                return Err(format!(
                    "expected no tensor `{}`, since the layer has no bias",
                    bias.name
                ));
            }
            None => None,
        };
        Ok(Linear { weight, bias })
    }

    /// The tensor at `place`, whole.
    fn find(&self, place: &Place, shape: &[usize]) -> Result<TensorData, String> {
        let Some(data) = self.tensors.get(&place.name) else {
            return Err(format!(
                "expected a tensor `{}` after the given prefix, found only {}",
                place.name,
                self.names.join(", ")
            ));
        };
        if data.shape()[..] == *shape {
            Ok(data.clone())
        } else {
            Err(format!(
                "`{}`: expected the shape {shape:?}, got {:?}",
                place.name,
                data.shape()
            ))
        }
    }
}

/// A parameter with loaded elements: by way of the host, so that none is a view of a fused tensor.
fn loaded<const D: usize>(param: Param<Tensor<D>>, tensor: Tensor<D>) -> Param<Tensor<D>> {
    let options = (&param.device(), param.dtype());
    let tensor = Tensor::from_data(tensor.into_data(), options);
    let id = param.id;
    param.transform_for_load(tensor, id)
}
