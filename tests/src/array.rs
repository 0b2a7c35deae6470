//! Arrays on the host.

use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use serde::Deserialize;

/// Row-major elements with a shape.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Array {
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// The elements, the last axis fastest.
    pub data: Vec<f64>,
}

impl Array {
    /// Elements with a shape.
    ///
    /// # Panics
    /// If their number is not the shape's.
    pub fn new(shape: &[usize], data: impl Into<Vec<f64>>) -> Self {
        let (shape, data) = (shape.to_vec(), data.into());
        assert_eq!(shape.iter().product::<usize>(), data.len(), "{shape:?}");
        Self { shape, data }
    }

    /// An array of `shape`, filled by `element(index)`.
    pub fn from_fn(shape: &[usize], mut element: impl FnMut(&[usize]) -> f64) -> Self {
        let mut index = vec![0; shape.len()];
        let data = (0..shape.iter().product())
            .map(|flat| {
                let mut rest = flat;
                for axis in (0..shape.len()).rev() {
                    index[axis] = rest % shape[axis];
                    rest /= shape[axis];
                }
                element(&index)
            })
            .collect();
        let shape = shape.to_vec();
        Self { shape, data }
    }

    /// Elements in `[-2, 2)`, multiples of 1/64 (exact in every float type), that depend on `seed` and position only.
    pub fn draw(seed: u64, shape: &[usize]) -> Self {
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self::from_fn(shape, |_| {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            (z % 256) as f64 / 64.0 - 2.0
        })
    }

    /// `value` in every element.
    pub fn full(shape: &[usize], value: f64) -> Self {
        Self::from_fn(shape, |_| value)
    }

    /// Reads a tensor back, whatever its float type.
    pub fn read<const D: usize>(tensor: Tensor<D>) -> Self {
        let data = tensor.into_data();
        Self::new(&data.shape().to_vec(), data.iter().collect::<Vec<_>>())
    }

    /// A float tensor of type `dtype`.
    pub fn tensor<const D: usize>(&self, device: &Device, dtype: DType) -> Tensor<D> {
        let data = TensorData::new(self.data.clone(), self.shape.clone());
        Tensor::from_data(data, (device, dtype))
    }

    /// A float tensor whose gradient is asked for, if the device trains.
    pub fn leaf<const D: usize>(&self, device: &Device, dtype: DType) -> Tensor<D> {
        self.tensor(device, dtype)
            .set_require_grad(device.is_autodiff())
    }

    /// A float tensor of type f32.
    pub fn f32<const D: usize>(&self, device: &Device) -> Tensor<D> {
        self.tensor(device, DType::F32)
    }

    /// An integer tensor of the device's default type.
    pub fn int<const D: usize>(&self, device: &Device) -> Tensor<D, Int> {
        let data = self.data.iter().map(|&element| element as i64).collect();
        Tensor::from_data(TensorData::new(data, self.shape.clone()), device)
    }

    /// A boolean tensor, true where the element is not 0.
    pub fn bool<const D: usize>(&self, device: &Device) -> Tensor<D, Bool> {
        let data: Vec<bool> = self.data.iter().map(|&element| element != 0.0).collect();
        Tensor::from_data(TensorData::new(data, self.shape.clone()), device)
    }

    /// The element at `index`.
    pub fn at(&self, index: &[usize]) -> f64 {
        self.data[self.flat(index)]
    }

    /// The element at `index`, to write to.
    pub fn at_mut(&mut self, index: &[usize]) -> &mut f64 {
        let flat = self.flat(index);
        &mut self.data[flat]
    }

    /// Each element changed by `change`.
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        let data: Vec<f64> = self.data.iter().map(|&element| change(element)).collect();
        Self::new(&self.shape, data)
    }

    /// `number` where `is_masked` of the index, the element elsewhere.
    pub fn masked_fill(&self, number: f64, is_masked: impl Fn(&[usize]) -> bool) -> Self {
        Self::from_fn(&self.shape, |at| {
            if is_masked(at) { number } else { self.at(at) }
        })
    }

    /// The axes in the order `order`.
    pub fn permute(&self, order: &[usize]) -> Self {
        let shape: Vec<usize> = order.iter().map(|&axis| self.shape[axis]).collect();
        Self::from_fn(&shape, |index| {
            let mut from = vec![0; index.len()];
            for (to, &axis) in order.iter().enumerate() {
                from[axis] = index[to];
            }
            self.at(&from)
        })
    }

    /// The same elements in another shape.
    pub fn reshape(&self, shape: &[usize]) -> Self {
        Self::new(shape, self.data.clone())
    }

    /// The shape with a heads axis of size 1 where there is none.
    pub fn with_heads(&self) -> Self {
        match self.shape[..] {
            [batch, rows, size] => self.reshape(&[batch, 1, rows, size]),
            _ => self.clone(),
        }
    }

    /// `sum(self * other)`.
    pub fn dot(&self, other: &Self) -> f64 {
        assert_eq!(self.shape, other.shape);
        self.data.iter().zip(&other.data).map(|(a, b)| a * b).sum()
    }

    /// The largest absolute value of an element.
    pub fn magnitude(&self) -> f64 {
        self.data
            .iter()
            .fold(0.0, |largest, x| largest.max(x.abs()))
    }

    fn flat(&self, index: &[usize]) -> usize {
        assert_eq!(index.len(), self.shape.len());
        index.iter().zip(&self.shape).fold(0, |flat, (&at, &size)| {
            assert!(at < size, "{index:?} lies outside {:?}", self.shape);
            flat * size + at
        })
    }
}
