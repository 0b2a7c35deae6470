//! Gradients against finite differences.

use cpu_kernels::Level;

use super::case::Case;

/// The gradients in `f64` against central differences of the kernel's own scores.
#[test]
fn gradients_are_the_differences_of_the_scores() {
    let case = Case::new([1, 2, 3, 5, 7])
        .with_intervals([1, 3], |_, query| [query / 2, 4 + query])
        .with_keep([1, 2, 1, 5], |[_, head, _, key]| key != 2 + head);
    const STEP: f64 = 1e-5;
    for level in Level::available() {
        let gradients = case.run::<f64>(level);
        let loss = |case: &Case| -> f64 {
            let scores = case.run::<f64>(level).scores;
            let attends = |at: &usize| case.attends(at / 15, at / 5 % 3, at % 5);
            let attended = (0..scores.len()).filter(attends);
            attended.map(|at| scores[at] * case.gradient[at]).sum()
        };
        type Field = fn(&mut Case) -> &mut Vec<f64>;
        let fields: [(&str, Field, &[f64]); 3] = [
            ("queries", |p| &mut p.queries, &gradients.queries),
            ("keys", |p| &mut p.keys, &gradients.keys),
            ("weight", |p| &mut p.weight, &gradients.weight),
        ];
        for (name, field, gradient) in fields {
            for (at, gradient) in gradient.iter().enumerate() {
                let mut moved = case.clone();
                field(&mut moved)[at] += STEP;
                let above = loss(&moved);
                field(&mut moved)[at] -= 2.0 * STEP;
                let difference = (above - loss(&moved)) / (2.0 * STEP);
                let what = format!("{level:?}: {name}[{at}]");
                let is_close = (difference - gradient).abs() < 1e-8;
                assert!(is_close, "{what}: {gradient}, not {difference}");
            }
        }
    }
}
