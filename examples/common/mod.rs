//! How the examples show what they computed.

#![allow(
    dead_code,
    reason = "each example is a crate of its own and uses what it needs"
)]

use std::error::Error;
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};

use attention_plot::{HeatmapGrid, LinePlot, PlotError, TerminalColor};
use burn::prelude::*;

/// Prints `[batch, rows, columns]` as the book does: nested, with 4 decimals.
pub(crate) fn print_matrices(name: &str, tensor: &Tensor<3>) -> Result<(), Box<dyn Error>> {
    let [_, rows, columns] = tensor.dims();
    let numbers = tensor.clone().try_into_vec_as::<f32>()?;
    println!("{name}");
    for matrix in numbers.chunks(rows * columns) {
        for (i, row) in matrix.chunks(columns).enumerate() {
            let row: Vec<_> = row.iter().map(|number| format!("{number:7.4}")).collect();
            let open = if i == 0 { "[[" } else { " [" };
            let close = if i + 1 == rows { "]]" } else { "]" };
            println!("  {open}{}{close}", row.join(", "));
        }
    }
    Ok(())
}

/// The book's `show_heatmaps`: prints weights `[rows, columns, queries, keys]` and saves them as SVG and PNG in the
/// folder that the first argument names, `target/pictures` by default.
pub(crate) fn show_heatmaps(name: &str, weights: Tensor<4>) -> Result<(), Box<dyn Error>> {
    let shape = weights.dims();
    show_grid(
        name,
        &HeatmapGrid::new(weights.try_into_vec_as::<f32>()?, shape)?,
    )
}

/// [`show_heatmaps`] of what has titles and labels of its own.
pub(crate) fn show_grid(name: &str, heatmaps: &HeatmapGrid) -> Result<(), Box<dyn Error>> {
    print!("\n{}", heatmaps.to_terminal(terminal_color()));
    save_grid(name, heatmaps)
}

/// [`show_grid`] of what is too wide for a terminal.
pub(crate) fn save_grid(name: &str, heatmaps: &HeatmapGrid) -> Result<(), Box<dyn Error>> {
    save(name, |file| heatmaps.save(file))
}

/// Saves curves where the heatmaps go, as SVG and PNG.
pub(crate) fn save_curves(name: &str, curves: &LinePlot) -> Result<(), Box<dyn Error>> {
    save(name, |file| curves.save(file))
}

fn save(name: &str, write: impl Fn(&Path) -> Result<(), PlotError>) -> Result<(), Box<dyn Error>> {
    for extension in ["svg", "png"] {
        let file = folder()?.join(name).with_extension(extension);
        write(&file)?;
        println!("saved {}", file.display());
    }
    Ok(())
}

/// The folder that the first argument names, `target/pictures` by default.
pub(crate) fn folder() -> Result<PathBuf, Box<dyn Error>> {
    let folder = std::env::args_os().nth(1);
    let folder = folder.map_or_else(|| PathBuf::from("target/pictures"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The one number of a tensor.
pub(crate) fn scalar<const D: usize>(tensor: Tensor<D>) -> Result<f32, Box<dyn Error>> {
    Ok(tensor.try_into_scalar::<f32>()?)
}

/// Colours for a terminal, shades for a file.
pub(crate) fn terminal_color() -> TerminalColor {
    match stdout().is_terminal() {
        true => TerminalColor::Ansi256,
        false => TerminalColor::None,
    }
}
