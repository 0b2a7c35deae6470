//! `seq2seq worker`

use std::net::{SocketAddr, TcpListener};
use std::{io, result};

use attention_core::remote::with_operations;
use attention_seq2seq::{Error, Result, WorkerAddress};
use burn::server::{RemoteServer, WebSocketTransport};
use clap::Args;

use super::listening::{listen, refused, runtime, stopped};
use super::machine::{Machine, describe};
use super::output::{note, say_to_anyone};

#[derive(Args)]
pub(crate) struct WorkerArgs {
    /// The address to listen at; port 0 takes a free one. An address that other machines reach has to be asked for:
    /// what is sent is not encrypted, and whoever reaches it can use the device. Through a tunnel (ssh -L
    /// 3000:127.0.0.1:3000 HOST) another machine reaches the default.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    #[command(flatten)]
    machine: Machine,
}

impl WorkerArgs {
    pub(crate) fn run(self) -> Result<()> {
        // An address that is taken is an error before the device is opened.
        let (listener, address) = listen(self.listen)?;
        let name = self.machine.name();
        if WorkerAddress::is_meant_by(name) {
            return Err(Error::Config {
                what: "--device".to_string(),
                expected: "a device of this machine".to_string(),
                found: format!("that of a worker, {name:?}"),
            });
        }
        let device = self.machine.open()?;
        if !address.ip().is_loopback() {
            note(format_args!(
                "note: whoever reaches {address} can use this device, and read what is sent: it is neither encrypted \
                 nor authenticated (listen at 127.0.0.1, and tunnel: ssh -L {port}:127.0.0.1:{port} THIS-HOST)",
                port = address.port()
            ));
        }
        let server = with_operations(RemoteServer::new([device.clone()]), &device);
        say_to_anyone(format_args!(
            "listening at ws://{address}, device {}",
            describe(name, &device)
        ))?;
        serve(&server, listener).map_err(|source| refused(self.listen, source))?;
        say_to_anyone("stopped")
    }
}

/// Serves until Ctrl-C or SIGTERM. Sessions that are open end with it.
fn serve(server: &RemoteServer, listener: TcpListener) -> result::Result<(), io::Error> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let serving = server.serve_async(WebSocketTransport::from_listener(listener));
        let stopped = stopped()?;
        tokio::select! {
            served = serving => served.map_err(io::Error::other),
            () = stopped => Ok(()),
        }
    })?;
    runtime.shutdown_background();
    Ok(())
}
