//! The checks of the book.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::page::{Include, Page};

/// The book of a repository.
pub(crate) struct Book {
    root: PathBuf,
    /// The folder of the pages.
    folder: PathBuf,
    pages: Vec<Page>,
}

impl Book {
    pub(crate) fn open(root: &Path) -> Self {
        let folder = root.join("docs/book/src");
        let names = files(&folder).into_iter();
        let pages = names.filter(|name| has_ending(name, "md"));
        let pages = pages.map(|name| Page::read(&folder, name)).collect();
        Self {
            root: root.to_path_buf(),
            folder,
            pages,
        }
    }

    /// All that is wrong, a line each; none in a book that is right.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        self.check_summary(&mut problems);
        for page in &self.pages {
            self.check_blocks(page, &mut problems);
            self.check_includes(page, &mut problems);
            self.check_links(page, &mut problems);
            self.check_paths(page, &mut problems);
            self.check_commands(page, &mut problems);
        }
        self.check_anchors(&mut problems);
        self.check_pictures(&mut problems);
        self.check_cheatsheet(&mut problems);
        problems
    }

    /// The summary names every page, once, and no other.
    fn check_summary(&self, problems: &mut Vec<String>) {
        let is_summary = |page: &&Page| page.name == Path::new("SUMMARY.md");
        let Some(summary) = self.pages.iter().find(is_summary) else {
            return problems.push("a SUMMARY.md expected, got none".to_string());
        };
        let named = summary.links().map(|(_, page, _)| PathBuf::from(page));
        let named: Vec<_> = named.collect();
        let pages = self.pages.iter().map(|page| &page.name);
        for page in pages.filter(|page| **page != summary.name) {
            let times = named.iter().filter(|named| *named == page).count();
            if times != 1 {
                let page = page.display();
                problems.push(format!(
                    "SUMMARY.md: {page} expected once, got {times} times"
                ));
            }
        }
    }

    /// Rust and the output of programs are included; formulas, commands and other languages say what they are.
    fn check_blocks(&self, page: &Page, problems: &mut Vec<String>) {
        for block in &page.blocks {
            let place = place(page, block.line);
            let lines = block.lines.iter().filter(|line| !line.trim().is_empty());
            match block.language.as_str() {
                "rust" | "text" | "toml" => {
                    for line in lines.filter(|line| !line.starts_with("{{#")) {
                        problems.push(format!(
                            "{place}: nothing but includes expected, got {line:?}"
                        ));
                    }
                }
                "formula" | "python" | "sh" => {}
                other => problems.push(format!(
                    "{place}: rust, text, toml, formula, python or sh expected, got {other:?}"
                )),
            }
        }
    }

    /// Every included file is there, with the anchor, and is run: a declared example, or a file that a test compares.
    fn check_includes(&self, page: &Page, problems: &mut Vec<String>) {
        let examples = self.examples();
        for include in &page.includes {
            let place = place(page, include.line);
            let path = self.path_of(page, &include.path);
            let Ok(text) = fs::read_to_string(self.root.join(&path)) else {
                problems.push(format!("{place}: {} is not there", path.display()));
                continue;
            };
            let anchor = include.anchor.as_ref();
            let problem = anchor.and_then(|anchor| check_anchor(&text, anchor));
            problems.extend(problem.map(|of| format!("{place}: {}: {of}", path.display())));
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let is_run = if path.starts_with("docs/book/src/output") {
                examples.contains(&*stem)
            } else if let Ok(example) = path.strip_prefix("examples") {
                let first = example.components().next();
                let first = first.map(|first| first.as_os_str().to_string_lossy().to_string());
                let first = first.unwrap_or_default();
                let folder = first.trim_end_matches(".rs");
                examples.contains(folder) || ["common", "fresh_project"].contains(&folder)
            } else {
                path.starts_with(".ci") || path.starts_with("docs") || has_ending(&path, "toml")
            };
            if !is_run {
                let path = path.display();
                problems.push(format!("{place}: {path} is no declared example"));
            }
        }
    }

    /// Links to pages, headings and pictures lead somewhere. Other files of the repository are no part of the book.
    fn check_links(&self, page: &Page, problems: &mut Vec<String>) {
        for (line, target, is_picture) in page.links() {
            let place = place(page, line);
            if target.starts_with("https://") {
                continue;
            }
            let (file, heading) = match target.split_once('#') {
                Some((file, heading)) => (file, Some(heading)),
                None => (target.as_str(), None),
            };
            let path = match file {
                "" => PathBuf::from("docs/book/src").join(&page.name),
                file => self.path_of(page, file),
            };
            let Ok(name) = path.strip_prefix("docs/book/src") else {
                problems.push(format!("{place}: {target} leads out of the book"));
                continue;
            };
            let of_page = self.pages.iter().find(|page| page.name == name);
            let is_there = match is_picture {
                true => self.root.join(&path).is_file(),
                false => of_page.is_some(),
            };
            if !is_there {
                problems.push(format!("{place}: {target} is not there"));
            }
            if let (Some(heading), Some(of_page)) = (heading, of_page)
                && !of_page.headings().any(|of_page| of_page == heading)
            {
                problems.push(format!("{place}: {target}: no such heading"));
            }
        }
    }

    /// A file or folder of the repository that the prose names is there.
    fn check_paths(&self, page: &Page, problems: &mut Vec<String>) {
        let folders = "examples/ crates/ docs/ tests/ benches/ .ci/";
        for (line, span) in page.code_spans() {
            let is_path = folders.split(' ').any(|folder| span.starts_with(folder));
            if is_path && !self.root.join(span).exists() {
                problems.push(format!("{}: {span} is not there", place(page, line)));
            }
        }
    }

    /// A command names a package, an example or a bench that is there.
    fn check_commands(&self, page: &Page, problems: &mut Vec<String>) {
        let commands = page.blocks.iter().filter(|block| block.language == "sh");
        let lines =
            commands.flat_map(|block| block.lines.iter().map(|line| (block.line, line.as_str())));
        let spans = page.code_spans();
        let spans = spans.filter(|(_, span)| span.starts_with("cargo "));
        for (line, command) in lines.chain(spans) {
            let mut words = command.split_whitespace();
            while let Some(word) = words.next() {
                let known = match word {
                    "-p" => packages(&self.root),
                    "--example" => self.examples(),
                    "--bench" => declared(&self.root.join("benches/Cargo.toml"), "[[bench]]"),
                    _ => continue,
                };
                let name = words.next().unwrap_or_default();
                // The benches of the kernels are a crate's own.
                if !known.contains(name) && name != "instructions" {
                    let place = place(page, line);
                    problems.push(format!("{place}: `{word} {name}`: no such name"));
                }
            }
        }
    }

    /// Each anchor of an example is shown by a page.
    fn check_anchors(&self, problems: &mut Vec<String>) {
        let mut shown: BTreeMap<PathBuf, BTreeSet<&str>> = BTreeMap::new();
        for page in &self.pages {
            for Include { path, anchor, .. } in &page.includes {
                let path = self.path_of(page, path);
                shown.entry(path).or_default().extend(anchor.as_deref());
            }
        }
        for name in self.examples() {
            let path = Path::new("examples").join(name).with_extension("rs");
            let text = fs::read_to_string(self.root.join(&path)).unwrap_or_default();
            let lines = text.lines();
            for (_, anchor) in lines.filter_map(|line| line.split_once("// ANCHOR: ")) {
                if !shown.get(&path).is_some_and(|shown| shown.contains(anchor)) {
                    let path = path.display();
                    problems.push(format!("{path}: no page shows the anchor {anchor}"));
                }
            }
        }
    }

    /// Each picture is shown, and equals the one of its name in `docs`, if there is one.
    fn check_pictures(&self, problems: &mut Vec<String>) {
        let mut shown = BTreeSet::new();
        for page in &self.pages {
            let targets = page.links().map(|(_, target, _)| target);
            shown.extend(targets.map(|target| self.path_of(page, &target)));
        }
        for name in files(&self.folder.join("pictures")) {
            let path = Path::new("docs/book/src/pictures").join(&name);
            if !shown.contains(&path) {
                problems.push(format!("{}: no page shows it", path.display()));
            }
            let [here, above] =
                [&path, &Path::new("docs").join(&name)].map(|of| fs::read(self.root.join(of)).ok());
            if above.is_some() && above != here {
                problems.push(format!("{}: the same as in docs expected", path.display()));
            }
        }
    }

    /// The Rust of the cheatsheet stands in the example of this name, word for word.
    fn check_cheatsheet(&self, problems: &mut Vec<String>) {
        let is_cheatsheet = |page: &&Page| page.name == Path::new("cheatsheet.md");
        let Some(page) = self.pages.iter().find(is_cheatsheet) else {
            return;
        };
        let source = self.root.join("examples/cheatsheet.rs");
        let source = packed(&fs::read_to_string(source).unwrap_or_default());
        for (number, line) in page.prose.iter().filter(|(_, line)| line.starts_with('|')) {
            // In the columns after PyTorch's.
            for cell in line.split(" | ").skip(1) {
                for span in cell.split('`').skip(1).step_by(2) {
                    if !source.contains(&packed(span)) {
                        let place = place(page, *number);
                        problems.push(format!("{place}: examples/cheatsheet.rs has no `{span}`"));
                    }
                }
            }
        }
    }

    /// The names of the declared examples.
    fn examples(&self) -> BTreeSet<String> {
        declared(&self.root.join("examples/Cargo.toml"), "[[example]]")
    }

    /// The path, under the root, of what a page names.
    fn path_of(&self, page: &Page, target: &str) -> PathBuf {
        let folder = page.name.parent().unwrap_or(Path::new(""));
        let mut path = PathBuf::new();
        let whole = Path::new("docs/book/src").join(folder).join(target);
        for part in whole.components() {
            match part {
                Component::ParentDir => _ = path.pop(),
                Component::CurDir => {}
                part => path.push(part),
            }
        }
        path
    }
}

