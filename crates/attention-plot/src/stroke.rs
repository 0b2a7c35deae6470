//! Lines of any slope as pixels.

use crate::figure::ends;

type Point = (f64, f64);

/// Calls `pixel((x, y), coverage)` once for each pixel that a line through `points`, `width` thick and with round ends
/// and corners, covers wholly or in part. A single point is a disc.
///
/// A pixel's coverage is taken from the distance of its middle to the line; where parts of the line meet, the larger
/// one holds, so corners and crossings are no darker than the rest.
pub(crate) fn stroke(points: &[Point], width: f64, mut pixel: impl FnMut((i32, i32), f32)) {
    if points.is_empty() {
        return;
    }
    // A pixel is out of reach from half its own width beyond the edge.
    let reach = width / 2.0 + 0.5;
    let pixels = |of: fn(&Point) -> f64| {
        let (low, high) = ends(points.iter().map(of));
        (low - reach).floor() as i32..(high + reach).floor() as i32 + 1
    };
    let (columns, rows) = (pixels(|(x, _)| *x), pixels(|(_, y)| *y));
    let mut covered = vec![0.0_f32; columns.len() * rows.len()];
    let disc = points.iter().take(1).map(|point| (*point, *point));
    let parts = points.windows(2).map(|ends| (ends[0], ends[1]));
    for (from, to) in disc.chain(parts) {
        cover(from, to, reach, |(x, y), coverage| {
            let row = (y - rows.start) as usize;
            let known = &mut covered[row * columns.len() + (x - columns.start) as usize];
            *known = known.max(coverage);
        });
    }
    let places = rows.flat_map(|y| columns.clone().map(move |x| (x, y)));
    for (at, coverage) in places.zip(covered) {
        if coverage > 0.0 {
            pixel(at, coverage);
        }
    }
}

/// The pixels of one straight part.
fn cover(from: Point, to: Point, reach: f64, mut pixel: impl FnMut((i32, i32), f32)) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let square = dx * dx + dy * dy;
    let low = |a: f64, b: f64| a.min(b) - reach;
    let high = |a: f64, b: f64| a.max(b) + reach;
    for y in middles(low(from.1, to.1), high(from.1, to.1)) {
        // Where the row of pixels runs through the band around the part, endless on both sides.
        let (mut left, mut right) = (low(from.0, to.0), high(from.0, to.0));
        let middle = from.0 + (y - from.1) * dx / dy;
        let aside = reach * square.sqrt() / dy.abs();
        if middle.is_finite() && aside.is_finite() {
            (left, right) = (left.max(middle - aside), right.min(middle + aside));
        }
        for x in middles(left, right) {
            let along = ((x - from.0) * dx + (y - from.1) * dy) / square;
            let along = if square > 0.0 {
                along.clamp(0.0, 1.0)
            } else {
                0.0
            };
            let (away_x, away_y) = (x - from.0 - along * dx, y - from.1 - along * dy);
            let coverage = (reach - away_x.hypot(away_y)).clamp(0.0, 1.0) as f32;
            if coverage > 0.0 {
                pixel((x.floor() as i32, y.floor() as i32), coverage);
            }
        }
    }
}

/// The middles of the pixels that reach into `low ..= high`.
fn middles(low: f64, high: f64) -> impl Iterator<Item = f64> {
    (low.floor() as i32..=high.floor() as i32).map(|pixel| f64::from(pixel) + 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The covered area, and where it reaches: left, top, right, bottom.
    fn area(points: &[Point], width: f64) -> (f64, [i32; 4]) {
        let (mut sum, mut ends) = (0.0, [i32::MAX, i32::MAX, i32::MIN, i32::MIN]);
        stroke(points, width, |(x, y), coverage| {
            assert!(coverage > 0.0 && coverage <= 1.0, "{coverage}");
            sum += f64::from(coverage);
            let [left, top, right, bottom] = ends;
            ends = [left.min(x), top.min(y), right.max(x), bottom.max(y)];
        });
        (sum, ends)
    }

    #[test]
    fn a_line_covers_its_length_times_its_width_and_its_round_ends() {
        let round = std::f64::consts::PI * 4.0;
        for (to, length) in [
            ((60.0, 20.0), 50.0),
            ((10.0, 70.0), 50.0),
            ((50.0, 50.0), 50.0),
            ((-20.0, 60.0), 50.0),
            ((10.3, 20.0), 0.3),
        ] {
            let (sum, _) = area(&[(10.0, 20.0), to], 4.0);
            let expected = 4.0 * length + round;
            assert!((sum - expected).abs() < 0.03 * expected, "{to:?}: {sum}");
        }
        let (sum, ends) = area(&[(10.0, 20.0)], 4.0);
        assert!((sum - round).abs() < 0.4, "a point is a disc: {sum}");
        assert_eq!(ends, [8, 18, 11, 21]);
    }

    #[test]
    fn what_is_covered_twice_counts_once() {
        let (once, _) = area(&[(5.0, 5.0), (45.0, 35.0)], 3.0);
        let (back, _) = area(&[(5.0, 5.0), (45.0, 35.0), (5.0, 5.0)], 3.0);
        let (parts, _) = area(&[(5.0, 5.0), (25.0, 20.0), (45.0, 35.0)], 3.0);
        assert!((once - back).abs() < 1e-3 && (once - parts).abs() < 1e-3);
    }

    #[test]
    fn nothing_covers_nothing() {
        assert_eq!(area(&[], 3.0).0, 0.0);
    }
}
