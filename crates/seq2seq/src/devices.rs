//! `seq2seq devices`.

use attention_core::backend::device_limits;
use attention_seq2seq::device::{adapters, compiled_in_devices};
use attention_seq2seq::{Error, Result, open_device};
use burn::tensor::Device;
use clap::Args;

use crate::machine::{describe, start_threads};
use crate::output::say;

/// Which devices, and whether to check them.
#[derive(Args)]
pub(super) struct DevicesArgs {
    /// Run every operation of attention on each device, and compare it with the CPU in f64.
    #[arg(long)]
    check: bool,
    /// Only this device.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

impl DevicesArgs {
    pub(super) fn run(self) -> Result<()> {
        if self.check {
            start_threads(None)?;
        }
        let names = match &self.device {
            Some(name) => vec![name.as_str()],
            None => compiled_in_devices(),
        };
        let all = self.device.is_none();
        let mut failed = Vec::new();
        for name in names {
            let device = match open_device(name) {
                Ok(device) => device,
                // If several devices are checked, the others are still of interest.
                Err(error @ Error::DeviceUnavailable { .. }) if all => {
                    say(error)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            say(describe(name, &device))?;
            for (number, adapter) in adapters(name).iter().enumerate() {
                if let Some(limits) = device_limits(adapter) {
                    let numbered = describe(&format!("{name}:{number}"), adapter);
                    say(format!("  {numbered}: {limits}"))?;
                }
            }
            if self.check && !passes(&device)? {
                failed.push(name);
            }
        }
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Error::DeviceUnavailable {
                name: failed.join(", "),
                reason: "attention computes wrongly on it, see above".to_string(),
            })
        }
    }
}

/// Whether attention computes correctly on a device; prints a line for each operation.
#[cfg(feature = "check")]
fn passes(device: &Device) -> Result<bool> {
    let report = attention_check::self_check(device);
    say(&report)?;
    Ok(report.passed())
}

#[cfg(not(feature = "check"))]
fn passes(_: &Device) -> Result<bool> {
    let expected = "a program that is built with the feature check (--features check)";
    Err(Error::config("devices --check", expected, "one without it"))
}
