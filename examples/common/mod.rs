//! Output of the examples: numbers and heatmaps in the terminal, pictures in a folder.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each example is a crate of its own and uses what it needs"
)]

mod curves;
mod output;

pub(crate) use curves::{Curves, Series, Style};
pub(crate) use output::{print, print_or_end, println};

use std::error::Error;
use std::io::{IsTerminal, stdout};
use std::path::PathBuf;

use attention_plot::{HeatmapGrid, TerminalColor};
use burn::prelude::*;

/// Prints a tensor `[batch, rows, columns]` as D2L does: nested, with 4 decimals.
pub(crate) fn print_matrices(name: &str, tensor: &Tensor<3>) -> Result<(), Box<dyn Error>> {
    let [_, rows, columns] = tensor.dims();
    let elements = tensor.clone().try_into_vec_as::<f32>()?;
    println!("{name}");
    for matrix in elements.chunks(rows * columns) {
        for (i, row) in matrix.chunks(columns).enumerate() {
            let row: Vec<_> = row.iter().map(|element| format!("{element:7.4}")).collect();
            let open = if i == 0 { "[[" } else { " [" };
            let close = if i + 1 == rows { "]]" } else { "]" };
            println!("  {open}{}{close}", row.join(", "));
        }
    }
    Ok(())
}

// ANCHOR: show_heatmaps
/// Prints weights `[rows, columns, queries, keys]` as heatmaps and saves them as SVG and PNG in [`folder`]: D2L's
/// `show_heatmaps`.
pub(crate) fn show_heatmaps(name: &str, weights: Tensor<4>) -> Result<(), Box<dyn Error>> {
    let shape = weights.dims();
    show_grid(
        name,
        &HeatmapGrid::new(weights.try_into_vec_as::<f32>()?, shape)?,
    )
}
// ANCHOR_END: show_heatmaps

/// Prints heatmaps that have titles and labels already, and saves them as SVG and PNG.
pub(crate) fn show_grid(name: &str, heatmaps: &HeatmapGrid) -> Result<(), Box<dyn Error>> {
    print!("\n{}", heatmaps.to_terminal(terminal_color()));
    save_grid(name, heatmaps)
}

/// Saves heatmaps that are too wide for a terminal, as SVG and PNG.
pub(crate) fn save_grid(name: &str, heatmaps: &HeatmapGrid) -> Result<(), Box<dyn Error>> {
    for extension in ["svg", "png"] {
        let file = folder()?.join(name).with_extension(extension);
        std::fs::write(&file, heatmaps.to_file(&file)?)?;
        println!("saved {}", file.display());
    }
    Ok(())
}

/// Saves curves as SVG.
pub(crate) fn save_curves(name: &str, curves: &Curves) -> Result<(), Box<dyn Error>> {
    let file = folder()?.join(name).with_extension("svg");
    curves.save(&file)?;
    println!("saved {}", file.display());
    Ok(())
}

/// The folder for pictures: the first argument, `target/pictures` by default.
pub(crate) fn folder() -> Result<PathBuf, Box<dyn Error>> {
    let folder = std::env::args_os().nth(1);
    let folder = folder.map_or_else(|| PathBuf::from("target/pictures"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The only element of a tensor.
pub(crate) fn scalar<const D: usize>(tensor: Tensor<D>) -> Result<f32, Box<dyn Error>> {
    Ok(tensor.try_into_scalar::<f32>()?)
}

/// Colours for a terminal, shades for a file.
pub(crate) fn terminal_color() -> TerminalColor {
    if stdout().is_terminal() {
        TerminalColor::Ansi256
    } else {
        TerminalColor::None
    }
}
