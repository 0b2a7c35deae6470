//! Errors say what to change, and a failed save leaves nothing behind.

use std::{fs, path::Path};

use attention_plot::{Heatmap, HeatmapGrid, PlotError};

use crate::support::{Done, names};

fn heatmap() -> Heatmap {
    Heatmap::new(vec![0.25, 0.75], [1, 2]).unwrap()
}

#[test]
fn save_chooses_by_extension() -> Done {
    let folder = tempfile::tempdir().unwrap();
    for (name, start) in [
        ("a.svg", "<svg".as_bytes()),
        ("b.PNG", b"\x89PNG"),
        ("c.html", b"<!DOCTYPE html>"),
        ("d.htm", b"<!DOCTYPE html>"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, "what was there before").unwrap();
        heatmap().save(&path)?;
        assert!(fs::read(&path).unwrap().starts_with(start), "{name}");
    }
    heatmap().save_svg(folder.path().join("no extension"))?;
    assert_eq!(
        names(folder.path()),
        ["a.svg", "b.PNG", "c.html", "d.htm", "no extension"]
    );
    Ok(())
}

#[test]
fn unknown_formats_are_named_with_the_known_ones() {
    for name in ["plot.pdf", "plot", "svg"] {
        let message = heatmap().save(name).unwrap_err().to_string();
        for part in [name, ".svg", ".png", ".html"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures").join("plot.png");
    let message = heatmap().save(&path).unwrap_err().to_string();
    assert!(message.contains("figures does not exist"), "{message}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn failed_save_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    // A folder of that name: the last step, the rename, fails.
    let path = folder.path().join("plot.svg");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("kept"), "kept").unwrap();
    let error = heatmap().save(&path).unwrap_err();
    assert!(matches!(error, PlotError::Io { .. }), "{error}");
    assert!(error.to_string().contains("plot.svg"), "{error}");
    assert_eq!(
        names(folder.path()),
        ["plot.svg"],
        "no temporary file is left"
    );
    assert_eq!(fs::read_to_string(path.join("kept")).unwrap(), "kept");
    assert!(heatmap().save_svg("..").is_err());
}

#[test]
fn concurrent_saves_never_mix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plot.svg");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| heatmap().save(&path).unwrap());
        }
    });
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        heatmap().to_svg().unwrap()
    );
    assert_eq!(names(folder.path()), ["plot.svg"]);
}

#[test]
fn a_name_may_be_as_long_as_the_system_allows() {
    let folder = tempfile::tempdir().unwrap();
    let name = "n".repeat(255);
    heatmap().save_svg(folder.path().join(&name)).unwrap();
    assert_eq!(names(folder.path()), [name]);
}

#[cfg(unix)]
#[test]
fn a_saved_figure_has_the_permissions_of_a_new_file() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let (plain, path) = (folder.path().join("plain"), folder.path().join("a.txt"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    fs::write(&plain, "").unwrap();
    heatmap().save_svg(&path).unwrap();
    assert_eq!(mode(&path), mode(&plain));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    heatmap().save_svg(&path).unwrap();
    assert_eq!(mode(&path), mode(&plain));
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_is_replaced_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::write(&target, "kept").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    heatmap().save_svg(&link).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    assert!(fs::read_to_string(&link).unwrap().starts_with("<svg"));
    assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn wrong_sizes_are_named() {
    let message = |result: Result<HeatmapGrid, PlotError>| result.unwrap_err().to_string();
    let heatmap_of =
        |count: usize, shape| Heatmap::new(vec![0.0; count], shape).map(HeatmapGrid::from);
    let grid = || HeatmapGrid::new(vec![0.0; 12], [1, 2, 2, 3]).unwrap();

    let text = message(heatmap_of(5, [2, 3]));
    assert_eq!(text, "weights of shape [2, 3] need 6 values, but 5 came");
    let text = message(heatmap_of(0, [2, 0]));
    assert_eq!(
        text,
        "weights of shape [2, 0] have no keys; every axis needs at least one entry"
    );
    assert!(message(HeatmapGrid::new(vec![], [1, 0, 2, 2])).contains("no columns"));
    assert!(message(HeatmapGrid::new(vec![0.0], [usize::MAX, 2, 2, 2])).contains("but 1 came"));

    let text = message(grid().with_key_labels(["a", "b"]));
    assert_eq!(
        text,
        "keys labels: 3 are needed, one for each of the keys, but 2 came"
    );
    assert!(message(grid().with_query_labels(["a"])).contains("queries labels: 2 are needed"));
    assert!(
        message(grid().with_titles(["a", "b", "c"]))
            .contains("one for each of the columns, but 3 came")
    );
    assert!(message(grid().with_range(1.0, 1.0)).contains("1 to 1 came"));
    assert!(message(grid().with_range(0.0, f32::NAN)).contains("finite"));
}
