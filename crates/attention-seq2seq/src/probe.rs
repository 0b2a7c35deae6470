//! Whether a device works.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, Tensor};

/// Computes on the device once. A GPU backend without an adapter panics in its first operation: here that is an error.
pub(crate) fn probe(make: impl Fn() -> Device) -> std::result::Result<Device, String> {
    let compute = || {
        let device = make();
        compute_once(&device).map(|()| device)
    };
    let result = silently(|| catch_unwind(AssertUnwindSafe(compute)));
    match result {
        Ok(result) => result,
        Err(panic) => Err(match panic.downcast::<String>() {
            Ok(text) => first_line(*text),
            Err(panic) => match panic.downcast::<&str>() {
                Ok(text) => first_line(text.to_string()),
                Err(_) => "no adapter was found".to_string(),
            },
        }),
    }
}

/// Computes something, and says in one line why it went wrong if it did.
pub(crate) fn compute_once(device: &Device) -> std::result::Result<(), String> {
    let sum = Tensor::<1>::ones([2], device).sum();
    match sum.try_into_vec_as::<f32>() {
        Ok(values) if values == [2.0] => Ok(()),
        Ok(values) => Err(format!("1 + 1 gave {values:?} on it")),
        Err(error) => Err(first_line(error.to_string())),
    }
}

/// Does what may panic, here or in another thread, and is not to print that; it does not unwind itself.
pub(crate) fn silently<T>(work: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = work();
    std::panic::set_hook(hook);
    result
}

fn first_line(text: String) -> String {
    text.lines().next().unwrap_or_default().to_string()
}
