//! Translations.

use serde_json::{Value, json};

use attention_tests::assert_says;

use super::TEXTS;
use super::server::{JSON, Server, head};
use crate::json::list;
use crate::program::{ended, fail, rows, succeed, trained};

const TRANSLATE: &str = "/v1/translate";

/// Words of Rust that say nothing to who sends JSON.
const WORDS_OF_RUST: &str = "usize f64 struct tuple Option";

#[test]
fn it_answers_as_the_program_does() {
    let server = Server::start("");
    let body = json!({
        "texts": TEXTS,
        "search": { "beam": 4, "n_best": 2, "length_penalty": "gnmt:0.6", "min_length": 1, "prefix": "a" },
    });
    let (status, answer) = server.ask(TRANSLATE, &body);
    assert_eq!(status, 200, "{answer}");
    let args = [&["translate", "--model", ".", "--threads", "1"][..], &TEXTS].concat();
    let search =
        "--format jsonl --beam 4 --n-best 2 --length-penalty gnmt:0.6 --min-length 1 --prefix a";
    let search: Vec<&str> = search.split(' ').collect();
    let lines = succeed(&trained().0, &[&args[..], &search].concat());
    let results = list(&answer["results"]);
    assert_eq!(results.len(), TEXTS.len());
    for (line, (result, text)) in lines.lines().zip(results.iter().zip(TEXTS)) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(result["text"], text);
        let outputs = list(&line["outputs"]);
        assert_eq!(outputs.len(), 2);
        for (expected, output) in outputs.iter().zip(list(&result["outputs"])) {
            for name in ["text", "log_probability", "ended"] {
                assert_eq!(output[name], expected[name], "{name}: {output}");
            }
        }
    }
    // Greedy search, without settings.
    let greedy = succeed(&trained().0, &args);
    assert!(server.translate(&TEXTS).iter().eq(greedy.lines()));

    // A field that is null is left out.
    let search = "beam n_best mass length_penalty coverage_penalty repetition_penalty no_repeat_ngram_size \
                  min_length max_length prefix";
    let fields = search.split(' ').map(|name| (name.into(), Value::Null));
    let search: serde_json::Map<String, Value> = fields.collect();
    for search in [Value::Null, search.into()] {
        let nulls = json!({ "texts": ["abc"], "search": search, "unknown": null });
        let (status, answer) = server.ask(TRANSLATE, &nulls);
        assert_eq!(status, 200, "{nulls}: {answer}");
        let expected = server.ask(TRANSLATE, &json!({ "texts": ["abc"] })).1;
        assert_eq!(answer, expected);
    }

    let (status, answer) = server.ask(TRANSLATE, &json!({ "texts": ["aXc"], "unknown": "skip" }));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["results"][0]["unknown"], json!(["X"]));
    let health = server.get("/healthz");
    assert_eq!((health.status, &health.body[..]), (200, "ok\n"));
}

