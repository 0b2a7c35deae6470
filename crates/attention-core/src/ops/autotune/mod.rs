//! The fastest way to run a call on a GPU, by CubeCL's autotune: its kernel or its definition.
//!
//! At the first call of its kind, CubeCL runs each candidate some times by turns, and keeps the name of the fastest
//! under the key of the call (in the file of the device's other choices, where CubeCL's `persistence` is on). The key
//! holds all that decides whether a candidate runs: type, sizes of heads, forms of mask and changes to the scores,
//! gradients that are wanted, and the candidates themselves, of which the definition is one only where its tensors fit.
//! Examples with heads, queries and keys are in it as the next power of two.
//!
//! Burn's own attention is no candidate: in half precision it may fall back to products rounded to f16, whose
//! overflow is NaN (burn-cubecl 0.22.1, `kernel/attention/tune.rs`).
//!
//! # Tensors of its own
//!
//! Kernel and definition run on tensors that are made for the trial, of the call's shapes: what the first batch
//! happened to hold would decide for all others. (The tilings of a kernel are tried on the first call's own tensors, by
//! `attention-gpu`.) No random numbers are drawn: the seed of a later dropout is the same whether or not a device
//! tried. Before it is timed, the definition must give what the kernel gives.
//!
//! # Training
//!
//! Forward and backward are tried as one, with one choice for both. What a forward pass saves is of use to its own
//! backward pass alone: a kernel saves two numbers a query and computes the weights again, while the definition under
//! autodiff is a graph of Burn's operations that keeps its tensors of all pairs. So "by its definition" means just that
//! graph, and what it keeps is a limit for it, see [`Limits`]. (A backward pass composed on tensors without a graph
//! would keep as little as the kernel's, but compute scores and weights twice, and be a second definition to hold to
//! the contracts.)
//!
//! # Dropout
//!
//! A kernel draws its dropout from a seed, the definition draws a number for each weight. The choice must not change
//! what is dropped: with dropout the kernel runs, and only its tiling is tried.
//!
//! # Threads
//!
//! One thread tries, and others wait for it ([`Tuner`]). A thread that waits may hold locks of its graph,
//! which the trial's thread may want: where threads share one graph on one device, let one of them make the first step
//! alone.
//!
//! # Fusion and remote devices
//!
//! Behind Burn's fusion nothing is tried but tilings, see `backends/fusion.rs`. Nor on the server of a remote device: a
//! client calls for its kernels.

mod candidate;
mod check;
mod key;
mod limits;
mod trial;

use attention_gpu::Tuner;
use burn_cubecl::CubeDevice;
use burn_cubecl::cubecl::tune::{Tunable, TunableSet};
use burn_fused_layers::paths::Tried;

use self::candidate::Candidate;
use self::limits::Limits;
use self::trial::Trial;
use super::call::Call;

/// Choices of this version's kernels.
static TUNER: Tuner = Tuner::new(concat!(
    module_path!(),
    "-",
    env!("CARGO_PKG_VERSION_MAJOR"),
    "-",
    env!("CARGO_PKG_VERSION_MINOR"),
    "-",
    env!("CARGO_PKG_VERSION_PATCH")
));

/// The fastest way to run a call on a device, which tries where it does not know; `None` if there is but the kernel.
pub(super) fn fastest(device: &CubeDevice, call: &Call) -> Option<Tried> {
    let client = device.client();
    let candidates = Candidate::of(call, &Limits::of(&client));
    if candidates.len() == 1 {
        return None;
    }
    let key = key::of(call, &candidates);
    let trial = || Trial::new(key.clone(), call, candidates.clone(), device);
    let device = (&client, device);
    let fastest = TUNER.fastest(device, &key, candidates_of_any, trial);
    let fastest = fastest.filter(|fastest| candidates.contains(fastest));
    Some(Tried {
        fastest: fastest.unwrap_or(Candidate::Kernel).into(),
        calls: key,
    })
}

/// The candidates of any call; a trial refuses those that are not its own.
fn candidates_of_any() -> TunableSet<String, Trial, (), Candidate> {
    let set = TunableSet::new(
        |trial: &Trial| trial.key().to_string(),
        |_: &String, trial: &Trial| trial.with_tensors(),
    );
    Candidate::ALL.into_iter().fold(set, |set, candidate| {
        set.with(Tunable::identified(candidate, move |trial: Trial| {
            trial.run(candidate)
        }))
    })
}

#[cfg(all(test, feature = "wgpu"))]
mod tests;
