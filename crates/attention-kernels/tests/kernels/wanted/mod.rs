//! The gradients that a backward pass makes are the same to the bit, whichever others are wanted.

mod attention;
mod case;
mod score;

use std::collections::BTreeMap;

use attention_kernels::AttentionReal;

/// The gradients that are wanted, by name.
type Wanted<'a, E> = BTreeMap<&'static str, &'a mut [E]>;

/// Runs a backward pass with every subset of the gradients of these names and lengths, which it adds to or writes.
fn assert_same_bits<E: AttentionReal>(
    what: &str,
    gradients: &[(&'static str, usize)],
    backward: impl Fn(Wanted<E>),
) {
    let start = E::from_f64(0.5);
    let run = |subset: usize| {
        let wanted = (0..gradients.len()).filter(|n| subset >> n & 1 == 1);
        let named = wanted.map(|n| (gradients[n].0, vec![start; gradients[n].1]));
        let mut made: BTreeMap<_, _> = named.collect();
        let slices = made.iter_mut().map(|(name, to)| (*name, &mut to[..]));
        backward(slices.collect());
        made
    };
    let all = run((1 << gradients.len()) - 1);
    for (name, gradient) in &all {
        let is_made = gradient.iter().any(|x| *x != start);
        assert!(is_made, "{what}: the gradient of {name} is not made");
    }
    for subset in 0..(1 << gradients.len()) - 1 {
        for (name, gradient) in run(subset) {
            let what = format!("{what}: the gradient of {name} in the subset {subset:b}");
            assert!(bits(&gradient) == bits(&all[name]), "{what}");
        }
    }
}

/// NaN is NaN, whatever its bits.
fn bits<E: AttentionReal>(elements: &[E]) -> Vec<u64> {
    let elements = elements.iter().map(|x| x.to_f64());
    let canonical = elements.map(|x| if x.is_nan() { f64::NAN } else { x });
    canonical.map(f64::to_bits).collect()
}
