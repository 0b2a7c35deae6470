//! Grouped-query attention: heads of queries that share heads of keys and values, read in place, beside the same with
//! keys and values repeated for each head of queries.
//!
//! `cargo bench -p attention-benches --bench grouped_heads`; see benches/README.md.

use std::io;

use attention_benches::compare::{Candidate, Local, Measured, compare};
use attention_benches::machine::limit_threads;
use attention_benches::options::Options;
use attention_benches::report::{Report, mebibytes, milliseconds};
use attention_benches::tensors::{Call, call, finish, random};
use attention_core::{DotProductScore, Mask, Memory, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::tensor::{Device, Tensor};

const BATCH: usize = 2;
const HEADS: usize = 32;
const KEY_HEADS: usize = 4;
const SIZE: usize = 64;
const KEYS: usize = 2048;
/// The queries of a call that has many.
const QUERIES: usize = 64;

/// A work, by both.
struct Work {
    name: &'static str,
    grouped: Call,
    repeated: Call,
}

fn main() -> io::Result<()> {
    let threads = limit_threads();
    let options = Options::from_command_line();
    let mut report = Report::start(threads);
    let title = format!("b{BATCH} heads{HEADS} key heads{KEY_HEADS} k{KEYS} d{SIZE}");
    for (backend, device) in options.devices() {
        println!("{title}, {backend}");
        println!("  {:<44}{:>22}{:>24}", "", "milliseconds", "peak extra MiB");
        print!("  {:<44}", "");
        println!("{0:>11}{1:>11}{0:>12}{1:>12}", "grouped", "repeated");
        for work in works(&device)
            .into_iter()
            .filter(|work| options.wants(work.name))
        {
            let mut candidates = [("grouped", work.grouped), ("repeated", work.repeated)].map(
                |(name, call)| -> Box<dyn Candidate> {
                    Box::new(Local::new(format!("{name}, {backend}"), call).on(&device))
                },
            );
            let results = compare(&mut candidates, options.rounds);
            print_row(work.name, &results);
            for measured in &results {
                report.add(&format!("{title} {}", work.name), "whole", measured);
            }
        }
    }
    report.write(options.json.as_deref())
}

fn print_row(name: &str, results: &[Measured]) {
    print!("  {name:<44}");
    for measured in results {
        print!("{:>11.3}", milliseconds(measured.median()));
    }
    for measured in results {
        print!("{:>12}", mebibytes(measured.memory));
    }
    println!();
}

type Module = MultiHeadAttention<DotProductScore>;

fn works(device: &Device) -> [Work; 4] {
    let training = device.clone().autodiff();
    let of_step = || [1, KEYS, KEYS];
    let of_many = || [QUERIES, KEYS, KEYS];
    let forward = |name, device: &Device, lens: [usize; 3]| Work {
        name,
        grouped: by(device, lens, |module, [q, k, v]| {
            module.forward(q, k, v, Mask::causal())
        }),
        repeated: by(device, lens, repeated),
    };
    let module = module(device);
    let [query, keys, values] = inputs(device, of_step());
    let memory = module.prepare(keys.clone(), values.clone(), Mask::none());
    let repeated_memory = repeated_memory(&module, keys.clone(), values.clone());
    let full = module.clone();
    [
        Work {
            name: "prepare: what stays is the memory",
            grouped: {
                let (module, keys, values) = (module.clone(), keys.clone(), values.clone());
                Box::new(move || {
                    std::hint::black_box(module.prepare(
                        keys.clone(),
                        values.clone(),
                        Mask::none(),
                    ));
                })
            },
            repeated: {
                let (module, keys, values) = (module.clone(), keys, values);
                Box::new(move || {
                    std::hint::black_box(self::repeated_memory(
                        &module,
                        keys.clone(),
                        values.clone(),
                    ));
                })
            },
        },
        Work {
            name: "attend: one query to the memory",
            grouped: {
                let query = query.clone();
                Box::new(move || finish(module.attend(query.clone(), &memory)))
            },
            repeated: Box::new(move || {
                finish(attend_repeated(&full, query.clone(), &repeated_memory))
            }),
        },
        forward("forward, 64 queries", device, of_many()),
        forward("forward + backward, 64 queries", &training, of_many()),
    ]
}

fn module(device: &Device) -> Module {
    MultiHeadAttentionConfig::new(HEADS * SIZE, HEADS)
        .with_num_key_value_heads(Some(KEY_HEADS))
        .init(device)
}

fn inputs(device: &Device, lens: [usize; 3]) -> [Tensor<3>; 3] {
    lens.map(|len| random([BATCH, len, HEADS * SIZE], device))
}

fn by(device: &Device, lens: [usize; 3], f: fn(&Module, [Tensor<3>; 3]) -> Tensor<3>) -> Call {
    let module = module(device);
    call(inputs(device, lens), &[], move |inputs| f(&module, inputs))
}

/// `[batch, len, heads * size]` to `[batch, heads, len, size]`.
fn split(rows: Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, len, _] = rows.dims();
    rows.reshape([batch, len, heads, SIZE]).swap_dims(1, 2)
}

fn repeat(rows: Tensor<3>) -> Tensor<4> {
    let rows = split(rows, KEY_HEADS);
    let [batch, _, len, _] = rows.dims();
    let rows = rows.unsqueeze_dim::<5>(2).repeat_dim(2, HEADS / KEY_HEADS);
    rows.reshape([batch, HEADS, len, SIZE])
}

fn repeated_memory(module: &Module, keys: Tensor<3>, values: Tensor<3>) -> Memory {
    let (keys, values) = (module.key.forward(keys), module.value.forward(values));
    module
        .attention
        .prepare(repeat(keys), repeat(values), Mask::none())
}

fn attend_repeated(module: &Module, query: Tensor<3>, memory: &Memory) -> Tensor<3> {
    let queries = split(module.query.forward(query), HEADS);
    merged(module, module.attention.attend(queries, memory))
}

fn repeated(module: &Module, [queries, keys, values]: [Tensor<3>; 3]) -> Tensor<3> {
    let queries = split(module.query.forward(queries), HEADS);
    let [keys, values] = [module.key.forward(keys), module.value.forward(values)].map(repeat);
    merged(
        module,
        module
            .attention
            .forward(queries, keys, values, Mask::causal()),
    )
}

fn merged(module: &Module, context: Tensor<4>) -> Tensor<3> {
    let [batch, _, len, _] = context.dims();
    let context = context.swap_dims(1, 2).reshape([batch, len, HEADS * SIZE]);
    match &module.output {
        Some(output) => output.forward(context),
        None => context,
    }
}
