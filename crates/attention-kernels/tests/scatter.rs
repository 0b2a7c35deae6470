//! Rows added to those of a table, against a plain loop.

#[path = "support/random.rs"]
mod random;

use attention_kernels::add_rows;
use random::Random;

#[test]
fn rows_go_to_their_indices() {
    let mut random = Random::new(1);
    for (count, size) in [(1, 1), (15, 3), (16, 64), (17, 65), (1000, 2)] {
        let lens = [0, 1, 40];
        let indices = lens.map(|len| -> Vec<usize> { (0..len).map(|n| n * 7 % count).collect() });
        let rows =
            lens.map(|len| -> Vec<f64> { (0..len * size).map(|_| random.normal()).collect() });
        let start: Vec<f64> = (0..count * size).map(|_| random.normal()).collect();
        let parts = indices.iter().zip(&rows);
        let parts: Vec<_> = parts
            .map(|(indices, rows)| (&indices[..], &rows[..]))
            .collect();
        let mut table = start.clone();
        add_rows(&parts, size, &mut table);
        let mut expected = start;
        for (indices, rows) in parts {
            for (n, index) in indices.iter().enumerate() {
                for column in 0..size {
                    expected[index * size + column] += rows[n * size + column];
                }
            }
        }
        assert_eq!(table, expected);
    }
}

#[test]
fn a_table_without_rows_or_columns() {
    add_rows::<f32>(&[(&[], &[])], 3, &mut []);
    add_rows::<f32>(&[], 0, &mut []);
    add_rows::<f32>(&[(&[0, 3], &[])], 0, &mut []);
}

#[test]
#[should_panic(expected = "rows to add: indices expected below 2, got 2")]
fn an_index_beyond_the_table_is_refused() {
    add_rows(&[(&[0, 2], &[1.0_f32, 2.0])], 1, &mut [0.0; 2]);
}

#[test]
#[should_panic(expected = "rows to add: rows expected [2, 3]")]
fn rows_of_another_size_are_refused() {
    add_rows(&[(&[0, 1], &[1.0_f32, 2.0])], 3, &mut [0.0; 6]);
}
