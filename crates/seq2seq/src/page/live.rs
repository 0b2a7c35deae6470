//! The page of a server.

use attention_seq2seq::Result;

use super::Page;
use super::html::{self, Parts, SCRIPTS, STYLE};

/// The additional styles of a live page.
const LIVE_STYLE: &str = include_str!("assets/live.css");

/// The form of a live page.
const FORM: &str = include_str!("assets/live.html");

/// The last part of the script of a live page.
const LIVE: &str = include_str!("assets/live.js");

/// A page for a server: it explains typed texts, by `POST v1/explain`, and forces tokens of outputs.
///
/// The request is an object with `source` and, if tokens are forced, `prefix`, an array of them; the answer is
/// [`Page::to_json`], or an object with the line `error`. All paths are relative to that of the page. It has nothing
/// inline, so that a Content-Security-Policy can forbid inline content.
#[derive(Clone, Debug)]
pub(crate) struct LivePage {
    /// The page.
    pub(crate) html: String,
    /// The styles, at [`LivePage::STYLE`].
    pub(crate) style: String,
    /// The script, at [`LivePage::SCRIPT`].
    pub(crate) script: String,
}

impl LivePage {
    /// The path of the styles.
    pub(crate) const STYLE: &str = "page.css";
    /// The path of the script.
    pub(crate) const SCRIPT: &str = "page.js";
}

impl Page {
    /// Only the data of the page, which its script reads.
    pub(crate) fn to_json(&self) -> Result<String> {
        html::json(self)
    }

    /// The files of a live page, which shows this page until a source is typed.
    pub(crate) fn to_live(&self) -> Result<LivePage> {
        let parts = Parts {
            policy: "",
            style: format!("<link rel=\"stylesheet\" href=\"{}\">", LivePage::STYLE),
            form: FORM,
            script: format!("<script src=\"{}\"></script>", LivePage::SCRIPT),
        };
        Ok(LivePage {
            html: parts.html(self)?,
            style: [STYLE, LIVE_STYLE].concat(),
            script: [&SCRIPTS.concat(), LIVE].concat(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::html::tests::page;

    #[test]
    fn a_live_page_has_its_styles_and_script_in_files() {
        let name = "</script><script>alert(1)</script>";
        let live = page(name, 1).to_live().unwrap();
        let html = &live.html;
        // Its script elements are the data and the file.
        assert_eq!(html.matches("<script").count(), 2);
        assert!(html.contains("<script src=\"page.js\"></script>"));
        assert!(html.contains("href=\"page.css\"") && !html.contains("<style"));
        assert!(!html.contains("Content-Security-Policy") && html.contains("id=\"source\""));
        // It draws by what a page draws that is a file.
        let file = page(name, 1).to_html().unwrap();
        assert!(live.script.starts_with(&SCRIPTS.concat()) && file.contains(&SCRIPTS.concat()));
        assert!(live.style.starts_with(STYLE) && file.contains(STYLE));
    }
}
