//! Tokens that come again.

use super::table::{A, Table, every_output, scrambled};
use super::{config, search};

/// Beams whose outputs repeat nothing are those of all outputs that repeat nothing; a prefix is no repetition itself.
#[test]
fn no_ngram_comes_twice() {
    let wide = config(4, 300, 300);
    for (size, prefix) in [(1, vec![]), (2, vec![]), (2, vec![A, A, A]), (3, vec![A])] {
        let wide = wide.clone().with_prefix(prefix.clone());
        for seed in 0..5 {
            let table = scrambled(3, seed);
            let mut expected = every_output(&wide, &table);
            expected.retain(|output| {
                let mut seen: Vec<&[u32]> = Vec::new();
                let mut ends = (0..).zip(output.tokens.windows(size));
                ends.all(|(at, ngram)| {
                    let is_new = at + size <= prefix.len() || !seen.contains(&ngram);
                    seen.push(ngram);
                    is_new
                })
            });
            let config = wide.clone().with_no_repeat_ngram_size(size);
            let mut decoding = Table::new(1, &table);
            assert_eq!(search(&config, &mut decoding).remove(0), expected, "{size}");
        }
    }
}

#[test]
fn a_repetition_penalty_is_a_factor_on_log_probabilities() {
    let table = scrambled(3, 1);
    let config = config(4, 300, 300).with_repetition_penalty(1.7);
    for output in search(&config, &mut Table::new(1, &table)).remove(0) {
        let tokens = &output.tokens;
        let factor = |at: usize| [1.0, 1.7][usize::from(tokens[..at].contains(&tokens[at]))];
        let of_token =
            |at: usize| factor(at) * table(&tokens[..at])[1 + (tokens[at] - A) as usize].ln();
        let of_end = match output.ended {
            true => table(tokens)[0].ln(),
            false => 0.0,
        };
        let sum = of_end + (0..tokens.len()).map(of_token).sum::<f64>();
        assert!((output.log_probability - sum).abs() < 1e-9, "{output:?}");
    }
}
