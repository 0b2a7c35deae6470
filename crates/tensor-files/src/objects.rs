//! The tensors described by a PyTorch pickle: their names, and the places of their elements.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use crate::ElementType;
use crate::layout::Layout;
use crate::numpy_array;
use crate::path::Path;
use crate::pickle::{Call, Object, Pickle, Value};
use crate::stored::{Place, StoredTensor, Tensors};
use crate::text::shown;

/// The module of the classes of sharded tensors, of which each rank has a part.
const DISTRIBUTED: &str = "torch.distributed";

/// The largest nesting depth to visit, which stops at a dict that contains itself.
const MAX_DEPTH: usize = 200;

/// The largest number of values to visit: a shared value is visited again under each name.
const MAX_VISITS: usize = 1 << 23;

/// The tables of a `torch.nn.Module`; their content is its state dict.
const MODULE_TABLES: [&str; 3] = ["_parameters", "_buffers", "_modules"];

/// A storage of a pickle, by its persistent id.
pub(crate) struct Storage<'a> {
    pub(crate) key: String,
    /// The module and the name of `torch.FloatStorage`, ..
    pub(crate) class: [&'a str; 2],
    /// The number of elements, or of bytes if it has no type.
    pub(crate) len: usize,
}

/// The elements of a tensor, as its pickle refers to them.
pub(crate) enum Elements {
    /// A storage outside the pickle, by its key.
    Storage(String),
    /// Bytes in the pickle.
    Bytes(Range<u64>),
}

/// All tensors by name: those that `state_dict` would return, and the buffers that it leaves out. `place` finds their
/// elements.
pub(crate) fn tensors(
    pickle: Pickle,
    place: impl Fn(Elements) -> Result<Place, String> + 'static,
) -> Result<Tensors, String> {
    let mut names = Names {
        pickle: &pickle,
        path: Path::default(),
        visits: 0,
        found: BTreeMap::new(),
    };
    names.visit(pickle.root, 0)?;
    let found = names.found;
    Ok(Tensors {
        names: found.keys().cloned().collect(),
        find: Box::new(move |name| {
            let value = found
                .get(name)?
                .ok_or_else(|| "expected one tensor of this name, got several".into());
            Some(value.and_then(|value| {
                let (layout, elements) = tensor(&pickle, value)?;
                Ok(StoredTensor::new(layout, place(elements)?))
            }))
        }),
    })
}

/// A search for possible tensors.
struct Names<'a> {
    pickle: &'a Pickle,
    /// The name so far.
    path: Path,
    visits: usize,
    /// Values by name; `None` if several have the same name.
    found: BTreeMap<String, Option<Value>>,
}

