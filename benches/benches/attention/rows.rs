//! The rows of a table: candidates, and then what was measured of each.

use attention_benches::baselines::Baselines;
use attention_benches::compare::{Candidate, Measured, compare};
use attention_benches::work::{Kind, PASSES, Pass, Work};

/// Whose row it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    /// Ours with keys and values that want no gradient: a decoder on a frozen encoder.
    Frozen,
    /// Burn's own attention, where it has one.
    Burn,
    Baseline,
    /// A baseline that projects the keys in every decoding step.
    Projecting,
}

/// A row: forward, and forward with backward, as far as they run.
pub(crate) struct Row<T> {
    pub(crate) who: Who,
    pub(crate) of_passes: [Option<T>; 2],
}

pub(crate) type Rows<T> = Vec<Row<T>>;

impl<T> Row<T> {
    /// A row, if anything of it runs; says what does not.
    pub(crate) fn of(who: Who, name: &str, of_passes: [Result<T, String>; 2]) -> Option<Self> {
        match &of_passes {
            [Err(reason), Err(_)] => {
                println!("  skipped: {name}: {reason}");
                return None;
            }
            [Ok(_), Err(reason)] => println!("  skipped: {name}, backward: {reason}"),
            [Err(reason), Ok(_)] => println!("  skipped: {name}, forward: {reason}"),
            [Ok(_), Ok(_)] => {}
        }
        let of_passes = of_passes.map(Result::ok);
        Some(Self { who, of_passes })
    }

    /// The passes that run.
    pub(crate) fn passes(&self) -> impl Iterator<Item = (Pass, &T)> {
        let passes = PASSES.into_iter().zip(&self.of_passes);
        passes.filter_map(|(pass, cell)| cell.as_ref().map(|cell| (pass, cell)))
    }
}

/// The mark of a module without a memory, which projects the keys in every step.
const PROJECTING: &str = ", no memory";

/// The baselines at a work, on the device that they call `device`.
pub(crate) fn of_baselines(
    work: &Work,
    device: &str,
    baselines: &mut Baselines,
) -> Rows<Box<dyn Candidate>> {
    let mut libraries = vec!["PyTorch eager", "torch.compile"];
    if work.kind == Kind::DotProduct {
        libraries.push("PyTorch SDPA");
    }
    if device == "cpu" {
        libraries.push("JAX jit");
    }
    let mut rows = Vec::new();
    let mut kinds = vec![(work.kind, Who::Baseline, "")];
    if work.kind == Kind::Decoding {
        kinds.push((Kind::Additive, Who::Projecting, PROJECTING));
    }
    for (kind, who, suffix) in kinds {
        for name in &libraries {
            let label = format!("{name}{suffix}");
            let set_up = PASSES.map(|pass| -> Result<Box<dyn Candidate>, String> {
                let setup = work.setup(name, kind, pass, device);
                Ok(Box::new(baselines.set_up(&label, setup)?))
            });
            rows.extend(Row::of(who, &label, set_up));
        }
    }
    rows
}

/// Times all candidates by turns.
pub(crate) fn compare_rows(rows: Rows<Box<dyn Candidate>>, rounds: u32) -> Rows<Measured> {
    let places: Vec<(Who, [bool; 2])> = rows
        .iter()
        .map(|row| (row.who, row.of_passes.each_ref().map(Option::is_some)))
        .collect();
    let candidates = rows.into_iter().flat_map(|row| row.of_passes).flatten();
    let mut candidates: Vec<Box<dyn Candidate>> = candidates.collect();
    let mut measured = compare(&mut candidates, rounds).into_iter();
    let mut next = |runs: bool| if runs { measured.next() } else { None };
    places
        .into_iter()
        .map(|(who, runs)| Row {
            who,
            of_passes: runs.map(&mut next),
        })
        .collect()
}
