//! Selections: by the pointer, by keys, by an address.

use serde_json::json;

use super::{
    SOURCE, TARGET, assert_same, in_panel, marked, output, page, report, shades, texts, weights,
};
use crate::chromium::Browser;
use crate::page::data_of;

#[test]
fn a_token_that_is_pointed_at_shades_those_of_the_other_side() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let data = data_of(page());
    browser.open(page(), "");
    let weights = weights(output(&data, 0, 0, None));
    let [target_on, source_on] = [TARGET, SOURCE].map(|it| format!("{it}.on"));
    for (step, row) in weights.iter().enumerate().take(3) {
        browser.point_at(&in_panel(&format!("{TARGET}[data-step='{step}']")));
        assert_same(&shades(&mut browser, SOURCE), row);
        assert_eq!(marked(&mut browser, &target_on), json!([[step, null]]));
        assert_eq!(marked(&mut browser, &source_on), json!([]));
        let expected: Vec<_> = (0..row.len()).map(|key| json!([step, key])).collect();
        assert_eq!(marked(&mut browser, ".matrix tbody td.on"), json!(expected));
        let rows = texts(&mut browser, &in_panel(".steps tr.on"));
        assert_eq!(rows.len(), 1);
    }
    for key in [0, 2] {
        browser.point_at(&in_panel(&format!("{SOURCE}[data-key='{key}']")));
        let column: Vec<f64> = weights.iter().map(|row| row[key]).collect();
        assert_same(&shades(&mut browser, TARGET), &column);
        assert_eq!(marked(&mut browser, &source_on), json!([[null, key]]));
        let expected: Vec<_> = (0..weights.len()).map(|step| json!([step, key])).collect();
        assert_eq!(marked(&mut browser, ".matrix tbody td.on"), json!(expected));
        // The other model reads the same token.
        let other = texts(&mut browser, "[data-panel='1'] [data-group=source] .on");
        assert_eq!(other, ["abcd"[key..=key].to_string()]);
    }
    // A cell of the matrix is a token of either side.
    browser.point_at(&in_panel(".matrix td[data-step='1'][data-key='3']"));
    assert_eq!(marked(&mut browser, &target_on), json!([[1, null]]));
    assert_eq!(marked(&mut browser, &source_on), json!([[null, 3]]));
    assert_same(&shades(&mut browser, SOURCE), &weights[1]);
    let said = texts(&mut browser, &in_panel(".readout"));
    let weight = format!("weight of {:.3}", weights[1][3]);
    assert!(said[0].contains(&weight), "{said:?}");
    // Nothing is pointed at any more, and nothing was chosen.
    browser.mouse("mouseMoved", [2.0, 2.0]);
    assert_same(&shades(&mut browser, SOURCE), &[0.0; 4]);
    assert_eq!(browser.value("location.hash"), "");
    assert_eq!(browser.faults(), [""; 0]);
}

#[test]
fn arrow_keys_move_the_selection_which_the_address_keeps() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
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
    assert_same(&shades(&mut browser, SOURCE), &weights[1]);
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
    let step = largest(&column);
    assert_eq!(focused(&mut browser), json!(["output", step, -1]));

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
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let data = data_of(page());
    browser.open(page(), "item=2&output=1,&step=1&key=0");
    assert_eq!(texts(&mut browser, "h2"), ["zyxwvut"]);
    let second = output(&data, 1, 0, Some(1));
    assert_same(&shades(&mut browser, SOURCE), &weights(second)[1]);
    let current = texts(&mut browser, "#list [aria-current] .source");
    assert_eq!(current, ["zyxwvut"]);
    browser.value("location.hash = 'item=1'");
    assert_eq!(browser.faults(), [""; 0]);
    assert_eq!(texts(&mut browser, "h2"), ["abcd"]);
    // Addresses that make no sense are as if they were not there.
    for hash in [
        "item=99&step=99&key=99&panel=7&output=77,x",
        "step=-1&key=1e3&head=9&layer=9",
        "%ff&&=&sort=x",
    ] {
        browser.open(page(), hash);
        assert_eq!(texts(&mut browser, "h2"), ["abcd"], "{hash}");
        assert_eq!(texts(&mut browser, ".matrix").len(), 2, "{hash}");
        assert_eq!(browser.faults(), [""; 0], "{hash}");
    }
}

#[test]
fn the_matrix_is_scrolled_to_what_is_selected() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let data = data_of(report());
    let items = data["items"].as_array().unwrap();
    let tokens = |at: &usize| items[*at]["explanations"][0]["tokens"].as_array();
    let keys = |at: &usize| tokens(at).unwrap().len();
    let at = (0..items.len()).max_by_key(keys).unwrap();
    let last = keys(&at) - 1;
    // With more than nine tokens some columns are out of sight.
    assert!(last > 9, "{last}");
    browser.size(360, 800);
    for key in [last, 0] {
        browser.open(report(), &format!("item={}&key={key}", at + 1));
        let head = in_panel(&format!(".matrix thead th[data-key='{key}']"));
        let is_seen = browser.value(&format!(
            "(() => {{ const head = document.querySelector({head:?}).getBoundingClientRect(); \
             const box = document.querySelector('.matrix').parentElement.getBoundingClientRect(); \
             return head.left >= box.left && head.right <= box.right; }})()"
        ));
        assert_eq!(is_seen, true, "{key}");
    }
    let scrolled = "document.querySelector('.matrix').parentElement.scrollLeft";
    browser.click(&in_panel(&format!("{SOURCE}[data-key='{last}']")));
    assert!(browser.value(scrolled).as_f64().unwrap() > 0.0);
    assert_eq!(browser.faults(), [""; 0]);
}