impl Names<'_> {
    fn visit(&mut self, value: Value, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Ok(());
        }
        let pickle = self.pickle;
        match pickle.object(value) {
            Some(Object::Dict(items)) => self.items(items, depth),
            Some(Object::List(values)) => {
                self.count(values.len())?;
                let mut values = values.iter().enumerate();
                values.try_for_each(|(index, value)| self.under(index, *value, depth + 1))
            }
            Some(Object::Call(call)) => {
                if let Some(Object::Dict(attributes)) = pickle.object(call.state) {
                    self.count(attributes.len())?;
                }
                self.count(listed_pairs(pickle, call).len() + call.items.len())?;
                match contents(pickle, call) {
                    Contents::Values(values) => values
                        .into_iter()
                        .try_for_each(|value| self.visit(value, depth + 1)),
                    Contents::Items(items) => self.items(&items, depth),
                    Contents::None => self.found(value),
                }
            }
            Some(Object::Persistent(_)) => self.found(value),
            _ => Ok(()),
        }
    }

    fn items(&mut self, items: &[[Value; 2]], depth: usize) -> Result<(), String> {
        self.count(items.len())?;
        let pickle = self.pickle;
        for [key, value] in items {
            match (pickle.text(*key), key) {
                (Some(text), _) => self.under(text, *value, depth + 1)?,
                (None, Value::Int(number)) => self.under(number, *value, depth + 1)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Visits a value, with `key` appended to its name.
    fn under(&mut self, key: impl Display, value: Value, depth: usize) -> Result<(), String> {
        if matches!(self.pickle.object(value), None | Some(Object::Text(_))) {
            return Ok(());
        }
        let len = self.path.push(".", &key.to_string())?;
        self.visit(value, depth)?;
        self.path.name.truncate(len);
        Ok(())
    }

    fn count(&mut self, visits: usize) -> Result<(), String> {
        self.visits += visits;
        if self.visits > MAX_VISITS {
            return Err("its objects contain each other without end".to_string());
        }
        Ok(())
    }

    fn found(&mut self, value: Value) -> Result<(), String> {
        if self.path.name.is_empty() {
            return Err("expected tensors by name, got an object without names".to_string());
        }
        let place = self.found.entry(self.path.name.clone());
        place
            .and_modify(|other| *other = None)
            .or_insert(Some(value));
        Ok(())
    }
}

/// The contents of the object that a call makes, by name.
enum Contents {
    /// Values with the name of the object itself.
    Values(Vec<Value>),
    Items(Vec<[Value; 2]>),
    None,
}

fn contents(pickle: &Pickle, call: &Call) -> Contents {
    let tables = MODULE_TABLES.map(|table| pickle.get(call.state, table));
    if tables.iter().all(Option::is_some) {
        return Contents::Values(tables.into_iter().flatten().collect());
    }
    let [module, name] = pickle.global(call.callable).unwrap_or_default();
    match (pickle.object(call.state), pickle.list(call.arguments)) {
        // An object of TorchScript has its tensors as attributes.
        (Some(Object::Dict(attributes)), _) if module.starts_with("__torch__") => {
            return Contents::Items(attributes.clone());
        }
        // Its lists contain tensors that occur elsewhere.
        _ if module == "torch.jit._pickle" => return Contents::Values(Vec::new()),
        // A Paddle tensor is a tuple of its own name and an array.
        (_, Some([pair])) if name == "tuple" => {
            let array = pickle.list(*pair).and_then(<[_]>::last);
            return Contents::Values(array.copied().into_iter().collect());
        }
        _ => {}
    }
    if !is_ordered_dict(pickle, call) && call.items.is_empty() {
        return Contents::None;
    }
    let pairs = listed_pairs(pickle, call)
        .iter()
        .filter_map(|pair| <[Value; 2]>::try_from(pickle.list(*pair)?).ok());
    Contents::Items(pairs.chain(call.items.iter().copied()).collect())
}

fn is_ordered_dict(pickle: &Pickle, call: &Call) -> bool {
    pickle.global(call.callable) == Some(["collections", "OrderedDict"])
}

/// The pairs from which Python 2 makes an ordered dict.
fn listed_pairs<'a>(pickle: &'a Pickle, call: &Call) -> &'a [Value] {
    match pickle.list(call.arguments) {
        Some([pairs]) if is_ordered_dict(pickle, call) => pickle.list(*pairs).unwrap_or_default(),
        _ => &[],
    }
}

/// The tensor that a call makes, and the place of its elements.
fn tensor(pickle: &Pickle, value: Value) -> Result<(Layout, Elements), String> {
    let mut value = value;
    // A parameter is made from a tensor.
    for _ in 0..MAX_DEPTH {
        let Some(Object::Call(call)) = pickle.object(value) else {
            return Err(unreadable("a storage"));
        };
        let ([module, name], arguments) = called(pickle, call);
        let (storage, view, rest) = match (module, name, arguments) {
            (
                "torch._utils",
                "_rebuild_parameter" | "_rebuild_parameter_with_state",
                [data, ..],
            ) => {
                value = *data;
                continue;
            }
            ("numpy._core.multiarray" | "numpy.core.multiarray", "_reconstruct", _) => {
                let (layout, bytes) = numpy_array::array(pickle, call)?;
                return Ok((layout, Elements::Bytes(bytes)));
            }
            ("torch._utils", "_rebuild_tensor", [storage, offset, shape, strides]) => {
                (storage, [*offset, *shape, *strides], &[][..])
            }
            (
                "torch._utils",
                "_rebuild_tensor_v2" | "_rebuild_tensor_v3",
                [storage, offset, shape, strides, _grad, _hooks, rest @ ..],
            ) => (storage, [*offset, *shape, *strides], rest),
            _ => return Err(unreadable(&format!("{module}.{name}"))),
        };
        let (dtype, changes) = match rest {
            [dtype, changes @ ..] if name == "_rebuild_tensor_v3" => {
                (pickle.global(*dtype), changes)
            }
            changes => (None, changes),
        };
        // PyTorch changes the sign of a conjugate's imaginary part when it reads the elements.
        let is_changed = |change: &Value| match pickle.object(*change) {
            Some(Object::Dict(items)) => !items.is_empty(),
            other => other.is_some(),
        };
        if changes.iter().any(is_changed) {
            return Err(unreadable("a view that negates or conjugates"));
        }
        return view_of(pickle, *storage, dtype, view);
    }
    Err(unreadable("a parameter of parameters"))
}

