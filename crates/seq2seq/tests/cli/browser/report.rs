//! The list of a report.

use super::{output, report};
use crate::chromium::browser;
use crate::json::{list, number, string};
use crate::page::data_of;

#[test]
fn a_report_is_sorted_filtered_and_opened() {
    let Some(mut tab) = browser() else { return };
    let data = data_of(report());
    tab.open(report(), "");
    let items = list(&data["items"]).len();
    let fact = |at: usize| {
        let source = &data["items"][at]["explanations"][0]["source"];
        let output = output(&data, at, 0, None);
        let probability = number(&output["log_probability"]).exp();
        let edits = output["difference"]["edits"].as_u64().unwrap();
        (string(source).to_string(), probability, edits)
    };
    let facts: Vec<(String, f64, u64)> = (0..items).map(fact).collect();
    let sources = |facts: &[(String, f64, u64)]| -> Vec<String> {
        facts.iter().map(|(source, _, _)| source.clone()).collect()
    };
    const LISTED: &str = "#list .source";
    assert_eq!(tab.texts(LISTED), sources(&facts));
    let badges: Vec<String> = tab.texts("#list .edits");
    for (badge, (_, _, edits)) in badges.iter().zip(&facts) {
        let expected = match edits {
            0 => "✓ right".to_string(),
            edits => format!("{edits} edits"),
        };
        assert_eq!(*badge, expected);
    }
    let figures = tab.texts(".figures tbody th");
    let names = ["Exact match", "Sequence error rate", "Token error rate"];
    assert_eq!(figures[..3], names);
    tab.open(report(), "sort=doubt");
    let mut by_doubt = facts.clone();
    by_doubt.sort_by(|a, b| a.1.total_cmp(&b.1));
    assert_eq!(tab.texts(LISTED), sources(&by_doubt));
    tab.open(report(), "sort=confidence");
    by_doubt.reverse();
    assert_eq!(tab.texts(LISTED), sources(&by_doubt));
    tab.open(report(), "sort=right&only=wrong");
    let mut wrong: Vec<_> = facts.iter().filter(|fact| fact.2 > 0).cloned().collect();
    wrong.sort_by_key(|fact| fact.2);
    assert_eq!(tab.texts(LISTED), sources(&wrong));

    tab.open(report(), "");
    // A long one, which is in no other.
    let at = (1..items).max_by_key(|at| facts[*at].0.len()).unwrap();
    let query = facts[at].0.to_uppercase();
    tab.click("#query");
    tab.write(&query);
    assert_eq!(tab.texts(LISTED), [facts[at].0.clone()]);
    assert_eq!(tab.texts("#list .note"), [format!("1 of {items} sources")]);
    assert!(tab.value("location.hash") == format!("#query={query}"));
    tab.click("#list [data-item]");
    assert_eq!(tab.texts("h2"), [facts[at].0.clone()]);
    let hash = format!("#item={}&query={query}", at + 1);
    assert_eq!(tab.value("location.hash"), hash);
    // Its difference to the reference, as the evaluation has aligned it.
    let steps = list(&output(&data, at, 0, None)["difference"]["steps"]);
    let changed = steps.iter().filter(|step| step["edit"] != "match").count();
    let letters = tab.texts(".difference tr:last-child td:not(.match)");
    assert_eq!(letters.len(), changed);
    assert_eq!(tab.texts(".references bdi").len(), 1);
    // The keys of the list.
    tab.open(report(), "");
    tab.click("#list [data-item='0']");
    tab.press("ArrowDown");
    assert_eq!(tab.texts("h2"), [facts[1].0.clone()]);
    assert_eq!(tab.faults(), [""; 0]);
}
