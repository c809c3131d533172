//! Thresholds: what an oracle must show to be kept.

use serde::{Deserialize, Serialize};

use super::card::{Card, State};

const BUILT_IN: &str = include_str!("../../../environments/variants/thresholds.toml");
const SCHEMA: u32 = 1;

/// What an oracle must show. Shares are between 0 and 1; what could not be counted stops nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    schema: u32,
    /// The least share of rated negative states that it rejects.
    pub sensitivity: f64,
    /// The least share of positive states that it accepts.
    pub specificity: f64,
    /// The least share of mutants that it notices.
    pub kill_rate: f64,
    /// What becomes of an oracle that never runs project code.
    pub text_only: TextOnly,
    /// Whether one is kept whose outcomes differ from run to run.
    pub flaky: bool,
    /// Whether one is kept that passes on the commit from which the pull request began.
    pub passes_on_base: bool,
}

/// What becomes of an oracle that never runs project code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextOnly {
    /// It is kept.
    Keep,
    /// It is dropped.
    Drop,
    /// It is kept where it says that it is structural.
    Structural,
}

/// Thresholds that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct ThresholdsError {
    /// Where they are from.
    pub origin: String,
    /// What is wrong.
    pub problem: String,
}

impl Thresholds {
    /// Those that hold where nobody gives others.
    ///
    /// # Errors
    /// When the built-in file is broken.
    pub fn built_in() -> Result<Self, ThresholdsError> {
        Self::parse(BUILT_IN, "the built-in thresholds.toml")
    }

    /// Thresholds from a text; `origin` names it in errors.
    ///
    /// # Errors
    /// When a field is missing, unknown or out of its range.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ThresholdsError> {
        let broken = |problem: String| ThresholdsError { origin: origin.to_owned(), problem };
        let read: Self = toml::from_str(text).map_err(|error| broken(error.to_string()))?;
        if read.schema != SCHEMA {
            return Err(broken(format!("schema {} is not known, only {SCHEMA}", read.schema)));
        }
        let shares =
            [("sensitivity", read.sensitivity), ("specificity", read.specificity), ("kill_rate", read.kill_rate)];
        match shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            Some((name, share)) => Err(broken(format!("`{name}` is {share}, and must be from 0 to 1"))),
            None => Ok(read),
        }
    }

    /// Why an oracle is not kept; nothing where it is.
    pub fn reasons(&self, card: &Card) -> Vec<String> {
        let mut reasons = Vec::new();
        if card.state != State::Audited {
            let word = match card.state {
                State::BadControl => "control",
                State::NoFix => "no fix",
                State::Infra | State::Audited => "infra",
            };
            reasons.push(format!("{word}: {}", card.problem.as_deref().unwrap_or("not audited")));
            return reasons;
        }
        let mut least = |name: &str, share: Option<f64>, least: f64| {
            if let Some(share) = share.filter(|share| *share < least) {
                reasons.push(format!("{name} {share:.2} < {least:.2}"));
            }
        };
        least("sensitivity", card.sensitivity, self.sensitivity);
        least("specificity", card.specificity, self.specificity);
        least("kill rate", card.kill_rate, self.kill_rate);
        let structural = card.kind == crate::model::OracleKind::Structural;
        let keeps = match self.text_only {
            TextOnly::Keep => true,
            TextOnly::Drop => false,
            TextOnly::Structural => structural,
        };
        if card.text_only == Some(true) && !keeps {
            reasons.push("text-only".to_owned());
        }
        if card.flaky == Some(true) && !self.flaky {
            reasons.push("flaky".to_owned());
        }
        let on_base = card.controls.get("base") == Some(&crate::model::Outcome::Passed);
        if on_base && !self.passes_on_base {
            reasons.push("passes on base".to_owned());
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_thresholds_are_some() {
        let built_in = Thresholds::built_in().unwrap();
        assert_eq!((built_in.text_only, built_in.flaky), (TextOnly::Structural, false));
    }

    #[test]
    fn broken_thresholds_say_where_and_what() {
        for (text, part) in [
            (BUILT_IN.replace("sensitivity = 1.0", "sensitivity = 1.5"), "`sensitivity` is 1.5"),
            (BUILT_IN.replace("schema = 1", "schema = 3"), "schema 3"),
            (BUILT_IN.replace("flaky = false", ""), "flaky"),
            (format!("{BUILT_IN}\nmore = 1\n"), "more"),
        ] {
            let error = Thresholds::parse(&text, "mine.toml").unwrap_err().to_string();
            assert!(error.starts_with("mine.toml: ") && error.contains(part), "{error}");
        }
    }
}
