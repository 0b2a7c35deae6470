//! The live page in a browser: what is typed is explained, alternatives are forced, and the address keeps both.
//!
//! These tests are left out where there is no `chromium`.

use serde_json::{Value, json};

use attention_tests::assert_says;

use super::server::Server;
use crate::chromium::{Browser, browser};
use crate::json::{list, string};
use crate::page::{HOSTILE, train_on_hostile_texts};
use crate::program::Folder;

/// Waits for the answer to what is asked for.
fn wait(tab: &mut Browser, source: &str) {
    tab.wait_for(&format!(
        "document.querySelector('h2')?.textContent === {source:?} && !document.querySelector('main[aria-busy]')"
    ));
}

/// Waits for a line of an error that has this text in it.
fn wait_for_error(tab: &mut Browser, text: &str) {
    tab.wait_for(&format!(
        "document.getElementById('status').textContent.includes({text:?}) && \
         !document.querySelector('main[aria-busy]')"
    ));
}

const OUTPUT: &str = "[data-group=output] .token";
const PREFIX: &str = "#forced:not([hidden]) .token";

/// A token that a step could have had, and its button: the most likely one that is another, and not the end.
fn alternative(tab: &mut Browser, step: usize) -> (String, String) {
    let chosen = tab.texts(OUTPUT)[step].clone();
    let selector = format!(".steps [data-step='{step}'] .alternative bdi");
    let alternatives = tab.texts(&selector);
    assert_eq!(alternatives.len(), 5);
    let mut ranked = alternatives.into_iter().enumerate();
    let other = ranked.find(|(_, token)| *token != chosen && token != "<eos>");
    let (rank, token) = other.unwrap();
    (token, format!("#force-0-{step}-{rank}"))
}

/// All that the page shows.
fn shown(tab: &mut Browser) -> Value {
    // Nothing is pointed at.
    tab.mouse("mouseMoved", [2.0, 2.0]);
    tab.value(
        "[document.getElementById('source').value, document.getElementById('forced').innerText, \
          document.getElementById('top').innerText, document.getElementById('item').innerText]",
    )
}

