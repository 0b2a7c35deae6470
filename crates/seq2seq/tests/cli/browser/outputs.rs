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
    let outputs = &data["items"][0]["explanations"][0]["outputs"];
    let inputs = texts(&mut browser, &in_panel(".outputs input"));
    assert_eq!(inputs.len(), outputs.as_array().unwrap().len());
    for chosen in [1, 2, 0] {
        browser.click(&format!("#output-0-{chosen}"));
        let expected = output(&data, 0, 0, Some(chosen));
        let logarithm = texts(&mut browser, &in_panel(".outputs label:has(:checked) .log"));
        let probability = expected["log_probability"].as_f64().unwrap();
        assert_eq!(logarithm, [format!("{probability:.3}").replace('-', "−")]);
        let steps = expected["steps"].as_array().unwrap();
        let mut check = |selector: &str, text: &dyn Fn(&Value) -> String| {
            let expected: Vec<String> = steps.iter().map(text).collect();
            assert_eq!(texts(&mut browser, &in_panel(selector)), expected);
        };
        let string = |value: &Value| value.as_str().unwrap().to_string();
        check(TARGET, &|step| string(&step["token"]));
        let best = ".steps tr > td:nth-child(4) bdi";
        check(best, &|step| string(&step["alternatives"][0][0]));
        let entropy = |step: &Value| format!("{:.2}", step["entropy"].as_f64().unwrap());
        check(".steps .entropy", &entropy);
        let cells = shades(&mut browser, ".matrix tbody td");
        assert_same(&cells, &weights(expected).concat());
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
                // With one digit behind the point, where it is small.
                let tolerance = if expected(key).abs() > 9.9 {
                    0.51
                } else {
                    0.051
                };
                assert!((value - expected(key)).abs() < tolerance, "{text}");
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
    let mean = heads[2].iter().zip(heads[3]).map(|(a, b)| (a + b) / 2.0);
    assert_same(
        &shades_in(&mut browser, 1, CELLS),
        &mean.collect::<Vec<_>>(),
    );
    choose(&mut browser, "head", "2");
    assert_same(&shades_in(&mut browser, 1, CELLS), heads[3]);
    choose(&mut browser, "layer", "1");
    assert_same(&shades_in(&mut browser, 1, CELLS), heads[1]);
    assert_eq!(browser.value("location.hash"), "#layer=1&head=2");
    choose(&mut browser, "head", "0");
    assert_eq!(browser.value("location.hash"), "#layer=1");
    // The recurrent model beside it has one.
    let expected = weights(output(&data, 0, 0, None)).concat();
    assert_same(&shades(&mut browser, CELLS), &expected);
    assert_eq!(browser.faults(), [""; 0]);
}
