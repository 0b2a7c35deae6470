//! The parameters in files that PyTorch wrote, unconverted.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use burn::module::Param;
use burn::nn::{Embedding, Linear};
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused_layers::harness::parameter::{shape, with_value};
use burn_fused_layers::harness::wide::wide;
use tensor_files::{ElementType, FileFormat, shown};

use crate::Reason;
use crate::checkpoint::{Checkpoint, Found};

/// The largest number of names in an error.
pub(crate) const NEAREST: usize = 5;

/// The tensors of a checkpoint whose names start with a prefix, for importers of your own modules.
///
/// Errors are only a reason, which names tensors and shapes; [`ImportError::of`](crate::ImportError::of) adds the file.
pub struct StateDict {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) prefix: String,
    /// The full names of the tensors that were requested.
    pub(crate) asked: RefCell<BTreeSet<String>>,
}

impl fmt::Debug for StateDict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("StateDict");
        let shown = shown.field("prefix", &self.prefix);
        shown.field("tensors", &self.all_names().len()).finish()
    }
}

/// The place of the weight or bias of a linear layer: a tensor of its own, or some `rows` of a fused one.
#[derive(Clone, Debug)]
pub struct Place {
    /// The name of the tensor, after the prefix of the [`StateDict`].
    pub name: String,
    /// The first row of this layer in a fused tensor.
    pub start: usize,
    /// The number of all rows of a fused tensor; `None` if the layer has its own.
    pub rows: Option<usize>,
    /// Whether the weight is `[in, out]`, as in Hugging Face's `Conv1D`; PyTorch's is `[out, in]`.
    pub is_transposed: bool,
}

impl Place {
    /// A tensor of its own.
    pub fn whole(name: String) -> Self {
        Self {
            name,
            start: 0,
            rows: None,
            is_transposed: false,
        }
    }

    /// `name.weight` and `name.bias`.
    pub fn weight_and_bias(name: &str) -> [Self; 2] {
        ["weight", "bias"].map(|kind| Self::whole(format!("{name}.{kind}")))
    }
}

impl StateDict {
    /// Opens the file at `path`, or all shards if it is an index. No element is read before a layer requests it.
    pub fn open(path: &Path, prefix: &str) -> Result<Self, Reason> {
        let checkpoint = Checkpoint::open(path)?;
        Ok(Self::new(checkpoint, prefix))
    }

    /// The tensors, renamed by `rename`; no two may get the same name.
    pub fn renamed(self, rename: impl Fn(&str) -> String) -> Result<Self, Reason> {
        let checkpoint = self.checkpoint.renamed(rename)?;
        Ok(Self { checkpoint, ..self })
    }

    /// The tensors after another prefix.
    pub(crate) fn at(&self, prefix: &str) -> Self {
        Self::new(self.checkpoint.clone(), prefix)
    }

    fn new(checkpoint: Checkpoint, prefix: &str) -> Self {
        Self {
            checkpoint,
            prefix: prefix.to_string(),
            asked: RefCell::default(),
        }
    }

    /// Whether there is a tensor with this name, or its length and direction (`weight_norm`).
    pub fn contains(&self, name: &str) -> bool {
        self.is_stored(name) || self.weight_norm(name).is_some()
    }

    pub(crate) fn format(&self) -> FileFormat {
        self.checkpoint.format()
    }

    pub(crate) fn is_stored(&self, name: &str) -> bool {
        self.checkpoint.contains(&self.full(name))
    }

    /// The names of all tensors, with any prefix.
    pub(crate) fn all_names(&self) -> impl ExactSizeIterator<Item = &String> {
        self.checkpoint.names()
    }

