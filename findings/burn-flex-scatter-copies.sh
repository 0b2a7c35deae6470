#!/usr/bin/env bash
# burn 0.22.1, backend flex: to write one row by index costs a copy of the whole tensor with `scatter_nd`, and nothing of
# the kind with `select_assign`.
#
# Both consume the tensor that they write to, as `slice_assign` does, nobody else holds it here, and both assign. One row
# of 64 numbers is written into tensors of 1,000 and of 100,000 rows. Seen, on two cores of a server: `slice_assign` and
# `select_assign` take as long for both, 0.3 and 0.4 us; `scatter_nd` takes 5 us for the smaller and 2,400 us for the
# larger one, whose 25.6 MB it copies. (Backends of CubeCL scatter in place.)
# Needs cargo and the registry of crates; builds burn, some minutes. Exits with 1 once this is no longer so: the time of
# the larger tensor is below 10 times the time of the smaller one for `scatter_nd`, or above 5 times for another.
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
features = ["std", "flex"]
TOML
cat >"$folder/src/main.rs" <<'RUST'
use std::time::Instant;

use burn::tensor::{Device, IndexingUpdateOp, Int, Tensor};

/// The median time of writing a row into a tensor of `rows`, in microseconds.
fn time(rows: usize, write: impl Fn(Tensor<2>, &Tensor<2>) -> Tensor<2>) -> f64 {
    let device = Device::flex();
    let row = Tensor::<2>::ones([1, 64], &device);
    let mut all = Tensor::<2>::zeros([rows, 64], &device);
    let mut times: Vec<f64> = Vec::new();
    for _ in 0..200 {
        let started = Instant::now();
        all = write(all, &row);
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    assert_eq!(all.sum().into_scalar::<f32>(), 64.0);
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let device = Device::flex();
    let pair = Tensor::<2, Int>::from_ints([[7]], &device);
    let index = Tensor::<1, Int>::from_ints([7], &device);
    let ratio = |name: &str, write: &dyn Fn(Tensor<2>, &Tensor<2>) -> Tensor<2>| {
        let [small, large] = [1_000, 100_000].map(|rows| time(rows, write));
        println!("{name}: {small:.1} us into 1,000 rows, {large:.1} us into 100,000");
        large / small
    };
    let slice = ratio("slice_assign", &|all, row| all.slice_assign([7..8, 0..64], row.clone()));
    let scatter = ratio("scatter_nd, Assign", &|all, row| {
        all.scatter_nd(pair.clone(), row.clone(), IndexingUpdateOp::Assign)
    });
    let select = ratio("select_assign, Assign", &|all, row| {
        all.select_assign(0, index.clone(), row.clone(), IndexingUpdateOp::Assign)
    });
    let holds = slice < 5.0 && scatter > 10.0 && select < 5.0;
    std::process::exit(if holds { 0 } else { 1 });
}
RUST
cargo build --quiet --release --manifest-path "$folder/Cargo.toml" --target-dir "$folder/target"
"$folder/target/release/show"
