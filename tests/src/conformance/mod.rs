//! Cases of other projects' suites: `tests/reference/conformance`.

mod attributes;

use std::collections::BTreeMap;

use burn::tensor::DType;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Array;
use crate::reference::read;

pub use attributes::{
    CausalBias, OnnxAttention, OnnxRotaryEmbedding, TorchAttention, TorchMultiHead,
};

/// One case, with the attributes `A` of its operator or module.
#[derive(Clone, Debug)]
pub struct Case<A> {
    /// The name of the case.
    pub name: String,
    /// The arguments that are no tensors.
    pub attributes: A,
    /// Inputs, parameters and masks, and the gradients that outputs receive.
    pub inputs: TypedArrays,
    /// Outputs.
    pub outputs: TypedArrays,
    /// Gradients of the inputs, where the suite has them.
    pub gradients: TypedArrays,
}

/// Arrays by their names in the suite.
pub type TypedArrays = BTreeMap<String, TypedArray>;

/// An array, and the type of its elements in the suite.
#[derive(Clone, Debug)]
pub struct TypedArray {
    /// The elements; a float mask may hold -inf, and a boolean one holds 0 and 1.
    pub array: Array,
    /// Their type.
    pub element: Element,
}

/// The type of an element in a suite.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// IEEE half precision.
    F16,
    /// Brain floating point.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// An integer.
    I64,
    /// True or false.
    Bool,
}

impl Element {
    /// The float type; none of integers and booleans.
    pub fn float(self) -> Option<DType> {
        match self {
            Self::F16 => Some(DType::F16),
            Self::Bf16 => Some(DType::BF16),
            Self::F32 => Some(DType::F32),
            Self::F64 => Some(DType::F64),
            Self::I64 | Self::Bool => None,
        }
    }
}

#[derive(Deserialize)]
struct File<A> {
    cases: Vec<StoredCase<A>>,
    /// Arrays that cases share; JSON has no -inf, which is null.
    data: Vec<Vec<Option<f64>>>,
}

#[derive(Deserialize)]
struct StoredCase<A> {
    name: String,
    attributes: A,
    inputs: BTreeMap<String, StoredArray>,
    outputs: BTreeMap<String, StoredArray>,
    gradients: BTreeMap<String, StoredArray>,
}

#[derive(Deserialize)]
struct StoredArray {
    shape: Vec<usize>,
    #[serde(rename = "type")]
    element: Element,
    data: usize,
}

/// The attributes of a suite's cases.
pub trait Attributes: DeserializeOwned {
    /// The name of its file, without the extension.
    const SUITE: &'static str;
}

/// The cases of the suite with these attributes.
///
/// # Panics
/// If the file is missing, malformed or empty.
pub fn cases<A: Attributes>() -> Vec<Case<A>> {
    let suite = A::SUITE;
    let file: File<A> = read(&format!("conformance/{suite}"));
    assert!(!file.cases.is_empty(), "{suite}: no cases");
    let arrays = |stored: BTreeMap<String, StoredArray>| {
        let array = |(name, stored): (String, StoredArray)| (name, stored.read(&file.data));
        stored.into_iter().map(array).collect()
    };
    let cases = file.cases.into_iter().map(|case| Case {
        name: case.name,
        attributes: case.attributes,
        inputs: arrays(case.inputs),
        outputs: arrays(case.outputs),
        gradients: arrays(case.gradients),
    });
    cases.collect()
}

impl StoredArray {
    fn read(self, data: &[Vec<Option<f64>>]) -> TypedArray {
        let elements = data[self.data]
            .iter()
            .map(|x| x.unwrap_or(f64::NEG_INFINITY));
        TypedArray {
            array: Array::new(&self.shape, elements.collect::<Vec<_>>()),
            element: self.element,
        }
    }
}
