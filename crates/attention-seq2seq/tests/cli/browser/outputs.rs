//! Other outputs, heads and layers.

use serde_json::{Value, json};

use super::{
    TARGET, assert_same, in_panel, marked, output, page, shades, shades_in, texts, weights,
};
use crate::chromium::Browser;
use crate::page::data_of;

#[test]
fn another_output_swaps_tokens_alternatives_and_attention() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let data = data_of(page());
    browser.open(page(), "");
    let count = data["items"][0]["explanations"][0]["outputs"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(
        texts(&mut browser, &in_panel(".outputs input")).len(),
        count
    );
    for chosen in [1, 2, 0] {
        browser.click(&format!("#output-0-{chosen}"));
        let expected = output(&data, 0, 0, Some(chosen));
        let logarithm = texts(&mut browser, &in_panel(".outputs label:has(:checked) .log"));
        let probability = expected["log_probability"].as_f64().unwrap();
        assert_eq!(logarithm, [format!("{probability:.3}").replace('-', "−")]);
        let steps = expected["steps"].as_array().unwrap();
        let tokens: Vec<&str> = steps
            .iter()
            .map(|step| step["token"].as_str().unwrap())
            .collect();
        assert_eq!(texts(&mut browser, &in_panel(TARGET)), tokens);
        let best: Vec<&str> = steps
            .iter()
            .map(|step| step["alternatives"][0][0].as_str().unwrap())
            .collect();
        assert_eq!(
            texts(&mut browser, &in_panel(".steps tr > td:nth-child(4) bdi")),
            best
        );
        let entropies: Vec<String> = steps
            .iter()
            .map(|step| format!("{:.2}", step["entropy"].as_f64().unwrap()))
            .collect();
        assert_eq!(texts(&mut browser, &in_panel(".steps .entropy")), entropies);
        assert_same(
            &shades(&mut browser, ".matrix tbody td"),
            &weights(expected).concat(),
        );
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
                assert!(
                    expected(key).abs() > 9.9 || (value - expected(key)).abs() < 0.051,
                    "{text}"
                );
            }
        };
        browser.mouse("mouseMoved", [2.0, 2.0]);
        near(&dropped(&mut browser), &|key| {
            changes["output"][key].as_f64().unwrap()
        });
        browser.point_at(&in_panel(&format!("{TARGET}[data-step='1']")));
        near(&dropped(&mut browser), &|key| {
            changes["steps"][key * steps.len() + 1].as_f64().unwrap()
        });
    }
    assert_eq!(browser.faults(), [""; 0]);
}

#[test]
fn heads_and_layers_are_chosen() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let data = data_of(page());
    browser.open(page(), "");
    const CELLS: &str = ".matrix tbody td";
    let choose = |browser: &mut Browser, id: &str, value: &str| {
        browser.value(&format!(
            "(() => {{ const it = document.getElementById({id:?}); it.value = {value:?}; \
             it.dispatchEvent(new Event('change')); }})()"
        ));
    };
    let all = weights(output(&data, 0, 1, None)).concat();
    let heads: Vec<&[f64]> = all.chunks(all.len() / 4).collect();
    let mean: Vec<f64> = heads[2]
        .iter()
        .zip(heads[3])
        .map(|(a, b)| (a + b) / 2.0)
        .collect();
    assert_same(&shades_in(&mut browser, 1, CELLS), &mean);
    choose(&mut browser, "head", "2");
    assert_same(&shades_in(&mut browser, 1, CELLS), heads[3]);
    choose(&mut browser, "layer", "1");
    assert_same(&shades_in(&mut browser, 1, CELLS), heads[1]);
    assert_eq!(browser.value("location.hash"), "#layer=1&head=2");
    choose(&mut browser, "head", "0");
    assert_eq!(browser.value("location.hash"), "#layer=1");
    // The recurrent model beside it has one.
    assert_same(
        &shades(&mut browser, ".matrix tbody td"),
        &weights(output(&data, 0, 0, None)).concat(),
    );
    assert_eq!(browser.faults(), [""; 0]);
}
