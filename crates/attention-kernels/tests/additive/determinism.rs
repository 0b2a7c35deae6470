use attention_kernels::Level;

use crate::problem::{Problem, Solution, assert_same};

fn on_threads(threads: usize, problem: &Problem, level: Level) -> Solution {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    pool.install(|| problem.run::<f32>(level))
}

#[test]
fn a_hundred_runs_on_any_number_of_threads_give_the_same_bits() {
    let few_heads = Problem::new([1, 1, 70, 300, 33]);
    let many_heads = Problem::new([3, 7, 5, 40, 18]).with_intervals([3, 1], |b, _| [b, 20 + 7 * b]);
    for problem in [few_heads, many_heads] {
        for level in Level::available() {
            let expected = problem.run::<f32>(level);
            for threads in [1, 2, 3] {
                assert_same("threads", &on_threads(threads, &problem, level), &expected);
            }
            for _ in 0..if level == Level::available()[0] {
                100
            } else {
                3
            } {
                assert_same("again", &problem.run::<f32>(level), &expected);
            }
        }
    }
}
