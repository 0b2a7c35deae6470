//! A grid of heatmaps as one HTML page.

use std::fmt::Write;

use super::{HeatmapGrid, draw::GridFigure, grid::names, layout::Layout};
use crate::{PlotError, canvas::Area, font::Face, svg, text::escape};

const STYLE: &str = "body{margin:2em;font-family:sans-serif;background:#fff}\
    svg{max-width:100%;height:auto}\
    .cells rect{fill:transparent}.cells rect:hover{stroke:#000;stroke-width:1.5}";

/// The SVG with a transparent rectangle over each cell, or in a large figure over each row, whose `<title>` browsers
/// show under the pointer.
pub(crate) fn page(grid: &HeatmapGrid) -> Result<String, PlotError> {
    let layout = &Layout::new(grid, &Face::load("HTML")?)?;
    let svg = svg::svg(&GridFigure { grid, layout });
    let picture = svg.trim_end().strip_suffix("</svg>").unwrap_or(&svg);
    let title = match grid.titles.as_slice() {
        [title] if !title.is_empty() => escape(title),
        _ => "Attention weights".into(),
    };
    let cells = tooltips(grid, layout);
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n{picture}<g class=\"cells\">\n{cells}</g>\n</svg>\n</body>\n</html>\n"
    ))
}

fn tooltips(grid: &HeatmapGrid, layout: &Layout) -> String {
    let [rows, columns, queries, keys] = grid.shape();
    let escaped =
        |names: Vec<String>| -> Vec<_> { names.iter().map(|name| escape(name)).collect() };
    let query_names = escaped(names(&grid.query_labels, queries));
    let key_names = escaped(names(&grid.key_labels, keys));
    let mut out = String::new();
    let mut add = |area: Area, query: &str, key: &str, weight: f32| {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<rect {}><title>query: {query}\nkey: {key}\nweight: {weight:.3}</title></rect>",
            svg::edges(area)
        );
    };
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let (panel, weights) = (layout.panel(row, column), grid.panel(row, column));
        let mut areas = layout.cells(row, column);
        for (query, weights) in query_names.iter().zip(weights.chunks(keys)) {
            let areas: Vec<Area> = areas.by_ref().take(keys).collect();
            if grid.is_large() {
                let largest = (0..keys).max_by(|a, b| weights[*a].total_cmp(&weights[*b]));
                let key = largest.unwrap_or(0);
                let width = panel.width;
                let row = Area { width, ..areas[0] };
                add(row, query, &key_names[key], weights[key]);
                continue;
            }
            for ((area, key), weight) in areas.into_iter().zip(&key_names).zip(weights) {
                add(area, query, key, *weight);
            }
        }
    }
    out
}
