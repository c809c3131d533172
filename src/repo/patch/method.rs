//! How strictly a patch fitted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The method by which a patch was applied, strictest first. See the module's page for what each allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApplyMethod {
    /// As it is.
    Exact,
    /// With the hunks' lines counted again.
    Recount,
    /// Line ends not compared.
    LineEnds,
    /// Amounts of white space not compared.
    Whitespace,
    /// With fewer context lines.
    ReducedContext,
}

impl ApplyMethod {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 5] = [Self::Exact, Self::Recount, Self::LineEnds, Self::Whitespace, Self::ReducedContext];

    /// The method's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Recount => "recount",
            Self::LineEnds => "line-ends",
            Self::Whitespace => "whitespace",
            Self::ReducedContext => "reduced-context",
        }
    }
}

impl fmt::Display for ApplyMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that names no method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a way to apply a patch")]
pub struct MethodError(String);

impl FromStr for ApplyMethod {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Self, MethodError> {
        Self::ALL.into_iter().find(|m| m.as_str() == text).ok_or_else(|| MethodError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for method in ApplyMethod::ALL {
            assert_eq!(method.as_str().parse(), Ok(method));
            assert_eq!(serde_json::to_value(method).unwrap(), method.as_str());
        }
        assert!("3way".parse::<ApplyMethod>().is_err());
    }
}
