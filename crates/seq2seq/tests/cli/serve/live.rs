//! The live page in a browser: what is typed is explained, alternatives are forced, and the address keeps both.
//!
//! These tests are left out where there is no `chromium`.

use serde_json::{Value, json};

use super::server::Server;
use crate::browser::texts;
use crate::chromium::Browser;
use crate::page::{HOSTILE, train_on_hostile_texts};

/// Waits for the answer to what is asked for.
fn wait(browser: &mut Browser, source: &str) {
    browser.wait_for(&format!(
        "document.querySelector('h2')?.textContent === {source:?} && !document.querySelector('main[aria-busy]')"
    ));
}

/// Waits for a line of an error that has this text in it.
fn wait_for_error(browser: &mut Browser, text: &str) {
    browser.wait_for(&format!(
        "document.getElementById('status').textContent.includes({text:?}) && \
         !document.querySelector('main[aria-busy]')"
    ));
}

const OUTPUT: &str = "[data-group=output] .token";
const PREFIX: &str = "#forced:not([hidden]) .token";

/// A token that a step could have had, and its button: the most likely one that is another, and not the end.
fn alternative(browser: &mut Browser, step: usize) -> (String, String) {
    let chosen = texts(browser, OUTPUT)[step].clone();
    let selector = format!(".steps [data-step='{step}'] .alternative bdi");
    let alternatives = texts(browser, &selector);
    assert_eq!(alternatives.len(), 5);
    let mut ranked = alternatives.into_iter().enumerate();
    let other = ranked.find(|(_, token)| *token != chosen && token != "<eos>");
    let (rank, token) = other.unwrap();
    (token, format!("#force-0-{step}-{rank}"))
}

/// All that the page shows.
fn shown(browser: &mut Browser) -> Value {
    // Nothing is pointed at.
    browser.mouse("mouseMoved", [2.0, 2.0]);
    browser.value(
        "[document.getElementById('source').value, document.getElementById('forced').innerText, \
          document.getElementById('top').innerText, document.getElementById('item').innerText]",
    )
}

