//! Tables of cases in the text of a test.

/// The rows of a table: a line each, with ` | ` between the cells, in which `\n`, `\r`, `\t` and `\0` are escapes.
pub(crate) fn rows<const N: usize>(table: &str) -> Vec<[String; N]> {
    let row = |line: &str| {
        let mut cells: Vec<String> = line.split(" | ").map(str::to_string).collect();
        for (escape, character) in [("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t"), ("\\0", "\0")] {
            cells
                .iter_mut()
                .for_each(|cell| *cell = cell.replace(escape, character));
        }
        cells.try_into().expect(line)
    };
    table.trim().lines().map(row).collect()
}
