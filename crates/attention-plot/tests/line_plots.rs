//! A line plot shows its points where the axes say, and refuses what it cannot show.

#![allow(clippy::unwrap_used)] // A test stops where its data is not as it should be.

mod support;

use std::{collections::BTreeSet, fs};

use attention_plot::{LinePlot, PlotError, SeriesStyle};
use support::{count, decode, names, number};

type Done = Result<(), PlotError>;

/// Units of an SVG's coordinates in a pixel.
const UNITS: usize = 10;

const STYLES: [SeriesStyle; 4] = [
    SeriesStyle::Line,
    SeriesStyle::Points,
    SeriesStyle::LineAndPoints,
    SeriesStyle::Dashes,
];

fn plot<const N: usize>(style: SeriesStyle, x: [f32; N], y: [f32; N]) -> LinePlot {
    LinePlot::new().with_series("", style, x, y).unwrap()
}

/// The middles of the discs, in units.
fn discs(svg: &str) -> Vec<(usize, usize)> {
    svg.lines()
        .filter(|line| line.starts_with("<circle"))
        .map(|line| (number(line, "cx"), number(line, "cy")))
        .collect()
}

/// The corners of each line, in units.
fn lines(svg: &str) -> Vec<Vec<(usize, usize)>> {
    let corner = |text: &str| {
        let (x, y) = text.split_once(',').unwrap();
        (x.parse().unwrap(), y.parse().unwrap())
    };
    svg.lines()
        .filter_map(|line| line.split(" points=\"").nth(1))
        .map(|points| points.split('"').next().unwrap())
        .map(|points| points.split_whitespace().map(corner).collect())
        .collect()
}

/// Where a text stands, in units.
fn place(svg: &str, text: &str) -> (usize, usize) {
    let lines: Vec<_> = svg.lines().collect();
    let at = lines.iter().position(|line| *line == text).unwrap();
    (number(lines[at - 1], "x"), number(lines[at - 1], "y"))
}

#[test]
fn points_stand_where_the_axes_say() -> Done {
    let (x, y) = ([10.0, 20.0, 30.0, 20.0], [-2.0, 1.0, -1.0, 0.0]);
    let svg = plot(SeriesStyle::LineAndPoints, x, y).to_svg()?;
    let discs = discs(&svg);
    assert_eq!(lines(&svg), [&*discs], "in the order in which they came");
    let names = [("10", "-2.0"), ("20", "1.0"), ("30", "-1.0"), ("20", "0.0")];
    for ((x, y), names) in discs.into_iter().zip(names) {
        let (column, _) = place(&svg, names.0);
        let (_, row) = place(&svg, names.1);
        assert!(x.abs_diff(column) <= UNITS, "{names:?}: {x} over {column}");
        assert!(y.abs_diff(row) <= UNITS, "{names:?}: {y} beside {row}");
    }
    Ok(())
}

#[test]
fn titles_and_names_are_shown_once() -> Done {
    let plot = LinePlot::new()
        .with_title("what")
        .with_axis_titles("across", "up")
        .with_series("one", SeriesStyle::Line, [0.0, 1.0], [0.0, 1.0])?
        .with_series("", SeriesStyle::Line, [0.0, 1.0], [1.0, 0.0])?
        .with_series("two", SeriesStyle::Points, [0.5], [0.5])?
        .with_vertical_line("here", 0.25)?
        .with_vertical_line("", 0.75)?;
    let svg = plot.to_svg()?;
    for text in ["what", "across", "up", "one", "two", "here"] {
        assert_eq!(count(&svg, &format!("\n{text}\n")), 1, "{text}");
    }
    assert_eq!(count(&svg, "\n\n"), 0, "nothing without a name");
    // The line of "one" and the disc of "two" stand in the legend too.
    let solid = lines(&svg)
        .into_iter()
        .filter(|line| line[0].0.abs_diff(line[1].0) > 10 * UNITS);
    assert_eq!((solid.count(), discs(&svg).len()), (3, 2));
    let width = |svg: &str| number(svg.lines().next().unwrap(), "width");
    let nameless = self::plot(SeriesStyle::Line, [0.0, 1.0], [0.0, 1.0]).to_svg()?;
    assert!(width(&nameless) + 60 < width(&svg), "no room for a legend");
    Ok(())
}

