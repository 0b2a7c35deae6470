//! A training step on one of Burn's remote devices, where every operation is composed, gives what it gives in this
//! process.

#![cfg(all(feature = "flex", feature = "remote"))]

mod model;

use std::net::TcpListener;
use std::thread;

use attention_tests::{Array, Outcome, assert_close};
use burn::remote::RemoteHost;
use burn::server::{RemoteServer, WebSocketTransport};
use burn::tensor::{DType, Device};

use model::{SIZE, gradients, model};

/// A device of a server in this process.
fn remote() -> Device {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = RemoteServer::new([Device::flex()]);
    thread::spawn(move || server.serve(WebSocketTransport::from_listener(listener)));
    let host = RemoteHost::websocket(&format!("ws://{address}"));
    Device::remote_options(&host).init().expect("a server")
}

/// The gradients of a training step of the same model.
fn step(device: &Device) -> Outcome {
    let device = device.clone().autodiff();
    device.seed(5);
    let inputs = Array::draw(7, &[2, 4, SIZE]).tensor(&device, DType::F32);
    gradients(&model(&device), &inputs)
}

#[test]
fn a_training_step_on_a_remote_device_is_that_of_this_process() {
    let (got, expected) = (step(&remote()), step(&Device::flex()));
    assert_eq!(got.len(), expected.len());
    for (name, expected) in &expected {
        assert_close(name, &got[name], expected, 1e-5);
    }
}
