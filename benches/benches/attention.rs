//! What attention costs: ours, the same composed from Burn's operations, and the baselines' in PyTorch and JAX, side by
//! side in one interleaved run.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench attention`; see benches/README.md.

use std::io;

use attention_benches::baselines::Baselines;
use attention_benches::compare::{Candidate, Local, Measured, compare};
use attention_benches::composed;
use attention_benches::machine::limit_threads;
use attention_benches::options::Options;
use attention_benches::report::{Report, mebibytes, milliseconds};
use attention_benches::tensors::{Call, call, devices, finish, on_host, random};
use attention_core::{AdditiveAttentionConfig, DotProductAttentionConfig, Mask, Memory};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Tensor};
use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Projections of queries and keys included.
    Additive,
    /// One step of a decoder: the keys were projected before.
    Decoding,
    DotProduct,
}

/// One thing to compute; additive attention has one head, dot-product attention no hidden units.
struct Work {
    kind: Kind,
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    size: usize,
    hidden: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Forward,
    /// Forward, then the gradients of all inputs and parameters.
    Backward,
}

/// Marks the baselines that project the keys in every decoding step.
const PROJECTING: &str = ", no memory";

const PASSES: [Pass; 2] = [Pass::Forward, Pass::Backward];

fn main() -> io::Result<()> {
    let threads = limit_threads();
    let options = Options::from_command_line();
    let mut baselines = Baselines::start("attention.py", threads);
    let mut report = Report::start(threads);
    report.add_baselines(&baselines);
    let works = works();
    for work in works.iter().filter(|work| options.wants(&work.title())) {
        println!("{}", work.title());
        let mut candidates = locals(work);
        let first_baseline = candidates.len() / 2;
        if let Ok(baselines) = &mut baselines {
            candidates.extend(work.baselines(baselines));
        }
        let results = compare(&mut candidates, options.rounds);
        drop(candidates);
        if let Ok(baselines) = &mut baselines {
            baselines.drop_all().map_err(io::Error::other)?;
        }
        let rows: Vec<[&Measured; 2]> = results.chunks(2).map(|row| [&row[0], &row[1]]).collect();
        for row in &rows {
            for (pass, measured) in PASSES.into_iter().zip(row) {
                report.add(&work.title(), pass.name(), measured);
            }
        }
        print_table(&rows);
        let is_projecting = |row: &&[&Measured; 2]| row[0].name.ends_with(PROJECTING);
        let (projecting, others) = rows[first_baseline..]
            .iter()
            .partition::<Vec<_>, _>(is_projecting);
        print_fastest_baselines(rows[0], &others);
        print_fastest_baselines(rows[0], &projecting);
        print_memory(work, rows[0]);
        println!();
    }
    report.write(options.json.as_deref())
}

fn works() -> Vec<Work> {
    let additive = |kind, batch, queries, keys| Work {
        kind,
        batch,
        heads: 1,
        queries,
        keys,
        size: 256,
        hidden: 256,
    };
    let dot_product = |batch, rows| Work {
        kind: Kind::DotProduct,
        batch,
        heads: 8,
        queries: rows,
        keys: rows,
        size: 64,
        hidden: 0,
    };
    vec![
        additive(Kind::Additive, 8, 128, 128),
        additive(Kind::Decoding, 64, 1, 64),
        dot_product(8, 128),
        dot_product(2, 1024),
        dot_product(1, 4096),
    ]
}

impl Kind {
    /// As `baselines/attention.py` calls it.
    fn name(self) -> &'static str {
        match self {
            Kind::Additive => "additive",
            Kind::Decoding => "decoding",
            Kind::DotProduct => "dot product",
        }
    }
}

impl Pass {
    fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
        }
    }
}

impl Work {
    fn title(&self) -> String {
        let Self {
            batch,
            heads,
            queries,
            keys,
            size,
            hidden,
            ..
        } = self;
        match self.kind {
            Kind::Additive => format!("additive b{batch} q{queries} k{keys} d{size} h{hidden}"),
            Kind::Decoding => {
                format!("additive, decoding step b{batch} q{queries} k{keys} d{size} h{hidden}")
            }
            Kind::DotProduct => {
                format!("dot product b{batch} heads{heads} q{queries} k{keys} d{size}")
            }
        }
    }

