//! A wrong output above its reference.

use attention_seq2seq::evaluation::WrongOutput;
use attention_seq2seq::metrics::Edit;
use unicode_width::UnicodeWidthStr;

use crate::output::escaped;

/// The largest number of columns of an alignment.
const MOST_COLUMNS: usize = 100;

/// A wrong output and its reference, token by token, in the form of NIST's `sclite`: stars where one of them has no
/// token, and below, I, D and S for an insertion, a deletion and a substitution.
pub(super) fn described(wrong: &WrongOutput) -> String {
    let edits = match wrong.edits {
        1 => "1 edit".to_string(),
        edits => format!("{edits} edits"),
    };
    let cut_off = if wrong.is_cut_off { " (cut off)" } else { "" };
    let mut rows = ["output   ", "reference", "         "].map(String::from);
    let columns = columns(wrong);
    for [output, reference, edit] in columns.iter().take(MOST_COLUMNS) {
        // A combining accent has no width of its own.
        let width = output.width().max(reference.width()).max(1);
        for (row, cell) in rows.iter_mut().zip([output, reference, edit]) {
            row.push(' ');
            match cell.as_str() {
                NO_TOKEN => row.push_str(&NO_TOKEN.repeat(width)),
                cell => {
                    row.push_str(cell);
                    row.push_str(&" ".repeat(width.saturating_sub(cell.width())));
                }
            }
        }
    }
    let left_out = match columns.len().saturating_sub(MOST_COLUMNS) {
        0 => "",
        _ => " ..",
    };
    let [output, reference, letters] = rows.map(|row| row.trim_end().to_string() + left_out);
    let letters = letters.trim_end_matches(left_out);
    format!(
        "{edits}: {}{cut_off}\n  {output}\n  {reference}\n  {letters}",
        escaped(&wrong.source)
    )
}

/// A place where an output or a reference has no token.
const NO_TOKEN: &str = "*";

/// The token of the output, the token of the reference and the letter of the edit, for each step of the alignment.
fn columns(wrong: &WrongOutput) -> Vec<[String; 3]> {
    let steps = wrong.alignment().into_iter();
    let columns = steps.map(|step| {
        let letter = match step.edit {
            Edit::Match => "",
            Edit::Substitution => "S",
            Edit::Insertion => "I",
            Edit::Deletion => "D",
        };
        let cell = |token: Option<String>| {
            token.map_or_else(|| NO_TOKEN.to_string(), |token| visible(&token))
        };
        [cell(step.output), cell(step.reference), letter.to_string()]
    });
    columns.collect()
}

/// A token in visible form: the space of a text split into characters becomes an open box, a control character its
/// code.
fn visible(token: &str) -> String {
    escaped(&token.replace(' ', "␣"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(output: &[&str], reference: &[&str]) -> WrongOutput {
        let tokens = |tokens: &[&str]| tokens.iter().map(|it| it.to_string()).collect();
        let aligned = attention_seq2seq::metrics::align(output, reference);
        let edits = aligned.iter().filter(|edit| **edit != Edit::Match);
        WrongOutput {
            source: "cafeteria".to_string(),
            output_text: output.join(" "),
            output: tokens(output),
            is_cut_off: false,
            reference_text: reference.join(" "),
            reference: tokens(reference),
            edits: edits.count(),
        }
    }

    #[test]
    fn tokens_stand_above_each_other() {
        let output = ["K", "AE", "F", "T", "IH", "R", "IY", "AH", "Z"];
        let reference = ["K", "AE", "F", "AH", "T", "IH", "R", "IY", "ER"];
        let lines = [
            "3 edits: cafeteria",
            "  output    K AE F ** T IH R IY AH Z",
            "  reference K AE F AH T IH R IY ** ER",
            "                   D            I  S",
        ];
        assert_eq!(described(&wrong(&output, &reference)), lines.join("\n"));
    }

    #[test]
    fn wide_narrow_and_invisible_tokens_keep_their_columns() {
        let lines = [
            "3 edits: cafeteria",
            "  output    東 ␣ \u{301}  b *",
            "  reference a  ␣ x b c",
            "            S    S   D",
        ];
        let (output, reference) = (["東", " ", "\u{301}", "b"], ["a", " ", "x", "b", "c"]);
        assert_eq!(described(&wrong(&output, &reference)), lines.join("\n"));
    }

    #[test]
    fn a_long_alignment_is_cut_off() {
        let (output, reference) = (["a"; 150], ["b"; 150]);
        let mut long = wrong(&output, &reference);
        long.is_cut_off = true;
        let found = described(&long);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines[0], "150 edits: cafeteria (cut off)");
        assert_eq!(lines[1], format!("  output   {} ..", " a".repeat(100)));
        assert_eq!(lines[3].matches('S').count(), 100);
    }
}
