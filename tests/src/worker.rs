//! A device of a server that runs in this process, with flex and its kernels behind it.

use std::net::TcpListener;
use std::sync::OnceLock;
use std::thread;

use attention_core::remote;
use burn::remote::RemoteHost;
use burn::server::{RemoteServer, WebSocketTransport};
use burn::tensor::Device;

/// The device; the server starts with the first call, on a free port of the loopback interface.
///
/// # Panics
/// If there is no such port, or the server does not answer.
pub(crate) fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(connect).clone()
}

fn connect() -> Device {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound port has an address");
    let flex = Device::flex();
    let server = remote::with_operations(RemoteServer::new([flex.clone()]), &flex);
    thread::spawn(move || server.serve(WebSocketTransport::from_listener(listener)));
    let host = RemoteHost::websocket(&format!("ws://{address}"));
    let device = remote::connect(&host, 0);
    device.unwrap_or_else(|error| panic!("a server of this process expected to answer: {error}"))
}
