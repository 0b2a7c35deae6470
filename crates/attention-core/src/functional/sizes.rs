//! The sizes of a call.

use burn::tensor::Tensor;
use burn_fused_layers::harness::checks::assert_together;

use super::key_heads::assert_divides;
use super::keys_and_values::KeysAndValues;
use crate::rank::Sequences;

/// The sizes of a call: queries `[batch, heads, queries, size]` with keys and values that fit together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) key_heads: usize,
    pub(crate) num_queries: usize,
    pub(crate) num_keys: usize,
    pub(crate) value_size: usize,
}

impl Sizes {
    /// The sizes of a call. Queries that are not projected yet may have another size than the keys.
    ///
    /// # Panics
    /// If batch, heads, device or the type of the elements do not fit.
    pub(crate) fn of_call(operation: &str, queries: &Sequences, rows: &KeysAndValues) -> Self {
        let values = &rows.values;
        let [batch, heads, num_queries, _] = queries.dims();
        let [value_batch, key_heads, num_keys, value_size] = values.dims();
        assert_equal_batches(batch, value_batch);
        assert_divides(operation, key_heads, heads);
        let others = [queries.argument("queries")];
        assert_together(operation, values.argument("values"), others);
        Self {
            batch,
            heads,
            key_heads,
            num_queries,
            num_keys,
            value_size,
        }
    }

    /// These sizes with another number of keys.
    pub(crate) fn with_keys(self, num_keys: usize) -> Self {
        Self { num_keys, ..self }
    }

    /// The size of queries and keys as they are compared.
    ///
    /// # Panics
    /// If the keys do not have these sizes.
    pub(super) fn compared(
        &self,
        operation: &str,
        queries: &Sequences,
        rows: &KeysAndValues,
    ) -> usize {
        let (keys, [_, _, _, size]) = (rows.keys.dims(), queries.dims());
        let expected = [self.batch, self.key_heads, self.num_keys, size];
        if let Some(axis) = (0..4).find(|&axis| keys[axis] != expected[axis]) {
            let (expected, got) = (expected[axis], keys[axis]);
            panic!("{operation}: keys: axis {axis} expected {expected}, got {got} in {keys:?}");
        }
        size
    }

    /// Whether there is no pair of query and key, or no element of a value.
    pub(super) fn has_no_pairs(&self) -> bool {
        self.scores().contains(&0) || self.value_size == 0
    }

    /// The context if [there are no pairs](Self::has_no_pairs): zeros, or empty.
    pub(crate) fn zeros(&self, rows: &KeysAndValues) -> Sequences {
        let shape = [self.batch, self.heads, self.num_queries, self.value_size];
        let values = &rows.values;
        Tensor::zeros(shape, (&values.device(), values.dtype())).into()
    }

    /// `[batch, heads, queries, keys]`
    pub(crate) fn scores(&self) -> [usize; 4] {
        [self.batch, self.heads, self.num_queries, self.num_keys]
    }
}

/// # Panics
/// If values differ from keys in batch, heads or number.
pub(crate) fn assert_a_value_for_each_key(keys: [usize; 4], values: [usize; 4]) {
    let [expected, got] = [keys, values].map(|[batch, heads, number, _]| [batch, heads, number]);
    assert!(
        got == expected,
        "values expected one for each key, [batch, heads, keys] = {expected:?}, got {got:?}"
    );
}

/// # Panics
/// If queries differ from keys and values in the number of examples.
pub(crate) fn assert_equal_batches(queries: usize, values: usize) {
    assert!(
        queries == values,
        "queries, keys and values expected of one batch, got queries of {queries} examples and keys of {values}"
    );
}
