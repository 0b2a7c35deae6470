//! Recurrent layers give the same bits on any number of threads.

use cpu_kernels::Level;

use super::case::{Case, kernels};
use crate::calls::on_threads;

#[test]
fn bits_do_not_depend_on_the_threads() {
    let case = Case::SMALL.with_sizes(117, 9, 70);
    for case in case.variants() {
        let inputs = case.inputs::<f32>(1);
        let once = kernels(Level::current(), &case, &inputs).bits();
        for threads in [1, 2, 3, 5] {
            let again = on_threads(threads, || kernels(Level::current(), &case, &inputs));
            assert!(again.bits() == once, "{threads} threads: {case:?}");
        }
    }
}
