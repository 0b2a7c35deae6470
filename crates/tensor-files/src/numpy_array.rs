//! NumPy arrays in a pickle.

use std::ops::Range;

use crate::ElementType;
use crate::layout::Layout;
use crate::pickle::{Call, Object, Pickle, Value};

/// The layout of the array that a call of `_reconstruct` makes, and the range of its bytes in the pickle.
pub(crate) fn array(pickle: &Pickle, call: &Call) -> Result<(Layout, Range<u64>), String> {
    let Some([_version, shape, dtype, is_fortran, bytes]) = pickle.list(call.state) else {
        return Err("expected an array of NumPy by its five properties".to_string());
    };
    let Some(Object::Bytes(bytes)) = pickle.object(*bytes) else {
        let reason = "expected an array as bytes, as a pickle of protocol 3 or later has them";
        return Err(format!("{reason}: save it with `protocol=4`"));
    };
    let sizes = pickle.list(*shape).unwrap_or_default().iter();
    let shape = sizes.map(|size| size.natural()).collect::<Option<Vec<_>>>();
    let shape = shape.ok_or("its shape has sizes that are not natural numbers")?;
    let descr = descr(pickle, *dtype).ok_or("expected an array of NumPy of numbers")?;
    let is_fortran = *is_fortran == Value::Bool(true);
    let len = bytes.end - bytes.start;
    let layout = Layout::in_order(ElementType::of(&descr)?, shape, is_fortran, len)?;
    Ok((layout, bytes.clone()))
}

/// The byte order and the name of a `numpy.dtype`, `"<f4"`. Paddle stores bf16 as `uint16`, which no parameter uses.
fn descr(pickle: &Pickle, dtype: Value) -> Option<String> {
    let Some(Object::Call(call)) = pickle.object(dtype) else {
        return None;
    };
    let name = pickle.text(*pickle.list(call.arguments)?.first()?)?;
    let order = pickle.text(*pickle.list(call.state)?.get(1)?)?;
    let name = if name == "u2" { "V2" } else { name };
    Some(format!("{order}{name}"))
}