#[test]
fn what_is_not_finite_is_a_gap() -> Done {
    let x = [0.0, 1.0, 2.0, f32::NAN, 4.0, 5.0, 6.0, 7.0, 8.0];
    let y = [
        0.0,
        1.0,
        2.0,
        3.0,
        4.0,
        f32::INFINITY,
        2.0,
        f32::NEG_INFINITY,
        1e9,
    ];
    let svg = plot(SeriesStyle::Line, x, y).to_svg()?;
    let lengths: Vec<_> = lines(&svg).iter().map(Vec::len).collect();
    assert_eq!(lengths, [3], "the only points with a neighbour");
    assert_eq!(discs(&svg).len(), 3, "and those alone");
    for style in STYLES {
        let broken = plot(style, [f32::NAN, 1.0], [1.0, f32::INFINITY]);
        let svg = broken.to_svg()?;
        assert_eq!((lines(&svg).len(), discs(&svg).len()), (0, 0), "{style:?}");
        assert!(svg.contains("\n0.2\n"), "{style:?}: axes nevertheless");
        decode(&broken.to_png()?);
        // What is left out does not stretch the axes either.
        let some = plot(
            style,
            [1.0, 2.0, 900.0, f32::NAN],
            [3.0, 4.0, f32::NAN, 900.0],
        );
        let all = plot(style, [1.0, 2.0], [3.0, 4.0]);
        let axes = |plot: &LinePlot| -> Result<String, PlotError> {
            let svg = plot.to_svg()?;
            let drawn =
                |line: &&str| !line.starts_with("<polyline") && !line.starts_with("<circle");
            Ok(svg.lines().filter(drawn).collect())
        };
        assert_eq!(axes(&some)?, axes(&all)?, "{style:?}");
    }
    Ok(())
}

#[test]
fn axes_reach_what_they_are_told_to() -> Done {
    let plain = plot(SeriesStyle::Points, [1.0, 2.0], [7.0, 8.0]);
    let names = |svg: &str, name: &str| count(svg, &format!("\n{name}\n"));
    assert_eq!(names(&plain.to_svg()?, "0"), 0);
    let reaching = plain
        .clone()
        .with_y_reaching(0.0)?
        .with_y_reaching(10.0)?
        .to_svg()?;
    let (zero, ten) = (place(&reaching, "0").1, place(&reaching, "10").1);
    for (y, (_, at)) in [7, 8].into_iter().zip(discs(&reaching)) {
        let expected = zero - (zero - ten) * y / 10;
        assert!(
            at.abs_diff(expected) <= UNITS,
            "{y} at {at}, not {expected}"
        );
    }
    let svg = plain.with_vertical_line("", 5.0)?.to_svg()?;
    let column = place(&svg, "5").0;
    let dashes = lines(&svg);
    assert!(dashes.len() > 20);
    let upright = dashes
        .iter()
        .flatten()
        .all(|(x, _)| x.abs_diff(column) <= UNITS);
    assert!(upright, "all over the 5");
    Ok(())
}

#[test]
fn png_is_the_svg_at_two_pixels_a_unit() -> Done {
    let (x, y) = ([0.0, 1.0, 3.0, 4.0], [0.3, -0.2, 0.9, 0.1]);
    let plot = plot(SeriesStyle::LineAndPoints, x, y).with_axis_titles("x", "y");
    let svg = plot.to_svg()?;
    let (width, height, pixels) = decode(&plot.to_png()?);
    let root = svg.lines().next().unwrap();
    assert_eq!(
        (width, height),
        (2 * number(root, "width"), 2 * number(root, "height"))
    );
    let view = format!(
        "viewBox=\"0 0 {} {}\"",
        UNITS * width / 2,
        UNITS * height / 2
    );
    assert!(root.contains(&view), "{root}");

    // The first of the ten colours, at each point and half way to the next.
    let color_at = |(x, y): (usize, usize)| pixels[2 * y / UNITS * width + 2 * x / UNITS];
    let points = discs(&svg);
    let halves = points.windows(2).map(|two| {
        let middle = |a: usize, b: usize| (a + b) / 2;
        (middle(two[0].0, two[1].0), middle(two[0].1, two[1].1))
    });
    for at in points.iter().copied().chain(halves) {
        assert_eq!(color_at(at), [0x4e, 0x79, 0xa7], "{at:?}");
    }
    // A line takes its length times its width, and no more: 1.8 pixels of the SVG, discs of radius 3.
    let length: f64 = points
        .windows(2)
        .map(|two| {
            let across = |a: usize, b: usize| 2.0 * a.abs_diff(b) as f64 / UNITS as f64;
            across(two[0].0, two[1].0).hypot(across(two[0].1, two[1].1))
        })
        .sum();
    let whole = pixels
        .iter()
        .filter(|pixel| **pixel == [0x4e, 0x79, 0xa7])
        .count() as f64;
    assert!(
        (1.8 * length..4.2 * length).contains(&whole),
        "{whole} of {length}"
    );
    Ok(())
}

