//! The server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::{command, fail, good, succeed, trained};

/// A server of the model of [`trained`], which ends with the test.
struct Server {
    child: Option<Child>,
    address: String,
    /// Its lines after the address.
    stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(others: &[&str]) -> Self {
        let args = [
            "serve",
            "--model",
            ".",
            "--listen",
            "127.0.0.1:0",
            "--threads",
            "1",
        ];
        let mut child = command(&trained().0, &[&args[..], others].concat())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening at http://");
        Self {
            address: address.unwrap_or_else(|| panic!("{line}")).to_string(),
            child: Some(child),
            stdout,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }

    /// The status and the body of the answer to these bytes.
    fn send(&self, request: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        // A server that refuses a request may answer before it has all of it.
        let _ = stream.write_all(request);
        answer(stream)
    }

    fn post(&self, body: &[u8]) -> (u16, Value) {
        let head = format!(
            "POST /v1/translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let (status, body) = self.send(&[head.as_bytes(), body].concat());
        let value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status}: {body}"));
        (status, value)
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
    }

    /// The best output of each text.
    fn translate(&self, texts: &[&str]) -> Vec<String> {
        let (status, answer) = self.post(json!({ "texts": texts }).to_string().as_bytes());
        assert_eq!(status, 200, "{answer}");
        let results = answer["results"].as_array().unwrap().iter();
        let best = results.map(|result| result["outputs"][0]["text"].as_str().unwrap());
        best.map(String::from).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut text = Vec::new();
    // A connection that is closed in the middle of a request is reset, after the answer.
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut part) {
        text.extend_from_slice(&part[..count]);
    }
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (status.unwrap_or(0), body.to_string())
}

const TEXTS: [&str; 4] = ["abc", "reverse", "z", " hgfe "];

#[test]
fn it_answers_as_the_program_does() {
    let server = Server::start(&[]);
    let body = json!({
        "texts": TEXTS,
        "search": { "beam": 4, "n_best": 2, "length_penalty": 0.6, "min_length": 1, "prefix": "a" },
    });
    let (status, answer) = server.post(body.to_string().as_bytes());
    assert_eq!(status, 200, "{answer}");
    let search = "--beam 4 --n-best 2 --length-penalty 0.6 --min-length 1 --prefix a --threads 1";
    let args = ["translate", "--model", ".", "--format", "jsonl"];
    let args: Vec<&str> = args
        .into_iter()
        .chain(search.split(' '))
        .chain(TEXTS)
        .collect();
    let lines = succeed(&trained().0, &args);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), TEXTS.len());
    for (line, (result, text)) in lines.lines().zip(results.iter().zip(TEXTS)) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(result["text"], text);
        let outputs = line["outputs"].as_array().unwrap();
        assert_eq!(outputs.len(), 2);
        for (expected, output) in outputs.iter().zip(result["outputs"].as_array().unwrap()) {
            for name in ["text", "log_probability", "ended"] {
                assert_eq!(output[name], expected[name], "{name}: {output}");
            }
        }
    }
    // Greedy search, without settings.
    let args = ["translate", "--model", ".", "--threads", "1"];
    let greedy = succeed(&trained().0, &[&args[..], &TEXTS].concat());
    assert!(server.translate(&TEXTS).iter().eq(greedy.lines()));

    let skipped = json!({ "texts": ["aXc"], "unknown": "skip" }).to_string();
    let (status, answer) = server.post(skipped.as_bytes());
    assert_eq!(
        (status, &answer["results"][0]["unknown"]),
        (200, &json!(["X"]))
    );
    assert_eq!(server.get("/healthz"), (200, "ok\n".to_string()));
}

