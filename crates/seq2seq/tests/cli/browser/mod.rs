//! Pages in a browser: they load, show what is pointed at, follow keys and addresses, and ask nothing of a network.
//!
//! These tests are left out where there is no `chromium`.

mod outputs;
mod report;
mod selection;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use crate::chromium::{Browser, browser};
use crate::json::{greedy, list, numbers};
use crate::page::{HOSTILE, attend_to_hostile_texts, data_of};
use crate::program::{Folder, TRAIN_TRANSFORMER, emptied, succeed, trained};

/// A page of two texts, on which a recurrent model stands beside a Transformer.
fn page() -> &'static Path {
    static PAGE: OnceLock<PathBuf> = OnceLock::new();
    PAGE.get_or_init(|| {
        let folder = emptied("page");
        succeed(&folder, &format!("{TRAIN_TRANSFORMER} --heads 2 --out b"));
        let run = trained().0.display();
        let args = format!("attend abcd zyxwvut --output x.html --model {run} --compare b");
        succeed(&folder, &args);
        folder.join("x.html")
    })
}

/// The report of an evaluation of all ten sources.
fn report() -> &'static Path {
    static REPORT: OnceLock<PathBuf> = OnceLock::new();
    REPORT.get_or_init(|| {
        let folder = emptied("report");
        let run = trained().0.display();
        succeed(&folder, &format!("eval --model {run} --report x.html"));
        folder.join("x.html")
    })
}

/// An output in the data of a page.
fn output(data: &Value, item: usize, model: usize, output: Option<usize>) -> &Value {
    let explanation = &data["items"][item]["explanations"][model];
    output.map_or(greedy(explanation), |at| &explanation["outputs"][at])
}

/// The weights of a recurrent model, `[steps][keys]`.
fn weights(output: &Value) -> Vec<Vec<f64>> {
    let weights = numbers(&output["attention"]["weights"]);
    let keys = weights.len() / list(&output["steps"]).len();
    weights.chunks(keys).map(<[f64]>::to_vec).collect()
}

/// The shades of elements in the first panel.
fn shades(tab: &mut Browser, elements: &str) -> Vec<f64> {
    shades_in(tab, 0, elements)
}

/// The shades of elements in the panel of a model.
fn shades_in(tab: &mut Browser, model: usize, elements: &str) -> Vec<f64> {
    let selector = format!("[data-panel='{model}'] {elements}");
    numbers(&tab.value(&format!(
        "[...document.querySelectorAll({selector:?})].map((it) => Number(it.style.getPropertyValue('--w')))"
    )))
}

/// The same numbers, but for the rounding of a sum or of a parser.
#[track_caller]
fn assert_same(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let is_same = (found - expected).abs() < 1e-12;
        assert!(is_same, "at {at}: {found} is not {expected}");
    }
}

/// The places of the elements that are marked: `[step, key]` of each, a null where it has none.
fn marked(tab: &mut Browser, elements: &str) -> Value {
    let selector = in_panel(elements);
    tab.value(&format!(
        "[...document.querySelectorAll({selector:?})].map((it) => [it.dataset.step ?? null, it.dataset.key ?? null]\
         .map((at) => at === null ? null : Number(at)))"
    ))
}

const SOURCE: &str = "[data-group=\"source\"] button";
const TARGET: &str = "[data-group=\"output\"] button";

fn in_panel(selector: &str) -> String {
    format!("[data-panel='0'] {selector}")
}