/// The module and the name of the called function or class, and its arguments.
fn called<'a>(pickle: &'a Pickle, call: &Call) -> ([&'a str; 2], &'a [Value]) {
    let called = |callable, arguments| {
        let name = pickle.global(callable).unwrap_or(["?", "?"]);
        (name, pickle.list(arguments).unwrap_or_default())
    };
    match called(call.callable, call.arguments) {
        // A subclass of a tensor is made from a tensor, except for a rank's part of one.
        (["torch._tensor", "_rebuild_from_type_v2"], [callable, class, arguments, ..]) => {
            match pickle.global(*class) {
                Some(name @ [module, _]) if module.starts_with(DISTRIBUTED) => (name, &[][..]),
                _ => called(*callable, *arguments),
            }
        }
        call => call,
    }
}

fn view_of(
    pickle: &Pickle,
    storage: Value,
    dtype: Option<[&str; 2]>,
    view: [Value; 3],
) -> Result<(Layout, Elements), String> {
    let Some(Object::Persistent(id)) = pickle.object(storage) else {
        return Err(unreadable("a tensor without a storage"));
    };
    let storage = storage_of(pickle, *id)?;
    let [_, class] = storage.class;
    let [module, name] = dtype.unwrap_or(storage.class);
    let own = ElementType::of(class).ok();
    let dtype = match ElementType::of(name) {
        Ok(dtype) if own.is_none_or(|own| own == dtype) => dtype,
        _ => return Err(unreadable(&format!("{module}.{name}"))),
    };
    // A storage without a type is counted in bytes.
    let size = own.map_or(1, |own| own.size());
    let sizes = |list: Value| -> Option<Vec<usize>> {
        let list = pickle.list(list)?.iter();
        list.map(|value| value.natural()).collect()
    };
    let [offset, shape, strides] = view;
    let view = (offset.natural(), sizes(shape), sizes(strides));
    let (Some(offset), Some(shape), Some(strides)) = view else {
        return Err("its shape, strides or offset are not natural numbers".to_string());
    };
    let capacity = storage.len.saturating_mul(size) / dtype.size();
    let layout = Layout::new(dtype, shape, strides, offset, capacity)?;
    Ok((layout, Elements::Storage(storage.key)))
}

/// The storage with a persistent id.
pub(crate) fn storage_of(pickle: &Pickle, id: Value) -> Result<Storage<'_>, String> {
    if pickle.text(id).is_some() {
        let reason =
            "its pickle has protocol 0, which PyTorch cannot load either: save it by another";
        return Err(reason.to_string());
    }
    let (tag, class, key, len) = match pickle.list(id) {
        Some([tag, class, key, _location, len]) => (tag, class, key, len),
        // A view of another storage, as written by PyTorch before 0.4, would be here.
        Some([tag, class, key, _location, len, Value::Other]) => (tag, class, key, len),
        _ => return Err("expected a storage by its five properties".to_string()),
    };
    let key = key_of(pickle, *key);
    match (pickle.text(*tag), pickle.global(*class), key, len.natural()) {
        (Some("storage"), Some(class), Some(key), Some(len)) => Ok(Storage { key, class, len }),
        _ => Err("expected a storage with a class, a key and a length".to_string()),
    }
}

/// A key of a dict or of a storage: a text or a number.
pub(crate) fn key_of(pickle: &Pickle, key: Value) -> Option<String> {
    match key {
        Value::Int(number) => Some(number.to_string()),
        _ => pickle.text(key).map(str::to_string),
    }
}

fn unreadable(got: &str) -> String {
    let way = match got.starts_with(DISTRIBUTED) {
        true => ", a rank's part: save the whole, `tensor.full_tensor()`",
        false => "",
    };
    let got = shown(got);
    format!("expected a dense tensor of real numbers, got {got}{way}")
}

/// The size in bytes of an element in a class of storages, also for an unsupported class.
pub(crate) fn element_size([_, class]: [&str; 2]) -> Option<usize> {
    if let Ok(dtype) = ElementType::of(class) {
        return Some(dtype.size());
    }
    Some(match class {
        "ComplexDoubleStorage" => 16,
        "ComplexFloatStorage" => 8,
        "QInt32Storage" => 4,
        "QInt8Storage" | "QUInt8Storage" | "QUInt4x2Storage" | "QUInt2x4Storage"
        | "UntypedStorage" => 1,
        _ => return None,
    })
}
