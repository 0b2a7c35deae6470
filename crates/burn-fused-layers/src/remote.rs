//! Devices of another process or machine, whose server runs the kernels of this crate for its clients.
//!
//! Every operation runs on Burn's remote devices, composed of Burn's operations, each of which the server is sent. A
//! server that was made [`with_operations`] runs some of them by its own kernels, one call each, once the client has
//! asked it by [`connect`] or [`use_kernels`]. Autodiff stays with the client. With Burn's `fusion`, everything is
//! composed.
//!
//! ```no_run
//! use burn::remote::RemoteHost;
//! use burn::server::{RemoteServer, WebSocketTransport};
//! use burn::tensor::Device;
//! use burn_fused_layers::remote;
//!
//! // On the machine that computes:
//! let device = Device::flex();
//! let server = remote::with_operations(RemoteServer::new([device.clone()]), &device);
//! let port = std::net::TcpListener::bind("127.0.0.1:3000")?;
//! server.serve(WebSocketTransport::from_listener(port))?;
//!
//! // On the machine that trains:
//! let device = remote::connect(&RemoteHost::websocket("ws://127.0.0.1:3000"), 0)?.autodiff();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use burn::backend::ir::{BackendIr, CustomOpIr, TensorIr};
use burn::backend::{Backend, DispatchDevice, Remote};
use burn::remote::{ConnectError, CustomOpClient, RemoteHost};
use burn::server::{CustomOpRegistry, RemoteServer};
use burn::tensor::{DType, Device, read_sync};
use thiserror::Error;

use crate::backend::LayerBackend;
use crate::harness::remote::{INTRODUCTION, Introduction, VERSION, introduce, know, with_backend};

pub use crate::ops::remote::{layer_kernels, register_layers};

/// Why the kernels of a server cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// No session was opened.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// The device is none of a server.
    #[error("expected a remote device, got {0}")]
    NotRemote(String),
    /// The server did not answer: it knows no operations of this crate, or was lost.
    #[error("the server knows no kernels for layers and attention, or was lost: {0}")]
    NoAnswer(String),
    /// Client and server are of versions that do not go together.
    #[error("expected a server of version {expected} of the kernels' protocol, got version {got}")]
    Version {
        /// The client's.
        expected: u32,
        /// The server's.
        got: u32,
    },
}

/// The operations of this crate that a server runs for its clients, for a server of one's own backend.
pub fn operations<B: BackendIr + LayerBackend>() -> CustomOpRegistry<B> {
    let mut registry = CustomOpRegistry::new();
    register_layers(&mut registry);
    introduce(&mut registry, layer_kernels::<B>);
    registry
}

/// The server, which runs the operations of this crate by the kernels of its devices, all of the backend of `device`.
/// They take the place of other custom operations of that backend.
pub fn with_operations(server: RemoteServer, device: &Device) -> RemoteServer {
    with_backend!(device, B => server.with_custom_ops(operations::<B>()), else server)
}

/// A device of a server by its number, with the kernels of the server.
///
/// # Errors
/// If no session can be opened, or the server has no operations of this version.
pub fn connect(host: &RemoteHost, index: usize) -> Result<Device, WorkerError> {
    let device = Device::remote_options(host).device_index(index).init()?;
    use_kernels(&device)?;
    Ok(device)
}

/// Has operations on `device` run by the kernels of its server from now on, where it has one.
///
/// # Errors
/// If the device is not remote, or the server has no operations of this version. A server that knows none of them ends
/// the session.
pub fn use_kernels(device: &Device) -> Result<(), WorkerError> {
    let device = device.clone().inner();
    let (remote, introduction) = ask(&device)?;
    if introduction.version != VERSION {
        return Err(WorkerError::Version {
            expected: VERSION,
            got: introduction.version,
        });
    }
    know(remote, &introduction);
    Ok(())
}

/// How many calls of kernels the server of `device` has run, for all of its clients, forward and backward; modulo
/// 2^24.
///
/// # Errors
/// As [`use_kernels`].
pub fn kernel_calls(device: &Device) -> Result<u32, WorkerError> {
    let device = device.clone().inner();
    ask(&device).map(|(_, introduction)| introduction.served)
}

/// Asks the server what it has.
fn ask(device: &Device) -> Result<(&burn::backend::RemoteDevice, Introduction), WorkerError> {
    let DispatchDevice::Remote(remote) = device.as_dispatch() else {
        return Err(WorkerError::NotRemote(format!("{device:?}")));
    };
    let client = CustomOpClient::new(remote);
    let id = client.create_empty_handle();
    let answer = TensorIr::uninit(id, [Introduction::LEN].into(), DType::F32);
    let question = CustomOpIr::new(INTRODUCTION, &[], &[answer]);
    let answer = client.register(question).remove(0);
    let lost = |reason: &str| {
        let line = reason.lines().next().unwrap_or_default();
        WorkerError::NoAnswer(line.to_string())
    };
    let data = read_sync(read::<Remote>(answer)).map_err(|error| lost(error.reason()))?;
    let elements: Vec<f32> = data.iter::<f32>().collect();
    let elements = <[f32; Introduction::LEN]>::try_from(elements);
    let elements = elements.map_err(|_| lost("its answer is of another size"))?;
    Ok((remote, Introduction::of(elements)))
}

async fn read<B: Backend>(
    tensor: burn::backend::tensor::FloatTensor<B>,
) -> Result<burn::tensor::TensorData, burn::backend::ExecutionError> {
    B::float_into_data(tensor).await
}
