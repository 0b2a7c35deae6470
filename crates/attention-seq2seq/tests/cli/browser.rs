//! Pages in a browser: they load, show what is pointed at, follow keys and addresses, and ask nothing of a network.
//!
//! These tests are left out where there is no `chromium`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chromium::Browser;
use crate::page::{HOSTILE, data_of, train_on_hostile_texts};
use crate::program::{succeed, train_args, trained};

/// A page of two texts, on which a recurrent model stands beside a Transformer.
fn page() -> &'static Path {
    static PAGE: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, file) = PAGE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let args = "train reverse --model transformer --out b --train-pairs 64 --valid-pairs 10 --batch-size 32 \
                    --hidden 8 --heads 2 --epochs 1 --threads 1";
        succeed(folder.path(), &args.split_whitespace().collect::<Vec<_>>());
        let run = trained().0.to_str().unwrap();
        let args = [
            "attend", "abcd", "zyxwvut", "--model", run, "--compare", "b", "--output", "x.html",
        ];
        succeed(folder.path(), &args);
        let file = folder.path().join("x.html");
        (folder, file)
    });
    file
}

/// The report of an evaluation of all ten sources.
fn report() -> &'static Path {
    static REPORT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, file) = REPORT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        succeed(folder.path(), &train_args("reverse", "2", &["--out", "run"]));
        let args = ["eval", "--model", "run", "--report", "x.html"];
        succeed(folder.path(), &args);
        let file = folder.path().join("x.html");
        (folder, file)
    });
    file
}

/// An output in the data of a page.
fn output(data: &Value, item: usize, model: usize, output: Option<usize>) -> &Value {
    let explanation = &data["items"][item]["explanations"][model];
    let greedy = explanation["greedy"].as_u64().unwrap() as usize;
    &explanation["outputs"][output.unwrap_or(greedy)]
}

/// The weights of a recurrent model, `[steps][keys]`.
fn weights(output: &Value) -> Vec<Vec<f64>> {
    let weights = output["attention"]["weights"].as_array().unwrap();
    let weights: Vec<f64> = weights.iter().map(|it| it.as_f64().unwrap()).collect();
    let keys = weights.len() / output["steps"].as_array().unwrap().len();
    weights.chunks(keys).map(<[f64]>::to_vec).collect()
}

/// The shades of elements in the first panel.
fn shades(browser: &mut Browser, elements: &str) -> Vec<f64> {
    let shades = browser.value(&format!(
        "[...document.querySelectorAll('[data-panel=\"0\"] {elements}')]\
         .map((it) => Number(it.style.getPropertyValue('--w')))"
    ));
    let shades = shades.as_array().unwrap().iter();
    shades.map(|it| it.as_f64().unwrap()).collect()
}

/// The places of the elements that are marked: `[step, key]` of each, a null where it has none.
fn marked(browser: &mut Browser, elements: &str) -> Value {
    browser.value(&format!(
        "[...document.querySelectorAll('[data-panel=\"0\"] {elements}')]\
         .map((it) => [it.dataset.step ?? null, it.dataset.key ?? null].map((at) => at === null ? null : Number(at)))"
    ))
}

fn texts(browser: &mut Browser, selector: &str) -> Vec<String> {
    let texts = browser.value(&format!(
        "[...document.querySelectorAll({selector:?})].map((it) => it.textContent)"
    ));
    let texts = texts.as_array().unwrap().iter();
    texts.map(|it| it.as_str().unwrap().to_string()).collect()
}

const SOURCE: &str = "[data-group=\"source\"] button";
const TARGET: &str = "[data-group=\"output\"] button";

fn in_panel(selector: &str) -> String {
    format!("[data-panel='0'] {selector}")
}

