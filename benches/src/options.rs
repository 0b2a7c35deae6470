//! The command line of a bench.

use std::path::PathBuf;

use clap::Parser;

use crate::devices::{self, Named, on_host};

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
    /// Only these devices: flex, ndarray, wgpu, vulkan, cuda, as far as they are compiled in; all of them by default.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = devices::named)]
    device: Vec<Named>,
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

    /// The devices to measure.
    pub fn devices(&self) -> Vec<Named> {
        if self.device.is_empty() {
            devices::devices()
        } else {
            self.device.clone()
        }
    }

    /// The device of the baselines, by PyTorch's name: a GPU beside ours on GPUs alone.
    pub fn baselines_device(&self) -> &'static str {
        let is_host = |(_, device): &Named| on_host(device);
        if self.devices().iter().any(is_host) {
            "cpu"
        } else {
            "cuda"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_those_named_or_all() {
        let names = |arguments: &[&str]| -> Vec<&str> {
            let options = Options::parse_from([&["bench"], arguments].concat());
            options.devices().iter().map(|(name, _)| *name).collect()
        };
        let all: Vec<&str> = devices::devices().iter().map(|(name, _)| *name).collect();
        assert_eq!(names(&[]), all);
        let last = all[all.len() - 1];
        assert_eq!(names(&["--device", last]), [last]);
        assert_eq!(names(&["--device", &all.join(",")]), all);
    }
}
