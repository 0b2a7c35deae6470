//! The tensors that a pickle of PyTorch's describes: their names, and where their elements lie.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use burn::tensor::{BoolStore, DType};

use super::layout::Layout;
use super::pickle::{Call, Object, Pickle, Value};
use super::{Place, Stored, Tensors};

/// The deepest nesting that is looked through, which ends a dict that contains itself.
const MAX_DEPTH: usize = 200;

/// The most objects that are looked at, and the most bytes of their names: one that is shared is looked at again under
/// each name.
const MAX_VISITS: usize = 1 << 21;
const MAX_NAME_BYTES: usize = 1 << 26;

/// The tables of a `torch.nn.Module`, whose state dict is what they hold.
const MODULE_TABLES: [&str; 3] = ["_parameters", "_buffers", "_modules"];

/// A storage of a pickle, by its persistent id.
pub(super) struct Storage<'a> {
    pub(super) key: String,
    /// `torch.FloatStorage`, ..
    pub(super) class: &'a str,
    /// The number of elements; of bytes if it has no type.
    pub(super) len: usize,
}

/// All tensors by name, as `state_dict` would give them. `place` finds a storage by its key.
pub(super) fn tensors(
    pickle: &Pickle,
    place: impl Fn(&str) -> Result<Place, String>,
) -> Result<Tensors, String> {
    let mut names = Names {
        pickle,
        path: String::new(),
        visits: 0,
        name_bytes: 0,
        found: BTreeMap::new(),
    };
    names.visit(pickle.root, 0)?;
    let stored = |value: Option<Value>| {
        let value = value.ok_or("expected one tensor of this name, got several")?;
        let (layout, storage) = tensor(pickle, value)?;
        let place = place(&storage)?;
        Ok(Stored { layout, place })
    };
    let found = names.found.into_iter();
    Ok(found.map(|(name, value)| (name, stored(value))).collect())
}

