//! The server.

mod connections;
mod explain;
mod live;
mod server;
mod translate;

const TEXTS: [&str; 4] = ["abc", "reverse", "z", " hgfe "];