#[test]
fn a_page_loads_without_a_fault_or_a_request() {
    let Some(mut browser) = Browser::start() else { return };
    for file in [page(), report()] {
        let data = data_of(file);
        browser.open(file, "");
        assert_eq!(browser.value("document.title"), data["title"]);
        let items = data["items"].as_array().unwrap().len();
        assert_eq!(texts(&mut browser, "#list [data-item]").len(), items);
        // A real table, with heads for rows and columns.
        let first = output(&data, 0, 0, None);
        let (steps, keys) = (weights(first).len(), weights(first)[0].len());
        for (selector, count) in [
            (".matrix thead th[scope=col]", keys),
            (".matrix tbody th[scope=row]", steps),
            (".matrix tbody td", steps * keys),
            (".matrix tfoot td", keys),
            (".matrix caption, .steps caption", 2),
            (".steps tbody th[scope=row]", steps),
            (".steps tbody .alternative", 5 * steps),
        ] {
            assert_eq!(texts(&mut browser, &in_panel(selector)).len(), count, "{selector}");
        }
        let cells = texts(&mut browser, &in_panel(".matrix tbody td"));
        for (cell, weight) in cells.iter().zip(weights(first).concat()) {
            let percent: f64 = cell.parse().unwrap();
            assert!((percent - 100.0 * weight).abs() <= 0.51, "{cell} {weight}");
        }
        assert_eq!(browser.faults(), [""; 0]);
    }
}

#[test]
fn a_token_that_is_pointed_at_shades_those_of_the_other_side() {
    let Some(mut browser) = Browser::start() else { return };
    let data = data_of(page());
    browser.open(page(), "");
    let weights = weights(output(&data, 0, 0, None));
    let nothing = json!([]);
    for (step, row) in weights.iter().enumerate().take(3) {
        browser.point_at(&in_panel(&format!("{TARGET}[data-step='{step}']")));
        assert_eq!(shades(&mut browser, SOURCE), *row);
        assert_eq!(marked(&mut browser, &format!("{TARGET}.on")), json!([[step, null]]));
        assert_eq!(marked(&mut browser, &format!("{SOURCE}.on")), nothing);
        let expected: Vec<_> = (0..row.len()).map(|key| json!([step, key])).collect();
        assert_eq!(marked(&mut browser, ".matrix tbody td.on"), json!(expected));
        let rows = texts(&mut browser, &in_panel(".steps tr.on"));
        assert_eq!(rows.len(), 1);
    }
    for key in [0, 2] {
        browser.point_at(&in_panel(&format!("{SOURCE}[data-key='{key}']")));
        let column: Vec<f64> = weights.iter().map(|row| row[key]).collect();
        assert_eq!(shades(&mut browser, TARGET), column);
        assert_eq!(marked(&mut browser, &format!("{SOURCE}.on")), json!([[null, key]]));
        let expected: Vec<_> = (0..weights.len()).map(|step| json!([step, key])).collect();
        assert_eq!(marked(&mut browser, ".matrix tbody td.on"), json!(expected));
        // The other model reads the same token.
        let other = texts(&mut browser, "[data-panel='1'] [data-group=source] .on");
        assert_eq!(other, ["abcd"[key..=key].to_string()]);
    }
    // A cell of the matrix is a token of either side.
    browser.point_at(&in_panel(".matrix td[data-step='1'][data-key='3']"));
    assert_eq!(marked(&mut browser, &format!("{TARGET}.on")), json!([[1, null]]));
    assert_eq!(marked(&mut browser, &format!("{SOURCE}.on")), json!([[null, 3]]));
    assert_eq!(shades(&mut browser, SOURCE), weights[1]);
    let said = texts(&mut browser, &in_panel(".readout"));
    assert!(said[0].contains(&format!("weight of {:.3}", weights[1][3])), "{said:?}");
    // Nothing is pointed at any more, and nothing was chosen.
    browser.mouse("mouseMoved", [2.0, 2.0]);
    assert_eq!(shades(&mut browser, SOURCE), [0.0; 4]);
    assert_eq!(browser.value("location.hash"), "");
    assert_eq!(browser.faults(), [""; 0]);
}

