//! Padding: the steps past an example's length.

use burn::tensor::{Bool, Device, Tensor, TensorData};

use super::Steps;

/// True where steps `[batch, steps, 1]` are padding; `None` if nowhere.
pub(super) fn padding(
    steps: &Steps,
    [batch, count]: [usize; 2],
    device: &Device,
) -> Option<Tensor<3, Bool>> {
    let lens = steps.lens.as_ref()?;
    if lens.len() != batch || lens.iter().all(|&len| len >= count) {
        return None;
    }
    let flags = lens
        .iter()
        .flat_map(|&len| (0..count).map(move |step| step >= len));
    let flags = TensorData::new(flags.collect::<Vec<bool>>(), [batch, count, 1]);
    Some(Tensor::from_data(flags, device))
}

/// The input with zeros at padding, whose content no gradient may read.
pub(super) fn without_padding(input: Tensor<3>, steps: &Steps) -> Tensor<3> {
    let dims @ [batch, count, _] = input.dims();
    match padding(steps, [batch, count], &input.device()) {
        Some(padding) => input.mask_fill(padding.expand(dims), 0.0),
        None => input,
    }
}
