//! `print!` and `println!` for examples whose output is piped into a program that stops reading, as `head` does.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};

/// Prints, and ends the example quietly if the standard output is closed; the standard library's `print!` panics.
pub(crate) fn print_or_end(text: Arguments<'_>) {
    match stdout().write_fmt(text) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => panic!("cannot write to the standard output: {error}"),
    }
}

macro_rules! print {
    ($($text:tt)*) => {
        $crate::common::print_or_end(format_args!($($text)*))
    };
}

macro_rules! println {
    () => {
        $crate::common::print_or_end(format_args!("\n"))
    };
    ($($text:tt)*) => {
        $crate::common::print_or_end(format_args!("{}\n", format_args!($($text)*)))
    };
}

pub(crate) use {print, println};