#[test]
fn what_is_typed_is_explained_and_alternatives_are_forced() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let server = Server::start("");
    browser.visit(&server.address, "");
    assert_eq!(browser.value("document.activeElement.id"), "source");
    browser.write("abc");
    wait(&mut browser, "abc");
    browser.write("d");
    wait(&mut browser, "abcd");
    assert_eq!(browser.value("location.hash"), "#source=abcd");
    // It shows what the program says.
    let (_, answer) = server.ask("/v1/explain", &json!({ "source": "abcd" }));
    let explanation = &answer["items"][0]["explanations"][0];
    let greedy = explanation["greedy"].as_u64().unwrap() as usize;
    let outputs = explanation["outputs"].as_array().unwrap();
    let steps = outputs[greedy]["steps"].as_array().unwrap();
    let free = steps.iter().map(|step| step["token"].as_str().unwrap());
    let free: Vec<&str> = free.collect();
    assert_eq!(texts(&mut browser, OUTPUT), free);
    assert_eq!(texts(&mut browser, ".outputs label").len(), outputs.len());
    let cells = texts(&mut browser, ".matrix tbody td");
    assert_eq!(cells.len(), steps.len() * 4);
    assert!(texts(&mut browser, "#status")[0].starts_with("Output: "));
    assert_eq!(texts(&mut browser, PREFIX), [""; 0]);

    let mut choices = Vec::new();
    for step in [1, 2] {
        let before = texts(&mut browser, OUTPUT);
        let (token, button) = alternative(&mut browser, step);
        browser.click(&button);
        browser.wait_for(&format!(
            "document.querySelectorAll({PREFIX:?}).length === {} && !document.querySelector('main[aria-busy]')",
            step + 1
        ));
        let forced = [&before[..step], &[token]].concat();
        assert_eq!(texts(&mut browser, PREFIX), forced);
        assert_eq!(texts(&mut browser, OUTPUT)[..=step], forced);
        for output in texts(&mut browser, ".outputs .text bdi") {
            assert!(output.starts_with(&forced.concat()), "{output} {forced:?}");
        }
        choices.push((forced, shown(&mut browser)));
    }
    assert_eq!(browser.faults(), [""; 0]);
    // The address opens the same.
    let hash = browser.value("location.hash");
    browser.visit(&server.address, &hash.as_str().unwrap()[1..]);
    wait(&mut browser, "abcd");
    assert_eq!(shown(&mut browser), choices[1].1);
    assert_eq!(browser.value("location.hash"), hash);
    assert_eq!(browser.faults(), [""; 0]);

    // Back to what was before the choice: by a new page token by token, by the button, by the browser.
    browser.click("#undo");
    browser.wait_for("document.querySelectorAll('#prefix .token').length === 2");
    wait(&mut browser, "abcd");
    assert_eq!(texts(&mut browser, PREFIX), choices[1].0[..2]);
    let (_, button) = alternative(&mut browser, 0);
    browser.click(&button);
    browser.wait_for("document.querySelectorAll('#prefix .token').length === 1");
    wait(&mut browser, "abcd");
    browser.click("#undo");
    browser.wait_for("document.querySelectorAll('#prefix .token').length === 2");
    wait(&mut browser, "abcd");
    browser.value("history.back()");
    browser.wait_for("document.querySelectorAll('#prefix .token').length === 1");
    wait(&mut browser, "abcd");
    browser.click("#clear");
    browser.wait_for("document.getElementById('forced').hidden");
    wait(&mut browser, "abcd");
    browser.wait_for(&format!(
        "[...document.querySelectorAll({OUTPUT:?})].map((it) => it.textContent).join(' ') === {:?}",
        free.join(" ")
    ));
    assert_eq!(browser.value("document.activeElement.id"), "source");
    assert_eq!(browser.faults(), [""; 0]);
}

#[test]
fn a_selection_is_that_of_the_answer_it_was_made_in() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let server = Server::start("");
    // The selection in a link is kept.
    browser.visit(&server.address, "source=abc&step=1");
    wait(&mut browser, "abc");
    assert_eq!(browser.value("location.hash"), "#source=abc&step=1");
    // An answer that is under way until it is let go.
    browser.value(
        "(() => { const ask = window.fetch; window.fetch = async (...request) => { \
          await new Promise((go) => { window.go = go; }); return ask(...request); }; })()",
    );
    browser.click("#source");
    browser.write("d");
    browser.wait_for("window.go !== undefined");
    browser.click("[data-group=output] .token[data-step='0']");
    assert_eq!(browser.value("location.hash"), "#source=abcd&step=0");
    browser.value("window.go()");
    wait(&mut browser, "abcd");
    assert_eq!(browser.value("location.hash"), "#source=abcd");
    // The same is asked for again: it is what was selected in.
    browser.click("[data-group=output] .token[data-step='1']");
    browser.value("window.go = undefined");
    browser.click("#source");
    browser.press("Enter");
    browser.wait_for("window.go !== undefined");
    browser.value("window.go()");
    wait(&mut browser, "abcd");
    assert_eq!(browser.value("location.hash"), "#source=abcd&step=1");
    assert_eq!(browser.faults(), [""; 0]);
}

