//! Baselines in Python: a process that answers as `baselines/protocol.py` says.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::compare::Candidate;
use crate::machine::allocator_settings;

/// The Python that runs the baselines, from the variable `ATTENTION_PYTHON`.
///
/// # Errors
/// The advice where it is not set, in a line.
pub fn python() -> Result<PathBuf, String> {
    let python = std::env::var_os("ATTENTION_PYTHON").map(PathBuf::from);
    Ok(python.ok_or("set ATTENTION_PYTHON to a Python with torch, jax or both")?)
}

/// The folder of the scripts, from the variable `ATTENTION_BASELINES`; by default where this was compiled.
pub fn scripts() -> PathBuf {
    let compiled = || Path::new(env!("CARGO_MANIFEST_DIR")).join("baselines");
    std::env::var_os("ATTENTION_BASELINES").map_or_else(compiled, PathBuf::from)
}

/// The baselines of a bench.
pub struct Baselines {
    clock: Rc<RefCell<Process>>,
    /// Memory is measured apart: its process has an allocator that gives back at once what is freed, so that what is
    /// resident is what is in use. That would slow down the other.
    memory: Rc<RefCell<Process>>,
    set_up: usize,
    /// The versions of the libraries, null where absent.
    pub versions: Value,
}

impl Baselines {
    /// Starts `baselines/<script>`, if the variable `ATTENTION_PYTHON` names a Python, held to `threads` threads.
    ///
    /// # Errors
    /// Why there are no baselines, in a line.
    pub fn start(script: &str, threads: usize) -> Result<Self, String> {
        let python = python()?;
        let path = scripts().join(script);
        let settings = allocator_settings().iter().copied();
        let mut clock = Process::start(Command::new(&python).envs(settings).arg(&path))?;
        let mut memory = Command::new(&python);
        memory.env("MALLOC_MMAP_THRESHOLD_", "131072").arg(&path);
        let mut memory = Process::start(&mut memory)?;
        let hello = json!({ "hello": { "threads": threads } });
        memory.ask(&hello)?;
        Ok(Self {
            versions: clock.ask(&hello)?,
            clock: Rc::new(RefCell::new(clock)),
            memory: Rc::new(RefCell::new(memory)),
            set_up: 0,
        })
    }

    /// Sets up the candidate that `setup` describes, an object in the script's own terms.
    ///
    /// # Errors
    /// Why it cannot run, in a line.
    pub fn set_up(&mut self, name: &str, mut setup: Value) -> Result<Baseline, String> {
        setup["id"] = self.set_up.into();
        self.set_up += 1;
        let answer = self.clock.borrow_mut().ask(&json!({ "setup": setup }))?;
        match answer["skipped"].as_str() {
            Some(reason) => Err(reason.to_string()),
            None => Ok(Baseline {
                name: name.to_string(),
                setup,
                clock: self.clock.clone(),
                memory: self.memory.clone(),
            }),
        }
    }

    /// Adds the candidate that `setup` describes, or says why it cannot run.
    pub fn add_to(&mut self, candidates: &mut Vec<Box<dyn Candidate>>, name: &str, setup: Value) {
        match self.set_up(name, setup) {
            Ok(baseline) => candidates.push(Box::new(baseline)),
            Err(reason) => println!("  skipped: {name}: {reason}"),
        }
    }

    /// Forgets all that was set up, and frees its memory.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn drop_all(&mut self) -> Result<(), String> {
        self.clock.borrow_mut().ask(&json!({ "drop": null }))?;
        Ok(())
    }
}

/// A candidate in another process.
pub struct Baseline {
    name: String,
    setup: Value,
    clock: Rc<RefCell<Process>>,
    memory: Rc<RefCell<Process>>,
}

impl Candidate for Baseline {
    fn name(&self) -> &str {
        &self.name
    }

    fn time(&mut self, repeats: u32) -> Duration {
        let command = json!({ "run": self.setup["id"], "repeats": repeats });
        let answer = self.clock.borrow_mut().ask(&command);
        let seconds = answer.map(|answer| answer["seconds"].as_f64());
        let seconds = seconds.unwrap_or_else(|reason| panic!("{}: {reason}", self.name));
        Duration::from_secs_f64(seconds.expect("a run is answered with its seconds"))
    }

    fn memory(&mut self) -> Option<u64> {
        let command = json!({ "memory": self.setup });
        let answer = self.memory.borrow_mut().ask(&command).ok()?;
        answer["bytes"].as_u64()
    }

    fn rest(&mut self) -> bool {
        // On a GPU both sides live on the same memory.
        let is_on_gpu = self.setup["device"] == "cuda";
        let rest = json!({ "rest": null });
        is_on_gpu && self.clock.borrow_mut().ask(&rest).is_ok()
    }
}

/// A Python process; it ends when its input does.
struct Process {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(command: &mut Command) -> Result<Self, String> {
        let program = command.get_program().display().to_string();
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let mut child = child.map_err(|error| format!("{program} does not start: {error}"))?;
        Ok(Self {
            commands: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().expect("piped")),
            child,
        })
    }

    fn ask(&mut self, command: &Value) -> Result<Value, String> {
        let ended = "the process of the baselines has ended";
        let commands = self.commands.as_mut().expect("open until dropped");
        writeln!(commands, "{command}").map_err(|_| ended)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|_| ended)?;
        Ok(serde_json::from_str(&answer).map_err(|_| ended)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.child.wait();
    }
}
