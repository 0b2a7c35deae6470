//! `seq2seq serve` in a program built without that feature, which says so.

use std::ffi::OsString;

use attention_seq2seq::{Error, Result};
use clap::Args;

#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ServeArgs {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _any: Vec<OsString>,
}

impl ServeArgs {
    pub(super) fn run(self) -> Result<()> {
        let expected = "a program that is built with the feature serve (--features serve)";
        Err(Error::config("serve", expected, "one without it"))
    }
}
