#!/usr/bin/env bash
# burn 0.22.1: a program that names the CPU alone starts the default device when it loads an optimizer's state.
#
# `ModuleOptimizer::load_record` (also by `from_bytes` and `load`) makes the tensors of the state on `Device::default()`;
# the next step takes them to the device of their parameters. Where the features of a build include a GPU, that is the
# default: going on with training on `Device::flex()` starts the GPU's driver, its threads and its memory, or fails where
# the driver does. Parameters do not do so: a module's record is loaded on the module's device.
#
# Made visible here without a GPU: `BURN_DEVICE` says which device is the default, and names one that the build has not.
# Seen: a module is made, trained a step on flex, and its record loaded; the optimizer's record is not, with "BURN_DEVICE=cuda
# requested, but the 'cuda' feature is not enabled.". With `BURN_DEVICE=flex` it is.
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
features = ["std", "flex", "autodiff", "optim"]
TOML
cat >"$folder/src/main.rs" <<'RUST'
use burn::module::Module;
use burn::nn::LinearConfig;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};

fn main() {
    let device = Device::flex().autodiff();
    let layer = LinearConfig::new(2, 3).init(&device);
    let loss = layer.forward(Tensor::<2>::ones([1, 2], &device)).sum();
    let gradients = GradientsParams::from_grads(loss.backward(), &layer);
    let mut optimizer = ModuleOptimizer::from(AdamConfig::new().build());
    let layer = optimizer.step(0.1, layer, gradients);
    let layer = layer.clone().load_record(layer.into_record());
    println!("a step taken, and the module's record loaded on {:?}", layer.weight.device());
    let record = optimizer.to_record();
    let _restored = ModuleOptimizer::from(AdamConfig::new().build()).load_record(record);
    println!("the optimizer's record loaded");
}
RUST
cargo build --quiet --manifest-path "$folder/Cargo.toml" --target-dir "$folder/target"
run() { BURN_DEVICE=$1 RUST_BACKTRACE=0 "$folder/target/debug/show" 2>&1 || true; }
on_flex=$(run flex)
on_another=$(run cuda)
printf 'BURN_DEVICE=flex:\n%s\n\nBURN_DEVICE=cuda:\n%s\n' "$on_flex" "$on_another"
[[ $on_flex == *"the optimizer's record loaded"* ]]
[[ $on_another == *"a step taken"*"'cuda' feature is not enabled"* ]]
[[ $on_another != *"the optimizer's record loaded"* ]]
