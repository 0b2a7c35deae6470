//! Recurrent layers give the same bits on any number of threads.

use cpu_kernels::Level;

use crate::case::{Case, kernels};

#[test]
fn bits_do_not_depend_on_the_threads() {
    if cfg!(miri) {
        return;
    }
    let case = Case {
        batch: 117,
        steps: 9,
        hidden_size: 70,
        ..Case::SMALL
    };
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
