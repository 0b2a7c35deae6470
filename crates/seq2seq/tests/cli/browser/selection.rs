//! Selections: by the pointer, by keys, by an address.

use serde_json::json;

use super::{SOURCE, TARGET, assert_same, in_panel, marked, output, page, report, shades, weights};
use crate::chromium::{Browser, browser};
use crate::json::list;
use crate::page::data_of;

#[test]
fn a_token_that_is_pointed_at_shades_those_of_the_other_side() {
    let Some(mut tab) = browser() else { return };
    let data = data_of(page());
    tab.open(page(), "");
    let weights = weights(output(&data, 0, 0, None));
    let [target_on, source_on] = [TARGET, SOURCE].map(|it| format!("{it}.on"));
    for (step, row) in weights.iter().enumerate().take(3) {
        tab.point_at(&in_panel(&format!("{TARGET}[data-step='{step}']")));
        assert_same(&shades(&mut tab, SOURCE), row);
        assert_eq!(marked(&mut tab, &target_on), json!([[step, null]]));
        assert_eq!(marked(&mut tab, &source_on), json!([]));
        let expected: Vec<_> = (0..row.len()).map(|key| json!([step, key])).collect();
        assert_eq!(marked(&mut tab, ".matrix tbody td.on"), json!(expected));
        assert_eq!(tab.texts(&in_panel(".steps tr.on")).len(), 1);
    }
    for key in [0, 2] {
        tab.point_at(&in_panel(&format!("{SOURCE}[data-key='{key}']")));
        let column: Vec<f64> = weights.iter().map(|row| row[key]).collect();
        assert_same(&shades(&mut tab, TARGET), &column);
        assert_eq!(marked(&mut tab, &source_on), json!([[null, key]]));
        let expected: Vec<_> = (0..weights.len()).map(|step| json!([step, key])).collect();
        assert_eq!(marked(&mut tab, ".matrix tbody td.on"), json!(expected));
        // The other model reads the same token.
        let other = tab.texts("[data-panel='1'] [data-group=source] .on");
        assert_eq!(other, ["abcd"[key..=key].to_string()]);
    }
    // A cell of the matrix is a token of either side.
    tab.point_at(&in_panel(".matrix td[data-step='1'][data-key='3']"));
    assert_eq!(marked(&mut tab, &target_on), json!([[1, null]]));
    assert_eq!(marked(&mut tab, &source_on), json!([[null, 3]]));
    assert_same(&shades(&mut tab, SOURCE), &weights[1]);
    let said = tab.texts(&in_panel(".readout"));
    let weight = format!("weight of {:.3}", weights[1][3]);
    assert!(said[0].contains(&weight), "{said:?}");
    // Nothing is pointed at any more, and nothing was chosen.
    tab.mouse("mouseMoved", [2.0, 2.0]);
    assert_same(&shades(&mut tab, SOURCE), &[0.0; 4]);
    assert_eq!(tab.value("location.hash"), "");
    assert_eq!(tab.faults(), [""; 0]);
}

