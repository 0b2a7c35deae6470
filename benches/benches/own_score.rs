//! Scores of the user's own in the fused kernels: `sum_u w_u f(q_u, k_u)` for a distance and for GATv2's term, beside
//! additive attention, the same composed from Burn's operations, and PyTorch, eager and compiled; and a soft-cap as a
//! change of scores, beside the option that does the same and PyTorch's `flex_attention`.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench own_score`; see benches/README.md.

use std::io;
use std::sync::Arc;

use attention_benches::bench::{Bench, PASSES};
use attention_benches::tensors::{Call, call, random};
use attention_core::Mask;
use attention_core::functional::{
    AttentionOptions, RowOfScores, VectorMod, additive_attention, dot_product_attention,
    pairwise_attention, pairwise_score,
};
use attention_core::score::{PairwiseFormula, PairwiseTerm, Real, Simd};
use burn::tensor::activation::{leaky_relu, softmax};
use burn::tensor::{Device, Tensor};
use serde_json::json;

const SLOPE: f64 = 0.2;
const CAP: f32 = 20.0;

/// `-|q - k|`
#[derive(Debug)]
struct Distance;

impl PairwiseTerm for Distance {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        simd.min(simd.sub(query, key), simd.sub(key, query))
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let [one, minus_one] = [simd.splat(E::ONE), simd.splat(-E::ONE)];
        let is_less = simd.less(query, key);
        [
            simd.select(is_less, one, minus_one),
            simd.select(is_less, minus_one, one),
        ]
    }
}

impl PairwiseFormula for Distance {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        -(queries - keys).abs()
    }
}

/// `LeakyReLU(q + k)`
#[derive(Debug)]
struct LeakyRelu;

impl PairwiseTerm for LeakyRelu {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        let sum = simd.add(query, key);
        simd.max(simd.mul(sum, simd.splat(E::from_f64(SLOPE))), sum)
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let is_negative = simd.less(simd.add(query, key), simd.zero());
        [simd.select(
            is_negative,
            simd.splat(E::from_f64(SLOPE)),
            simd.splat(E::ONE),
        ); 2]
    }
}

impl PairwiseFormula for LeakyRelu {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        leaky_relu(queries + keys, SLOPE)
    }
}

/// `cap tanh(score / cap)`
#[derive(Debug)]
struct SoftCap;

impl SoftCap {
    /// `tanh(score / cap)`
    #[inline(always)]
    fn tanh<S: Simd<f32>>(simd: S, scores: S::V) -> S::V {
        let [one, two] = [simd.splat(1.0), simd.splat(2.0)];
        let double = simd.mul(scores, simd.splat(2.0 / CAP));
        let power = simd.exp(simd.min(simd.splat(40.0), double));
        simd.neg_mul_add(two, simd.reciprocal(simd.add(power, one)), one)
    }
}

impl VectorMod for SoftCap {
    #[inline(always)]
    fn value<S: Simd<f32>>(&self, simd: S, scores: S::V, _at: RowOfScores) -> S::V {
        simd.mul(simd.splat(CAP), Self::tanh(simd, scores))
    }

    #[inline(always)]
    fn derivative<S: Simd<f32>>(&self, simd: S, scores: S::V, _at: RowOfScores) -> S::V {
        let tanh = Self::tanh(simd, scores);
        simd.neg_mul_add(tanh, tanh, simd.splat(1.0))
    }
}

/// Attention to time: its score, `[batch, heads, queries, keys]` and the size of a query.
struct Work {
    score: &'static str,
    shape: [usize; 4],
    size: usize,
}

impl Work {
    fn time(&self, bench: &mut Bench) -> io::Result<()> {
        for pass in PASSES {
            let title = format!("{}, {pass}", self.title());
            let calls = |device: &Device| calls(self, device);
            bench.time([&title, pass], calls, self.baselines(), |candidate| {
                json!({
                    "candidate": candidate,
                    "score": self.score,
                    "pass": pass,
                    "shape": self.shape,
                    "size": self.size,
                    "slope": SLOPE,
                    "cap": CAP,
                })
            })?;
        }
        Ok(())
    }

    fn title(&self) -> String {
        let [batch, heads, queries, keys] = self.shape;
        let Self { score, size, .. } = self;
        format!("{score} b{batch} h{heads} q{queries} k{keys} size {size}")
    }

    fn baselines(&self) -> &'static [&'static str] {
        match self.score {
            "soft-cap" => &["PyTorch eager", "torch.compile", "flex_attention, compiled"],
            _ => &["PyTorch eager", "torch.compile"],
        }
    }
}

fn works() -> Vec<Work> {
    let pairwise = ["distance", "leaky relu"].into_iter().flat_map(|score| {
        let shapes = [
            ([8, 1, 128, 128], 256),
            ([4, 1, 300, 500], 320),
            // A decoder's step.
            ([32, 1, 1, 400], 128),
        ];
        shapes.map(|(shape, size)| Work { score, shape, size })
    });
    let soft_cap = Work {
        score: "soft-cap",
        shape: [2, 8, 1024, 1024],
        size: 64,
    };
    pairwise.chain([soft_cap]).collect()
}

fn main() -> io::Result<()> {
    Bench::run("own_score.py", |bench| {
        works().iter().try_for_each(|work| work.time(bench))
    })
}

/// Ours and its peers; on a device that trains, with the gradients of inputs and weights.
fn calls(work: &Work, device: &Device) -> Vec<(&'static str, Call)> {
    let [batch, heads, queries, keys] = work.shape;
    let size = work.size;
    let inputs = [queries, keys, keys].map(|rows| random([batch, heads, rows, size], device));
    if work.score == "soft-cap" {
        let by_option = AttentionOptions {
            soft_cap: Some(f64::from(CAP)),
            ..Default::default()
        };
        let own = AttentionOptions::default().with_score_mod(SoftCap);
        return [("ours", own), ("soft_cap", by_option)]
            .map(|(name, options)| {
                let attend =
                    move |[q, k, v]: [Tensor<4>; 3]| dot_product_attention(q, k, v, &options);
                (name, call(inputs.clone(), &[], attend))
            })
            .into();
    }
    let term: Arc<dyn PairwiseFormula> = match work.score {
        "distance" => Arc::new(Distance),
        _ => Arc::new(LeakyRelu),
    };
    let weight = random::<2>([1, size], device);
    let parameters = [weight.clone()];
    let weight = move || weight.clone().reshape([size]);
    let (of_ours, of_additive, of_composed) = (weight.clone(), weight.clone(), weight);
    let composed = term.clone();
    let ours = move |[q, k, v]: [Tensor<4>; 3]| {
        pairwise_attention(q, k, v, term.clone(), Some(of_ours()), Mask::none())
    };
    let additive =
        move |[q, k, v]: [Tensor<4>; 3]| additive_attention(q, k, v, of_additive(), Mask::none());
    let composed = move |[q, k, v]: [Tensor<4>; 3]| {
        let scores = pairwise_score(q, k, &*composed, Some(of_composed()), &Mask::none());
        softmax(scores, 3).matmul(v)
    };
    vec![
        ("ours", call(inputs.clone(), &parameters, ours)),
        ("additive", call(inputs.clone(), &parameters, additive)),
        ("composed", call(inputs, &parameters, composed)),
    ]
}