#[test]
fn what_is_typed_is_explained_and_alternatives_are_forced() {
    let Some(mut tab) = browser() else { return };
    let server = Server::start("");
    tab.visit(&server.address, "");
    assert_eq!(tab.value("document.activeElement.id"), "source");
    tab.write("abc");
    wait(&mut tab, "abc");
    tab.write("d");
    wait(&mut tab, "abcd");
    assert_eq!(tab.value("location.hash"), "#source=abcd");
    // It shows what the program says.
    let (_, answer) = server.ask("/v1/explain", &json!({ "source": "abcd" }));
    let explanation = &answer["items"][0]["explanations"][0];
    let greedy = explanation["greedy"].as_u64().unwrap() as usize;
    let outputs = list(&explanation["outputs"]);
    let steps = list(&outputs[greedy]["steps"]);
    let free = steps.iter().map(|step| string(&step["token"]));
    let free: Vec<&str> = free.collect();
    assert_eq!(tab.texts(OUTPUT), free);
    assert_eq!(tab.texts(".outputs label").len(), outputs.len());
    let cells = tab.texts(".matrix tbody td");
    assert_eq!(cells.len(), steps.len() * 4);
    assert!(tab.texts("#status")[0].starts_with("Output: "));
    assert_eq!(tab.texts(PREFIX), [""; 0]);

    let mut choices = Vec::new();
    for step in [1, 2] {
        let before = tab.texts(OUTPUT);
        let (token, button) = alternative(&mut tab, step);
        tab.click(&button);
        tab.wait_for(&format!(
            "document.querySelectorAll({PREFIX:?}).length === {} && !document.querySelector('main[aria-busy]')",
            step + 1
        ));
        let forced = [&before[..step], &[token]].concat();
        assert_eq!(tab.texts(PREFIX), forced);
        assert_eq!(tab.texts(OUTPUT)[..=step], forced);
        for output in tab.texts(".outputs .text bdi") {
            assert!(output.starts_with(&forced.concat()), "{output} {forced:?}");
        }
        choices.push((forced, shown(&mut tab)));
    }
    assert_eq!(tab.faults(), [""; 0]);
    // The address opens the same.
    let hash = tab.value("location.hash");
    tab.visit(&server.address, &string(&hash)[1..]);
    wait(&mut tab, "abcd");
    assert_eq!(shown(&mut tab), choices[1].1);
    assert_eq!(tab.value("location.hash"), hash);
    assert_eq!(tab.faults(), [""; 0]);

    // Back to what was before the choice: by a new page token by token, by the button, by the browser.
    tab.click("#undo");
    tab.wait_for("document.querySelectorAll('#prefix .token').length === 2");
    wait(&mut tab, "abcd");
    assert_eq!(tab.texts(PREFIX), choices[1].0[..2]);
    let (_, button) = alternative(&mut tab, 0);
    tab.click(&button);
    tab.wait_for("document.querySelectorAll('#prefix .token').length === 1");
    wait(&mut tab, "abcd");
    tab.click("#undo");
    tab.wait_for("document.querySelectorAll('#prefix .token').length === 2");
    wait(&mut tab, "abcd");
    tab.value("history.back()");
    tab.wait_for("document.querySelectorAll('#prefix .token').length === 1");
    wait(&mut tab, "abcd");
    tab.click("#clear");
    tab.wait_for("document.getElementById('forced').hidden");
    wait(&mut tab, "abcd");
    tab.wait_for(&format!(
        "[...document.querySelectorAll({OUTPUT:?})].map((it) => it.textContent).join(' ') === {:?}",
        free.join(" ")
    ));
    assert_eq!(tab.value("document.activeElement.id"), "source");
    assert_eq!(tab.faults(), [""; 0]);
}

#[test]
fn a_selection_is_that_of_the_answer_it_was_made_in() {
    let Some(mut tab) = browser() else { return };
    let server = Server::start("");
    // The selection in a link is kept.
    tab.visit(&server.address, "source=abc&step=1");
    wait(&mut tab, "abc");
    assert_eq!(tab.value("location.hash"), "#source=abc&step=1");
    // An answer that is under way until it is let go.
    tab.value(
        "(() => { const ask = window.fetch; window.fetch = async (...request) => { \
          await new Promise((go) => { window.go = go; }); return ask(...request); }; })()",
    );
    tab.click("#source");
    tab.write("d");
    tab.wait_for("window.go !== undefined");
    tab.click("[data-group=output] .token[data-step='0']");
    assert_eq!(tab.value("location.hash"), "#source=abcd&step=0");
    tab.value("window.go()");
    wait(&mut tab, "abcd");
    assert_eq!(tab.value("location.hash"), "#source=abcd");
    // The same is asked for again: it is what was selected in.
    tab.click("[data-group=output] .token[data-step='1']");
    tab.value("window.go = undefined");
    tab.click("#source");
    tab.press("Enter");
    tab.wait_for("window.go !== undefined");
    tab.value("window.go()");
    wait(&mut tab, "abcd");
    assert_eq!(tab.value("location.hash"), "#source=abcd&step=1");
    assert_eq!(tab.faults(), [""; 0]);
}

