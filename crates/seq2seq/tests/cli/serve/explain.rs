//! Explanations, and the files of the live page.

use serde_json::{Value, json};

use super::server::Server;
use crate::json::{greedy, list, number, string};
use crate::page::{data_in, data_of};
use crate::program::{Folder, assert_starts, rows, succeed, trained};

const EXPLAIN: &str = "/v1/explain";

/// The explanation that a server gives.
fn explained(server: &Server, request: Value) -> Value {
    let (status, answer) = server.ask(EXPLAIN, &request);
    assert_eq!(status, 200, "{request}: {answer}");
    answer["items"][0]["explanations"][0].clone()
}

/// The tokens of an output, its end among them.
fn tokens(output: &Value) -> Vec<&str> {
    let steps = list(&output["steps"]).iter();
    steps.map(|step| string(&step["token"])).collect()
}

#[test]
fn an_explanation_is_the_data_of_a_page() {
    let server = Server::start("");
    let folder = &Folder::new();
    let file = folder.join("x.html");
    for (text, n_best) in [("zyxwvut", 3), ("e", 5)] {
        let args = format!("attend {text} --model . --threads 1 --n-best {n_best} --output");
        succeed(&trained().0, &format!("{args} {}", file.display()));
        let (status, answer) = server.ask(EXPLAIN, &json!({ "source": text, "n_best": n_best }));
        let mut expected = data_of(&file);
        // A server does not tell where the folder is, nor what it was called by.
        expected["models"][0]["name"] = json!("run");
        assert_eq!((status, answer), (200, expected));
    }
    // Tokens that are not known, where the request says how to read them.
    let skipped = explained(&server, json!({ "source": "aXc", "unknown": "skip" }));
    assert_eq!(skipped["tokens"], json!(["a", "c"]));
    assert_eq!(skipped["source"], "aXc");
    assert_eq!(skipped["positions"], json!([0, 2]));
    let unknown = explained(&server, json!({ "source": "aXc", "unknown": "unk" }));
    assert_eq!(unknown["is_known"], json!([true, false, true]));
    assert_eq!(unknown["positions"], json!([0, 1, 2]));
}

#[test]
fn outputs_begin_with_a_prefix_that_is_forced() {
    let server = Server::start("");
    let free = explained(&server, json!({ "source": "abcd" }));
    let free = greedy(&free);
    // The second of the most likely tokens at a step, and then at one after it.
    let mut prefix = Vec::new();
    let mut before = free.clone();
    for at in [1, 2] {
        let is_other = |it: &&Value| it[0] != before["steps"][at]["token"] && it[0] != "<eos>";
        let alternatives = list(&before["steps"][at]["alternatives"]);
        let alternative = alternatives.iter().find(is_other).unwrap().clone();
        let mut forced: Vec<String> = tokens(&before)[..at].iter().map(|&it| it.into()).collect();
        forced.push(string(&alternative[0]).to_string());
        let explanation = explained(&server, json!({ "source": "abcd", "prefix": forced }));
        let outputs = list(&explanation["outputs"]);
        assert!(outputs.len() >= 5);
        for output in outputs {
            assert_eq!(tokens(output)[..=at], forced[..]);
        }
        // They are as from a search with the prefix, with the same probabilities.
        let search = json!({ "n_best": 5, "prefix": forced.concat() });
        let request = json!({ "texts": ["abcd"], "search": search });
        let (_, translated) = server.ask("/v1/translate", &request);
        let translated = list(&translated["results"][0]["outputs"]);
        for (output, expected) in outputs.iter().zip(translated) {
            for name in ["text", "ended", "log_probability", "score"] {
                assert_eq!(output[name], expected[name], "{name}: {output}");
            }
        }
        let request = json!({ "texts": ["abcd"], "search": { "prefix": forced.concat() } });
        let (_, best) = server.ask("/v1/translate", &request);
        let best = &best["results"][0]["outputs"][0];
        assert_eq!(greedy(&explanation)["text"], best["text"]);
        // The step is as before, with another token.
        let step = &greedy(&explanation)["steps"][at];
        assert_eq!(step["alternatives"], before["steps"][at]["alternatives"]);
        assert!((number(&step["log_probability"]).exp() - number(&alternative[1])).abs() < 1e-5);
        before = greedy(&explanation).clone();
        prefix = forced;
    }
    // With the end after it, it is the output.
    let text = prefix.concat();
    for (forced, text) in [(prefix, &text[..]), (Vec::new(), "")] {
        let whole = [&forced[..], &["<eos>".to_string()]].concat();
        let explanation = explained(&server, json!({ "source": "abcd", "prefix": whole }));
        assert_eq!(list(&explanation["outputs"]).len(), 1);
        let output = greedy(&explanation);
        assert_eq!(output["text"], text);
        assert_eq!(output["ended"], true);
        assert_eq!(tokens(output), whole);
        let line = succeed(&trained().0, &["score", "abcd", text, "--model", "."]);
        let score: f64 = line.split('\t').nth(2).unwrap().parse().unwrap();
        let found = number(&output["log_probability"]);
        assert!((found - score).abs() < 1e-9, "{found} {line}");
    }
}

