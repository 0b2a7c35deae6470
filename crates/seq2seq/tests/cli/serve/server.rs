//! A server for a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout};
use std::time::Duration;

use serde_json::{Value, json};

use crate::json::{list, string};
use crate::program::{command, trained};

/// An answer that takes longer is taken for a hang, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1800);

/// A server, which ends with the test.
pub(crate) struct Server {
    pub(crate) child: Option<Child>,
    pub(crate) address: String,
    /// Its lines after the address.
    pub(crate) stdout: BufReader<ChildStdout>,
}

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Server {
    /// Starts a server of the model of [`trained`].
    pub(crate) fn start(others: &str) -> Self {
        Self::of(&trained().0, others)
    }

    /// Starts a server of the model of a run.
    pub(crate) fn of(run: &Path, others: &str) -> Self {
        let mut args =
            format!("serve --model . --listen 127.0.0.1:0 --allow-host x --threads 1 {others}");
        if !others.contains("--timeout") {
            args += &format!(" --timeout {}", PATIENCE.as_secs());
        }
        let mut child = command(run, &args).spawn().unwrap();
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

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The answer to these bytes.
    pub(crate) fn answer(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses a request may answer before it has all of it.
        let _ = stream.write_all(request);
        answer(stream)
    }

    /// The status and the body of the answer to these bytes.
    pub(crate) fn send(&self, request: &[u8]) -> (u16, String) {
        let Answer { status, body, .. } = self.answer(request);
        (status, body)
    }

    /// The answer to a value in JSON.
    pub(crate) fn ask(&self, path: &str, value: &Value) -> (u16, Value) {
        self.post(path, value.to_string().as_bytes())
    }

    pub(crate) fn post(&self, path: &str, body: &[u8]) -> (u16, Value) {
        let (status, body) = self.send(&[head(path, body.len()).as_bytes(), body].concat());
        let value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status}: {body}"));
        (status, value)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        self.answer(request.as_bytes())
    }

    /// The best output of each text.
    pub(crate) fn translate(&self, texts: &[&str]) -> Vec<String> {
        let (status, answer) = self.ask("/v1/translate", &json!({ "texts": texts }));
        assert_eq!(status, 200, "{answer}");
        let results = list(&answer["results"]).iter();
        let best = results.map(|result| string(&result["outputs"][0]["text"]));
        best.map(String::from).collect()
    }

    /// Checks that there are these lines among the metrics.
    #[track_caller]
    pub(crate) fn assert_counted(&self, lines: &[&str]) {
        let Answer { body, .. } = self.get("/metrics");
        for line in lines {
            assert!(body.lines().any(|it| it == *line), "{line}: {body}");
        }
    }
}

/// The kind of a body.
pub(crate) const JSON: &str = "Content-Type: application/json\r\n";

/// The head of a request with a body of `bytes` bytes.
pub(crate) fn head(path: &str, bytes: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{JSON}Content-Length: {bytes}\r\n\r\n"
    )
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// All that comes until the connection is closed.
pub(crate) fn answer(mut stream: TcpStream) -> Answer {
    let mut text = Vec::new();
    // A connection that is closed in the middle of a request is reset, after the answer.
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut part) {
        text.extend_from_slice(&part[..count]);
    }
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1);
    Answer {
        status: status.and_then(|it| it.parse().ok()).unwrap_or(0),
        head: head.to_string(),
        body: body.to_string(),
    }
}