    /// The baselines at this work, in pairs of forward and backward; says which cannot run.
    fn baselines(&self, baselines: &mut Baselines) -> Vec<Box<dyn Candidate>> {
        let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
        let libraries = ["PyTorch eager", "torch.compile", "PyTorch SDPA", "JAX jit"];
        let mut rows: Vec<(&str, Kind, &str)> = libraries.map(|name| (name, self.kind, "")).into();
        if self.kind == Kind::Decoding {
            // What a module without a memory does in every step.
            rows.extend(libraries.map(|name| (name, Kind::Additive, PROJECTING)));
        }
        for (name, kind, suffix) in rows {
            if name == "PyTorch SDPA" && kind != Kind::DotProduct {
                continue;
            }
            let label = format!("{name}{suffix}");
            let set_up = PASSES.map(|pass| baselines.set_up(&label, self.setup(name, kind, pass)));
            match set_up {
                [Ok(forward), Ok(backward)] => {
                    candidates.push(Box::new(forward));
                    candidates.push(Box::new(backward));
                }
                [Err(reason), _] | [_, Err(reason)] => println!("  skipped: {name}: {reason}"),
            }
        }
        candidates
    }

    fn setup(&self, candidate: &str, kind: Kind, pass: Pass) -> Value {
        json!({
            "candidate": candidate,
            "pass": pass.name(),
            "work": {
                "kind": kind.name(),
                "batch": self.batch,
                "heads": self.heads,
                "queries": self.queries,
                "keys": self.keys,
                "size": self.size,
                "hidden": self.hidden,
            },
        })
    }

    /// The bytes that a pass must return: the context, and the gradients of inputs and parameters.
    fn result_bytes(&self, pass: Pass) -> u64 {
        let Self { size, hidden, .. } = self;
        let rows = self.batch * self.heads;
        let context = rows * self.queries * size;
        let key_size = if self.kind == Kind::Decoding {
            hidden
        } else {
            size
        };
        let inputs = rows * (self.queries * size + self.keys * (size + key_size));
        let parameters = match self.kind {
            Kind::Additive => 2 * size * hidden + hidden,
            Kind::Decoding => size * hidden + hidden,
            Kind::DotProduct => 0,
        };
        let floats = match pass {
            Pass::Forward => context,
            Pass::Backward => context + inputs + parameters,
        };
        4 * floats as u64
    }
}

/// Ours and its composed peers on every backend, in pairs of forward and backward; ours on the first comes first.
fn locals(work: &Work) -> Vec<Box<dyn Candidate>> {
    let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
    for (backend, device) in devices() {
        let devices = [device.clone(), device.autodiff()];
        let [forward, backward] = devices.map(|device| match work.kind {
            Kind::Additive => additive(work, &device),
            Kind::Decoding => decoding(work, &device),
            Kind::DotProduct => dot_product(work, &device),
        });
        for ((name, forward), (_, backward)) in forward.into_iter().zip(backward) {
            for call in [forward, backward] {
                let candidate = Local::new(format!("{name}, {backend}"), call);
                candidates.push(Box::new(candidate.on_host(on_host(backend))));
            }
        }
    }
    candidates
}

fn additive(work: &Work, device: &Device) -> Vec<(&'static str, Call)> {
    let module = AdditiveAttentionConfig::new(work.size, work.size, work.hidden).init(device);
    let inputs = [work.queries, work.keys, work.keys]
        .map(|rows| random([work.batch, rows, work.size], device));
    let score = module.score.clone();
    let parameters = [&score.query, &score.key, &score.value].map(|linear| linear.weight.val());
    let ours = move |[q, k, v]: [Tensor<3>; 3]| module.forward(q, k, v, &Mask::none());
    let composed = move |inputs| composed::additive(inputs, &score);
    vec![
        ("ours", call(inputs.clone(), &parameters, ours)),
        ("composed", call(inputs, &parameters, composed)),
    ]
}