fn place(page: &Page, line: usize) -> String {
    format!("{}:{line}", page.name.display())
}

/// Code without what formatting changes: spaces, line ends, and commas before a closing bracket.
fn packed(code: &str) -> String {
    let code: String = code.split_whitespace().collect();
    code.replace(",)", ")")
        .replace(",}", "}")
        .replace(",]", "]")
}

/// One anchor of this name expected, with an end and something between.
fn check_anchor(text: &str, anchor: &str) -> Option<String> {
    let at = |word: &str| {
        let wanted = format!("{word}: {anchor}");
        let lines = text.lines().enumerate();
        let found = lines.filter(|(_, line)| {
            let line = line.trim_end().trim_end_matches("-->").trim_end();
            line.ends_with(&wanted)
        });
        found.map(|(number, _)| number).collect::<Vec<_>>()
    };
    match (&at("ANCHOR")[..], &at("ANCHOR_END")[..]) {
        ([first], [last]) if first + 1 < *last => None,
        (first, last) => Some(format!(
            "one anchor {anchor} and its end expected, got {} and {}",
            first.len(),
            last.len()
        )),
    }
}

/// The names after each `section` of a manifest.
fn declared(manifest: &Path, section: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(manifest).unwrap_or_default();
    let sections = manifest.split(section).skip(1);
    let names = sections.filter_map(|section| {
        let mut lines = section.lines();
        lines.find_map(|line| line.strip_prefix("name = "))
    });
    let names = names.map(|name| name.trim_matches('"').to_string());
    names.collect()
}

/// The names of the packages of the workspace.
fn packages(root: &Path) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let members = manifest.split("members = [").nth(1).unwrap_or_default();
    let members = members.split(']').next().unwrap_or_default();
    let folders = members.split('"').skip(1).step_by(2);
    let all =
        folders.flat_map(|folder| declared(&root.join(folder).join("Cargo.toml"), "[package]"));
    all.collect()
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|of| of == ending)
}

/// The files in a folder and those in it, as paths under it, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = PathBuf::from(path.file_name().unwrap_or_default());
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|inner| name.join(inner)));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}
