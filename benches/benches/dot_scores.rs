//! The cost of the scores that are a dot product of projections, beside the plain dot product: each should take little
//! more.
//!
//! `cargo bench -p attention-benches --bench dot_scores`; see benches/README.md.

use std::io;

use attention_benches::compare::{Candidate, Local, Measured, compare};
use attention_benches::machine::limit_threads;
use attention_benches::options::Options;
use attention_benches::report::{Report, milliseconds};
use attention_benches::tensors::{Call, call, random};
use attention_core::position::Positions;
use attention_core::score::{
    BilinearScoreConfig, CosineScoreConfig, DotProductScoreConfig, GaussianScoreConfig,
    ProjectedScoreConfig, ScoreKernel,
};
use attention_core::{Attention, Mask, ScoringFunction};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

const TITLE: &str = "dot scores b2 heads8 q1024 k1024 d64";
const SHAPE: [usize; 4] = [2, 8, 1024, 64];

/// The passes that are timed of each score.
const PASSES: [&str; 4] = [
    "forward, projected before",
    "backward, projected before",
    "forward",
    "backward",
];

fn main() -> io::Result<()> {
    let threads = limit_threads();
    let options = Options::from_command_line();
    let mut report = Report::start(threads);
    for (backend, device) in options.devices() {
        if !options.wants(TITLE) {
            continue;
        }
        println!("{TITLE}, {backend}");
        let scores = scores(&device);
        let training = self::scores(&device.clone().autodiff());
        let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
        for (forward, backward) in scores.into_iter().zip(training) {
            for call in [
                forward.kernel,
                backward.kernel,
                forward.whole,
                backward.whole,
            ] {
                let candidate = Local::new(format!("{}, {backend}", forward.name), call);
                candidates.push(Box::new(candidate.on(&device)));
            }
        }
        let results = compare(&mut candidates, options.rounds);
        let rows: Vec<&[Measured]> = results.chunks(PASSES.len()).collect();
        print_table(&rows);
        for row in rows {
            for (pass, measured) in PASSES.into_iter().zip(row) {
                report.add(TITLE, pass, measured);
            }
        }
    }
    report.write(options.json.as_deref())
}

/// One score; with gradients on a device that trains.
struct Score {
    name: &'static str,
    /// The call on queries and keys that are projected already.
    kernel: Call,
    /// Projections included.
    whole: Call,
}

/// The plain dot product first.
fn scores(device: &Device) -> [Score; 5] {
    let [_, _, _, size] = SHAPE;
    let bilinear = BilinearScoreConfig::new(size, size).init(device);
    let matrix = [bilinear.query.weight.val()];
    let projected = ProjectedScoreConfig::new(size, size, size).init(device);
    let projections = [&projected.query, &projected.key].map(|linear| linear.weight.val());
    [
        score(
            "dot product",
            DotProductScoreConfig::new().init(),
            &[],
            device,
        ),
        score("bilinear", bilinear, &matrix, device),
        score("projected", projected, &projections, device),
        score("cosine", CosineScoreConfig::new().init(device), &[], device),
        score(
            "Gaussian",
            GaussianScoreConfig::new().init(device),
            &[],
            device,
        ),
    ]
}

/// A score of queries and keys that it has projected before.
#[derive(Module, Debug)]
struct Projected<S: ScoringFunction> {
    score: S,
}

impl<S: ScoringFunction> ScoringFunction for Projected<S> {
    fn kernel(&self) -> ScoreKernel {
        self.score.kernel()
    }

    fn key_bias(&self, keys: &Tensor<4>) -> Option<Tensor<4>> {
        self.score.key_bias(keys)
    }
}

fn score<S: ScoringFunction>(
    name: &'static str,
    score: S,
    parameters: &[Tensor<2>],
    device: &Device,
) -> Score {
    let inputs = || [(); 3].map(|()| random(SHAPE, device));
    let leaf = |tensor: Tensor<4>| {
        if device.is_autodiff() {
            tensor.detach().require_grad()
        } else {
            tensor
        }
    };
    let [queries, keys, values] = inputs();
    let positions = Positions::consecutive(0);
    let projected = [
        leaf(score.project_queries(queries, &positions)),
        leaf(score.project_keys(keys, &positions)),
        values,
    ];
    let kernel = Attention::new(
        Projected {
            score: score.clone(),
        },
        0.0,
    );
    let attention = Attention::new(score, 0.0);
    Score {
        name,
        kernel: call(projected, &[], move |[q, k, v]| {
            kernel.forward(q, k, v, Mask::none())
        }),
        whole: call(inputs(), parameters, move |[q, k, v]| {
            attention.forward(q, k, v, Mask::none())
        }),
    }
}

fn print_table(rows: &[&[Measured]]) {
    println!(
        "  {:<24}{:>28}{:>28}",
        "milliseconds (ratio)", "projected before", "projections included"
    );
    print!("  {:<24}", "score");
    println!("{0:>14}{1:>14}{0:>14}{1:>14}", "forward", "fwd+bwd");
    for row in rows {
        print!("  {:<24}", row[0].name);
        for (measured, plain) in row.iter().zip(rows[0]) {
            let [time, plain] = [measured, plain].map(|measured| milliseconds(measured.median()));
            print!("{:>14}", format!("{time:.2} ({:.2})", time / plain));
        }
        println!();
    }
    println!();
}