#[test]
fn what_cannot_be_explained_has_its_status_and_a_reason() {
    let server = Server::start("--max-bytes 4000 --max-tokens 9");
    let table = r#"
{} | 400 | missing field `source`
{"source": "a", "search": {}} | 400 | unknown field `search`
{"source": ["a"]} | 400 | invalid type: sequence, expected a string
{"source": "a", "prefix": "a"} | 400 | invalid type: string "a", expected an array
["a"] | 400 | expected an object
{"source": null} | 400 | invalid type: null, expected a string
{"source": "aB"} | 422 | source: unknown token "B" at position 2
{"source": " \t"} | 422 | source: the text to translate
{"source": "B", "unknown": "skip"} | 422 | source: no token is known
{"source": "a", "prefix": ["a", "Q"]} | 422 | prefix: unknown token "Q"
{"source": "a", "prefix": ["<eos>", "a"]} | 422 | prefix: unknown token
{"source": "a", "prefix": ["<pad>"]} | 422 | prefix: unknown token
{"source": "a", "prefix": [PREFIX]} | 422 | the prefix: expected at most
{"source": "a", "n_best": 11} | 422 | n_best: expected a whole number from 1 to 10, found 11
{"source": "a", "n_best": 0} | 422 | n_best: expected a whole number from 1 to 10, found 0
{"source": "a", "beam": 65} | 422 | beam: expected a whole number from 1 to 64, found 65
{"source": "a", "beam": 2} | 422 | best outputs: expected 1 to 2
{"source": "aaaaaaaaaa"} | 413 | source: expected at most 9 tokens
{"source": "LONG"} | 413 | at most 4000 bytes
"#;
    let (prefix, long) = (vec!["\"a\""; 500].join(", "), "a".repeat(5000));
    for [body, status, reason] in rows(table) {
        let body = body.replace("PREFIX", &prefix).replace("LONG", &long);
        let (found, answer) = server.post(EXPLAIN, body.as_bytes());
        let error = answer["error"].as_str().unwrap_or_default();
        let is_told = error.contains(reason) && !error.contains('\n');
        let holds = is_told && found.to_string() == status;
        assert!(holds, "{body}: {found} {answer}");
    }
    assert_eq!(server.get(EXPLAIN).status, 405);
    let nulls =
        json!({ "source": "abc", "prefix": null, "n_best": null, "beam": null, "unknown": null });
    let plain = explained(&server, json!({ "source": "abc" }));
    assert_eq!(explained(&server, nulls), plain);
    server.assert_counted(&[
        r#"seq2seq_requests_total{kind="explain",status="400"} 6"#,
        r#"seq2seq_requests_total{kind="explain",status="413"} 2"#,
        r#"seq2seq_requests_total{kind="explain",status="422"} 11"#,
        r#"seq2seq_requests_total{kind="explain",status="200"} 2"#,
        r#"seq2seq_request_seconds_count{kind="explain"} 21"#,
        "seq2seq_waiting 0",
    ]);
}

#[test]
fn an_explanation_that_no_browser_would_draw_is_refused() {
    let server = Server::start("--max-length 5000 --max-tokens 100");
    let source = "a".repeat(100);
    let whole = |tokens: usize| [&vec!["a"; tokens][..], &["<eos>"]].concat();
    let (status, answer) = server.ask(EXPLAIN, &json!({ "source": source, "prefix": whole(5000) }));
    // A weight and a change for each source token, and five alternatives.
    let expected = "the explanation: expected at most 1000000 weights, changes and alternatives of its outputs, found \
                    1025205; fewer outputs, or a shorter source, have fewer";
    assert_eq!((status, &answer["error"]), (413, &json!(expected)));
    let shorter = json!({ "source": source, "prefix": whole(20) });
    assert_eq!(greedy(&explained(&server, shorter))["text"], "a".repeat(20));
}

#[test]
fn files_of_the_page_say_what_they_are() {
    let server = Server::start("");
    for (path, status, kind) in [
        ("/", 200, "text/html; charset=utf-8"),
        ("/?x=1", 200, "text/html; charset=utf-8"),
        ("/page.css", 200, "text/css; charset=utf-8"),
        ("/page.js", 200, "text/javascript; charset=utf-8"),
        ("/none", 404, "application/json"),
        (EXPLAIN, 405, "application/json"),
    ] {
        let answer = server.get(path);
        let expected = (status, Some(kind));
        assert_eq!((answer.status, answer.header("content-type")), expected);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").unwrap();
        assert_starts(policy, "default-src 'none'; ");
        for unsafe_source in ["unsafe-", "http", "*", "data: "] {
            assert!(!policy.contains(unsafe_source), "{policy}");
        }
        let length: usize = answer.header("content-length").unwrap().parse().unwrap();
        assert_eq!(length, answer.body.len());
    }
    let data = data_in(&server.get("/").body);
    assert_eq!(data["models"][0]["description"], "rnn, additive attention");
    assert_eq!(data["models"][0]["name"], "run");
    assert_eq!(data["items"], json!([]));
    assert_eq!(server.post("/", b"{}").0, 405);
}