#[test]
fn arrow_keys_move_the_selection_which_the_address_keeps() {
    let Some(mut tab) = browser() else { return };
    let data = data_of(page());
    tab.open(page(), "");
    let weights = weights(output(&data, 0, 0, None));
    let largest = |values: &[f64]| {
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        values.iter().position(|it| *it == most).unwrap()
    };
    let focused = |tab: &mut Browser| {
        tab.value(
            "[document.activeElement.closest('[data-group]').dataset.group, \
             ...['step', 'key'].map((it) => Number(document.activeElement.dataset[it] ?? -1))]",
        )
    };
    tab.click(&in_panel(&format!("{TARGET}[data-step='0']")));
    tab.press("ArrowRight");
    assert_eq!(focused(&mut tab), json!(["output", 1, -1]));
    assert_eq!(tab.value("location.hash"), "#step=1");
    tab.mouse("mouseMoved", [2.0, 2.0]);
    assert_same(&shades(&mut tab, SOURCE), &weights[1]);
    // The focus is seen.
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(tab.value(outline), "solid");

    tab.press("ArrowUp");
    let key = largest(&weights[1]);
    assert_eq!(focused(&mut tab), json!(["source", -1, key]));
    assert_eq!(tab.value("location.hash"), format!("#key={key}"));
    tab.press("End");
    assert_eq!(focused(&mut tab), json!(["source", -1, 3]));
    tab.press("ArrowRight");
    tab.press("ArrowDown");
    let column: Vec<f64> = weights.iter().map(|row| row[3]).collect();
    assert_eq!(focused(&mut tab), json!(["output", largest(&column), -1]));

    tab.click(&in_panel(".matrix td[data-step='0'][data-key='1']"));
    tab.press("ArrowDown");
    tab.press("ArrowRight");
    assert_eq!(focused(&mut tab), json!(["matrix", 1, 2]));
    assert_eq!(tab.value("location.hash"), "#step=1&key=2");
    let at = marked(&mut tab, ".matrix tr.on td.on[data-key='2']");
    assert_eq!(at, json!([[1, 2]]));
    // From the list of steps, too; Tab goes to one place in each.
    tab.press("Tab");
    assert_eq!(focused(&mut tab), json!(["steps", 1, -1]));
    tab.press("ArrowDown");
    assert_eq!(focused(&mut tab), json!(["steps", 2, -1]));
    tab.press("Escape");
    assert_eq!(tab.value("location.hash"), "");
    assert_eq!(marked(&mut tab, "button.on"), json!([]));
    assert_eq!(tab.faults(), [""; 0]);
}

#[test]
fn an_address_opens_what_it_says() {
    let Some(mut tab) = browser() else { return };
    let data = data_of(page());
    tab.open(page(), "item=2&output=1,&step=1&key=0");
    assert_eq!(tab.texts("h2"), ["zyxwvut"]);
    let second = output(&data, 1, 0, Some(1));
    assert_same(&shades(&mut tab, SOURCE), &weights(second)[1]);
    assert_eq!(tab.texts("#list [aria-current] .source"), ["zyxwvut"]);
    tab.value("location.hash = 'item=1'");
    assert_eq!(tab.faults(), [""; 0]);
    assert_eq!(tab.texts("h2"), ["abcd"]);
    // Addresses that make no sense are as if they were not there.
    for hash in [
        "item=99&step=99&key=99&panel=7&output=77,x",
        "step=-1&key=1e3&head=9&layer=9",
        "%ff&&=&sort=x",
    ] {
        tab.open(page(), hash);
        assert_eq!(tab.texts("h2"), ["abcd"], "{hash}");
        assert_eq!(tab.texts(".matrix").len(), 2, "{hash}");
        assert_eq!(tab.faults(), [""; 0], "{hash}");
    }
}

#[test]
fn the_matrix_is_scrolled_to_what_is_selected() {
    let Some(mut tab) = browser() else { return };
    let data = data_of(report());
    let items = list(&data["items"]);
    let tokens = |at: &usize| items[*at]["explanations"][0]["tokens"].as_array();
    let keys = |at: &usize| tokens(at).unwrap().len();
    let at = (0..items.len()).max_by_key(keys).unwrap();
    let last = keys(&at) - 1;
    // With more than nine tokens some columns are out of sight.
    assert!(last > 9, "{last}");
    tab.size(360, 800);
    for key in [last, 0] {
        tab.open(report(), &format!("item={}&key={key}", at + 1));
        let head = in_panel(&format!(".matrix thead th[data-key='{key}']"));
        let is_seen = tab.value(&format!(
            "(() => {{ const head = document.querySelector({head:?}).getBoundingClientRect(); \
             const box = document.querySelector('.matrix').parentElement.getBoundingClientRect(); \
             return head.left >= box.left && head.right <= box.right; }})()"
        ));
        assert_eq!(is_seen, true, "{key}");
    }
    let scrolled = "document.querySelector('.matrix').parentElement.scrollLeft";
    tab.click(&in_panel(&format!("{SOURCE}[data-key='{last}']")));
    assert!(tab.value(scrolled).as_f64().unwrap() > 0.0);
    assert_eq!(tab.faults(), [""; 0]);
}