#[test]
fn dashes_let_through_what_lies_below() -> Done {
    let x = [0.0, 1.0, 2.0];
    let plot = LinePlot::new()
        .with_series("", SeriesStyle::Line, x, [1.0; 3])?
        .with_series("", SeriesStyle::Dashes, x, [1.0; 3])?;
    let (_, _, pixels) = decode(&plot.to_png()?);
    let of = |color: [u8; 3]| pixels.iter().filter(|pixel| **pixel == color).count();
    let (below, above) = (of([0x4e, 0x79, 0xa7]), of([0xf2, 0x8e, 0x2c]));
    assert!(below > 400 && above > 400, "{below} and {above}");

    // Dashes of 5 pixels, 5 apart, are cut along the line, not from point to point.
    let dense: Vec<f32> = (0..1000).map(|at| at as f32).collect();
    let dashed = LinePlot::new().with_series("", SeriesStyle::Dashes, dense.clone(), dense)?;
    let lengths = lines(&dashed.to_svg()?).into_iter().map(|dash| {
        let (from, to) = (dash[0], dash[dash.len() - 1]);
        (from.0.abs_diff(to.0) as f64).hypot(from.1.abs_diff(to.1) as f64) / UNITS as f64
    });
    let lengths: Vec<_> = lengths.collect();
    assert!(lengths.len() > 40, "{}", lengths.len());
    let (last, whole) = lengths.split_last().unwrap();
    assert!(
        whole.iter().all(|length| (length - 5.0).abs() < 0.3) && *last < 5.3,
        "{lengths:?}"
    );
    Ok(())
}

#[test]
fn every_series_has_a_color_of_its_own() -> Done {
    for series in [1, 2, 10, 11, 30] {
        let mut plot = LinePlot::new();
        for at in 0..series {
            plot = plot.with_series("", SeriesStyle::Points, [at as f32], [0.0])?;
        }
        let svg = plot.to_svg()?;
        let circles = svg.lines().filter(|line| line.starts_with("<circle"));
        let colors: BTreeSet<_> = circles
            .filter_map(|line| line.split("fill=\"").nth(1))
            .collect();
        assert_eq!(colors.len(), series);
    }
    Ok(())
}

#[test]
fn markup_and_control_characters_are_made_harmless() -> Done {
    let text = "<b>\"x\" & \n\u{1b}y</b>";
    let svg = LinePlot::new()
        .with_title(text)
        .with_axis_titles(text, text)
        .with_series(text, SeriesStyle::Line, [0.0, 1.0], [0.0, 1.0])?
        .with_vertical_line(text, 0.0)?
        .to_svg()?;
    let shown = "&lt;b&gt;&quot;x&quot; &amp; ⏎\u{fffd}y&lt;/b&gt;";
    assert_eq!((count(&svg, shown), count(&svg, "<b>")), (5, 0));
    Ok(())
}