#[test]
fn what_cannot_be_answered_has_its_status_and_a_reason() {
    let limits = "--max-texts 3 --max-bytes 400 --max-tokens 9";
    let server = Server::start(&limits.split(' ').collect::<Vec<_>>());
    let long = "a".repeat(500);
    for (body, status, reason) in [
        ("{", 400, "EOF while parsing"),
        ("\u{7f}\u{0}", 400, "expected value"),
        ("[1]", 400, "invalid type"),
        (
            r#"{"texts": ["a"], "beams": 3}"#,
            400,
            "unknown field `beams`",
        ),
        (
            r#"{"texts": ["a"], "search": {"beam": -1}}"#,
            400,
            "invalid value",
        ),
        (r#"{"texts": []}"#, 422, "at least one"),
        (
            r#"{"texts": ["a", "aB"]}"#,
            422,
            "text 2: unknown token \"B\"",
        ),
        (r#"{"texts": [" "]}"#, 422, "text 1: the text to translate"),
        (
            r#"{"texts": ["B"], "unknown": "skip"}"#,
            422,
            "text 1: no token is known",
        ),
        (
            r#"{"texts": ["a"], "search": {"beam": 9999999}}"#,
            422,
            "beam: expected at most 64",
        ),
        (
            r#"{"texts": ["a"], "search": {"beam": 2, "n_best": 3}}"#,
            422,
            "best outputs",
        ),
        (
            r#"{"texts": ["a"], "search": {"max_length": 99999}}"#,
            422,
            "max_length: expected at most",
        ),
        (
            r#"{"texts": ["a"], "search": {"prefix": "Q"}}"#,
            422,
            "prefix: unknown token",
        ),
        (
            r#"{"texts": ["a", "a", "a", "a"]}"#,
            413,
            "at most 3 (--max-texts), found 4",
        ),
        (
            r#"{"texts": ["a", "aaaaaaaaaa"]}"#,
            413,
            "text 2: expected at most 9 tokens (--max-tokens), found 10",
        ),
        (
            &format!("{{\"texts\": [\"{long}\"]}}"),
            413,
            "at most 400 bytes",
        ),
    ] {
        let (found, answer) = server.post(body.as_bytes());
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(
            found == status && error.contains(reason),
            "{body}: {found} {answer}"
        );
    }
    assert_eq!(server.get("/v1/translate").0, 405);
    assert_eq!(server.get("/none").0, 404);
    assert_eq!(server.send(b"no HTTP\r\n\r\n").0, 400);
    let header = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 17));
    assert_eq!(server.send(header.as_bytes()).0, 431);
    let head = "POST /v1/translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    let broken = format!("{head}Transfer-Encoding: chunked\r\n\r\nZZ\r\n");
    assert_eq!(server.send(broken.as_bytes()).0, 400);
    // A body that does not come.
    let hasty = Server::start(&["--timeout", "0.3"]);
    let slow = b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 40\r\n\r\n{";
    let (status, body) = hasty.send(slow);
    assert_eq!(status, 408, "{body}");

    assert_eq!(server.translate(&["abc"]).len(), 1);
    let (_, metrics) = server.get("/metrics");
    for line in [
        r#"seq2seq_requests_total{status="400"} 6"#,
        r#"seq2seq_requests_total{status="413"} 3"#,
        r#"seq2seq_requests_total{status="200"} 1"#,
        "seq2seq_batch_sources_count 1",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
}

#[test]
fn who_goes_away_or_waits_disturbs_nobody() {
    let server = Server::start(&[]);
    let expected = server.translate(&TEXTS);
    let body = json!({ "texts": TEXTS }).to_string();
    let request = format!(
        "POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // Clients that send a part of a request, and clients that wait for no answer.
    let waiting: Vec<TcpStream> = (0..20)
        .map(|at| {
            let mut stream = server.connect();
            stream
                .write_all(&request.as_bytes()[..at * request.len() / 20])
                .unwrap();
            stream
        })
        .collect();
    for _ in 0..20 {
        server.connect().write_all(request.as_bytes()).unwrap();
    }
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(server.translate(&TEXTS), expected);
                }
            });
        }
    });
    drop(waiting);
    assert_eq!(server.translate(&TEXTS), expected);
}

#[cfg(unix)]
#[test]
fn it_ends_once_it_is_told_to_and_has_answered() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut server = Server::start(&[]);
        let body = json!({ "texts": ["abc"] }).to_string();
        let head = "POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: ";
        let mut stream = server.connect();
        // A request under way.
        let request = format!("{head}{}\r\nExpect: 100-continue\r\n\r\n", body.len());
        stream.write_all(request.as_bytes()).unwrap();
        let mut went_on = [0; 25];
        stream.read_exact(&mut went_on).unwrap();
        assert_eq!(&went_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        let child = server.child.take().unwrap();
        // SAFETY: the process is a child of this one, and was not waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        let mut line = String::new();
        // It takes no one new.
        let started = Instant::now();
        while TcpStream::connect(&server.address).is_ok() {
            assert!(started.elapsed() < Duration::from_secs(60), "it goes on");
            thread::sleep(Duration::from_millis(5));
        }
        stream.write_all(body.as_bytes()).unwrap();
        let (status, body) = answer(stream);
        assert_eq!(status, 200, "{body}");
        server.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "stopped\n");
        good(&["serve"], child.wait_with_output().unwrap());
    }
}

#[test]
fn an_address_that_is_taken_or_none_is_an_error() {
    let server = Server::start(&[]);
    let args = ["serve", "--model", ".", "--listen", &server.address];
    fail(
        &trained().0,
        &args,
        &format!("cannot listen at {}", server.address),
    );
    let args = ["serve", "--model", "none", "--listen", "127.0.0.1:0"];
    fail(&trained().0, &args, "no trained model is there");
    for (args, reason) in [
        (["--listen", "localhost"], "invalid socket address"),
        (["--timeout", "0"], "expected 0.001 to 86400 seconds"),
        (["--queue", "0"], "zero"),
    ] {
        let args = [&["serve"][..], &args].concat();
        let output = crate::program::run(&trained().0, &args);
        let [_, stderr] = crate::program::written(&args, &output, 2);
        assert!(stderr.contains(reason), "{stderr}");
    }
}
