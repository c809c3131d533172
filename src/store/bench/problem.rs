//! What is wrong with a benchmark folder, and where.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::LineError;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Results would be wrong or rows are lost.
    Error,
    /// Worth a look.
    Warning,
}

impl Severity {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One problem. Its text form is `FILE:LINE: SEVERITY: field `F`: text`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The file, relative to the folder, with `/` between parts.
    pub file: String,
    /// The line, from 1, where there is one.
    pub line: Option<usize>,
    /// The field inside the line's object; empty where the whole line is meant.
    pub field: String,
    /// What is wrong and what to do about it.
    pub text: String,
}

impl Problem {
    /// An error in a line.
    pub fn error(file: &str, line: impl Into<Option<usize>>, field: &str, text: impl Into<String>) -> Self {
        // `.` and `?` are what serde says where it knows no field.
        let field = if matches!(field, "." | "?") { String::new() } else { field.to_owned() };
        Self { severity: Severity::Error, file: file.into(), line: line.into(), field, text: text.into() }
    }

    /// A warning about a line.
    pub fn warning(file: &str, line: impl Into<Option<usize>>, field: &str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(file, line, field, text) }
    }

    /// A line that could not be read.
    pub fn unreadable(file: &str, error: LineError) -> Self {
        let text = format!("{}; the line is left out until it is mended", error.problem);
        Self::error(file, error.line, &error.field, text)
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}: ", self.severity.as_str())?;
        if !self.field.is_empty() {
            write!(f, "field `{}`: ", self.field)?;
        }
        f.write_str(&self.text)
    }
}
