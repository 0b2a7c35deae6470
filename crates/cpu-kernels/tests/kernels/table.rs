//! Rows of a table, copied and added to, against plain loops.

use cpu_kernels::{Matrix, add_rows, copy_rows};

use crate::calls::refuses;
use crate::random::Random;

#[test]
fn rows_go_to_their_indices() {
    let mut random = Random::new(1);
    for (count, size) in [(1, 1), (15, 3), (16, 64), (17, 65), (1000, 2)] {
        let lens = [0, 1, 40];
        let indices = lens.map(|len| -> Vec<usize> { (0..len).map(|n| n * 7 % count).collect() });
        let mut draw = |len: usize| -> Vec<f64> { (0..len).map(|_| random.normal()).collect() };
        let (rows, start) = (lens.map(|len| draw(len * size)), draw(count * size));
        let pairs = indices.iter().zip(&rows);
        let parts: Vec<_> = pairs.map(|(i, rows)| (&i[..], &rows[..])).collect();
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
fn rows_are_copied_from_their_indices() {
    let mut random = Random::new(2);
    for (count, size, stride, len) in [(1, 1, 1, 1), (15, 3, 5, 40), (7, 1000, 1000, 99)] {
        let table: Vec<f64> = (0..count * stride).map(|_| random.normal()).collect();
        let indices: Vec<usize> = (0..len).map(|n| n * 7 % count).collect();
        let mut rows = vec![f64::NAN; len * size];
        let matrix = Matrix::strided(&table, [count, size], stride);
        copy_rows(matrix, &indices, &mut rows);
        let expected = indices.iter().map(|index| &table[index * stride..][..size]);
        assert_eq!(rows, expected.collect::<Vec<_>>().concat());
    }
}

#[test]
fn a_table_without_rows_or_columns() {
    copy_rows::<f32>(Matrix::new(&[], [0, 3]), &[], &mut []);
    copy_rows::<f32>(Matrix::new(&[], [4, 0]), &[3, 0], &mut []);
    add_rows::<f32>(&[(&[], &[])], 3, &mut []);
    add_rows::<f32>(&[], 0, &mut []);
    add_rows::<f32>(&[(&[0, 3], &[])], 0, &mut []);
}

#[test]
fn what_does_not_fit_is_refused() {
    let two = [1.0_f32, 2.0];
    let table = Matrix::new(&two, [2, 1]);
    let beyond = "rows of a table: indices expected below 2, got 2";
    refuses(beyond, || add_rows(&[(&[0, 2], &two)], 1, &mut [0.0; 2]));
    refuses(beyond, || copy_rows(table, &[0, 2], &mut [0.0; 2]));
    refuses("rows of a table: copies expected [1, 1]", || {
        copy_rows(table, &[0], &mut [0.0; 2]);
    });
    refuses("rows of a table: rows to add expected [2, 3]", || {
        add_rows(&[(&[0, 1], &two)], 3, &mut [0.0; 6]);
    });
}
