//! `seq2seq completions` and `seq2seq man`: the command line as shells and `man` know it.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use attention_seq2seq::file::write_file;
use attention_seq2seq::{Error, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::output::{STANDARD_OUTPUT, say};

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(self, mut command: Command) -> Result<()> {
        let name = command.get_name().to_string();
        // A write that fails would panic in the generator.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        let written = io::stdout().write_all(&script);
        written.map_err(|source| Error::io("write", STANDARD_OUTPUT, source))
    }
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// The folder for the pages, `seq2seq.1` and one for each command; it is made if need be.
    #[arg(long, value_name = "DIR", default_value = "man")]
    output: PathBuf,
}

impl ManArgs {
    pub(crate) fn run(self, command: Command) -> Result<()> {
        fs::create_dir_all(&self.output)
            .map_err(|source| Error::io("create", &self.output, source))?;
        let source = format!("{} {}", command.get_name(), env!("CARGO_PKG_VERSION"));
        let mut command = command.disable_help_subcommand(true);
        // Commands are named as their pages: `seq2seq-train`.
        command.build();
        let commands = command.get_subcommands().chain([&command]);
        for command in commands {
            let page = Man::new(command.clone()).source(&source);
            let path = self.output.join(page.get_filename());
            let mut text = Vec::new();
            let written = page.render(&mut text);
            written.map_err(|source| Error::io("write", &path, source))?;
            write_file(&path, &text)?;
        }
        let count = command.get_subcommands().count() + 1;
        say(format_args!(
            "saved {count} pages in {}",
            self.output.display()
        ))
    }
}