#[test]
fn long_texts_are_cut_and_extreme_numbers_shown() -> Done {
    let long = "word ".repeat(200);
    let svg = plot(SeriesStyle::Line, [0.0, 1.0], [0.0, 1.0])
        .with_title(long.as_str())
        .with_axis_titles(long.as_str(), long.as_str())
        .with_series(long.as_str(), SeriesStyle::Line, [0.0], [0.0])?
        .to_svg()?;
    assert_eq!(count(&svg, "…\n"), 4);
    assert!(number(svg.lines().next().unwrap(), "width") < 1000);

    for (low, high) in [
        (0.0, 0.0),
        (5.0, 5.0),
        (f32::MIN, f32::MAX),
        (0.0, 1e-45),
        (1e9, 1e9 + 64.0),
    ] {
        for style in STYLES {
            let svg = plot(style, [low, high], [high, low]).to_svg()?;
            let root = svg.lines().next().unwrap();
            let (width, height) = (number(root, "width"), number(root, "height"));
            let inside = |(x, y): &(usize, usize)| *x < width * UNITS && *y < height * UNITS;
            let all: Vec<_> = lines(&svg)
                .into_iter()
                .flatten()
                .chain(discs(&svg))
                .collect();
            assert!(
                !all.is_empty() && all.iter().all(inside),
                "{low} to {high}: {all:?}"
            );
        }
        decode(&plot(SeriesStyle::Line, [low, high], [high, low]).to_png()?);
    }
    Ok(())
}

#[test]
fn what_cannot_be_shown_is_named() -> Done {
    let message = |result: Result<LinePlot, PlotError>| result.unwrap_err().to_string();
    let with = |x: &[f32], y: &[f32]| {
        let (x, y) = (x.to_vec(), y.to_vec());
        plot(SeriesStyle::Line, [0.0], [0.0]).with_series("loss", SeriesStyle::Line, x, y)
    };
    assert_eq!(
        message(with(&[1.0, 2.0, 3.0], &[1.0, 2.0])),
        "series 2 (\"loss\") has 3 x and 2 y; it needs as many of each, and at least one"
    );
    assert!(message(with(&[], &[])).contains("(\"loss\") has 0 x and 0 y"));
    let empty = LinePlot::new().to_svg().unwrap_err().to_string();
    assert_eq!(
        empty,
        "a line plot needs at least one series, but none came; add one with with_series"
    );
    for broken in [f32::NAN, f32::INFINITY] {
        let text = message(LinePlot::new().with_vertical_line("here", broken));
        let expected =
            format!("the vertical line \"here\" needs a finite place, but {broken} came");
        assert_eq!(text, expected);
        let text = message(LinePlot::new().with_y_reaching(broken));
        assert!(
            text.contains("an end of the vertical axis needs a finite place"),
            "{text}"
        );
    }
    let mut many = LinePlot::new();
    for at in 0..4000 {
        many = many.with_series(at.to_string(), SeriesStyle::Points, [0.0], [0.0])?;
    }
    let error = many.to_png().unwrap_err();
    assert!(
        matches!(
            error,
            PlotError::TooLarge {
                height: 70_000..,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("fewer") && error.to_string().contains("series"));
    Ok(())
}

#[test]
fn save_chooses_by_extension_and_writes_all_or_nothing() -> Done {
    let folder = tempfile::tempdir().unwrap();
    let plot = plot(SeriesStyle::Line, [0.0, 1.0], [0.0, 1.0]);
    for (name, start) in [("a.svg", "<svg".as_bytes()), ("b.PNG", b"\x89PNG")] {
        let path = folder.path().join(name);
        fs::write(&path, "what was there before").unwrap();
        LinePlot::new().save(&path).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "what was there before");
        plot.save(&path)?;
        assert!(fs::read(&path).unwrap().starts_with(start), "{name}");
    }
    plot.save_png(folder.path().join("c"))?;
    assert_eq!(fs::read(folder.path().join("c")).unwrap(), plot.to_png()?);
    for name in ["d.html", "d.pdf", "svg"] {
        let message = plot.save(folder.path().join(name)).unwrap_err().to_string();
        assert!(
            message.contains(name) && message.ends_with(": use .svg or .png"),
            "{message}"
        );
    }
    let missing = plot
        .save(folder.path().join("none").join("a.svg"))
        .unwrap_err();
    assert!(
        matches!(missing, PlotError::MissingFolder { .. }),
        "{missing}"
    );
    assert_eq!(names(folder.path()), ["a.svg", "b.PNG", "c"]);
    Ok(())
}