#[test]
fn what_cannot_be_answered_has_its_status_and_a_reason() {
    let server = Server::start("--max-texts 3 --max-bytes 400 --max-tokens 9");
    // An array stands for no object, by its places or otherwise.
    let table = r#"
{ | 400 | EOF while parsing
CONTROL | 400 | expected value
[1] | 400 | invalid type: sequence, expected an object
[["abc"]] | 400 | expected an object
{"texts": ["a"], "search": [4, 2]} | 400 | invalid type: sequence, expected an object
{"texts": null} | 400 | invalid type: null, expected an array
{} | 400 | missing field `texts`
{"texts": ["a", null]} | 400 | invalid type: null, expected a string
{"texts": "a"} | 400 | invalid type: string "a", expected an array
{"texts": ["a"], "unknown": "Skip"} | 400 | unknown variant `Skip`, expected one of `error`, `skip`, `unk`
{"texts": ["a"], "search": {"mass": "1"}} | 400 | invalid type: string "1", expected a number
{"texts": ["a"], "search": {"length_penalty": 0.6}} | 400 | average:0.6 (log p / n^0.6, as transformers,
{"texts": ["a"], "search": {"length_penalty": [1]}} | 400 | expected average:A or gnmt:A
{"texts": ["a"], "search": {"length_penalty": "gnmt:1"}} | 422 | expected a beam of two or more
{"texts": ["a"], "search": {"repetition_penalty": 0}} | 422 | the repetition penalty: expected a number above 0, found 0
{"texts": ["a"], "search": {"beam": 2.5}} | 422 | search.beam: expected a whole number from 1 to 64, found 2.5
{"texts": ["a"], "beams": 3} | 400 | unknown field `beams`
{"texts": ["a"], "search": {"mass": 1}, "texts": ["b"]} | 400 | duplicate field `texts`
{"texts": ["a"], "search": {"beam": 2, "beam": 2}} | 400 | duplicate field `beam`
{"texts": ["a"], "search": {"beam": -1}} | 422 | search.beam: expected a whole number from 1 to 64, found -1
{"texts": ["a"], "search": {"beam": 123456789012345678901}} | 422 | search.beam: expected a whole number from 1 to 64, found 12345678901234567
{"texts": []} | 422 | at least one
{"texts": ["a", "aB"]} | 422 | text 2: unknown token "B"
{"texts": [" "]} | 422 | text 1: the text to translate
{"texts": ["B"], "unknown": "skip"} | 422 | text 1: no token is known
{"texts": ["a"], "search": {"beam": 9999999}} | 422 | search.beam: expected a whole number from 1 to 64, found 9999999
{"texts": ["a"], "search": {"beam": 0}} | 422 | search.beam: expected a whole number from 1 to 64, found 0
{"texts": ["a"], "search": {"n_best": 0}} | 422 | search.n_best: expected a whole number from 1 to 64, found 0
{"texts": ["a"], "search": {"max_length": 0}} | 422 | search.max_length: expected a whole number from 1 to
{"texts": ["a"], "search": {"beam": 2, "n_best": 3}} | 422 | best outputs
{"texts": ["a"], "search": {"max_length": 99999}} | 422 | search.max_length: expected a whole number from 1 to
{"texts": ["a"], "search": {"prefix": "Q"}} | 422 | prefix: unknown token
{"texts": ["a", "a", "a", "a"]} | 413 | at most 3 (--max-texts), found 4
{"texts": ["a", "aaaaaaaaaa"]} | 413 | text 2: expected at most 9 tokens (--max-tokens), found 10
{"texts": ["LONG"]} | 413 | at most 400 bytes
"#;
    for [body, status, reason] in rows(table) {
        let body = body
            .replace("LONG", &"a".repeat(500))
            .replace("CONTROL", "\u{7f}\u{0}");
        let (found, answer) = server.post(TRANSLATE, body.as_bytes());
        let error = answer["error"].as_str().unwrap_or_default();
        let of_rust = WORDS_OF_RUST.split(' ').find(|word| error.contains(word));
        let is_told = error.contains(reason) && of_rust.is_none();
        let holds = is_told && found.to_string() == status;
        assert!(holds, "{body}: {found} {answer}");
    }
    assert_eq!(server.get(TRANSLATE).status, 405);
    assert_eq!(server.get("/none").status, 404);
    assert_eq!(server.send(b"no HTTP\r\n\r\n").0, 400);
    let header = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 17));
    assert_eq!(server.send(header.as_bytes()).0, 431);
    let start = format!("POST /v1/translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{JSON}");
    let broken = format!("{start}Transfer-Encoding: chunked\r\n\r\nZZ\r\n");
    assert_eq!(server.send(broken.as_bytes()).0, 400);
    // A body that does not come.
    let hasty = Server::start("--timeout 2");
    let slow = head(TRANSLATE, 40) + "{";
    let (status, body) = hasty.send(slow.as_bytes());
    assert_eq!(status, 408, "{body}");

    assert_eq!(server.translate(&["abc"]).len(), 1);
    server.assert_counted(&[
        r#"seq2seq_requests_total{kind="translate",status="400"} 17"#,
        r#"seq2seq_requests_total{kind="translate",status="413"} 3"#,
        r#"seq2seq_requests_total{kind="translate",status="200"} 1"#,
        "seq2seq_batch_sources_count 1",
    ]);
}

