//! Checks of configurations and inputs, with messages that name them.

use burn::tensor::kind::Basic;
use burn::tensor::{DType, Device, Tensor};

/// # Panics
/// If a size is 0; `config` is what asks for it.
pub(crate) fn assert_positive(config: &str, sizes: &[(&str, usize)]) {
    for (name, size) in sizes {
        assert!(*size > 0, "{config}: {name} expected at least 1, got 0");
    }
}

/// # Panics
/// If a number is infinite or NaN.
pub(crate) fn assert_finite(config: &str, name: &str, number: f64) {
    assert!(
        number.is_finite(),
        "{config}: {name} expected a finite number, got {number}"
    );
}

/// An argument of an operation, as messages name it.
pub(crate) struct Argument<'a> {
    name: &'a str,
    device: Device,
    /// None where only the device counts.
    dtype: Option<DType>,
}

impl<'a> Argument<'a> {
    /// A tensor of floats, whose device and type are to be those of others.
    pub(crate) fn floats<const D: usize>(name: &'a str, tensor: &Tensor<D>) -> Self {
        Self {
            dtype: Some(tensor.dtype()),
            ..Self::on_device(name, tensor)
        }
    }

    /// A tensor of any type, whose device is to be that of others: indices, flags.
    pub(crate) fn on_device<const D: usize, K: Basic>(
        name: &'a str,
        tensor: &Tensor<D, K>,
    ) -> Self {
        Self::of_device(name, tensor.device())
    }

    /// Something on `device`, which is to be that of others.
    pub(crate) fn of_device(name: &'a str, device: Device) -> Self {
        Self {
            name,
            device,
            dtype: None,
        }
    }
}

/// The first check of an operation: its arguments are on one device (autodiff is not compared), and its floats of one
/// type. Burn would find out later, in words that name neither.
///
/// # Panics
/// If that is not so.
pub(crate) fn assert_together<'a>(
    operation: &str,
    first: Argument,
    others: impl IntoIterator<Item = Argument<'a>>,
) {
    let whose = first.name;
    for Argument {
        name,
        device,
        dtype,
    } in others
    {
        assert!(
            device == first.device,
            "{operation}: {name} expected on {:?}, as the {whose}, got {device:?}",
            first.device
        );
        if let (Some(expected), Some(got)) = (first.dtype, dtype) {
            assert!(
                got == expected,
                "{operation}: {name} expected of type {expected:?}, as the {whose}, got {got:?}"
            );
        }
    }
}

/// # Panics
/// If there are not as many examples of queries as of keys and values.
pub(crate) fn assert_batch(queries: &Tensor<4>, values: &Tensor<4>) {
    let [[queries, ..], [values, ..]] = [queries.dims(), values.dims()];
    assert!(
        queries == values,
        "queries, keys and values expected of one batch, got queries of {queries} examples and keys of {values}"
    );
}

/// # Panics
/// If rows `[batch, heads, rows, size]` cannot go through a linear layer `weight`, `[size, out]`.
pub(crate) fn assert_fits(name: &str, rows: &Tensor<4>, weight: &Tensor<2>) {
    let dims @ [.., got] = rows.dims();
    let [expected, _] = weight.dims();
    assert!(
        got == expected,
        "{name}: last axis expected {expected}, got {got} ([batch, heads, rows, size] is {dims:?})"
    );
    let parameters = Argument::floats("parameters", weight);
    assert_together("linear layer", parameters, [Argument::floats(name, rows)]);
}
