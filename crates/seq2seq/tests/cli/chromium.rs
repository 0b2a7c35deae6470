//! Chromium without a window, driven by its DevTools protocol over two pipes: JSON, each message ended by a NUL.
//!
//! <https://chromedevtools.github.io/devtools-protocol/>

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::json::{list, string};
use crate::program::Folder;
use serde_json::{Value, json};

/// An answer that takes longer is taken for a hang, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(1800);

/// One browser at a time: each is a dozen processes.
static ONE: Mutex<()> = Mutex::new(());

const ARGS: &str = "--headless --remote-debugging-pipe --no-sandbox --disable-gpu --disable-dev-shm-usage \
                    --disable-background-networking --no-first-run";

/// A browser with one tab.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// The events that came so far.
    events: Vec<Value>,
    session: Option<String>,
    /// The origin that the page may ask.
    origin: Option<String>,
    calls: u64,
    /// Its profile.
    _folder: Folder,
    _turn: MutexGuard<'static, ()>,
}

/// Starts the browser that is on the path, as Debian's package `chromium` puts it there. Where there is none, says that
/// the test is left out.
pub(crate) fn browser() -> Option<Browser> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut programs = env::split_paths(&path).map(|folder| folder.join("chromium"));
    let Some(program) = programs.find(|program| program.is_file()) else {
        eprintln!("left out: no chromium on the path");
        return None;
    };
    // A test that failed has had its turn.
    let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    // Messages come on its descriptor 3 and go to 4, which the shell makes of the first two.
    let redirected = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
    let mut child = Command::new("sh")
        .args(["-c", redirected])
        .arg(program)
        .args(ARGS.split_whitespace())
        .arg(format!("--user-data-dir={}", folder.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, messages) = channel();
    thread::spawn(move || {
        for message in output.split(0).map_while(Result::ok) {
            let message = serde_json::from_slice(&message).unwrap();
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    let mut browser = Browser {
        child,
        input,
        messages,
        events: Vec::new(),
        session: None,
        origin: None,
        calls: 0,
        _folder: folder,
        _turn: turn,
    };
    let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
    let params = json!({"targetId": &target["targetId"], "flatten": true});
    let attached = browser.call("Target.attachToTarget", params);
    browser.session = attached["sessionId"].as_str().map(str::to_string);
    for domain in ["Page", "Runtime", "Log", "Network", "Inspector"] {
        browser.call(&format!("{domain}.enable"), json!({}));
    }
    let method = "Emulation.setFocusEmulationEnabled";
    browser.call(method, json!({"enabled": true}));
    browser.size(1200, 900);
    Some(browser)
}

impl Browser {
    /// Calls a method, and waits for its result.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        let answer = self.wait(method, |message, calls| message["id"] == calls);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Waits for a message; others are kept as events.
    #[track_caller]
    fn wait(&mut self, what: &str, is_it: impl Fn(&Value, u64) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(started.elapsed());
            match self.messages.recv_timeout(left) {
                Ok(message) if is_it(&message, self.calls) => return message,
                Ok(message) => {
                    let holds = &message["method"] != "Inspector.targetCrashed";
                    assert!(holds, "{what}: the page has crashed");
                    self.events.push(message);
                }
                Err(RecvTimeoutError::Timeout) => panic!("{what}: no answer in {PATIENCE:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("{what}: the browser has ended"),
            }
        }
    }

    /// The size of the window, in pixels of the page.
    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let params =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    /// Light or dark, as the system of a user has it.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Opens a file, with what follows `#` in its address, anew.
    #[track_caller]
    pub(crate) fn open(&mut self, file: &Path, hash: &str) {
        self.origin = None;
        self.load(&format!("file://{}#{hash}", file.display()));
    }

    /// Opens the page of a server, with what follows `#` in its address, anew. It may ask this server.
    #[track_caller]
    #[cfg(feature = "serve")]
    pub(crate) fn visit(&mut self, address: &str, hash: &str) {
        let origin = format!("http://{address}/");
        self.load(&format!("{origin}#{hash}"));
        self.origin = Some(origin);
    }

    #[track_caller]
    fn load(&mut self, url: &str) {
        // Another address of the same page would not load it again.
        self.navigate("about:blank");
        self.navigate(url);
    }

    #[track_caller]
    fn navigate(&mut self, url: &str) {
        let is_loaded = |event: &Value| event["method"] == "Page.loadEventFired";
        self.events.clear();
        self.call("Page.navigate", json!({"url": url}));
        if !self.events.iter().any(is_loaded) {
            self.wait(url, |message, _| is_loaded(message));
        }
    }

    /// The value of an expression of JavaScript.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        let holds = result["exceptionDetails"].is_null();
        assert!(holds, "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// The texts of the elements of a CSS selector.
    #[track_caller]
    pub(crate) fn texts(&mut self, selector: &str) -> Vec<String> {
        let texts = self.value(&format!(
            "[...document.querySelectorAll({selector:?})].map((it) => it.textContent)"
        ));
        let texts = list(&texts).iter().map(string);
        texts.map(str::to_string).collect()
    }

    /// Moves the pointer onto the first element of a CSS selector, which is scrolled into view.
    #[track_caller]
    pub(crate) fn point_at(&mut self, selector: &str) -> [f64; 2] {
        let place = self.value(&format!(
            "(() => {{ const element = document.querySelector({selector:?}); \
             element.scrollIntoView({{block: 'center', inline: 'center', behavior: 'instant'}}); \
             const box = element.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        let [x, y] = [0, 1].map(|at| place[at].as_f64().unwrap());
        // It has moved, wherever it was.
        self.mouse("mouseMoved", [1.0, 1.0]);
        self.mouse("mouseMoved", [x, y]);
        [x, y]
    }

    /// Clicks on the first element of a CSS selector.
    #[track_caller]
    pub(crate) fn click(&mut self, selector: &str) {
        let place = self.point_at(selector);
        self.mouse("mousePressed", place);
        self.mouse("mouseReleased", place);
    }

    pub(crate) fn mouse(&mut self, kind: &str, [x, y]: [f64; 2]) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let params = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Presses a key of this name and number.
    #[track_caller]
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => panic!("no such key here: {key}"),
        };
        // Enter is a character, too: it submits and clicks.
        let (down, text) = match key {
            "Enter" => ("keyDown", "\r"),
            _ => ("rawKeyDown", ""),
        };
        for (kind, text) in [(down, text), ("keyUp", "")] {
            let params = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
            });
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Waits until an expression of JavaScript is true.
    #[track_caller]
    #[cfg(feature = "serve")]
    pub(crate) fn wait_for(&mut self, expression: &str) {
        self.value(&format!(
            "new Promise((done) => {{ const look = () => ({expression}) ? done() : setTimeout(look, 10); look(); }})"
        ));
    }

    /// Types into the element that has the focus.
    pub(crate) fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// The requests of the page to a network other than the server that was opened, and its errors, since then.
    pub(crate) fn faults(&mut self) -> Vec<String> {
        // All that came before has been sent once this is answered.
        self.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))");
        let faults = self.events.iter().filter_map(|event| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str()?;
                    let origin = self.origin.as_deref();
                    let is_local = url.starts_with("file://") && params["type"] == "Document"
                        || origin.is_some_and(|origin| url.starts_with(origin))
                        || url.starts_with("data:");
                    (!is_local).then(|| format!("request: {url}"))
                }
                "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" => Some(params["args"].to_string()),
                "Log.entryAdded" => Some(params["entry"].to_string()),
                _ => None,
            }
        });
        faults.collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
