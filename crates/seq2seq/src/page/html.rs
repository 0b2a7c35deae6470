//! The page as HTML.

use attention_seq2seq::translate::explain::ExplainedOutput;
use attention_seq2seq::{Error, Result};

use super::Page;

/// The frame of the page, with a marker for each part.
const TEMPLATE: &str = include_str!("assets/page.html");

pub(super) const STYLE: &str = include_str!("assets/page.css");

/// The policy of a page in a file: it makes no requests. A live page has its policy in a header of its server.
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
    script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">";

/// The parts of the script that every page has, in order.
pub(super) const SCRIPTS: [&str; 7] = [
    include_str!("assets/text.js"),
    include_str!("assets/state.js"),
    include_str!("assets/figures.js"),
    include_str!("assets/list.js"),
    include_str!("assets/tables.js"),
    include_str!("assets/panel.js"),
    include_str!("assets/page.js"),
];

/// The last part of the script of a page in a file.
const STATIC: &str = include_str!("assets/static.js");

/// The largest number of attention weights on a page: some 40 MB.
const MOST_WEIGHTS: usize = 10_000_000;

pub(super) fn html(page: &Page) -> Result<String> {
    let parts = Parts {
        policy: POLICY,
        style: format!("<style>\n{STYLE}</style>"),
        form: "",
        script: format!("<script>\n{}{STATIC}</script>", SCRIPTS.concat()),
    };
    parts.html(page)
}

pub(super) fn json(page: &Page) -> Result<String> {
    check_size(page)?;
    serde_json::to_string(page).map_err(|source| Error::json("the data of the page", source))
}

/// The markup that differs between kinds of pages.
pub(super) struct Parts {
    pub(super) policy: &'static str,
    pub(super) style: String,
    pub(super) form: &'static str,
    pub(super) script: String,
}

impl Parts {
    pub(super) fn html(self, page: &Page) -> Result<String> {
        let parts = [
            ("{{policy}}", self.policy.to_string()),
            ("{{title}}", in_html(&page.title)),
            ("{{style}}", self.style),
            ("{{form}}", self.form.to_string()),
            ("{{data}}", in_script(&json(page)?)),
            ("{{script}}", self.script),
        ];
        Ok(filled(TEMPLATE, parts))
    }
}

fn check_size(page: &Page) -> Result<()> {
    let explanations = page.items.iter().flat_map(|item| &item.explanations);
    let outputs = explanations.flat_map(|explanation| &explanation.outputs);
    let weights =
        |output: &ExplainedOutput| output.attention.as_ref().map_or(0, |it| it.weights.len());
    let count: usize = outputs.map(weights).sum();
    match count > MOST_WEIGHTS {
        true => Err(Error::config(
            "the page",
            format!("at most {MOST_WEIGHTS} attention weights (fewer texts or outputs have fewer)"),
            count,
        )),
        false => Ok(()),
    }
}

/// The template with each marker replaced by a text, in the order of the markers. Inserted texts are not searched for
/// markers.
fn filled<const N: usize>(template: &str, parts: [(&str, String); N]) -> String {
    let of_parts: usize = parts.iter().map(|(_, part)| part.len()).sum();
    let mut html = String::with_capacity(template.len() + of_parts);
    let mut rest = template;
    for (mark, part) in &parts {
        if let Some((before, after)) = rest.split_once(mark) {
            html.push_str(before);
            html.push_str(part);
            rest = after;
        }
    }
    html.push_str(rest);
    html
}

/// A text between tags.
fn in_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// JSON in a script element, which `</script>` and `<!--` would end or change. `<` only occurs in its strings;
/// Unicode's line ends are escaped for readers that treat JSON as JavaScript.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
pub(super) mod tests {
    use attention_seq2seq::translate::explain::{AttentionOfHeads, Explanation};

    use super::*;
    use crate::page::{Item, PageModel};

    /// A page of one output of this text, with `weights` attention weights.
    pub(in crate::page) fn page(text: &str, weights: usize) -> Page {
        let model = PageModel {
            name: text.to_string(),
            description: String::new(),
            figures: Vec::new(),
        };
        let attention = AttentionOfHeads {
            layers: 1,
            heads: 1,
            weights: vec![0.5; weights],
        };
        let output = ExplainedOutput {
            text: text.to_string(),
            ended: true,
            log_probability: f64::NEG_INFINITY,
            score: 0.0,
            steps: Vec::new(),
            attention: Some(attention),
            occlusion: None,
            difference: None,
        };
        let explanation = Explanation {
            source: text.to_string(),
            tokens: vec![text.to_string()],
            is_known: vec![true],
            positions: vec![0],
            attends_to_end: false,
            outputs: vec![output],
            greedy: 0,
        };
        let mut page = Page::new(text, vec![model]);
        page.items.push(Item {
            references: vec![text.to_string()],
            explanations: vec![explanation],
        });
        page
    }

    #[test]
    fn the_template_has_every_mark_once_and_in_order() {
        let mut rest = TEMPLATE;
        let marks = ["policy", "title", "style", "form", "data", "script"];
        for mark in marks.map(|name| format!("{{{{{name}}}}}")) {
            let (_, after) = rest.split_once(&mark).unwrap();
            rest = after;
            assert_eq!(TEMPLATE.matches(&mark).count(), 1, "{mark}");
        }
        for part in SCRIPTS.iter().chain([&STYLE, &STATIC]) {
            let lower = part.to_lowercase();
            assert!(!lower.contains("</script") && !lower.contains("</style"));
        }
    }

    #[test]
    fn a_page_that_no_browser_would_load_is_refused() {
        let error = page("x", MOST_WEIGHTS + 1).to_html().unwrap_err();
        let expected = "the page: expected at most 10000000 attention weights (fewer texts or outputs have fewer), found 10000001";
        assert_eq!(error.to_string(), expected);
    }
}