/// Looks for what may be a tensor.
struct Names<'a> {
    pickle: &'a Pickle,
    /// The name so far.
    path: String,
    visits: usize,
    name_bytes: usize,
    /// By name; `None` if there are several of a name.
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
                let mut values = values.iter().enumerate();
                values.try_for_each(|(index, value)| {
                    self.under(&index.to_string(), *value, depth + 1)
                })
            }
            Some(Object::Call(call)) => match contents(pickle, call) {
                Contents::Tables(tables) => tables
                    .into_iter()
                    .try_for_each(|table| self.visit(table, depth + 1)),
                Contents::Items(items) => self.items(&items, depth),
                Contents::None => self.found(value),
            },
            Some(Object::Persistent(_)) => self.found(value),
            _ => Ok(()),
        }
    }

    fn items(&mut self, items: &[[Value; 2]], depth: usize) -> Result<(), String> {
        for [key, value] in items {
            if let Some(key) = key_of(self.pickle, *key) {
                self.under(&key, *value, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Visits a value with `key` at the end of its name.
    fn under(&mut self, key: &str, value: Value, depth: usize) -> Result<(), String> {
        if !matches!(value, Value::Object(_)) || self.pickle.text(value).is_some() {
            return Ok(());
        }
        let len = self.path.len();
        if len > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        self.visits += 1;
        self.name_bytes += self.path.len();
        if self.visits > MAX_VISITS || self.name_bytes > MAX_NAME_BYTES {
            return Err("its objects contain each other without end".to_string());
        }
        self.visit(value, depth)?;
        self.path.truncate(len);
        Ok(())
    }

    fn found(&mut self, value: Value) -> Result<(), String> {
        if self.path.is_empty() {
            return Err("expected tensors by name, got an object without names".to_string());
        }
        match self.found.entry(self.path.clone()) {
            Entry::Vacant(place) => {
                place.insert(Some(value));
            }
            Entry::Occupied(mut place) => {
                place.insert(None);
            }
        }
        Ok(())
    }
}

/// What the object that a call makes contains, by names.
enum Contents {
    Tables(Vec<Value>),
    Items(Vec<[Value; 2]>),
    None,
}

fn contents(pickle: &Pickle, call: &Call) -> Contents {
    let tables = MODULE_TABLES.map(|table| pickle.get(call.state, table));
    if tables.iter().all(Option::is_some) {
        return Contents::Tables(tables.into_iter().flatten().collect());
    }
    let is_ordered_dict = pickle.global(call.callable) == Some("collections.OrderedDict");
    if !is_ordered_dict && call.items.is_empty() {
        return Contents::None;
    }
    // Python 2 makes an ordered dict of pairs.
    let pairs = pickle
        .list(call.arguments)
        .and_then(|arguments| match arguments {
            [pairs] if is_ordered_dict => pickle.list(*pairs),
            _ => None,
        });
    let pairs = pairs.into_iter().flatten();
    let pairs = pairs.filter_map(|pair| <[Value; 2]>::try_from(pickle.list(*pair)?).ok());
    Contents::Items(pairs.chain(call.items.iter().copied()).collect())
}

/// The tensor that a call makes, and the key of its storage.
fn tensor(pickle: &Pickle, value: Value) -> Result<(Layout, String), String> {
    let mut value = value;
    // A parameter is made of a tensor.
    for _ in 0..MAX_DEPTH {
        let Some(Object::Call(call)) = pickle.object(value) else {
            return Err(unreadable("a storage"));
        };
        let (name, arguments) = called(pickle, call);
        let (storage, offset, shape, strides, rest) = match (name, arguments) {
            (
                "torch._utils._rebuild_parameter" | "torch._utils._rebuild_parameter_with_state",
                [data, ..],
            ) => {
                value = *data;
                continue;
            }
            ("torch._utils._rebuild_tensor", [storage, offset, shape, strides]) => {
                (storage, offset, shape, strides, &[][..])
            }
            (
                "torch._utils._rebuild_tensor_v2" | "torch._utils._rebuild_tensor_v3",
                [storage, offset, shape, strides, _grad, _hooks, rest @ ..],
            ) => (storage, offset, shape, strides, rest),
            _ => return Err(unreadable(name)),
        };
        let (dtype, changes) = match (name, rest) {
            ("torch._utils._rebuild_tensor_v3", [dtype, changes @ ..]) => {
                (pickle.global(*dtype), changes)
            }
            (_, changes) => (None, changes),
        };
        // Such as a sign that PyTorch changes as it reads, of the imaginary part of a conjugate.
        let is_changed = |change: &Value| match pickle.object(*change) {
            Some(Object::Dict(items)) => !items.is_empty(),
            other => other.is_some(),
        };
        if changes.iter().any(is_changed) {
            return Err(unreadable("a view that negates or conjugates"));
        }
        return view_of(pickle, *storage, dtype, [*offset, *shape, *strides]);
    }
    Err(unreadable("a parameter of parameters"))
}

/// What a call calls, and its arguments.
fn called<'a>(pickle: &'a Pickle, call: &Call) -> (&'a str, &'a [Value]) {
    let (mut callable, mut arguments) = (call.callable, call.arguments);
    let called = |callable, arguments| {
        let name = pickle.global(callable).unwrap_or("an object");
        (name, pickle.list(arguments).unwrap_or_default())
    };
    // A subclass of a tensor is made of a tensor.
    if let ("torch._tensor._rebuild_from_type_v2", [inner, _class, inner_arguments, ..]) =
        called(callable, arguments)
    {
        (callable, arguments) = (*inner, *inner_arguments);
    }
    called(callable, arguments)
}

fn view_of(
    pickle: &Pickle,
    storage: Value,
    dtype: Option<&str>,
    [offset, shape, strides]: [Value; 3],
) -> Result<(Layout, String), String> {
    let Some(Object::Persistent(id)) = pickle.object(storage) else {
        return Err(unreadable("a tensor without a storage"));
    };
    let storage = storage_of(pickle, *id)?;
    let unknown = || unreadable(dtype.unwrap_or(storage.class));
    let dtype = element_type(dtype.unwrap_or(storage.class)).ok_or_else(unknown)?;
    let (size, is_of_type) = match element_type(storage.class) {
        Some(own) => (own.size(), own == dtype),
        None => (1, storage.class.ends_with(".UntypedStorage")),
    };
    if !is_of_type {
        return Err(unreadable(storage.class));
    }
    let sizes = |list: Value| -> Option<Vec<usize>> {
        let list = pickle.list(list)?.iter();
        list.map(|value| size_of(*value)).collect()
    };
    let (Some(offset), Some(shape), Some(strides)) =
        (size_of(offset), sizes(shape), sizes(strides))
    else {
        return Err("its shape, strides or offset are not natural numbers".to_string());
    };
    let capacity = storage.len.saturating_mul(size) / dtype.size();
    let layout = Layout::new(dtype, shape, strides, offset, capacity)?;
    Ok((layout, storage.key))
}

/// The storage with a persistent id.
pub(super) fn storage_of(pickle: &Pickle, id: Value) -> Result<Storage<'_>, String> {
    let (tag, class, key, len) = match pickle.list(id) {
        Some([tag, class, key, _location, len]) => (tag, class, key, len),
        // A view of another storage, as PyTorch before 0.4 wrote, would stand here.
        Some([tag, class, key, _location, len, Value::Other]) => (tag, class, key, len),
        _ => return Err("expected a storage by its five properties".to_string()),
    };
    let key = key_of(pickle, *key);
    match (pickle.text(*tag), pickle.global(*class), key, size_of(*len)) {
        (Some("storage"), Some(class), Some(key), Some(len)) => Ok(Storage { key, class, len }),
        _ => Err("expected a storage with a class, a key and a length".to_string()),
    }
}

/// A key of a dict or of a storage: a text, or a number.
pub(super) fn key_of(pickle: &Pickle, key: Value) -> Option<String> {
    match key {
        Value::Int(number) => Some(number.to_string()),
        _ => pickle.text(key).map(str::to_string),
    }
}

fn size_of(value: Value) -> Option<usize> {
    match value {
        Value::Int(size) => usize::try_from(size).ok(),
        _ => None,
    }
}

fn unreadable(name: &str) -> String {
    format!(
        "expected a dense tensor of real numbers, got {}",
        name.escape_debug()
    )
}

/// The type of the elements of a storage's class or of a `torch.dtype`.
fn element_type(name: &str) -> Option<DType> {
    Some(match name.rsplit('.').next()? {
        "FloatStorage" | "float32" => DType::F32,
        "DoubleStorage" | "float64" => DType::F64,
        "HalfStorage" | "float16" => DType::F16,
        "BFloat16Storage" | "bfloat16" => DType::BF16,
        "LongStorage" | "int64" => DType::I64,
        "IntStorage" | "int32" => DType::I32,
        "ShortStorage" | "int16" => DType::I16,
        "CharStorage" | "int8" => DType::I8,
        "uint64" => DType::U64,
        "uint32" => DType::U32,
        "uint16" => DType::U16,
        "ByteStorage" | "uint8" => DType::U8,
        "BoolStorage" | "bool" => DType::Bool(BoolStore::Native),
        _ => return None,
    })
}

/// Bytes of an element of a storage's class, of those that cannot be read, too.
pub(super) fn element_size(class: &str) -> Option<usize> {
    if let Some(dtype) = element_type(class) {
        return Some(dtype.size());
    }
    Some(match class.rsplit('.').next()? {
        "ComplexDoubleStorage" => 16,
        "ComplexFloatStorage" => 8,
        "QInt32Storage" => 4,
        "QInt8Storage" | "QUInt8Storage" | "QUInt4x2Storage" | "QUInt2x4Storage"
        | "UntypedStorage" => 1,
        _ => return None,
    })
}