#[test]
fn a_token_is_forced_by_keys() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let server = Server::start("");
    browser.visit(&server.address, "");
    browser.write("bcd");
    // It does not wait for the pause.
    browser.press("Enter");
    assert_eq!(browser.value("location.hash"), "#source=bcd");
    wait(&mut browser, "bcd");
    // To the first step, and along its alternatives.
    browser.click(".steps th[data-step='0']");
    for rank in 0..5 {
        browser.press("ArrowRight");
        let id = format!("force-0-0-{rank}");
        assert_eq!(browser.value("document.activeElement.id"), id);
    }
    browser.press("Home");
    browser.press("ArrowRight");
    browser.press("ArrowRight");
    browser.press("ArrowDown");
    assert_eq!(browser.value("document.activeElement.id"), "force-0-1-1");
    assert_eq!(browser.value("location.hash"), "#source=bcd&step=1");
    let token = texts(&mut browser, "#force-0-1-1 bdi")[0].clone();
    browser.press("Enter");
    browser.wait_for("document.querySelectorAll('#prefix .token').length === 2");
    wait(&mut browser, "bcd");
    assert_eq!(texts(&mut browser, PREFIX)[1], token);
    // The focus stays where it was.
    assert_eq!(browser.value("document.activeElement.id"), "force-0-1-1");
    assert_eq!(browser.faults(), [""; 0]);
}

#[test]
fn an_error_is_a_line_and_the_page_goes_on() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut server = Server::start("--max-tokens 6");
    browser.visit(&server.address, "source=abX");
    wait_for_error(&mut browser, "source: unknown token \"X\" at position 3");
    let role = "document.getElementById('status').getAttribute('role')";
    assert_eq!(browser.value(role), "status");
    // The console tells of each answer with an error.
    let refused = browser.faults();
    let is_told = refused.len() == 1 && refused[0].contains("422");
    assert!(is_told, "{refused:?}");
    browser.click("#source");
    browser.value("document.getElementById('source').select()");
    browser.write("ab");
    wait(&mut browser, "ab");
    let stale = browser.value("document.querySelector('main.stale')");
    assert_eq!(stale, Value::Null);
    browser.write("cdefg");
    let message = "expected at most 6 tokens (--max-tokens), found 7";
    wait_for_error(&mut browser, message);
    // The page shows what it showed before, and says so.
    assert_eq!(texts(&mut browser, "main.stale h2"), ["ab"]);
    assert_eq!(browser.value("location.hash"), "#source=abcdefg");
    let (token, button) = alternative(&mut browser, 0);
    browser.click(&button);
    wait(&mut browser, "ab");
    browser.wait_for("!document.getElementById('forced').hidden");
    assert_eq!(texts(&mut browser, PREFIX), [token]);
    let typed = browser.value("document.getElementById('source').value");
    assert_eq!(typed, "ab");
    // The server is gone.
    let mut child = server.child.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    browser.click("#source");
    browser.write("c");
    wait_for_error(&mut browser, "The server cannot be reached.");
    assert_eq!(texts(&mut browser, "main.stale h2"), ["ab"]);
    for fault in browser.faults() {
        let is_of_network = fault.contains("\"source\":\"network\"");
        assert!(is_of_network, "{fault}");
    }
}

#[test]
fn markup_does_nothing_and_the_page_fits() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    train_on_hostile_texts(folder.path());
    let server = Server::of(&folder.path().join("run"), "");
    let mut grounds = Vec::new();
    for (scheme, width) in [("light", 360), ("dark", 1400)] {
        browser.prefer(scheme);
        browser.size(width, 800);
        browser.visit(&server.address, "");
        for text in HOSTILE {
            browser.value(&format!(
                "location.hash = new URLSearchParams({{ source: {} }}).toString()",
                json!(text)
            ));
            let shown = json!(text.replace('\u{2028}', "U+2028"));
            browser.wait_for(&format!(
                "document.querySelector('h2')?.textContent === {shown} && \
                 !document.querySelector('main[aria-busy]')"
            ));
            let beyond =
                "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(browser.value(beyond), 0, "{text} at {width}");
            let scripts = browser.value("document.querySelectorAll('script, img').length");
            assert_eq!(scripts, 2);
        }
        grounds.push(browser.value("getComputedStyle(document.body).backgroundColor"));
        assert_eq!(browser.faults(), [""; 0]);
    }
    assert_ne!(grounds[0], grounds[1]);
}
