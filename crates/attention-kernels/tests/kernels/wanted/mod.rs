//! The gradients that a backward pass makes are the same to the bit, whichever others are wanted.

mod additive;
mod case;
mod dot;

use attention_kernels::AttentionReal;

/// Runs a backward pass with every subset of `N` gradients of these lengths, which it adds to or writes.
fn assert_same_bits<E: AttentionReal, const N: usize>(
    what: &str,
    lens: [usize; N],
    backward: impl Fn([Option<&mut [E]>; N]),
) {
    let run = |subset: usize| {
        let is_wanted = |n: usize| subset >> n & 1 == 1;
        let start = |n: usize| vec![E::from_f64(0.5); lens[n]];
        let mut gradients: [_; N] = std::array::from_fn(|n| is_wanted(n).then(|| start(n)));
        backward(gradients.each_mut().map(|gradient| gradient.as_deref_mut()));
        gradients.map(|gradient| gradient.map(|elements| bits(&elements)))
    };
    let all = run((1 << N) - 1);
    for (n, gradient) in all.iter().enumerate() {
        let start = bits(&[E::from_f64(0.5)])[0];
        let is_made = gradient.as_ref().unwrap().iter().any(|x| *x != start);
        assert!(is_made, "{what}: gradient {n} is not made");
    }
    for subset in 0..(1 << N) - 1 {
        for (n, gradient) in run(subset).iter().enumerate() {
            let is_same = gradient.is_none() || *gradient == all[n];
            assert!(is_same, "{what}: gradient {n} in the subset {subset:b}");
        }
    }
}

/// NaN is NaN, whatever its bits.
fn bits<E: AttentionReal>(elements: &[E]) -> Vec<u64> {
    let elements = elements.iter().map(|x| x.to_f64());
    let canonical = elements.map(|x| if x.is_nan() { f64::NAN } else { x });
    canonical.map(f64::to_bits).collect()
}
