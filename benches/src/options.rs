//! The command line of a bench.

use std::path::PathBuf;

use clap::Parser;

/// Times attention; see benches/README.md.
#[derive(Parser)]
pub struct Options {
    /// Write the results there too, as JSON.
    #[arg(long, value_name = "PATH")]
    pub json: Option<PathBuf>,
    /// The number of rounds; slow candidates sit out the last ones.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Only the works whose title contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub only: String,
    /// Cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// The options of this process; wrong ones end it with a message.
    pub fn from_command_line() -> Self {
        Self::parse()
    }

    /// Whether the work called `title` is wanted.
    pub fn wants(&self, title: &str) -> bool {
        title.contains(&self.only)
    }
}
