//! The table that is printed of a work.

use attention_benches::compare::Measured;
use attention_benches::report::{mebibytes, milliseconds};
use attention_benches::work::{Kind, PASSES, Work};

use crate::rows::{Row, Who};

/// The rows; then how far the baselines are from ours.
pub(crate) fn print(rows: &[Row<Measured>]) {
    println!(
        "  {:<24}{:>22}{:>20}{:>22}",
        "", "milliseconds", "ratio to ours", "peak extra MiB"
    );
    print!("  {:<24}", "candidate");
    println!(
        "{0:>11}{1:>11}{0:>10}{1:>10}{0:>11}{1:>11}",
        "forward", "fwd+bwd"
    );
    let ours = rows.iter().find(|row| row.who == Who::Ours);
    let time = |measured: &Measured| milliseconds(measured.median());
    for row in rows {
        let first = row.passes().next();
        let name = first.map_or("", |(_, measured)| &measured.name);
        print!("  {name:<24}");
        let cells = row.of_passes.each_ref().map(Option::as_ref);
        let dash = || "-".to_string();
        for cell in cells {
            let cell = cell.map_or_else(dash, |measured| format!("{:.3}", time(measured)));
            print!("{cell:>11}");
        }
        for (pass, cell) in cells.into_iter().enumerate() {
            let ratio = cell.zip(ours.and_then(|ours| ours.of_passes[pass].as_ref()));
            let ratio = ratio.map(|(cell, ours)| format!("{:.2}", time(cell) / time(ours)));
            print!("{:>10}", ratio.unwrap_or_else(dash));
        }
        for cell in cells {
            let memory = cell.and_then(|measured| measured.memory);
            print!("{:>11}", mebibytes(memory));
        }
        println!();
    }
    let Some(ours) = ours else { return };
    print_fastest(rows, ours, Who::Baseline);
    print_fastest(rows, ours, Who::Projecting);
}

fn print_fastest(rows: &[Row<Measured>], ours: &Row<Measured>, who: Who) {
    let fastest = |pass: usize| {
        let ours = ours.of_passes[pass].as_ref()?;
        let rows = rows.iter().filter(|row| row.who == who);
        let measured = rows.filter_map(|row| row.of_passes[pass].as_ref());
        let fastest = measured.min_by_key(|measured| measured.median())?;
        let ratio = fastest.median().as_secs_f64() / ours.median().as_secs_f64();
        Some(format!("{ratio:.2} ({})", fastest.name))
    };
    let of_passes = ["forward", "forward + backward"].into_iter().enumerate();
    let of_passes: Vec<String> = of_passes
        .filter_map(|(pass, name)| Some(format!("{name} {}", fastest(pass)?)))
        .collect();
    if !of_passes.is_empty() {
        println!("  fastest baseline / ours: {}", of_passes.join(", "));
    }
}

/// The memory that ours takes beyond its results, as a share of the tensor that it never stores.
pub(crate) fn print_memory(work: &Work, rows: &[Row<Measured>]) {
    let ours = rows.iter().find(|row| row.who == Who::Ours);
    let Some(ours) = ours.filter(|_| work.kind != Kind::DotProduct) else {
        return;
    };
    let never_stored = work.largest_composed_bytes() as f64;
    let [forward, backward] = PASSES.map(|pass| {
        let measured = ours.of_passes[pass as usize].as_ref();
        match measured.and_then(|measured| measured.memory) {
            Some(memory) => {
                let beyond = memory as f64 - work.result_bytes(pass) as f64;
                format!("{:.2} %", 1e2 * beyond / never_stored)
            }
            None => "unknown".to_string(),
        }
    });
    println!(
        "  ours beyond outputs and gradients, of batch * queries * keys * hidden floats: forward {forward}, forward + \
         backward {backward}"
    );
}
