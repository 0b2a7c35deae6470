//! Options of pages that do not fit each other.

use super::data_of;
use crate::program::{Folder, fail, misuse, number_pairs, rows, succeed, trained};

#[test]
fn options_that_do_not_fit_are_refused() {
    let (run, _) = trained();
    let table = "
attend abc --n-best 2 | --n-best: expected --output FILE.html, a page, found no --output
attend abc --beam 2 --output x.svg | --beam: expected --output FILE.html, a page, found --output x.svg
attend abc --compare . --output x.png | --compare: expected --output FILE.html, a page, found --output x.png
attend abc cab --output x.svg | the picture x.svg: expected one text (a page, .html, shows several), found 2
attend abc --n-best 0 --output x.html | the beam: expected 1 to 10000, found 0
attend abc --compare missing --output x.html | missing
eval --report x.svg | --report: expected a name that ends in .html, found x.svg
eval --report x.html --report-items 0 | the number of items in a report: expected at least 1, found 0
";
    for [args, message] in rows(table) {
        fail(run, &format!("{args} --model ."), message);
    }
    for args in ["eval --report-items 3", "eval --compare x", "attend"] {
        misuse(args, "required arguments were not provided");
    }
    // Without a page, each text has its heatmap.
    let both = succeed(run, "attend abc cab --model .");
    let each = ["abc", "cab"].map(|text| succeed(run, &format!("attend {text} --model .")));
    assert_eq!(both, each.join("\n"));
}

#[test]
fn a_model_of_other_tokens_is_no_comparison() {
    let folder = &Folder::new();
    folder.write("pairs.tsv", number_pairs());
    for (out, tokens) in [("a", "chars"), ("b", "spaces")] {
        let args = format!(
            "train --data pairs.tsv --source-tokens {tokens} --target-tokens chars --out {out} --hidden 8 \
             --embedding 4 --epochs 1 --threads 1"
        );
        succeed(folder, &args);
    }
    let message = "the source tokens of the model to compare with: expected chars of nfc, as in the first, found \
                   spaces of nfc";
    let args = "eval --model a --compare b --report x.html";
    fail(folder, args, message);
    // On a page each reads a text by itself.
    succeed(folder, "attend 0101 --model a --compare b --output x.html");
    let data = data_of(&folder.join("x.html"));
    let tokens = |model: usize| data["items"][0]["explanations"][model]["tokens"].clone();
    assert_eq!(tokens(0), serde_json::json!(["0", "1", "0", "1"]));
    assert_eq!(tokens(1), serde_json::json!(["0101"]));
}
