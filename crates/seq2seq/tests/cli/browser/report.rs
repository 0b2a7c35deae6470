//! The list of a report.

use super::{output, report, texts};
use crate::chromium::Browser;
use crate::page::data_of;

#[test]
fn a_report_is_sorted_filtered_and_opened() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let data = data_of(report());
    browser.open(report(), "");
    let items = data["items"].as_array().unwrap().len();
    let fact = |at: usize| {
        let source = &data["items"][at]["explanations"][0]["source"];
        let output = output(&data, at, 0, None);
        let probability = output["log_probability"].as_f64().unwrap().exp();
        let edits = output["difference"]["edits"].as_u64().unwrap();
        (source.as_str().unwrap().to_string(), probability, edits)
    };
    let facts: Vec<(String, f64, u64)> = (0..items).map(fact).collect();
    let sources = |facts: &[(String, f64, u64)]| -> Vec<String> {
        facts.iter().map(|(source, _, _)| source.clone()).collect()
    };
    const LISTED: &str = "#list .source";
    assert_eq!(texts(&mut browser, LISTED), sources(&facts));
    let badges: Vec<String> = texts(&mut browser, "#list .edits");
    for (badge, (_, _, edits)) in badges.iter().zip(&facts) {
        let expected = match edits {
            0 => "✓ right".to_string(),
            edits => format!("{edits} edits"),
        };
        assert_eq!(*badge, expected);
    }
    let figures = texts(&mut browser, ".figures tbody th");
    let names = ["Exact match", "Sequence error rate", "Token error rate"];
    assert_eq!(figures[..3], names);
    browser.open(report(), "sort=doubt");
    let mut by_doubt = facts.clone();
    by_doubt.sort_by(|a, b| a.1.total_cmp(&b.1));
    assert_eq!(texts(&mut browser, LISTED), sources(&by_doubt));
    browser.open(report(), "sort=confidence");
    by_doubt.reverse();
    assert_eq!(texts(&mut browser, LISTED), sources(&by_doubt));
    browser.open(report(), "sort=right&only=wrong");
    let mut wrong: Vec<_> = facts.iter().filter(|fact| fact.2 > 0).cloned().collect();
    wrong.sort_by_key(|fact| fact.2);
    assert_eq!(texts(&mut browser, LISTED), sources(&wrong));

    browser.open(report(), "");
    // A long one, which is in no other.
    let at = (1..items).max_by_key(|at| facts[*at].0.len()).unwrap();
    let query = facts[at].0.to_uppercase();
    browser.click("#query");
    browser.write(&query);
    assert_eq!(texts(&mut browser, LISTED), [facts[at].0.clone()]);
    let note = texts(&mut browser, "#list .note");
    assert_eq!(note, [format!("1 of {items} sources")]);
    assert!(browser.value("location.hash") == format!("#query={query}"));
    browser.click("#list [data-item]");
    assert_eq!(texts(&mut browser, "h2"), [facts[at].0.clone()]);
    let hash = format!("#item={}&query={query}", at + 1);
    assert_eq!(browser.value("location.hash"), hash);
    // Its difference to the reference, as the evaluation has aligned it.
    let output = output(&data, at, 0, None);
    let steps = output["difference"]["steps"].as_array().unwrap();
    let changed = steps.iter().filter(|step| step["edit"] != "match").count();
    let letters = texts(&mut browser, ".difference tr:last-child td:not(.match)");
    assert_eq!(letters.len(), changed);
    assert_eq!(texts(&mut browser, ".references bdi").len(), 1);
    // The keys of the list.
    browser.open(report(), "");
    browser.click("#list [data-item='0']");
    browser.press("ArrowDown");
    assert_eq!(texts(&mut browser, "h2"), [facts[1].0.clone()]);
    assert_eq!(browser.faults(), [""; 0]);
}
