//! Other outputs, heads and layers.

use serde_json::{Value, json};

use super::{TARGET, assert_same, in_panel, marked, output, page, shades, shades_in, weights};
use crate::chromium::{Browser, browser};
use crate::json::{list, number, string};
use crate::page::data_of;

#[test]
fn another_output_swaps_tokens_alternatives_and_attention() {
    let Some(mut tab) = browser() else { return };
    let data = data_of(page());
    tab.open(page(), "");
    let outputs = &data["items"][0]["explanations"][0]["outputs"];
    let inputs = tab.texts(&in_panel(".outputs input"));
    assert_eq!(inputs.len(), list(outputs).len());
    for chosen in [1, 2, 0] {
        tab.click(&format!("#output-0-{chosen}"));
        let expected = output(&data, 0, 0, Some(chosen));
        let logarithm = tab.texts(&in_panel(".outputs label:has(:checked) .log"));
        let probability = number(&expected["log_probability"]);
        assert_eq!(logarithm, [format!("{probability:.3}").replace('-', "−")]);
        let steps = list(&expected["steps"]);
        let mut check = |selector: &str, text: &dyn Fn(&Value) -> String| {
            let expected: Vec<String> = steps.iter().map(text).collect();
            assert_eq!(tab.texts(&in_panel(selector)), expected);
        };
        let string = |value: &Value| string(value).to_string();
        check(TARGET, &|step| string(&step["token"]));
        let best = ".steps tr > td:nth-child(4) bdi";
        check(best, &|step| string(&step["alternatives"][0][0]));
        let entropy = |step: &Value| format!("{:.2}", number(&step["entropy"]));
        check(".steps .entropy", &entropy);
        let cells = shades(&mut tab, ".matrix tbody td");
        assert_same(&cells, &weights(expected).concat());
        // Tokens of low confidence are marked.
        let low: Vec<Value> = (0..steps.len())
            .filter(|at| number(&steps[*at]["log_probability"]).exp() < 0.5)
            .map(|at| json!([at, null]))
            .collect();
        assert_eq!(marked(&mut tab, &format!("{TARGET}.low")), json!(low));
        assert!(!low.is_empty());
        // The occlusion of the output, and then of a step.
        let changes = &expected["occlusion"];
        let dropped = |tab: &mut Browser| tab.texts(&in_panel(".occlusion td"));
        let near = |found: &[String], expected: &dyn Fn(usize) -> f64| {
            for (key, text) in found.iter().enumerate() {
                let value: f64 = text.replace('−', "-").parse().unwrap();
                // With one digit behind the point, where it is small.
                let tolerance = [0.051, 0.51][usize::from(expected(key).abs() > 9.9)];
                assert!((value - expected(key)).abs() < tolerance, "{text}");
            }
        };
        tab.mouse("mouseMoved", [2.0, 2.0]);
        near(&dropped(&mut tab), &|key| number(&changes["output"][key]));
        tab.point_at(&in_panel(&format!("{TARGET}[data-step='1']")));
        let of_step = |key: usize| number(&changes["steps"][key * steps.len() + 1]);
        near(&dropped(&mut tab), &of_step);
    }
    assert_eq!(tab.faults(), [""; 0]);
}

#[test]
fn heads_and_layers_are_chosen() {
    let Some(mut tab) = browser() else { return };
    let data = data_of(page());
    tab.open(page(), "");
    const CELLS: &str = ".matrix tbody td";
    let choose = |tab: &mut Browser, id: &str, value: &str| {
        tab.value(&format!(
            "(() => {{ const it = document.getElementById({id:?}); it.value = {value:?}; \
             it.dispatchEvent(new Event('change')); }})()"
        ));
    };
    let all = weights(output(&data, 0, 1, None)).concat();
    let heads: Vec<&[f64]> = all.chunks(all.len() / 4).collect();
    let mean = heads[2].iter().zip(heads[3]).map(|(a, b)| (a + b) / 2.0);
    assert_same(&shades_in(&mut tab, 1, CELLS), &mean.collect::<Vec<_>>());
    choose(&mut tab, "head", "2");
    assert_same(&shades_in(&mut tab, 1, CELLS), heads[3]);
    choose(&mut tab, "layer", "1");
    assert_same(&shades_in(&mut tab, 1, CELLS), heads[1]);
    assert_eq!(tab.value("location.hash"), "#layer=1&head=2");
    choose(&mut tab, "head", "0");
    assert_eq!(tab.value("location.hash"), "#layer=1");
    // The recurrent model beside it has one.
    let expected = weights(output(&data, 0, 0, None)).concat();
    assert_same(&shades(&mut tab, CELLS), &expected);
    assert_eq!(tab.faults(), [""; 0]);
}