#[test]
fn arrow_keys_move_the_selection_which_the_address_keeps() {
    let Some(mut browser) = Browser::start() else { return };
    let data = data_of(page());
    browser.open(page(), "");
    let weights = weights(output(&data, 0, 0, None));
    let largest = |values: &[f64]| {
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        values.iter().position(|it| *it == most).unwrap()
    };
    let focused = |browser: &mut Browser| {
        browser.value(
            "[document.activeElement.closest('[data-group]').dataset.group, \
             ...['step', 'key'].map((it) => Number(document.activeElement.dataset[it] ?? -1))]",
        )
    };
    browser.click(&in_panel(&format!("{TARGET}[data-step='0']")));
    browser.press("ArrowRight");
    assert_eq!(focused(&mut browser), json!(["output", 1, -1]));
    assert_eq!(browser.value("location.hash"), "#step=1");
    browser.mouse("mouseMoved", [2.0, 2.0]);
    assert_eq!(shades(&mut browser, SOURCE), weights[1]);
    // The focus is seen.
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(browser.value(outline), "solid");

    browser.press("ArrowUp");
    let key = largest(&weights[1]);
    assert_eq!(focused(&mut browser), json!(["source", -1, key]));
    assert_eq!(browser.value("location.hash"), format!("#key={key}"));
    browser.press("End");
    assert_eq!(focused(&mut browser), json!(["source", -1, 3]));
    browser.press("ArrowRight");
    browser.press("ArrowDown");
    let column: Vec<f64> = weights.iter().map(|row| row[3]).collect();
    assert_eq!(focused(&mut browser), json!(["output", largest(&column), -1]));

    browser.click(&in_panel(".matrix td[data-step='0'][data-key='1']"));
    browser.press("ArrowDown");
    browser.press("ArrowRight");
    assert_eq!(focused(&mut browser), json!(["matrix", 1, 2]));
    assert_eq!(browser.value("location.hash"), "#step=1&key=2");
    let at = marked(&mut browser, ".matrix tr.on td.on[data-key='2']");
    assert_eq!(at, json!([[1, 2]]));
    // From the list of steps, too; Tab goes to one place in each.
    browser.press("Tab");
    assert_eq!(focused(&mut browser), json!(["steps", 1, -1]));
    browser.press("ArrowDown");
    assert_eq!(focused(&mut browser), json!(["steps", 2, -1]));
    browser.press("Escape");
    assert_eq!(browser.value("location.hash"), "");
    assert_eq!(marked(&mut browser, "button.on"), json!([]));
    assert_eq!(browser.faults(), [""; 0]);
}

#[test]
fn an_address_opens_what_it_says() {
    let Some(mut browser) = Browser::start() else { return };
    let data = data_of(page());
    browser.open(page(), "item=2&output=1,&step=1&key=0");
    assert_eq!(texts(&mut browser, "h2"), ["zyxwvut"]);
    let second = output(&data, 1, 0, Some(1));
    assert_eq!(shades(&mut browser, SOURCE), weights(second)[1]);
    assert_eq!(texts(&mut browser, "#list [aria-current] .source"), ["zyxwvut"]);
    browser.value("location.hash = 'item=1'");
    assert_eq!(browser.faults(), [""; 0]);
    assert_eq!(texts(&mut browser, "h2"), ["abcd"]);
    // Addresses that make no sense are as if they were not there.
    for hash in ["item=99&step=99&key=99&panel=7&output=77,x", "step=-1&key=1e3&head=9&layer=9", "%ff&&=&sort=x"] {
        browser.open(page(), hash);
        assert_eq!(texts(&mut browser, "h2"), ["abcd"], "{hash}");
        assert_eq!(texts(&mut browser, ".matrix").len(), 2, "{hash}");
        assert_eq!(browser.faults(), [""; 0], "{hash}");
    }
}

