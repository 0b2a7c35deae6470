//! The parameters in a file that PyTorch wrote, as they are.

use std::cmp::Reverse;
use std::path::Path;

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{BoolStore, DType, Tensor, TensorData};
use tensor_files::{ElementType, StoredTensor, TensorFile, shown};

/// The most names that an error tells.
const NEAREST: usize = 5;

/// The tensors of a file, of which those whose names start with a prefix are meant.
pub(super) struct StateDict {
    file: TensorFile,
    prefix: String,
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
    /// Opens the file at `path`. No element is read before a layer asks for it.
    pub(super) fn open(path: &Path, prefix: &str) -> Result<Self, String> {
        Ok(Self {
            file: TensorFile::open(path).map_err(|error| error.to_string())?,
            prefix: prefix.to_string(),
        })
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.file.names().contains(&self.full(name))
    }

    /// The names after the prefix.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.file.names().range(self.prefix.clone()..);
        names.map_while(|name| name.strip_prefix(&self.prefix))
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// `linear` with the parameters at `[weight, bias]`.
    pub(super) fn linear(
        &self,
        linear: Linear,
        [weight, bias]: [Place; 2],
    ) -> Result<Linear, String> {
        let [from, to] = linear.weight.shape().dims();
        let stored = self.find(&weight, &[weight.rows.unwrap_or(to), from])?;
        let stored = stored.narrow(weight.start, to).transpose();
        let weight = self.load(linear.weight, &weight.name, &stored)?;
        let bias = match linear.bias {
            Some(param) => {
                let stored = self.find(&bias, &[bias.rows.unwrap_or(to)])?;
                let stored = stored.narrow(bias.start, to);
                Some(self.load(param, &bias.name, &stored)?)
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

    /// The tensor at `place`, whole, not yet read.
    fn find(&self, place: &Place, shape: &[usize]) -> Result<StoredTensor, String> {
        let full = self.full(&place.name);
        if !self.contains(&place.name) {
            return Err(self.missing(&full));
        }
        let stored = self.file.find(&full);
        let stored = stored.map_err(|reason| format!("`{full}`: {reason}"))?;
        let found = stored.shape();
        if found != shape {
            return Err(format!(
                "`{full}`: expected the shape {shape:?}, got {found:?}"
            ));
        }
        Ok(stored)
    }

    fn missing(&self, full: &str) -> String {
        let mut names: Vec<&String> = self.file.names().iter().collect();
        // A wrong prefix is the usual reason: the nearest have the same end, and of those the same beginning.
        names.sort_by_cached_key(|name| {
            let end = common(full.bytes().rev(), name.bytes().rev());
            Reverse((end, common(full.bytes(), name.bytes())))
        });
        let told = names
            .iter()
            .take(NEAREST)
            .map(|name| format!("`{}`", shown(name)));
        let told = told.collect::<Vec<_>>().join(", ");
        let found = match names.len() {
            0 => "found none".to_string(),
            1..=NEAREST => format!("found only {told}"),
            count => format!("found {count} others, the nearest {told}"),
        };
        format!("expected a tensor `{}`, {found}", shown(full))
    }

    /// A parameter with the elements of a tensor.
    fn load<const D: usize>(
        &self,
        param: Param<Tensor<D>>,
        name: &str,
        stored: &StoredTensor,
    ) -> Result<Param<Tensor<D>>, String> {
        let elements = self.file.read(stored);
        let elements = elements.map_err(|reason| format!("`{}`: {reason}", self.full(name)))?;
        let stored_type = dtype(stored.element_type())?;
        let data = TensorData::from_bytes_vec(elements, stored.shape().to_vec(), stored_type);
        let device = param.device();
        let dtype = match param.dtype() {
            // What was quantised is loaded as floats.
            DType::QFloat(_) => device.settings().float_dtype.into(),
            dtype => dtype,
        };
        let options = (&device, dtype);
        let tensor = Tensor::from_data(data, options);
        let id = param.id;
        Ok(param.transform_for_load(tensor, id))
    }
}

/// Burn's name of a type.
fn dtype(element_type: ElementType) -> Result<DType, String> {
    Ok(match element_type {
        ElementType::F64 => DType::F64,
        ElementType::F32 => DType::F32,
        ElementType::F16 => DType::F16,
        ElementType::Bf16 => DType::BF16,
        ElementType::I64 => DType::I64,
        ElementType::I32 => DType::I32,
        ElementType::I16 => DType::I16,
        ElementType::I8 => DType::I8,
        ElementType::U64 => DType::U64,
        ElementType::U32 => DType::U32,
        ElementType::U16 => DType::U16,
        ElementType::U8 => DType::U8,
        ElementType::Bool => DType::Bool(BoolStore::Native),
        other => return Err(format!("Burn has no type for {other:?}")),
    })
}

/// The number of bytes that two names begin with.
fn common(one: impl Iterator<Item = u8>, other: impl Iterator<Item = u8>) -> usize {
    one.zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}
