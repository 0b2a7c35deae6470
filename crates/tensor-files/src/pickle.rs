//! The objects that a pickle describes, without running any of it.
//!
//! A pickle is a program for a stack machine, which may call any function of Python by its name. Here a call is kept as
//! written, as a name and arguments: [`objects`](super::objects) interprets those by which PyTorch makes tensors.
//!
//! No crate does that: `serde-pickle` supports neither storages nor calls, and `pytorch-reader` 0.22.1, used by Burn's
//! `PytorchStore`, refuses a whole file for a single tensor that it cannot represent.

use std::io::{BufRead, Seek};
use std::ops::Range;

use crate::input::Input;
use crate::machine::Machine;

/// A value: a small one directly, others by their index among the objects, which hold a shared one only once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Int(i64),
    Object(usize),
    /// None, a float, an integer of more than 64 bits: nothing that can name or describe a tensor.
    Other,
}

impl Value {
    /// A natural number: a size, an offset.
    pub(crate) fn natural(self) -> Option<usize> {
        match self {
            Self::Int(number) => usize::try_from(number).ok(),
            _ => None,
        }
    }
}

/// An object, which may change after others refer to it.
#[derive(Debug)]
pub(crate) enum Object {
    Text(String),
    /// Bytes, by their place in the pickle.
    Bytes(Range<u64>),
    /// A list, a tuple or a set.
    List(Vec<Value>),
    Dict(Vec<[Value; 2]>),
    /// A class or a function, by its module and its name in it.
    Global([Value; 2]),
    Call(Box<Call>),
    /// An object outside the pickle, by its id: a storage.
    Persistent(Value),
}

/// The object that calling a function or a class would return.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) callable: Value,
    pub(crate) arguments: Value,
    /// Items added to it as to a dict.
    pub(crate) items: Vec<[Value; 2]>,
    /// Its attributes.
    pub(crate) state: Value,
}

/// The object that a pickle describes, with those that it refers to.
#[derive(Debug)]
pub(crate) struct Pickle {
    pub(crate) root: Value,
    pub(crate) objects: Vec<Object>,
}

impl Pickle {
    /// Reads one pickle, and no byte after it.
    pub(crate) fn read(input: &mut Input<impl BufRead + Seek>) -> Result<Self, String> {
        let pickle = Machine::new(input).run();
        pickle.map_err(|reason| format!("its pickle is malformed: {reason}"))
    }

    pub(crate) fn object(&self, value: Value) -> Option<&Object> {
        match value {
            Value::Object(at) => self.objects.get(at),
            _ => None,
        }
    }

    pub(crate) fn text(&self, value: Value) -> Option<&str> {
        match self.object(value) {
            Some(Object::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn list(&self, value: Value) -> Option<&[Value]> {
        match self.object(value) {
            Some(Object::List(values)) => Some(values),
            _ => None,
        }
    }

    /// The module of a class or a function, and its name in it.
    pub(crate) fn global(&self, value: Value) -> Option<[&str; 2]> {
        match self.object(value) {
            Some(Object::Global([module, name])) => Some([self.text(*module)?, self.text(*name)?]),
            _ => None,
        }
    }

    /// The value of a dict under `key`.
    pub(crate) fn get(&self, dict: Value, key: &str) -> Option<Value> {
        let Some(Object::Dict(items)) = self.object(dict) else {
            return None;
        };
        let mut latest_first = items.iter().rev();
        let item = latest_first.find(|[name, _]| self.text(*name) == Some(key));
        item.map(|[_, value]| *value)
    }
}
