//! The plain loops are right, and every check notices what is wrong.

use burn::tensor::Device;

use crate::case::{Case, Sizes};
use crate::check::{Check, Input, Outcome, tolerances};
use crate::dropout;
use crate::self_check::{checks, checks_in_f32};

/// Few enough to move each element of each input.
const SMALL: Sizes = Sizes {
    batch: 2,
    heads: 2,
    queries: 3,
    keys: 5,
    size: 4,
    value_size: 2,
};

fn device() -> Device {
    Device::flex().autodiff()
}

#[test]
fn plain_gradients_are_the_central_differences_of_plain_results() {
    const STEP: f64 = 1e-5;
    for check in checks_in_f32(SMALL) {
        let (computed, _) = check.compute(&device());
        let loss = |inputs: &[Input]| -> f64 {
            let outcome = check.expected(inputs, &computed.output);
            let terms = outcome.output.iter().zip(&check.grad_output);
            terms.map(|(output, gradient)| output * gradient).sum()
        };
        let gradients = check.expected(&check.inputs, &computed.output).gradients;
        assert_eq!(gradients.len(), check.inputs.len(), "{}", name(&check));
        for (index, gradients) in gradients.iter().enumerate() {
            let largest = gradients
                .iter()
                .fold(0.0, |most, x| f64::max(most, x.abs()));
            let mut moved = check.inputs.clone();
            for (at, gradient) in gradients.iter().enumerate() {
                let here = moved[index].elements[at];
                moved[index].elements[at] = here + STEP;
                let above = loss(&moved);
                moved[index].elements[at] = here - STEP;
                let difference = (above - loss(&moved)) / (2.0 * STEP);
                moved[index].elements[at] = here;
                assert!(
                    (gradient - difference).abs() <= 1e-7 * largest,
                    "{}, input {index}: element {at} has the gradient {gradient}, by differences {difference}",
                    name(&check),
                );
            }
        }
    }
}

#[test]
fn every_check_passes_and_fails_where_one_element_of_the_reference_is_wrong() {
    for check in checks(SMALL, &device()) {
        let (computed, _) = check.compute(&device());
        let expected = || check.expected(&check.inputs, &computed.output);
        let tolerances = tolerances(check.dtype);
        let passes = |reference: &Outcome| {
            let errors = reference.errors(&computed);
            [0, 1].map(|pass| errors[pass] <= tolerances[pass])
        };
        assert_eq!(passes(&expected()), [true, true], "{}", name(&check));

        let mut wrong = expected();
        spoil(&mut wrong.output, tolerances[0]);
        assert_eq!(passes(&wrong), [false, true], "{}", name(&check));
        for index in 0..check.inputs.len() {
            let mut wrong = expected();
            spoil(&mut wrong.gradients[index], tolerances[1]);
            assert_eq!(passes(&wrong), [true, false], "{} {index}", name(&check));
        }
        let mut wrong = expected();
        wrong.gradients.pop();
        assert_eq!(passes(&wrong), [true, false], "{}", name(&check));
        if let Some(prediction) = expected().exact.first() {
            let mut wrong = expected();
            wrong.exact[0] = prediction + 1.0;
            assert_eq!(passes(&wrong), [false, true], "{}", name(&check));
        }
    }
}

/// Moves the largest element by three times what is allowed.
fn spoil(elements: &mut [f64], tolerance: f64) {
    let largest = elements
        .iter_mut()
        .max_by(|a, b| a.abs().total_cmp(&b.abs()));
    *largest.expect("some elements") *= 1.0 + 3.0 * tolerance;
}

#[test]
fn every_check_fails_where_the_reference_reads_another_input() {
    for check in checks(SMALL, &device()) {
        let (computed, _) = check.compute(&device());
        for index in 0..check.inputs.len() {
            let mut others = check.inputs.clone();
            let elements = others[index].elements.iter_mut();
            elements.for_each(|element| *element *= 1.5);
            let errors = check.expected(&others, &computed.output).errors(&computed);
            let is_wrong = |pass: usize| errors[pass] > tolerances(check.dtype)[pass];
            assert!(is_wrong(0) || is_wrong(1), "{} {index}", name(&check));
        }
    }
}

#[test]
fn a_share_of_dropped_weights_that_is_no_chance_is_an_error() {
    let [case, _] = Case::with_dropout(Sizes::CHECKED);
    let pairs = case.pairs();
    let width = Sizes::CHECKED.value_size + Sizes::CHECKED.keys;
    let context = |dropped: fn(usize) -> bool| -> Vec<f64> {
        let elements = 0..pairs.query_rows() * width;
        elements
            .map(|at| f64::from(u8::from(!dropped(at))))
            .collect()
    };
    let is_error = |dropped| {
        let factors = dropout::factors(&case, &pairs, &context(dropped));
        factors.iter().any(|factor| factor.is_nan())
    };
    assert!(!is_error(|at| at * 7 % 10 < 3));
    assert!(is_error(|_| false));
    assert!(is_error(|at| at % 2 == 0));
}

fn name(check: &Check) -> String {
    format!("{}, {}", check.operation, check.case)
}
