//! Instructions that kernels take, counted by valgrind: unlike a time, the same on a busy machine.
//!
//! `cargo bench -p attention-kernels --bench instructions` compares the counts with `table.tsv` beside this
//! file; `-- --write` writes them there. They depend on the compiler's version, and on the machine's C library a
//! little.

mod works;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::{env, fs};

use works::WORKS;

/// Valgrind knows no AVX-512.
const LEVEL: &str = "avx2";

/// The part of a count by which it may grow.
const TOLERANCE: f64 = 0.05;

const TABLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/instructions/table.tsv"
);

/// Set for the process that valgrind watches, to the work to do.
const WORK: &str = "ATTENTION_INSTRUCTIONS_OF";

fn main() -> ExitCode {
    if let Ok(name) = env::var(WORK) {
        works::run(&name);
        return ExitCode::SUCCESS;
    }
    let args: Vec<String> = env::args().skip(1).collect();
    // `cargo test --all-targets` runs this without it.
    if !args.iter().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let outcome = if args.iter().any(|arg| arg == "--write") {
        write()
    } else {
        compare()
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("instructions: {error}");
        ExitCode::FAILURE
    })
}

/// Writes the table.
fn write() -> Result<ExitCode, String> {
    let mut table = String::new();
    for (name, _) in WORKS {
        let count = count(name)?;
        println!("{name:<36} {count:>10}");
        table += &format!("{name}\t{count}\n");
    }
    fs::write(TABLE, table).map_err(|error| format!("{TABLE}: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the counts beside the table's, and fails if one is far above.
fn compare() -> Result<ExitCode, String> {
    let expected = table()?;
    let mut has_failed = false;
    println!(
        "{:<36} {:>10} {:>10} {:>7}",
        "", "count", "expected", "change"
    );
    for (name, _) in WORKS {
        let count = count(name)?;
        let Some(expected) = expected.get(*name) else {
            println!("{name:<36} {count:>10} {:>10}", "-");
            has_failed = true;
            continue;
        };
        let change = count as f64 / *expected as f64 - 1.0;
        let verdict = match change {
            change if change > TOLERANCE => "more",
            change if change < -TOLERANCE => "less: write the table anew",
            _ => "",
        };
        has_failed |= change > TOLERANCE;
        println!(
            "{name:<36} {count:>10} {expected:>10} {:>+6.1}% {verdict}",
            100.0 * change
        );
    }
    if has_failed {
        return Err(format!(
            "above the table by more than {TOLERANCE}, or not in it; `-- --write` writes it anew"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn table() -> Result<BTreeMap<String, u64>, String> {
    let text = fs::read_to_string(TABLE).map_err(|error| format!("{TABLE}: {error}"))?;
    let entry = |line: &str| {
        let (name, count) = line.split_once('\t')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    let entries = text.lines().map(|line| {
        entry(line).ok_or(format!(
            "{TABLE}: expected a name, a tab and a count, got {line:?}"
        ))
    });
    entries.collect()
}

/// The instructions of a work, in a process of its own.
fn count(name: &str) -> Result<u64, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let out = env::temp_dir().join(format!("attention-instructions-{}", std::process::id()));
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*measured*",
        ])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .env(WORK, name)
        .env("ATTENTION_SIMD", LEVEL)
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .map_err(|error| {
            format!("valgrind: {error}; Debian has it as `apt-get install valgrind`")
        })?;
    let profile = fs::read_to_string(&out);
    let _ = fs::remove_file(&out);
    if !output.status.success() {
        return Err(format!(
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let profile = profile.map_err(|error| format!("{}: {error}", out.display()))?;
    let total = profile
        .lines()
        .find_map(|line| line.strip_prefix("totals: "));
    total
        .and_then(|total| total.trim().parse().ok())
        .ok_or_else(|| format!("{name}: {} has no total", out.display()))
}