#[test]
fn pages_of_others_and_other_kinds_of_bodies_are_refused() {
    let server = Server::start("--allow-host Translate.example");
    let body = json!({ "texts": ["abc"] }).to_string();
    let status = |method_path: &str, headers: &[&str]| {
        let headers = headers.join("\r\n").replace("OWN", &server.address);
        let length = body.len();
        let head = format!(
            "{method_path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\nContent-Length: {length}"
        );
        server.send(format!("{head}\r\n\r\n{body}").as_bytes())
    };
    let local = server.address.replace("127.0.0.1", "localhost");
    let json = "Content-Type: application/json; charset=utf-8";
    let table = r#"
Host: OWN | Origin: http://OWN | 200
Host: LOCAL | Origin: http://LOCAL | 200
Host: x | X: none | 200
Host: translate.example | Origin: https://translate.example | 200
Host: evil.example | X: none | 403
Host: evil.example | Origin: http://evil.example | 403
Host: localhost | X: none | 403
Host: 127.0.0.1:1 | X: none | 403
X: none | X: none | 403
Host: OWN | Host: evil.example | 403
Host: OWN | Origin: http://evil.example | 403
Host: OWN | Origin: http://localhost:1 | 403
Host: OWN | Origin: null | 403
"#;
    for [host, origin, expected] in rows(table) {
        let [host, origin] = [host, origin].map(|it| it.replace("LOCAL", &local));
        for path in "POST /v1/translate|POST /v1/explain|GET /|GET /metrics".split('|') {
            let (mut found, answer) = status(path, &[&host, &origin, json]);
            if path.ends_with("explain") && found == 400 {
                found = 200;
            }
            let what = format!("{path}, {host}, {origin}: {answer}");
            assert_eq!(found.to_string(), expected, "{what}");
        }
    }
    let (_, answer) = status("POST /v1/translate", &["Host: evil.example", json]);
    let own = &server.address;
    let line =
        format!("Host: expected {own}, or a host that --allow-host names, found evil.example");
    assert_says(&answer, &line);
    let table = "
Content-Type: text/plain | 415
Content-Type: application/x-www-form-urlencoded | 415
Content-Type: multipart/form-data; boundary=application/json | 415
Content-Type: application/jsonp | 415
X: none | 415
content-type: Application/JSON | 200
";
    for [kind, expected] in rows(table) {
        let (found, answer) = status("POST /v1/translate", &["Host: OWN", kind]);
        assert_eq!(found.to_string(), expected, "{kind}: {answer}");
    }
    // What a browser asks before another page's request in JSON is not allowed.
    let headers = ["Host: OWN", "Access-Control-Request-Method: POST"];
    assert_eq!(status("OPTIONS /v1/translate", &headers).0, 405);
}

#[test]
fn an_address_that_is_taken_or_none_is_an_error() {
    let server = Server::start("");
    let run = &trained().0;
    let args = format!("serve --model . --listen {}", server.address);
    fail(run, &args, &format!("cannot listen at {}", server.address));
    let args = "serve --model none --listen 127.0.0.1:0";
    fail(run, args, "no trained model is there");
    for (args, reason) in [
        ("--listen localhost", "invalid socket address"),
        ("--timeout 0", "expected 0.001 to 86400 seconds"),
        ("--queue 0", "zero"),
    ] {
        let [_, stderr] = ended(run, &format!("serve {args}"), 2);
        assert_says(&stderr, reason);
    }
}