#[test]
fn a_page_loads_without_a_fault_or_a_request() {
    let Some(mut tab) = browser() else { return };
    for file in [page(), report()] {
        let data = data_of(file);
        tab.open(file, "");
        assert_eq!(tab.value("document.title"), data["title"]);
        let items = list(&data["items"]).len();
        assert_eq!(tab.texts("#list [data-item]").len(), items);
        // A real table, with heads for rows and columns.
        let first = output(&data, 0, 0, None);
        let (steps, keys) = (weights(first).len(), weights(first)[0].len());
        for (selector, count) in [
            (".matrix thead th[scope=col]", keys),
            (".matrix tbody th[scope=row]", steps),
            (".matrix tbody td", steps * keys),
            (".matrix tfoot td", keys),
            (".matrix caption", 1),
            (".steps caption", 1),
            (".steps tbody th[scope=row]", steps),
            (".steps tbody .alternative", 5 * steps),
        ] {
            assert_eq!(tab.texts(&in_panel(selector)).len(), count, "{selector}");
        }
        let cells = tab.texts(&in_panel(".matrix tbody td"));
        for (cell, weight) in cells.iter().zip(weights(first).concat()) {
            let percent: f64 = cell.parse().unwrap();
            assert!((percent - 100.0 * weight).abs() <= 0.51, "{cell} {weight}");
        }
        assert_eq!(tab.faults(), [""; 0]);
    }
}

#[test]
fn markup_in_texts_does_nothing() {
    let Some(mut tab) = browser() else { return };
    let folder = &Folder::new();
    attend_to_hostile_texts(folder);
    let file = folder.join("x.html");
    for (at, text) in HOSTILE.iter().enumerate() {
        tab.open(&file, &format!("item={}", at + 1));
        let shown = text.replace('\u{2028}', "U+2028");
        assert_eq!(tab.texts("h2")[0], shown);
        assert_eq!(tab.texts("#list [aria-current] .source"), [shown]);
        let scripts = tab.value("document.querySelectorAll('script, img').length");
        assert_eq!(scripts, 2);
        assert_eq!(tab.faults(), [""; 0], "{text}");
        let tokens = tab.texts(&in_panel(SOURCE));
        assert_eq!(tokens.len(), text.chars().count());
        match at {
            // Right to left, and the left arrow goes on.
            3 => {
                let direction = tab.value("document.querySelector('[data-group=source]').dir");
                assert_eq!(direction, "rtl");
                tab.click(&in_panel(&format!("{SOURCE}[data-key='0']")));
                tab.press("ArrowLeft");
                assert_eq!(tab.value("document.activeElement.dataset.key"), "1");
                assert!(tokens.contains(&"␣".to_string()));
            }
            4 => assert_eq!(tokens, ["e", "◌\u{301}", "a", "◌\u{308}"]),
            5 => assert_eq!(tokens, ["a", "U+2028", "b"]),
            _ => {}
        }
    }
}

#[test]
fn a_page_is_light_or_dark_and_fits_a_phone() {
    let Some(mut tab) = browser() else { return };
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        tab.prefer(scheme);
        for file in [page(), report()] {
            for width in [360, 700, 1400] {
                tab.size(width, 800);
                tab.open(file, "item=2");
                let beyond = tab.value(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth",
                );
                assert_eq!(beyond, 0, "{} at {width}", file.display());
            }
        }
        grounds.push(tab.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1]);
    assert_eq!(tab.faults(), [""; 0]);
}

#[test]
fn other_data_can_be_rendered_in_the_place_of_the_first() {
    let Some(mut tab) = browser() else { return };
    tab.open(page(), "item=2&step=1");
    let other = data_of(report());
    tab.value(&format!("location.hash = ''; render({other})"));
    assert_eq!(tab.value("document.title"), other["title"]);
    assert_eq!(tab.texts("h2").len(), 1);
    assert_eq!(tab.texts(".panel").len(), 1);
    let source = &other["items"][0]["explanations"][0]["source"];
    assert_eq!(tab.texts("h2")[0], *source);
    // One listener for each event: a key moves by one.
    tab.click(&in_panel(&format!("{SOURCE}[data-key='0']")));
    tab.press("ArrowRight");
    assert_eq!(tab.value("document.activeElement.dataset.key"), "1");
    assert_eq!(tab.faults(), [""; 0]);
}
