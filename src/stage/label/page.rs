//! The sheet as a page for a browser: it holds all that it needs, asks for nothing, and gives the answers as a file.

use handlebars::Handlebars;
use serde_json::json;

use super::sheet::Row;
use crate::model::{ConcernCategory, ExpectedOracle, digest_bytes};

const PAGE: &str = include_str!("../../../templates/label.html.hbs");
const SCRIPT: &str = include_str!("../../../templates/label.js");

/// A template that does not work.
#[derive(Debug, thiserror::Error)]
#[error("the labelling page cannot be made: {0}")]
pub struct PageError(Box<handlebars::RenderError>);

/// Makes the page of a sheet. What strangers wrote is escaped by the template, and only the page's own script may run.
///
/// # Errors
/// When the template is broken.
pub fn page(benchmark: &str, rows: &[Row]) -> Result<String, PageError> {
    let facts = json!({
        "benchmark": benchmark,
        "rows": rows,
        "categories": ConcernCategory::ALL.iter().map(|c| c.as_str()).collect::<Vec<_>>(),
        "oracles": ExpectedOracle::ALL.iter().map(|o| o.as_str()).collect::<Vec<_>>(),
        "flags": ["actionable", "specific", "verifiable"],
        "script": SCRIPT,
        // Two pages of the same sheet are the same bytes.
        "nonce": digest_bytes(SCRIPT.as_bytes()).as_str(),
    });
    Handlebars::new().render_template(PAGE, &facts).map_err(|error| PageError(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_words_are_words() {
        let row = Row {
            instance_id: "o__r-1@0123abc".to_owned(),
            comment: "7".to_owned(),
            path: "a\"><b>.py".to_owned(),
            lines: String::new(),
            text: "</script><script>alert(1)</script>{{nonce}}".to_owned(),
            hunk: "@@ <i>".to_owned(),
            title: "t".to_owned(),
        };
        let page = page("b", &[row]).unwrap();
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        assert!(page.contains("&lt;/script&gt;&lt;script&gt;") && page.contains("a&quot;&gt;&lt;b&gt;.py"), "{page}");
        assert!(page.contains("error-handling") && !page.contains("src=") && !page.contains("href="));
    }
}
