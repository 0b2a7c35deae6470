//! Formats by the names of files, and errors that say what to change.

use attention_plot::{HeatmapGrid, PlotError};

use crate::support::Done;

#[test]
fn a_file_has_the_format_of_its_name() -> Done {
    let heatmap = HeatmapGrid::single(vec![0.25, 0.75], [1, 2])?;
    for (name, start) in [
        ("a.svg", "<svg".as_bytes()),
        ("b.PNG", b"\x89PNG"),
        ("c.html", b"<!DOCTYPE html>"),
        ("d.htm", b"<!DOCTYPE html>"),
    ] {
        assert!(heatmap.to_file(name)?.starts_with(start), "{name}");
    }
    for name in ["plot.pdf", "plot", "svg"] {
        let message = heatmap.to_file(name).unwrap_err().to_string();
        for part in [name, ".svg", ".png", ".html"] {
            assert!(message.contains(part), "{message}");
        }
    }
    Ok(())
}

#[test]
fn wrong_sizes_are_named() {
    let message = |result: Result<HeatmapGrid, PlotError>| result.unwrap_err().to_string();
    let heatmap_of = |count: usize, shape| HeatmapGrid::single(vec![0.0; count], shape);
    let grid = || HeatmapGrid::new(vec![0.0; 12], [1, 2, 2, 3]).unwrap();
    #[rustfmt::skip]
    let whole = [
        (heatmap_of(5, [2, 3]), "weights of shape [2, 3] need 6 values, but 5 came"),
        (heatmap_of(0, [2, 0]), "weights of shape [2, 0] have no keys; every axis needs at least one entry"),
        (grid().with_key_labels(["a", "b"]), "keys labels: 3 are needed, one for each of the keys, but 2 came"),
    ];
    for (result, expected) in whole {
        assert_eq!(message(result), expected);
    }
    #[rustfmt::skip]
    let parts = [
        (HeatmapGrid::new(vec![], [1, 0, 2, 2]), "no columns"),
        (HeatmapGrid::new(vec![0.0], [usize::MAX, 2, 2, 2]), "but 1 came"),
        (grid().with_query_labels(["a"]), "queries labels: 2 are needed"),
        (grid().with_titles(["a", "b", "c"]), "one for each of the columns, but 3 came"),
        (grid().with_range(1.0, 1.0), "1 to 1 came"),
        (grid().with_range(0.0, f32::NAN), "finite"),
    ];
    for (result, part) in parts {
        let message = message(result);
        assert!(message.contains(part), "{message}");
    }
}
