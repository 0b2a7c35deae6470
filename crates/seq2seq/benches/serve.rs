//! `seq2seq serve` under load: many clients on loopback, each with one word after the other.
//!
//! `cargo bench -p seq2seq --features serve --bench serve [-- CLIENTS SECONDS RUN]`, by default 200 clients for
//! 60 seconds, and a small model of dates that is trained first; RUN is another model of dates. It prints requests
//! per second, percentiles of latency, errors, and the memory of the server before the first client, after 10 seconds
//! and at the end. An answer without outputs is an error, after which its client connects anew.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_seq2seq");

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    let clients: usize = args.first().map_or(Ok(200), |arg| arg.parse())?;
    let seconds: f64 = args.get(1).map_or(Ok(60.0), |arg| arg.parse())?;
    let run = args
        .get(2)
        .map_or_else(dates, |arg| Ok(PathBuf::from(arg)))?;

    let mut server = Command::new(PROGRAM)
        .args(["serve", "--listen", "127.0.0.1:0", "--model"])
        .arg(run)
        .stdout(Stdio::piped())
        .spawn()?;
    let measured = measure(&mut server, clients, seconds);
    server.kill()?;
    server.wait()?;
    measured
}

/// A run of a small model, trained once.
fn dates() -> Result<PathBuf> {
    let run = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("served-dates");
    if !run.join("run.json").exists() {
        let args = [
            "train",
            "dates",
            "--train-pairs",
            "6000",
            "--epochs",
            "2",
            "--quiet",
            "--out",
        ];
        let trained = Command::new(PROGRAM).args(args).arg(&run).status()?;
        if !trained.success() {
            return Err("no model was trained".into());
        }
    }
    Ok(run)
}

fn measure(server: &mut Child, clients: usize, seconds: f64) -> Result<()> {
    let mut line = String::new();
    let stdout = server.stdout.take().ok_or("the server says nothing")?;
    BufReader::new(stdout).read_line(&mut line)?;
    let address = line.trim().strip_prefix("listening at http://");
    let address = address.ok_or_else(|| format!("the server said {line:?}"))?;

    let ended = AtomicBool::new(false);
    let mut memory = vec![format!("{} at the start", resident(server.id()))];
    let started = Instant::now();
    let of_clients = thread::scope(|scope| {
        let ended = &ended;
        let of_clients: Vec<_> = (0..clients)
            .map(|client| scope.spawn(move || requests(address, client, ended)))
            .collect();
        let first = seconds.min(10.0);
        thread::sleep(Duration::from_secs_f64(first));
        memory.push(format!("{} after {first:.0} s", resident(server.id())));
        thread::sleep(Duration::from_secs_f64(seconds - first));
        memory.push(format!("{} at the end", resident(server.id())));
        ended.store(true, Ordering::Relaxed);
        let of_clients = of_clients.into_iter().map(|client| match client.join() {
            Ok(answers) => Ok(answers),
            Err(_) => Err("a client panicked".into()),
        });
        of_clients.collect::<Result<Vec<Answers>>>()
    })?;
    // Until the last client has its last answer.
    let seconds = started.elapsed().as_secs_f64();
    let errors: Vec<&str> = of_clients
        .iter()
        .flat_map(|it| it.errors.iter().map(String::as_str))
        .collect();
    let mut latencies: Vec<f64> = of_clients
        .iter()
        .flat_map(|it| &it.latencies)
        .copied()
        .collect();
    if let Some(error) = errors.first() {
        println!("the first error: {error}");
    }
    if latencies.is_empty() {
        return Err("no request was answered with outputs in the time".into());
    }
    latencies.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = latencies.len().saturating_sub(1);
        1e3 * latencies[(share * last as f64).round() as usize]
    };
    println!(
        "{clients} clients, {seconds:.0} s: {} requests, {:.0} a second, {} errors",
        latencies.len(),
        latencies.len() as f64 / seconds,
        errors.len()
    );
    println!(
        "latency, ms: p50 {:.1}, p90 {:.1}, p99 {:.1}, most {:.1}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    println!("resident memory of the server, MiB: {}", memory.join(", "));
    match errors.len() {
        0 => Ok(()),
        count => Err(format!("{count} requests had no outputs").into()),
    }
}

/// The answers to a client.
#[derive(Default)]
struct Answers {
    /// The seconds of each request that was answered with outputs.
    latencies: Vec<f64>,
    /// The reason of each that was not.
    errors: Vec<String>,
}

/// One request after the other, on a connection that is made anew after an error.
fn requests(address: &str, client: usize, ended: &AtomicBool) -> Answers {
    let mut answers = Answers::default();
    let mut number = client;
    while !ended.load(Ordering::Relaxed) {
        if let Err(error) = requests_until_error(address, &mut number, ended, &mut answers) {
            answers.errors.push(error.to_string());
            // A server that refuses everything is not to be asked a million times.
            thread::sleep(Duration::from_millis(100));
        }
    }
    answers
}

fn requests_until_error(
    address: &str,
    number: &mut usize,
    ended: &AtomicBool,
    answers: &mut Answers,
) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    while !ended.load(Ordering::Relaxed) {
        *number += 1;
        let body = format!(
            r#"{{"texts": ["{} May {}"]}}"#,
            1 + *number % 28,
            1900 + *number % 120
        );
        let request = format!(
            "POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let started = Instant::now();
        stream.write_all(request.as_bytes())?;
        let answer = read(&mut stream)?;
        let seconds = started.elapsed().as_secs_f64();
        if !answer.starts_with("HTTP/1.1 200") || !answer.contains("log_probability") {
            return Err(format!("a request was answered {answer:?}").into());
        }
        answers.latencies.push(seconds);
    }
    Ok(())
}

/// An answer, whose length its head tells.
fn read(stream: &mut TcpStream) -> Result<String> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let count = stream.read(&mut part)?;
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.parse::<usize>().ok())?
            });
            if length.is_some_and(|length| body.len() >= length) {
                return Ok(text.to_string());
            }
        }
        if count == 0 {
            return Err(format!("the connection ended after {text:?}").into());
        }
    }
}

/// The memory of a process, where the system tells.
fn resident(process: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map_or("unknown".to_string(), |kib| format!("{:.1}", kib / 1024.0))
}
