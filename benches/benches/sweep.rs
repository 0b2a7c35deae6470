//! How time and memory grow with queries, keys and hidden units: ours, beside the same composed from Burn's operations
//! where that fits.
//!
//! `cargo bench -p attention-benches --bench sweep`; see benches/README.md.

use std::io;

use attention_benches::compare::{Candidate, Local, compare};
use attention_benches::composed::{self, BACKWARD_COPIES, FORWARD_COPIES};
use attention_benches::machine::limit_threads;
use attention_benches::options::Options;
use attention_benches::report::{Report, mebibytes, milliseconds};
use attention_benches::tensors::{Call, call, finish, random};
use attention_core::{AdditiveAttentionConfig, DotProductAttentionConfig, Mask};
use burn::tensor::{Device, Tensor};

const BATCH: usize = 2;
/// The size of queries, keys and values of additive attention: small, so that the projections weigh little.
const SIZE: usize = 64;
const HEADS: usize = 8;

/// The most bytes that a composed candidate may take.
const LIMIT: usize = 1 << 30;

/// `[queries, keys, hidden]`: each grows in its turn, then many keys.
#[rustfmt::skip]
const ADDITIVE: [[usize; 3]; 13] = [
    [1, 128, 256], [16, 128, 256], [128, 128, 256], [512, 128, 256],
    [64, 16, 256], [64, 128, 256], [64, 1024, 256], [64, 4096, 256],
    [128, 128, 16], [128, 128, 64], [128, 128, 1024],
    [4, 4096, 64], [4, 16384, 64],
];

/// `[queries, keys, size]`: queries and keys grow, then the size, then many keys.
#[rustfmt::skip]
const DOT_PRODUCT: [[usize; 3]; 10] = [
    [256, 256, 64], [512, 512, 64], [1024, 1024, 64], [2048, 2048, 64],
    [512, 512, 16], [512, 512, 256],
    [1, 4096, 64], [16, 1024, 64], [16, 4096, 64], [16, 16384, 64],
];

fn main() -> io::Result<()> {
    let threads = limit_threads();
    let options = Options::from_command_line();
    let mut report = Report::start(threads);
    println!("an element: one of batch * heads * queries * keys * (hidden or size)\n");
    let sweeps = [
        Sweep {
            title: format!("additive b{BATCH} d{SIZE}"),
            rows: BATCH,
            points: &ADDITIVE,
            passes: additive,
        },
        Sweep {
            title: format!("dot product b1 heads{HEADS}"),
            rows: HEADS,
            points: &DOT_PRODUCT,
            passes: dot_product,
        },
    ];
    for (backend, device) in options.devices() {
        for sweep in sweeps.iter().filter(|sweep| options.wants(&sweep.title)) {
            println!("{}, {backend}", sweep.title);
            print_head();
            for &point in sweep.points {
                let passes = (sweep.passes)(point, &device);
                let named = (backend, &device);
                sweep.measure(point, passes, named, options.rounds, &mut report);
            }
            println!();
        }
    }
    report.write(options.json.as_deref())
}

/// One attention at many sizes.
struct Sweep {
    title: String,
    /// Batch times heads.
    rows: usize,
    points: &'static [[usize; 3]],
    passes: fn([usize; 3], &Device) -> Vec<Pass>,
}

/// A pass by ours, and by its composed peer where there is one that fits.
struct Pass {
    name: &'static str,
    ours: Call,
    composed: Option<Call>,
}

fn additive([queries, keys, hidden]: [usize; 3], device: &Device) -> Vec<Pass> {
    let sizes = [queries, keys, keys];
    let problem = |device: &Device| {
        let module = AdditiveAttentionConfig::new(SIZE, SIZE, hidden).init(device);
        let inputs = sizes.map(|rows| random([BATCH, rows, SIZE], device));
        (module, inputs)
    };
    let all_pairs = BATCH * queries * keys * hidden;
    let pass = |name, device: &Device, copies: usize| {
        let (module, inputs) = problem(device);
        let score = module.score.clone();
        let parameters = [&score.query, &score.key, &score.value].map(|linear| linear.weight.val());
        let composed = move |inputs| composed::additive(inputs, &score);
        let composed =
            fits(copies * all_pairs).then(|| call(inputs.clone(), &parameters, composed));
        let ours = move |[q, k, v]: [Tensor<3>; 3]| module.forward(q, k, v, Mask::none());
        Pass {
            name,
            ours: call(inputs, &parameters, ours),
            composed,
        }
    };
    let training = device.clone().autodiff();
    let (module, inputs) = problem(device);
    let with_weights = move || {
        let [q, k, v] = inputs.clone();
        let output = module.forward_with_weights(q, k, v, Mask::none());
        finish(output.context);
        finish(output.weights);
    };
    vec![
        pass("context", device, FORWARD_COPIES),
        Pass {
            name: "context and weights",
            ours: Box::new(with_weights),
            composed: None,
        },
        pass("context, backward", &training, BACKWARD_COPIES),
    ]
}

fn dot_product([queries, keys, size]: [usize; 3], device: &Device) -> Vec<Pass> {
    let all_pairs = HEADS * queries * keys;
    let pass = |name, device: &Device, copies: usize| {
        let inputs = [queries, keys, keys].map(|rows| random([1, HEADS, rows, size], device));
        let module = DotProductAttentionConfig::new().init();
        let ours = move |[q, k, v]: [Tensor<4>; 3]| module.forward(q, k, v, Mask::none());
        Pass {
            name,
            ours: call(inputs.clone(), &[], ours),
            composed: fits(copies * all_pairs).then(|| call(inputs, &[], composed::dot_product)),
        }
    };
    let training = device.clone().autodiff();
    vec![
        pass("context", device, FORWARD_COPIES),
        pass("context, backward", &training, BACKWARD_COPIES),
    ]
}

/// Whether composed attention may take `floats` floats.
fn fits(floats: usize) -> bool {
    size_of::<f32>() * floats <= LIMIT
}

impl Sweep {
    /// Times the passes by turns, prints a row for each and adds them to the report.
    fn measure(
        &self,
        point: [usize; 3],
        passes: Vec<Pass>,
        (backend, device): (&str, &Device),
        rounds: u32,
        report: &mut Report,
    ) {
        let [queries, keys, size] = point;
        let work = format!("{}, q{queries} k{keys} size {size}", self.title);
        let elements = (self.rows * queries * keys * size) as f64;
        let mut names = Vec::new();
        let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
        for pass in passes {
            let calls = [("ours", Some(pass.ours)), ("composed", pass.composed)];
            for (who, call) in calls {
                let Some(call) = call else { continue };
                names.push((pass.name, who));
                let candidate = Local::new(format!("{who}, {backend}"), call);
                candidates.push(Box::new(candidate.on(device)));
            }
        }
        for ((pass, who), measured) in names.iter().zip(compare(&mut candidates, rounds)) {
            let time = milliseconds(measured.median());
            let each = 1e6 * time / elements;
            let memory = mebibytes(measured.memory);
            println!(
                "  {queries:>7}{keys:>7}{size:>7}  {pass:<21}{who:<10}{time:>11.3}{each:>14.4}{memory:>16}"
            );
            report.add(&work, pass, &measured);
        }
    }
}

fn print_head() {
    println!(
        "  {:>7}{:>7}{:>7}  {:<21}{:<10}{:>11}{:>14}{:>16}",
        "queries", "keys", "size", "pass", "", "ms", "ns an element", "peak extra MiB"
    );
}