    /// The names after the prefix.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.checkpoint.names_from(&self.prefix);
        names.map_while(|name| name.strip_prefix(&self.prefix))
    }

    /// The names after the prefix that no layer has requested.
    pub fn unread(&self) -> Vec<&str> {
        let asked = self.asked.borrow();
        let is_unread = |name: &&str| !asked.contains(&self.full(name));
        self.names().filter(is_unread).collect()
    }

    /// The shape of the tensor `name`, or of the weight that is stored as length and direction.
    ///
    /// # Errors
    /// If there is no such tensor, or its header cannot be read.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>, Reason> {
        match self.weight_norm(name) {
            Some([_, direction]) => self.stored_shape(&direction),
            None => self.stored_shape(name),
        }
    }

    pub(crate) fn stored_shape(&self, name: &str) -> Result<Vec<usize>, Reason> {
        let full = self.full(name);
        match self.checkpoint.find(&full) {
            Some(found) => Ok(self.described(&full, found)?.stored.shape().to_vec()),
            None => Err(self.missing(&full)),
        }
    }

    /// The tensor `name`, with this shape, as the rows of its first axis; a vector is one row.
    pub(crate) fn rows(
        &self,
        name: &str,
        shape: &[usize],
        options: (&Device, DType),
    ) -> Result<Tensor<2>, Reason> {
        match self.weight_norm(name) {
            Some(pair) => self.normalized_rows(pair, shape, options),
            None => self.stored_rows(name, shape, options),
        }
    }

    pub(crate) fn stored_rows(
        &self,
        name: &str,
        shape: &[usize],
        options: (&Device, DType),
    ) -> Result<Tensor<2>, Reason> {
        let found = self.find(name, shape)?;
        let rows = if shape.len() > 1 { shape[0] } else { 1 };
        let columns = shape.iter().product::<usize>() / rows;
        let data = self.read_as(name, &found, vec![rows, columns])?;
        Ok(Tensor::from_data(data, options))
    }

    pub(crate) fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// `linear` with the parameters at `[weight, bias]`.
    pub fn linear(&self, linear: Linear, [weight, bias]: [Place; 2]) -> Result<Linear, Reason> {
        let [_, to] = shape(&linear.weight);
        let weight = self.weight(linear.weight, &weight)?;
        let bias = match linear.bias {
            Some(param) => {
                let found = self.find(&bias.name, &[bias.rows.unwrap_or(to)])?;
                let found = found.map(|stored| stored.narrow(bias.start, to));
                Some(self.load(param, &bias.name, &found, as_it_is)?)
            }
            None => {
                self.refuse(&bias.name, "the layer has no bias")?;
                None
            }
        };
        Ok(Linear { weight, bias })
    }

    /// The weight of a linear layer, `[in, out]`, with the elements at `place`, or composed of its `weight_norm` parts.
    pub fn weight(
        &self,
        param: Param<Tensor<2>>,
        place: &Place,
    ) -> Result<Param<Tensor<2>>, Reason> {
        let [from, to] = shape(&param);
        let (rows, in_out) = (place.rows.unwrap_or(to), place.is_transposed);
        let stored_shape = if in_out { [from, rows] } else { [rows, from] };
        if let Some(pair) = self.weight_norm(&place.name) {
            let (device, dtype) = target(&param);
            let stored = self.normalized_rows(pair, &stored_shape, (&device, dtype))?;
            let weight = if in_out { stored } else { stored.transpose() };
            // Through the host, so that the elements are contiguous.
            let data = weight.narrow(1, place.start, to).into_data();
            return Ok(with_value(param, Tensor::from_data(data, (&device, dtype))));
        }
        let found = self.find(&place.name, &stored_shape)?.map(|stored| {
            let rows = if in_out { stored.transpose() } else { stored };
            rows.narrow(place.start, to).transpose()
        });
        self.load(param, &place.name, &found, as_it_is)
    }

    /// `embedding` with the rows `name.weight`.
    pub fn embedding(&self, embedding: Embedding, name: &str) -> Result<Embedding, Reason> {
        let weight = self.parameter(embedding.weight, &format!("{name}.weight"))?;
        Ok(Embedding { weight })
    }

    /// A parameter with the elements of the tensor `name`, which must have the same shape.
    pub fn parameter<const D: usize>(
        &self,
        param: Param<Tensor<D>>,
        name: &str,
    ) -> Result<Param<Tensor<D>>, Reason> {
        let found = self.find(name, &shape(&param))?;
        self.load(param, name, &found, as_it_is)
    }

    /// [`parameter`](Self::parameter), with `offset` added in f32 at least.
    pub fn parameter_of_offset<const D: usize>(
        &self,
        param: Param<Tensor<D>>,
        name: &str,
        offset: f64,
    ) -> Result<Param<Tensor<D>>, Reason> {
        if offset == 0.0 {
            return self.parameter(param, name);
        }
        let found = self.find(name, &shape(&param))?;
        self.load(param, name, &found, |data, device, dtype| {
            let tensor = Tensor::<D>::from_data(data, (device, wide(dtype)));
            (tensor + offset).cast(dtype)
        })
    }

    /// Whether two tensors with the same shape have the same elements.
    pub fn is_same(&self, names: [&str; 2], shape: &[usize]) -> Result<bool, Reason> {
        let read = |name: &str| self.read(name, &self.find(name, shape)?);
        let [one, other] = names.map(read);
        Ok(one? == other?)
    }

    /// # Errors
    /// If there is a tensor `name`.
    pub fn refuse(&self, name: &str, reason: &str) -> Result<(), Reason> {
        if self.contains(name) {
            let (tensor, why) = (self.full(name), reason.to_owned());
            return Err(Reason::Unexpected { tensor, why });
        }
        Ok(())
    }

    /// The tensor `name` of floats, as a whole, not read yet. One without axes counts as a `shape` of one element.
    pub fn find(&self, name: &str, shape: &[usize]) -> Result<Found, Reason> {
        let full = self.full(name);
        let Some(found) = self.checkpoint.find(&full) else {
            return Err(self.missing(&full));
        };
        let found = self.described(&full, found)?;
        dtype(&full, found.stored.element_type())?;
        let found = found.map(|stored| match stored.shape() {
            [] if shape.iter().all(|&size| size == 1) => stored.with_axes(shape.len()),
            _ => stored,
        });
        let got = found.stored.shape();
        if got != shape {
            return Err(Reason::Shape {
                tensor: full,
                expected: format!("{shape:?}"),
                got: got.to_vec(),
                hint: String::new(),
            });
        }
        self.asked.borrow_mut().insert(full);
        Ok(found)
    }

    fn described<T>(&self, full: &str, found: Result<T, String>) -> Result<T, Reason> {
        found.map_err(|reason| format!("`{full}`: {reason}").into())
    }

    fn missing(&self, full: &str) -> Reason {
        Reason::Missing {
            tensor: full.to_owned(),
            found: self.found_instead(full),
        }
    }

    fn found_instead(&self, full: &str) -> String {
        for separator in ['.', '/'] {
            let found = format!("{}{separator}{}", self.prefix, &full[self.prefix.len()..]);
            if self.checkpoint.contains(&found) {
                let found = shown(&found);
                return format!("found `{found}`: a prefix ends in `{separator}`");
            }
        }
        if let Some(prefix) = self.wrapped_prefix() {
            let prefix = shown(prefix);
            return format!(
                "found names that begin with `{prefix}`, of a module in `DistributedDataParallel`, FSDP or \
                 `torch.compile`: give this prefix"
            );
        }
        let mut names: Vec<&String> = self.all_names().collect();
        // A wrong prefix is the usual reason: the nearest names have the same end and, among those, the same beginning.
        names.sort_by_cached_key(|name| {
            let end = common(full.bytes().rev(), name.bytes().rev());
            Reverse((end, common(full.bytes(), name.bytes())))
        });
        let told = names.iter().take(NEAREST);
        let told = told.map(|name| format!("`{}`", shown(name)));
        let told = told.collect::<Vec<_>>().join(", ");
        match names.len() {
            0 => "found none".to_string(),
            1..=NEAREST => format!("found only {told}"),
            count => format!("found {count} others, the nearest {told}"),
        }
    }

    /// A parameter with the elements of a tensor, which `make` creates on the device and in the type of the parameter.
    /// The parameter's own initial value is not computed.
    pub fn load<const D: usize>(
        &self,
        param: Param<Tensor<D>>,
        name: &str,
        found: &Found,
        make: impl FnOnce(TensorData, &Device, DType) -> Tensor<D>,
    ) -> Result<Param<Tensor<D>>, Reason> {
        let data = self.read(name, found)?;
        let (device, dtype) = target(&param);
        Ok(with_value(param, make(data, &device, dtype)))
    }

    /// The elements of a tensor.
    fn read(&self, name: &str, found: &Found) -> Result<TensorData, Reason> {
        self.read_as(name, found, found.stored.shape().to_vec())
    }

    /// The elements of a tensor, in another shape.
    fn read_as(&self, name: &str, found: &Found, shape: Vec<usize>) -> Result<TensorData, Reason> {
        let full = self.full(name);
        let elements = self.described(&full, self.checkpoint.read(found))?;
        let dtype = dtype(&full, found.stored.element_type())?;
        Ok(TensorData::from_bytes_vec(elements, shape, dtype))
    }
}