#[test]
fn a_token_is_forced_by_keys() {
    let Some(mut tab) = browser() else { return };
    let server = Server::start("");
    tab.visit(&server.address, "");
    tab.write("bcd");
    // It does not wait for the pause.
    tab.press("Enter");
    assert_eq!(tab.value("location.hash"), "#source=bcd");
    wait(&mut tab, "bcd");
    // To the first step, and along its alternatives.
    tab.click(".steps th[data-step='0']");
    for rank in 0..5 {
        tab.press("ArrowRight");
        let id = format!("force-0-0-{rank}");
        assert_eq!(tab.value("document.activeElement.id"), id);
    }
    tab.press("Home");
    tab.press("ArrowRight");
    tab.press("ArrowRight");
    tab.press("ArrowDown");
    assert_eq!(tab.value("document.activeElement.id"), "force-0-1-1");
    assert_eq!(tab.value("location.hash"), "#source=bcd&step=1");
    let token = tab.texts("#force-0-1-1 bdi")[0].clone();
    tab.press("Enter");
    tab.wait_for("document.querySelectorAll('#prefix .token').length === 2");
    wait(&mut tab, "bcd");
    assert_eq!(tab.texts(PREFIX)[1], token);
    // The focus stays where it was.
    assert_eq!(tab.value("document.activeElement.id"), "force-0-1-1");
    assert_eq!(tab.faults(), [""; 0]);
}

#[test]
fn an_error_is_a_line_and_the_page_goes_on() {
    let Some(mut tab) = browser() else { return };
    let mut server = Server::start("--max-tokens 6");
    tab.visit(&server.address, "source=abX");
    wait_for_error(&mut tab, "source: unknown token \"X\" at position 3");
    let role = "document.getElementById('status').getAttribute('role')";
    assert_eq!(tab.value(role), "status");
    // The console tells of each answer with an error.
    let refused = tab.faults();
    let is_told = refused.len() == 1 && refused[0].contains("422");
    assert!(is_told, "{refused:?}");
    tab.click("#source");
    tab.value("document.getElementById('source').select()");
    tab.write("ab");
    wait(&mut tab, "ab");
    let stale = tab.value("document.querySelector('main.stale')");
    assert_eq!(stale, Value::Null);
    tab.write("cdefg");
    let message = "expected at most 6 tokens (--max-tokens), found 7";
    wait_for_error(&mut tab, message);
    // The page shows what it showed before, and says so.
    assert_eq!(tab.texts("main.stale h2"), ["ab"]);
    assert_eq!(tab.value("location.hash"), "#source=abcdefg");
    let (token, button) = alternative(&mut tab, 0);
    tab.click(&button);
    wait(&mut tab, "ab");
    tab.wait_for("!document.getElementById('forced').hidden");
    assert_eq!(tab.texts(PREFIX), [token]);
    let typed = tab.value("document.getElementById('source').value");
    assert_eq!(typed, "ab");
    // The server is gone.
    let mut child = server.child.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    tab.click("#source");
    tab.write("c");
    wait_for_error(&mut tab, "The server cannot be reached.");
    assert_eq!(tab.texts("main.stale h2"), ["ab"]);
    for fault in tab.faults() {
        assert_says(&fault, "\"source\":\"network\"");
    }
}

#[test]
fn markup_does_nothing_and_the_page_fits() {
    let Some(mut tab) = browser() else { return };
    let folder = &Folder::new();
    train_on_hostile_texts(folder);
    let server = Server::of(&folder.join("run"), "");
    let mut grounds = Vec::new();
    for (scheme, width) in [("light", 360), ("dark", 1400)] {
        tab.prefer(scheme);
        tab.size(width, 800);
        tab.visit(&server.address, "");
        for text in HOSTILE {
            tab.value(&format!(
                "location.hash = new URLSearchParams({{ source: {} }}).toString()",
                json!(text)
            ));
            let shown = json!(text.replace('\u{2028}', "U+2028"));
            tab.wait_for(&format!(
                "document.querySelector('h2')?.textContent === {shown} && \
                 !document.querySelector('main[aria-busy]')"
            ));
            let beyond =
                "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(tab.value(beyond), 0, "{text} at {width}");
            let scripts = tab.value("document.querySelectorAll('script, img').length");
            assert_eq!(scripts, 2);
        }
        grounds.push(tab.value("getComputedStyle(document.body).backgroundColor"));
        assert_eq!(tab.faults(), [""; 0]);
    }
    assert_ne!(grounds[0], grounds[1]);
}
