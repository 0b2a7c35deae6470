//! Devices of another process or machine, whose server runs the kernels of attention for its clients.
//!
//! Attention runs on Burn's remote devices, composed of Burn's operations, each of which the server is sent. A server
//! that was made [`with_operations`] runs what its device has kernels for by them, one call each, once the client has
//! asked it by [`connect`] or [`use_kernels`]: attentions, scores, softmaxes, recurrent layers and losses on a CPU,
//! attention alone on a GPU. Autodiff stays with the client, masks stay intervals on the server. With Burn's `fusion`,
//! everything is composed.
//!
//! Composed operations are not cut into chunks by the limits of the server's device, which the client does not know:
//! where a GPU limits the size of a buffer, a tensor that exceeds it fails there.
//!
//! ```no_run
//! use attention_core::remote;
//! use burn::remote::RemoteHost;
//! use burn::server::{RemoteServer, WebSocketTransport};
//! use burn::tensor::Device;
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

use burn::backend::ir::BackendIr;
use burn::server::{CustomOpRegistry, RemoteServer};
use burn::tensor::Device;
use burn_fused_layers::harness::remote::{introduce, with_backend};
use burn_fused_layers::remote::{layer_kernels, register_layers};

pub use burn_fused_layers::remote::{WorkerError, connect, kernel_calls, use_kernels};

use crate::ops::AttentionBackend;
use crate::ops::remote::{kernels_of, register};

/// The operations of this crate and of `burn-fused-layers` that a server runs for its clients, for a server of one's
/// own backend.
pub fn operations<B: BackendIr + AttentionBackend>() -> CustomOpRegistry<B> {
    let mut registry = CustomOpRegistry::new();
    register_layers(&mut registry);
    register(&mut registry);
    introduce(&mut registry, |device, dtype| {
        kernels_of::<B>(device, dtype) | layer_kernels::<B>(device, dtype)
    });
    registry
}

/// The server, which runs the operations of this crate and of `burn-fused-layers` by the kernels of its devices, all of
/// the backend of `device`. They take the place of other custom operations of that backend.
pub fn with_operations(server: RemoteServer, device: &Device) -> RemoteServer {
    with_backend!(device, B => server.with_custom_ops(operations::<B>()), else server)
}