/// The device and the type of a parameter.
fn target<const D: usize>(param: &Param<Tensor<D>>) -> (Device, DType) {
    let device = param.lazy_device();
    let of_device = device.settings().float_dtype.into();
    let dtype = match param.is_initialized().then(|| param.dtype()) {
        // Quantised parameters are loaded as floats.
        None | Some(DType::QFloat(_)) => of_device,
        Some(dtype) => dtype,
    };
    (device, dtype)
}

/// The elements of a tensor, with a type and on a device.
fn as_it_is<const D: usize>(data: TensorData, device: &Device, dtype: DType) -> Tensor<D> {
    Tensor::from_data(data, (device, dtype))
}

/// Burn's name of a type of floats.
fn dtype(tensor: &str, element_type: ElementType) -> Result<DType, Reason> {
    Ok(match element_type {
        ElementType::F64 => DType::F64,
        ElementType::F32 => DType::F32,
        ElementType::F16 => DType::F16,
        ElementType::Bf16 => DType::BF16,
        got => {
            let tensor = tensor.to_owned();
            return Err(Reason::ElementType { tensor, got });
        }
    })
}

/// The length of the common beginning of two names, in bytes.
pub(crate) fn common(one: impl Iterator<Item = u8>, other: impl Iterator<Item = u8>) -> usize {
    let pairs = one.zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}
