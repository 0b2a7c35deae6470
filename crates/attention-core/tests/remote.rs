//! A server's kernels run for its clients, forward and backward, and give what they give in this process.
//!
//! In a process of its own: the counters are the process's.

#![cfg(all(feature = "flex", feature = "remote"))]

mod model;

use std::net::TcpListener;
use std::sync::Mutex;
use std::thread;

use attention_core::remote::{WorkerError, connect, kernel_calls, use_kernels, with_operations};
use attention_tests::{Array, Outcome, assert_close};
use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::remote::RemoteHost;
use burn::server::{CustomOpRegistry, RemoteServer, WebSocketTransport};
use burn::tensor::{Device, TensorData};
use burn_fused_layers::paths::{Operation, served};

use model::{SIZE, gradients, model};

/// A test that counts calls has the servers to itself.
static SERVERS: Mutex<()> = Mutex::new(());

/// The address of a server of this process.
fn start(server: RemoteServer) -> RemoteHost {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || server.serve(WebSocketTransport::from_listener(listener)));
    RemoteHost::websocket(&format!("ws://{address}"))
}

fn plain() -> RemoteServer {
    RemoteServer::new([Device::flex()])
}

/// The gradients of a training step of the same model.
fn step(device: &Device) -> Outcome {
    let device = device.clone().autodiff();
    device.seed(5);
    let inputs = Array::draw(7, &[2, 4, SIZE]).tensor(&device, burn::tensor::DType::F32);
    gradients(&model(&device), &inputs)
}

/// Compares them with those of this process.
fn check_step(what: &str, device: &Device) {
    let (got, expected) = (step(device), step(&Device::flex()));
    assert_eq!(got.len(), expected.len());
    for (name, expected) in &expected {
        assert_close(&format!("{name} {what}"), &got[name], expected, 1e-5);
    }
}

/// The operations that a step of training calls, and the calls of each in it, forward and backward.
const CALLS: [(Operation, u64); 4] = [
    (Operation::AdditiveAttention, 6),
    (Operation::DotProductAttention, 2),
    (Operation::Recurrent, 2),
    (Operation::LinearCrossEntropy, 1),
];

#[test]
#[cfg_attr(feature = "fusion", ignore = "with fusion everything is composed")]
fn a_training_step_runs_in_the_kernels_of_the_server() {
    let _servers = SERVERS.lock();
    let host = start(with_operations(plain(), &Device::flex()));
    let device = connect(&host, 0).expect("a server");
    let before = CALLS.map(|(operation, _)| served(operation));
    check_step("by a server's kernels", &device);
    for ((operation, calls), before) in CALLS.into_iter().zip(before) {
        assert_eq!(served(operation) - before, calls, "{operation:?}");
    }
    let calls: u64 = Operation::ALL.into_iter().map(served).sum();
    let told = kernel_calls(&device).expect("it answers");
    assert_eq!(u64::from(told), calls);
}

#[test]
fn without_kernels_everything_is_composed() {
    let _servers = SERVERS.lock();
    let device = Device::remote_options(&start(plain())).init();
    let device = device.expect("a server");
    let before = Operation::ALL.map(served);
    check_step("by Burn's operations", &device);
    assert_eq!(Operation::ALL.map(served), before);
}

#[test]
fn a_server_without_the_operations_is_refused() {
    let _servers = SERVERS.lock();
    let error = connect(&start(plain()), 0).expect_err("it knows none");
    assert!(matches!(error, WorkerError::NoAnswer(_)), "{error}");
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    let error = use_kernels(&Device::flex()).expect_err("it is here");
    assert!(matches!(error, WorkerError::NotRemote(_)), "{error}");
}

#[test]
fn a_server_of_another_version_is_refused() {
    let _servers = SERVERS.lock();
    let mut registry = CustomOpRegistry::<Flex>::new();
    registry.register("burn-fused-layers/kernels", |handles, called, device| {
        let answer = TensorData::from([7.0_f32, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let answer = Flex::float_from_data(answer, device);
        handles.register_float_tensor::<Flex>(&called.outputs[0].id, answer);
    });
    let error = connect(&start(plain().with_custom_ops(registry)), 0).expect_err("another");
    let expected = "expected a server of version 1 of the kernels' protocol, got version 7";
    assert_eq!(error.to_string(), expected);
}
