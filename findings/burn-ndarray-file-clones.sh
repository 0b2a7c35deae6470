#!/usr/bin/env bash
# burn 0.22.1, backend ndarray: parameters that `load_file` read are copied whole by each clone of their tensor, so that
# every forward pass copies every weight that it reads.
#
# `Tensor::clone` is cheap elsewhere: tensors share their elements. A weight of 1,024 x 1,024 `f32` (4 MiB) is read ten
# times with `Param::val`, as modules do in `forward`, and what the allocator gives meanwhile is counted. Seen: as
# initialized on ndarray, 0 MiB; after `save_file` and `load_file`, on ndarray 40 MiB, on flex 0 MiB. A module that was
# loaded can be mapped once to tensors of its own, for example by `tensor.mul_scalar(1.0)` (then 0 MiB).
# Needs cargo and the registry of crates; builds burn, some minutes. Exits with 1 once this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/src"
cat >"$folder/Cargo.toml" <<'TOML'
[package]
name = "show"
version = "0.1.0"
edition = "2024"

[dependencies.burn]
version = "=0.22.1"
default-features = false
features = ["std", "flex", "ndarray"]
TOML
cat >"$folder/src/main.rs" <<'RUST'
#![allow(deprecated)] // `Device::ndarray`

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

/// Counts the bytes that are given.
struct Counting;

static GIVEN: AtomicUsize = AtomicUsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        GIVEN.fetch_add(layout.size(), Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Makes each parameter a tensor of its own.
struct Own;

impl ModuleMapper for Own {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        parameter.map(|tensor| tensor.mul_scalar(1.0))
    }
}

/// The MiB that ten readings of the weight take.
fn readings(name: &str, layer: &Linear) -> usize {
    let _first = layer.weight.val();
    let before = GIVEN.load(Relaxed);
    for _ in 0..10 {
        let _weight = layer.weight.val();
    }
    let taken = (GIVEN.load(Relaxed) - before) >> 20;
    println!("{name}: {taken} MiB");
    taken
}

fn main() {
    let config = LinearConfig::new(1024, 1024).with_bias(false);
    let file = std::env::args().nth(1).unwrap();
    let [ndarray, flex] = [Device::ndarray(), Device::flex()];
    let layer = config.init(&ndarray);
    let initialized = readings("ndarray, as initialized", &layer);
    layer.save_file(&file).unwrap();
    let loaded = config.init(&ndarray).load_file(&file);
    let on_ndarray = readings("ndarray, loaded", &loaded);
    let on_flex = readings("flex, loaded", &config.init(&flex).load_file(&file));
    let own = readings("ndarray, loaded, then mapped", &loaded.map(&mut Own));
    let holds = [initialized, on_ndarray, on_flex, own] == [0, 40, 0, 0];
    std::process::exit(if holds { 0 } else { 1 });
}
RUST
cargo build --quiet --release --manifest-path "$folder/Cargo.toml" --target-dir "$folder/target"
"$folder/target/release/show" "$folder/layer.bpk"