fn decoding(work: &Work, device: &Device) -> Vec<(&'static str, Call)> {
    let module = AdditiveAttentionConfig::new(work.size, work.size, work.hidden).init(device);
    let Work {
        batch,
        queries,
        keys,
        size,
        hidden,
        ..
    } = *work;
    let inputs = [(queries, size), (keys, hidden), (keys, size)]
        .map(|(rows, size)| random([batch, rows, size], device));
    let score = module.score.clone();
    let parameters = [&score.query, &score.value].map(|linear| linear.weight.val());
    let ours: Call = if device.is_autodiff() {
        // A memory carries the graph of its projection, which the gradients would go through and use up. So the
        // projected keys are a leaf here.
        let inputs = inputs
            .clone()
            .map(|tensor| with_heads(tensor).detach().require_grad());
        call(inputs, &parameters, move |[q, k, v]| {
            module.attend(q, &Memory::of_projected(k, v, Mask::none()))
        })
    } else {
        let [queries, _, values] = inputs.clone();
        let keys = random([batch, keys, size], device);
        let memory = module.prepare(keys, values, Mask::none());
        Box::new(move || finish(module.attend(queries.clone(), &memory)))
    };
    let composed = move |inputs| composed::additive_decoding(inputs, &score);
    vec![
        ("ours", ours),
        ("composed", call(inputs, &parameters, composed)),
    ]
}

fn with_heads(tensor: Tensor<3>) -> Tensor<4> {
    tensor.unsqueeze_dim(1)
}

fn dot_product(work: &Work, device: &Device) -> Vec<(&'static str, Call)> {
    let inputs = [work.queries, work.keys, work.keys]
        .map(|rows| random([work.batch, work.heads, rows, work.size], device));
    let module = DotProductAttentionConfig::new().init();
    let ours = move |[q, k, v]: [Tensor<4>; 3]| module.forward(q, k, v, &Mask::none());
    let burns = |[q, k, v]: [Tensor<4>; 3]| {
        attention(q, k, v, None, None, AttentionModuleOptions::default())
    };
    vec![
        ("ours", call(inputs.clone(), &[], ours)),
        ("composed", call(inputs.clone(), &[], composed::dot_product)),
        ("Burn's attention", call(inputs, &[], burns)),
    ]
}

fn print_table(rows: &[[&Measured; 2]]) {
    println!(
        "  {:<24}{:>22}{:>20}{:>22}",
        "", "milliseconds", "ratio to ours", "peak extra MiB"
    );
    print!("  {:<24}", "candidate");
    println!(
        "{0:>11}{1:>11}{0:>10}{1:>10}{0:>11}{1:>11}",
        "forward", "fwd+bwd"
    );
    let ours = rows[0].map(|measured| milliseconds(measured.median()));
    for row in rows {
        let times = row.map(|measured| milliseconds(measured.median()));
        print!("  {:<24}", row[0].name);
        print!("{:>11.3}{:>11.3}", times[0], times[1]);
        print!("{:>10.2}{:>10.2}", times[0] / ours[0], times[1] / ours[1]);
        let [forward, backward] = row.map(|measured| mebibytes(measured.memory));
        println!("{forward:>11}{backward:>11}");
    }
}

fn print_fastest_baselines(ours: [&Measured; 2], baselines: &[&[&Measured; 2]]) {
    let fastest = |pass: usize| {
        let measured = baselines.iter().map(|row| row[pass]);
        let fastest = measured.min_by_key(|measured| measured.median())?;
        let ratio = fastest.median().as_secs_f64() / ours[pass].median().as_secs_f64();
        Some(format!("{ratio:.2} ({})", fastest.name))
    };
    if let (Some(forward), Some(backward)) = (fastest(0), fastest(1)) {
        println!("  fastest baseline / ours: forward {forward}, forward + backward {backward}");
    }
}

/// What ours takes beyond what it must return, beside the tensor that it never stores.
fn print_memory(work: &Work, ours: [&Measured; 2]) {
    if work.kind == Kind::DotProduct {
        return;
    }
    let never_stored = (4 * work.batch * work.queries * work.keys * work.hidden) as f64;
    let percent = |pass: Pass, measured: &Measured| match measured.memory {
        Some(memory) => {
            let beyond = memory as f64 - work.result_bytes(pass) as f64;
            format!("{:.2} %", 1e2 * beyond / never_stored)
        }
        None => "unknown".to_string(),
    };
    println!(
        "  ours beyond outputs and gradients, of batch * queries * keys * hidden floats: forward {}, forward + \
         backward {}",
        percent(Pass::Forward, ours[0]),
        percent(Pass::Backward, ours[1]),
    );
}
