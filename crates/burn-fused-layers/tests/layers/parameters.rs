//! Parameters with other values.

use attention_tests::{Array, assert_same, device};
use burn::module::Param;
use burn::tensor::Tensor;
use burn_fused_layers::harness::parameter::with_value;

/// Not what a record would have of it.
#[test]
fn a_value_is_the_one_that_was_given() {
    device::each_both_ways(|device| {
        for trains in [true, false] {
            let parameter = Param::from_tensor(Tensor::<2>::ones([3, 5], device))
                .set_require_grad(trains)
                .save_mapper(|value| value * 0.5)
                .load_mapper(|record| record + 1.0);
            let value = Array::draw(1, &[3, 7]).f32::<2>(device);
            let expected = Array::read(value.clone());
            let changed = with_value(parameter.clone(), value);
            assert_eq!(changed.id, parameter.id);
            assert_eq!(changed.is_require_grad(), parameter.is_require_grad());
            let record = changed.transform_for_save().into_value();
            assert_same("record", record, &expected.map(|it| it * 0.5));
            assert_same("value", changed.val(), &expected);
        }
    });
}
