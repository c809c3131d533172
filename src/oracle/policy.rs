//! By whose rules outcomes become verdicts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The policy of a run; part of its key, so a report can't switch it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Structured results, controls that gate, typed outcomes.
    #[default]
    Strict,
    /// The c-CRAB release's rule, for replay: its command line and paths; exit code 0 passes, anything else fails.
    CCrab,
}

impl Policy {
    /// Both policies.
    pub const ALL: [Self; 2] = [Self::Strict, Self::CCrab];

    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::CCrab => "c-crab",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a policy (wanted `strict` or `c-crab`)")]
pub struct PolicyParseError(String);

impl FromStr for Policy {
    type Err = PolicyParseError;

    fn from_str(text: &str) -> Result<Self, PolicyParseError> {
        Self::ALL.into_iter().find(|p| p.as_str() == text).ok_or_else(|| PolicyParseError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_one_string_form_in_both_directions() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
        }
        assert!("C-CRAB".parse::<Policy>().is_err());
    }
}
