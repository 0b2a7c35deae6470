//! The works of a GPU: larger than the host's, in half precision too, and each beside its floor.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use attention_benches::compare::{Candidate, Measured};
use attention_benches::composed::{BACKWARD_COPIES, FORWARD_COPIES};
use attention_benches::devices::Named;
use attention_benches::floors::{Counts, Rates};
use attention_benches::gpu::Gpu;
use attention_benches::report::milliseconds;
use attention_benches::tensors::Call;
use attention_benches::work::{Kind, Pass, Work};
use burn::tensor::DType;

use crate::Bench;
use crate::locals::{Attention, COMPOSED, attentions, candidate};
use crate::rows::{Row, Rows, Who};

/// The GPU, as the baselines call it.
const BASELINES: &str = "cuda";

impl Bench {
    /// Times all works on each GPU among `devices`; where ours does not run, the work's title.
    pub(crate) fn on_gpus(&mut self, devices: &[Named], small: bool) -> io::Result<Vec<String>> {
        let mut failed = Vec::new();
        for named in devices {
            let (name, device) = named;
            let Some(gpu) = Gpu::new(device) else {
                continue;
            };
            let rates = gpu.rates();
            self.report.add_gpu(name, &gpu.name(), &rates);
            self.try_baselines();
            for work in works(small) {
                let title = work.title();
                if !self.options.wants(&title) {
                    continue;
                }
                if !device.supports_dtype(work.dtype) {
                    println!("{title}\n  skipped: {name} does not compute in this type\n");
                    continue;
                }
                let rows = self.measure(&work, BASELINES, || locals(&work, named, &gpu))?;
                match rows.iter().find(|row| row.who == Who::Ours) {
                    Some(ours) => self.add_floors(&work, name, ours, &rates),
                    None => failed.push(format!("{title}, {name}")),
                }
                println!();
            }
        }
        Ok(failed)
    }

    /// Leaves the baselines out, if they do not run on a GPU; says why.
    fn try_baselines(&mut self) {
        let work = Work::dot_product(1, 1);
        let setup = work.setup("PyTorch eager", work.kind, Pass::Forward, BASELINES);
        let tried = match &mut self.baselines {
            Ok(baselines) => baselines.set_up("PyTorch", setup).map(drop),
            Err(_) => Ok(()),
        };
        if let Err(reason) = tried {
            println!("baselines skipped: {reason}\n");
            self.baselines = Err(reason);
        }
    }

    /// Prints and adds the floors of a work, and how near ours comes.
    fn add_floors(&mut self, work: &Work, device: &str, ours: &Row<Measured>, rates: &Rates) {
        let mut floors = Vec::new();
        for (pass, measured) in ours.passes() {
            let floor = Counts::of(work, pass).floor(rates);
            self.report
                .add_floor(&work.title(), pass.name(), device, &floor);
            let percent = 1e2 * floor.time.as_secs_f64() / measured.median().as_secs_f64();
            let time = milliseconds(floor.time);
            let name = match pass {
                Pass::Forward => "forward",
                Pass::Backward => "forward + backward",
            };
            floors.push(format!(
                "{name} {time:.4} ms by {}, {percent:.1} % of ours",
                floor.limit
            ));
        }
        println!("  floor: {}", floors.join("; "));
    }
}

fn works(small: bool) -> Vec<Work> {
    let long_memory = Work::additive(Kind::Decoding, 64, [1, 4096], 256);
    let dot_products = [(8, 1024), (1, 4096)].map(|(batch, rows)| Work::dot_product(batch, rows));
    let halves = dot_products.map(|work| Work {
        dtype: DType::F16,
        ..work
    });
    let mut works = vec![
        Work::additive(Kind::Additive, 64, [512, 512], 512),
        Work::additive(Kind::Additive, 8, [128, 128], 256),
        Work::additive(Kind::Decoding, 64, [1, 64], 256),
        long_memory,
    ];
    works.extend(dot_products);
    works.extend(halves);
    if small {
        for work in &mut works {
            for number in [&mut work.batch, &mut work.queries, &mut work.keys] {
                *number = number.div_ceil(8);
            }
        }
    }
    works
}

/// Ours and its peers, as far as they run.
fn locals(work: &Work, named: &Named, gpu: &Gpu) -> Rows<Box<dyn Candidate>> {
    let (_, device) = named;
    let run = |name: &str, pass, call| -> Result<Box<dyn Candidate>, String> {
        if name == COMPOSED {
            fits(work, pass, gpu)?;
        }
        let call = first_call(call);
        device.memory_cleanup();
        Ok(candidate(name, named, call?))
    };
    let forward = attentions(work, device);
    let backward = attentions(work, &device.clone().autodiff());
    let rows = forward.into_iter().zip(backward);
    rows.filter_map(|(forward, backward)| {
        let Attention { who, name, call } = forward;
        let of_passes = [
            run(name, Pass::Forward, call),
            run(name, Pass::Backward, backward.call),
        ];
        Row::of(who, name, of_passes)
    })
    .collect()
}

/// Why a composed attention does not fit into a GPU, if it does not.
fn fits(work: &Work, pass: Pass, gpu: &Gpu) -> Result<(), String> {
    let largest = work.largest_composed_bytes();
    let copies = match pass {
        Pass::Forward => FORWARD_COPIES,
        Pass::Backward => BACKWARD_COPIES,
    };
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let all = copies as u64 * largest;
    let limits = gpu.limits();
    if largest > limits.largest_buffer {
        let limit = gib(limits.largest_buffer);
        return Err(format!(
            "a tensor of {:.1} GiB, a buffer has {limit:.1}",
            gib(largest)
        ));
    }
    match limits.memory {
        Some(memory) if all > memory => Err(format!(
            "some {:.1} GiB of tensors, the device has {:.1}",
            gib(all),
            gib(memory)
        )),
        _ => Ok(()),
    }
}

/// `call`, after the first one; why it does not run, if that panics.
fn first_call(mut call: Call) -> Result<Call, String> {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(&mut call));
    set_hook(hook);
    match result {
        Ok(()) => Ok(call),
        Err(panic) => {
            let text = panic.downcast::<String>().map(|text| *text);
            let text = text.or_else(|panic| panic.downcast::<&str>().map(|text| text.to_string()));
            let text = text.unwrap_or_else(|_| "it panics".to_string());
            Err(text.lines().next().unwrap_or_default().to_string())
        }
    }
}
