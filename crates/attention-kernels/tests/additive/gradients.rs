use attention_kernels::Level;

use crate::problem::Problem;

/// The gradients in `f64` against central differences of the kernel's own scores.
#[test]
fn gradients_are_the_slopes_of_the_scores() {
    let problem = Problem::new([1, 2, 3, 5, 7])
        .with_intervals([1, 3], |_, query| [query / 2, 4 + query])
        .with_keep([1, 2, 1, 5], |[_, head, _, key]| key != 2 + head);
    const STEP: f64 = 1e-5;
    for level in Level::available() {
        let gradients = problem.run::<f64>(level);
        let loss = |problem: &Problem| -> f64 {
            let scores = problem.run::<f64>(level).scores;
            let visible =
                (0..scores.len()).filter(|at| problem.mask.sees([0, at / 15, at / 5 % 3, at % 5]));
            visible.map(|at| scores[at] * problem.grad[at]).sum()
        };
        type Field = fn(&mut Problem) -> &mut Vec<f64>;
        let fields: [(&str, Field, &[f64]); 3] = [
            ("queries", |p| &mut p.queries, &gradients.queries),
            ("keys", |p| &mut p.keys, &gradients.keys),
            ("weight", |p| &mut p.weight, &gradients.weight),
        ];
        for (name, field, gradient) in fields {
            for (at, gradient) in gradient.iter().enumerate() {
                let mut moved = problem.clone();
                field(&mut moved)[at] += STEP;
                let above = loss(&moved);
                field(&mut moved)[at] -= 2.0 * STEP;
                let slope = (above - loss(&moved)) / (2.0 * STEP);
                assert!(
                    (slope - gradient).abs() < 1e-8,
                    "{level:?}: {name}[{at}]: {gradient}, not {slope}"
                );
            }
        }
    }
}
