//! What the scores of the dot family cost beside the plain dot product, of which each should be little more.
//!
//! `cargo bench -p attention-benches --bench dot_family`; see benches/README.md.

use std::io;

use attention_benches::contest::{Contestant, Local, Measured, contest};
use attention_benches::machine::limit_threads;
use attention_benches::options::Options;
use attention_benches::report::{Report, milliseconds};
use attention_benches::tensors::{Call, call, devices, on_host, random};
use attention_core::{
    Attention, BilinearScoreConfig, CosineScoreConfig, DotProductScoreConfig, GaussianScoreConfig,
    Mask, Memory, ProjectedScoreConfig, ScoringFunction,
};
use burn::tensor::{Device, Tensor};

const TITLE: &str = "dot family b2 heads8 q1024 k1024 d64";
const SHAPE: [usize; 4] = [2, 8, 1024, 64];

/// What is timed of each score.
const PASSES: [&str; 4] = [
    "forward, mapped before",
    "backward, mapped before",
    "forward",
    "backward",
];

fn main() -> io::Result<()> {
    let threads = limit_threads();
    let options = Options::from_command_line();
    let mut report = Report::start(threads);
    for (backend, device) in devices() {
        if !options.wants(TITLE) {
            continue;
        }
        println!("{TITLE}, {backend}");
        let scores = scores(&device);
        let training = self::scores(&device.clone().autodiff());
        let mut contestants: Vec<Box<dyn Contestant>> = Vec::new();
        for (forward, backward) in scores.into_iter().zip(training) {
            for call in [
                forward.mapped,
                backward.mapped,
                forward.whole,
                backward.whole,
            ] {
                let contestant = Local::new(format!("{}, {backend}", forward.name), call);
                contestants.push(Box::new(contestant.on_host(on_host(backend))));
            }
        }
        let results = contest(&mut contestants, options.rounds);
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
    /// Of queries and keys that are mapped already, as in a memory: what comes on top of the maps.
    mapped: Call,
    /// Maps included.
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

fn score<S: ScoringFunction + 'static>(
    name: &'static str,
    score: S,
    parameters: &[Tensor<2>],
    device: &Device,
) -> Score {
    let inputs = || [(); 3].map(|()| random(SHAPE, device));
    let leaf = |tensor: Tensor<4>| match device.is_autodiff() {
        true => tensor.detach().require_grad(),
        false => tensor,
    };
    let [queries, keys, values] = inputs();
    let mapped = [
        leaf(score.project_queries(queries)),
        leaf(score.project_keys(keys)),
        values,
    ];
    let attention = Attention::new(score.clone(), 0.0);
    Score {
        name,
        mapped: call(mapped, &[], move |[q, k, v]| {
            score.attend(q, &Memory::of_projected(k, v, Mask::none()), 0.0)
        }),
        whole: call(inputs(), parameters, move |[q, k, v]| {
            attention.forward(q, k, v, &Mask::none())
        }),
    }
}

fn print_table(rows: &[&[Measured]]) {
    println!(
        "  {:<24}{:>28}{:>28}",
        "milliseconds (ratio)", "mapped before", "maps included"
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
