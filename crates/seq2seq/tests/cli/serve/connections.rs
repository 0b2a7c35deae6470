//! Clients that send what they should not, go away, wait or read nothing; and the end of a server.

use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::TEXTS;
use super::server::{Answer, JSON, PATIENCE, Server, answer, head};
use crate::json::string;
use crate::program::good;

#[test]
fn who_goes_away_or_waits_disturbs_nobody() {
    let server = Server::start("");
    let expected = server.translate(&TEXTS);
    let body = json!({ "texts": TEXTS }).to_string();
    let request = format!(
        "POST /v1/translate HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // Clients that send a part of a request, and clients that wait for no answer.
    let send = |part: &[u8]| {
        let mut stream = server.connect();
        stream.write_all(part).unwrap();
        stream
    };
    let part = |at: usize| &request.as_bytes()[..at * request.len() / 20];
    let waiting: Vec<TcpStream> = (0..20).map(|at| send(part(at))).collect();
    for _ in 0..20 {
        drop(send(request.as_bytes()));
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
        let mut server = Server::start("");
        let body = json!({ "texts": ["abc"] }).to_string();
        let head = format!("POST /v1/translate HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: ");
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
            assert!(started.elapsed() < PATIENCE, "it goes on");
            thread::sleep(Duration::from_millis(5));
        }
        stream.write_all(body.as_bytes()).unwrap();
        let Answer { status, body, .. } = answer(stream);
        assert_eq!(status, 200, "{body}");
        server.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "stopped\n");
        good("serve", child.wait_with_output().unwrap());
    }
}

#[test]
fn what_is_wrong_has_its_status_while_others_are_answered() {
    let server = &Server::start("--max-bytes 400 --max-tokens 9 --timeout 5");
    // On a busy machine the model may be late for the time that this server has.
    let translated = || loop {
        let (status, answer) = server.ask("/v1/translate", &json!({ "texts": TEXTS }));
        let is_late = status == 503 && string(&answer["error"]).contains("too long");
        assert!(status == 200 || is_late, "{status}: {answer}");
        if status == 200 {
            return answer;
        }
    };
    let expected: Value = translated();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut count = 0;
                while count == 0 || !is_over.load(Ordering::Relaxed) {
                    assert_eq!(translated(), expected);
                    count += 1;
                }
            });
        }
        for path in ["/v1/translate", "/v1/explain"] {
            let whole = |body: &str| head(path, body.len()) + body;
            let long = "a".repeat(500);
            let requests = [
                (400, "no HTTP\r\n\r\n".to_string()),
                (400, whole("{\"texts\"")),
                (400, whole("[]")),
                (413, whole(&json!({ "source": long }).to_string())),
                (404, head("/v1/none", 0)),
                (405, head(path, 0).replace("POST", "PUT")),
                // It says that it has more than it sends, and is waited for.
                (408, head(path, 40) + "{"),
            ];
            for (status, request) in &requests {
                // Who goes away in the middle, or before the answer, is no one else's affair.
                for part in [request.len() / 2, request.len()] {
                    let _ = server.connect().write_all(&request.as_bytes()[..part]);
                }
                let (found, body) = server.send(request.as_bytes());
                assert_eq!(found, *status, "{request}: {body}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn who_reads_no_answer_gives_the_connection_back() {
    let server = Server::start("--max-connections 1 --timeout 2");
    // Answers for more bytes than systems keep for a client.
    const COUNT: usize = 3000;
    let request = "GET /page.js HTTP/1.1\r\nHost: x\r\n\r\n";
    let bytes = server.get("/page.js").body.len();
    assert!(COUNT * bytes > 100_000_000, "{bytes}");
    let mut deaf = server.connect();
    // On a busy machine the server may have ended the connection before it has all of them.
    let _ = deaf.write_all(request.repeat(COUNT).as_bytes());
    // There is one connection, so that another client waits for its end.
    assert_eq!(server.get("/healthz").status, 200);
    let mut found = 0;
    let mut part = [0; 1 << 16];
    while let Ok(count @ 1..) = deaf.read(&mut part) {
        found += count;
    }
    assert!(found < COUNT * bytes, "{found}");
}
