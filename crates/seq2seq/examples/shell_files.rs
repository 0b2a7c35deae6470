//! The command line as shells and `man` know it: writes completions and manual pages for a release.
//!
//! ```text
//! cargo run -p seq2seq --features subwords,serve --example shell_files -- FOLDER
//! ```

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .ok_or("expected a folder, none came")?;
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder)?;
    for shell in Shell::value_variants() {
        generate_to(*shell, &mut seq2seq::command(), "seq2seq", &folder)?;
    }
    let mut command = seq2seq::command().disable_help_subcommand(true);
    // Commands are named as their pages: `seq2seq-train`.
    command.build();
    let source = concat!("seq2seq ", env!("CARGO_PKG_VERSION"));
    for command in command.get_subcommands().chain([&command]) {
        let page = Man::new(command.clone()).source(source);
        page.generate_to(&folder)?;
    }
    Ok(())
}