#[test]
fn another_output_swaps_tokens_alternatives_and_attention() {
    let Some(mut browser) = Browser::start() else { return };
    let data = data_of(page());
    browser.open(page(), "");
    let count = data["items"][0]["explanations"][0]["outputs"].as_array().unwrap().len();
    assert_eq!(texts(&mut browser, &in_panel(".outputs input")).len(), count);
    for chosen in [1, 2, 0] {
        browser.click(&format!("#output-0-{chosen}"));
        let expected = output(&data, 0, 0, Some(chosen));
        let logarithm = texts(&mut browser, &in_panel(".outputs label:has(:checked) .log"));
        let probability = expected["log_probability"].as_f64().unwrap();
        assert_eq!(logarithm, [format!("{probability:.3}").replace('-', "−")]);
        let steps = expected["steps"].as_array().unwrap();
        let tokens: Vec<&str> = steps.iter().map(|step| step["token"].as_str().unwrap()).collect();
        assert_eq!(texts(&mut browser, &in_panel(TARGET)), tokens);
        let best: Vec<&str> = steps.iter().map(|step| step["alternatives"][0][0].as_str().unwrap()).collect();
        assert_eq!(texts(&mut browser, &in_panel(".steps tr > td:nth-child(4) bdi")), best);
        let entropies: Vec<String> = steps
            .iter()
            .map(|step| format!("{:.2}", step["entropy"].as_f64().unwrap()))
            .collect();
        assert_eq!(texts(&mut browser, &in_panel(".steps .entropy")), entropies);
        assert_eq!(shades(&mut browser, ".matrix tbody td"), weights(expected).concat());
        // Tokens of low confidence are marked.
        let low: Vec<Value> = (0..steps.len())
            .filter(|at| steps[*at]["log_probability"].as_f64().unwrap().exp() < 0.5)
            .map(|at| json!([at, null]))
            .collect();
        assert_eq!(marked(&mut browser, &format!("{TARGET}.low")), json!(low));
        assert!(!low.is_empty());
        // The occlusion of the output, and then of a step.
        let changes = &expected["occlusion"];
        let dropped = |browser: &mut Browser| texts(browser, &in_panel(".occlusion td"));
        let near = |found: &[String], expected: &dyn Fn(usize) -> f64| {
            for (key, text) in found.iter().enumerate() {
                let value: f64 = text.replace('−', "-").parse().unwrap();
                assert!((value - expected(key)).abs() < 0.51, "{text}");
                assert!(expected(key).abs() > 9.9 || (value - expected(key)).abs() < 0.051, "{text}");
            }
        };
        browser.mouse("mouseMoved", [2.0, 2.0]);
        near(&dropped(&mut browser), &|key| changes["output"][key].as_f64().unwrap());
        browser.point_at(&in_panel(&format!("{TARGET}[data-step='1']")));
        near(&dropped(&mut browser), &|key| changes["steps"][key * steps.len() + 1].as_f64().unwrap());
    }
    assert_eq!(browser.faults(), [""; 0]);
}

#[test]
fn heads_and_layers_are_chosen() {
    let Some(mut browser) = Browser::start() else { return };
    let data = data_of(page());
    browser.open(page(), "");
    let of_second = |browser: &mut Browser| {
        let cells = browser.value(
            "[...document.querySelectorAll('[data-panel=\"1\"] .matrix tbody td')]\
             .map((it) => Number(it.style.getPropertyValue('--w')))",
        );
        let cells = cells.as_array().unwrap().iter();
        cells.map(|it| it.as_f64().unwrap()).collect::<Vec<f64>>()
    };
    let choose = |browser: &mut Browser, id: &str, value: &str| {
        browser.value(&format!(
            "(() => {{ const it = document.getElementById({id:?}); it.value = {value:?}; \
             it.dispatchEvent(new Event('change')); }})()"
        ));
    };
    let all = weights(output(&data, 0, 1, None)).concat();
    let heads: Vec<&[f64]> = all.chunks(all.len() / 4).collect();
    let mean: Vec<f64> = heads[2].iter().zip(heads[3]).map(|(a, b)| (a + b) / 2.0).collect();
    assert_eq!(of_second(&mut browser), mean);
    choose(&mut browser, "head", "2");
    assert_eq!(of_second(&mut browser), heads[3]);
    choose(&mut browser, "layer", "1");
    assert_eq!(of_second(&mut browser), heads[1]);
    assert_eq!(browser.value("location.hash"), "#layer=1&head=2");
    choose(&mut browser, "head", "0");
    assert_eq!(browser.value("location.hash"), "#layer=1");
    // The recurrent model beside it has one.
    assert_eq!(shades(&mut browser, ".matrix tbody td"), weights(output(&data, 0, 0, None)).concat());
    assert_eq!(browser.faults(), [""; 0]);
}

