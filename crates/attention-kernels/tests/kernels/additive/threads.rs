//! The same bits on any number of threads, and every time.

use cpu_kernels::Level;

use super::case::Case;
use super::oracle::assert_same;
use crate::calls::on_threads;

#[test]
fn a_hundred_runs_on_any_number_of_threads_give_the_same_bits() {
    let few_heads = Case::new([1, 1, 70, 300, 33]);
    let many_heads = Case::new([3, 7, 5, 40, 18]).with_intervals([3, 1], |b, _| [b, 20 + 7 * b]);
    let grouped = Case::grouped([1, 6, 11, 150, 18], 2);
    for case in [few_heads, many_heads, grouped] {
        for level in Level::available() {
            let expected = case.run::<f32>(level);
            for threads in [1, 2, 3] {
                let found = on_threads(threads, || case.run::<f32>(level));
                assert_same("threads", &found, &expected);
            }
            let is_first = level == Level::available()[0];
            for _ in 0..if is_first { 100 } else { 3 } {
                assert_same("again", &case.run::<f32>(level), &expected);
            }
        }
    }
}
