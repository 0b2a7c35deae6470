//! The book in `docs/book` is whole: its includes, anchors, links, headings, pictures and commands lead somewhere, its
//! summary names its pages, and its Rust comes from files that are run. mdBook is not needed.
#![allow(clippy::unwrap_used)]

mod checks;
mod page;

use std::fs;
use std::path::Path;

use checks::Book;

#[test]
fn nothing_in_the_book_is_missing_or_stale() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let problems = Book::open(&root).problems();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// A repository with one page, `page.md`, a summary, and one example.
fn problems_of(summary: &str, page: &str) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = root.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write("docs/book/src/SUMMARY.md", summary);
    write("docs/book/src/page.md", page);
    write("docs/book/src/pictures/a.svg", "<svg/>");
    write("Cargo.toml", "members = [\n\"examples\",\n]\n");
    write(
        "examples/Cargo.toml",
        "[package]\nname = \"the-examples\"\n\n[[example]]\nname = \"one\"\npath = \"one.rs\"\n",
    );
    let example = "// ANCHOR: all\nfn main() {}\n// ANCHOR_END: all\n";
    write("examples/one.rs", example);
    write("examples/two.rs", "fn main() {}\n");
    Book::open(root.path()).problems()
}

const SUMMARY: &str = "- [A page](page.md)\n";
const RIGHT: &str = "# A page\n\n![A picture](pictures/a.svg)\n\n[Above](#a-page), and `examples/one.rs`.\n\n\
    ```rust\n{{#include ../../../examples/one.rs:all}}\n```\n\n```sh\ncargo run -p the-examples --example one\n```\n";

#[test]
fn a_right_page_has_no_problem() {
    assert_eq!(problems_of(SUMMARY, RIGHT), Vec::<String>::new());
}

#[test]
fn each_kind_of_problem_is_found() {
    #[rustfmt::skip]
    let cases = [
        ("one.rs:all", "one.rs:none", "one anchor none and its end expected, got 0 and 0"),
        ("one.rs:all", "two.rs", "examples/two.rs is no declared example"),
        ("one.rs:all", "three.rs", "examples/three.rs is not there"),
        ("one.rs:all", "one.rs", "no page shows the anchor all"),
        ("{{#include ../../../examples/one.rs:all}}", "fn main() {}", "nothing but includes expected"),
        ("```rust", "```c", "formula, python or sh expected, got \"c\""),
        ("pictures/a.svg", "pictures/b.svg", "pictures/b.svg is not there"),
        ("pictures/a.svg", "pictures/b.svg", "a.svg: no page shows it"),
        ("#a-page", "#another-page", "#another-page: no such heading"),
        ("#a-page", "other.md", "other.md is not there"),
        ("#a-page", "../../../README.md", "leads out of the book"),
        ("`examples/one.rs`", "`examples/three.rs`", "examples/three.rs is not there"),
        ("--example one", "--example two", "`--example two`: no such name"),
        ("-p the-examples", "-p others", "`-p others`: no such name"),
    ];
    for (right, wrong, expected) in cases {
        let page = RIGHT.replace(right, wrong);
        let problems = problems_of(SUMMARY, &page);
        let is_found = problems.iter().any(|problem| problem.contains(expected));
        let what = format!("{expected:?} expected for {wrong:?}");
        assert!(is_found, "{what}, got {problems:?}");
    }
}

#[test]
fn a_summary_names_every_page_once() {
    #[rustfmt::skip]
    let cases = [
        ("", "page.md expected once, got 0 times"),
        ("- [A page](page.md)\n- [Again](page.md)\n", "page.md expected once, got 2 times"),
        ("- [A page](page.md)\n- [Other](other.md)\n", "SUMMARY.md:2: other.md is not there"),
    ];
    for (summary, expected) in cases {
        let problems = problems_of(summary, RIGHT);
        let is_found = problems.iter().any(|problem| problem.contains(expected));
        assert!(is_found, "{expected:?} expected, got {problems:?}");
    }
}