#[test]
fn a_report_is_sorted_filtered_and_opened() {
    let Some(mut browser) = Browser::start() else { return };
    let data = data_of(report());
    browser.open(report(), "");
    let items = data["items"].as_array().unwrap().len();
    let facts: Vec<(String, f64, u64)> = (0..items)
        .map(|at| {
            let source = data["items"][at]["explanations"][0]["source"].as_str().unwrap();
            let output = output(&data, at, 0, None);
            let probability = output["log_probability"].as_f64().unwrap().exp();
            (source.to_string(), probability, output["difference"]["edits"].as_u64().unwrap())
        })
        .collect();
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
    assert_eq!(figures[..3], ["Exact match", "Sequence error rate", "Token error rate"]);
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
    let query = facts[3].0[1..].to_uppercase();
    browser.click("#query");
    browser.write(&query);
    assert_eq!(texts(&mut browser, LISTED), [facts[3].0.clone()]);
    assert_eq!(texts(&mut browser, "#list .note"), [format!("1 of {items} sources")]);
    assert!(browser.value("location.hash") == format!("#query={query}"));
    browser.click("#list [data-item]");
    assert_eq!(texts(&mut browser, "h2"), [facts[3].0.clone()]);
    assert_eq!(browser.value("location.hash"), format!("#item=4&query={query}"));
    // Its difference to the reference, as the evaluation has aligned it.
    let output = output(&data, 3, 0, None);
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

#[test]
fn markup_in_texts_does_nothing() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train_on_hostile_texts(folder);
    let args = ["--model", "run", "--output", "x.html"];
    succeed(folder, &[&["attend"], &HOSTILE[..], &args].concat());
    let file = folder.join("x.html");
    for (at, text) in HOSTILE.iter().enumerate() {
        browser.open(&file, &format!("item={}", at + 1));
        let shown = text.replace('\u{2028}', "U+2028");
        assert_eq!(texts(&mut browser, "h2"), [shown.clone()]);
        assert_eq!(texts(&mut browser, "#list [aria-current] .source"), [shown]);
        assert_eq!(browser.value("document.querySelectorAll('script, img').length"), 2);
        assert_eq!(browser.faults(), [""; 0], "{text}");
        let tokens = texts(&mut browser, &in_panel(SOURCE));
        assert_eq!(tokens.len(), text.chars().count());
        match at {
            // Right to left, and the left arrow goes on.
            3 => {
                assert_eq!(browser.value("document.querySelector('[data-group=source]').dir"), "rtl");
                browser.click(&in_panel(&format!("{SOURCE}[data-key='0']")));
                browser.press("ArrowLeft");
                assert_eq!(browser.value("document.activeElement.dataset.key"), "1");
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
    let Some(mut browser) = Browser::start() else { return };
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for file in [page(), report()] {
            for width in [360, 700, 1400] {
                browser.size(width, 800);
                browser.open(file, "item=2");
                let needed = browser.value("document.documentElement.scrollWidth");
                assert_eq!(needed, width, "{}", file.display());
            }
        }
        grounds.push(browser.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1]);
    assert_eq!(browser.faults(), [""; 0]);
}

#[test]
fn other_data_can_be_rendered_in_the_place_of_the_first() {
    let Some(mut browser) = Browser::start() else { return };
    browser.open(page(), "item=2&step=1");
    let other = data_of(report());
    browser.value(&format!("location.hash = ''; render({other})"));
    assert_eq!(browser.value("document.title"), other["title"]);
    assert_eq!(texts(&mut browser, "h2").len(), 1);
    assert_eq!(texts(&mut browser, ".panel").len(), 1);
    assert_eq!(texts(&mut browser, "h2")[0], other["items"][0]["explanations"][0]["source"].as_str().unwrap());
    // One listener for each event: a key moves by one.
    browser.click(&in_panel(&format!("{SOURCE}[data-key='0']")));
    browser.press("ArrowRight");
    assert_eq!(browser.value("document.activeElement.dataset.key"), "1");
    assert_eq!(browser.faults(), [""; 0]);
}
