//! What a frozen benchmark keeps beyond good controls, as far as the controls themselves show it.

use serde::{Deserialize, Serialize};

use crate::model::OracleKind;

/// A thresholds file (TOML). Without one everything with good controls is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// What becomes of an oracle that only read the project's text.
    #[serde(default)]
    pub text_only: TextOnly,
    /// Kinds of oracles that are kept; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
}

/// What becomes of an oracle that only read the project's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextOnly {
    /// It is kept, and counted.
    #[default]
    Keep,
    /// It is dropped.
    Drop,
    /// It is kept where it says that it is structural.
    Structural,
}

/// A thresholds file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct ThresholdsError {
    /// The file.
    pub file: String,
    /// What is wrong.
    pub problem: String,
}

/// Thresholds that need an audit's figures.
const OF_AUDITS: [&str; 5] = ["sensitivity", "specificity", "kill_rate", "flaky", "passes_on_base"];

impl Thresholds {
    /// Reads a file's text; `file` is its name in messages.
    ///
    /// # Errors
    /// When it is no TOML, or has a threshold that is not known or cannot be checked by controls alone.
    pub fn parse(file: &str, text: &str) -> Result<Self, ThresholdsError> {
        let bad = |problem: String| ThresholdsError { file: file.to_owned(), problem };
        let table: toml::Table = toml::from_str(text).map_err(|e| bad(e.to_string()))?;
        if let Some(name) = table.keys().find(|name| OF_AUDITS.contains(&name.as_str())) {
            let problem = format!("`{name}` needs the figures of an audit, which `freeze` does not read");
            return Err(bad(problem));
        }
        let read: Self = toml::from_str(text).map_err(|e| bad(e.to_string()))?;
        match read.kinds.iter().find(|kind| !["behavioral", "structural", "unknown"].contains(&kind.as_str())) {
            Some(kind) => Err(bad(format!("`{kind}` is no kind of oracle (behavioral, structural, unknown)"))),
            None => Ok(read),
        }
    }

    /// Why an oracle with good controls is not kept.
    pub(super) fn refuse(&self, kind: OracleKind, text_only: bool) -> Option<String> {
        let word = super::kind_word(kind);
        if !self.kinds.is_empty() && !self.kinds.iter().any(|kept| kept == word) {
            return Some(format!("its kind is {word}"));
        }
        let keeps = match self.text_only {
            TextOnly::Keep => true,
            TextOnly::Drop => false,
            TextOnly::Structural => kind == OracleKind::Structural,
        };
        (text_only && !keeps).then(|| "it only reads the project's text".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_strictly() {
        let read = Thresholds::parse("t", "text_only = \"drop\"\nkinds = [\"behavioral\"]\n").unwrap();
        assert_eq!((read.text_only, read.kinds.as_slice()), (TextOnly::Drop, ["behavioral".to_owned()].as_slice()));
        assert_eq!(Thresholds::parse("t", ""), Ok(Thresholds::default()));
        for (text, part) in [
            ("text_only = \"maybe\"", "maybe"),
            ("kill_rate = 0.5", "needs the figures of an audit"),
            ("colour = 1", "colour"),
            ("kinds = [\"odd\"]", "`odd` is no kind"),
            ("= 1", "t: "),
        ] {
            let error = Thresholds::parse("t", text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
