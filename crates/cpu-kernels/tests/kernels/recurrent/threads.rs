//! Recurrent layers give the same bits on any number of threads.

use cpu_kernels::Level;

use super::case::{Case, kernels};

#[test]
fn bits_do_not_depend_on_the_threads() {
    let case = Case::SMALL.with_sizes(117, 9, 70);
    for case in case.variants() {
        let inputs = case.inputs::<f32>(1);
        let once = kernels(Level::current(), &case, &inputs).bits();
        for threads in [1, 2, 3, 5] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let again = pool.install(|| kernels(Level::current(), &case, &inputs));
            assert!(again.bits() == once, "{threads} threads: {case:?}");
        }
    }
}
