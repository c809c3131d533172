//! What a traced run says of the project's code: which of it ran, what the test opened, which lines were reached.
//!
//! The reporter for Python does the tracing (`environments/reporters/redgreen_audit.py`) and sends one event, which the
//! run's token seals like all others. A test in the same process can take the tracer away; that is noted as a problem,
//! and then nothing is concluded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::Framework;

use super::plan::Plan;

/// The variable that says what an audited run does beside an ordinary one.
pub const AUDIT_VARIABLE: &str = "REDGREEN_AUDIT";

/// What was seen of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Why nothing can be concluded.
    #[serde(default)]
    pub problem: Option<String>,
    /// Files of the tree whose code ran, modules' bodies among them; the first of them by name.
    pub loaded: Vec<String>,
    /// How many there are.
    pub loaded_files: u64,
    /// How many of the tree's functions the test reached, those that only ran while something was imported left out.
    pub called_functions: u64,
    /// Files of the tree that the test opened for reading, imports left out; none where the interpreter cannot tell.
    #[serde(default)]
    pub opened: Option<Vec<String>>,
    /// How many there are.
    #[serde(default)]
    pub opened_files: Option<u64>,
    /// Ways in which the test started other processes, which nobody traced.
    #[serde(default)]
    pub children: Vec<String>,
    /// First and last of each range of lines that ran, by file, of the files that were asked for. Lines count from 1.
    #[serde(default)]
    pub lines: BTreeMap<String, Vec<(u32, u32)>>,
}

/// What the test made of the project's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Executes {
    /// No code of the project ran.
    Nothing,
    /// Modules were imported, and nothing of them was called.
    Imports,
    /// Functions were called.
    Calls,
}

impl Executes {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Imports => "imports",
            Self::Calls => "calls",
        }
    }
}

impl Trace {
    /// What ran; or why that cannot be told. Processes that the test started are out of sight: where they are all that
    /// could have run the project's code, nobody knows.
    ///
    /// # Errors
    /// The reason for people.
    pub fn executes(&self) -> Result<Executes, String> {
        if self.called_functions > 0 {
            return Ok(Executes::Calls);
        }
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        if !self.children.is_empty() {
            return Err(format!("the test starts processes of its own ({})", self.children.join(", ")));
        }
        Ok(if self.loaded_files > 0 { Executes::Imports } else { Executes::Nothing })
    }

    /// Whether a line of a file ran. Lines count from 1.
    pub fn ran(&self, path: &str, line: u32) -> bool {
        let ranges = self.lines.get(path);
        ranges.is_some_and(|ranges| ranges.iter().any(|(first, last)| (*first..=*last).contains(&line)))
    }
}

/// What an audited run does beside an ordinary one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AuditSetting {
    /// Trace, and note the lines of these files that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<String>>,
    /// Run the tests in another order, by this seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<u32>,
    /// Let clocks be ahead by so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<u32>,
    /// Run on one processor.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_core: bool,
}

impl Plan {
    /// Whether the framework's reporter can do what [`AuditSetting`] says.
    pub fn can_be_audited(&self) -> bool {
        let by_reporter = matches!(self.framework, Framework::Pytest | Framework::Unittest);
        by_reporter && self.result == super::ResultKind::Reporter
    }

    /// The plan with what an audited run does beside an ordinary one.
    #[must_use]
    pub fn audited(&self, setting: &AuditSetting) -> Self {
        let mut plan = self.clone();
        let text = serde_json::to_string(setting).unwrap_or_default();
        plan.variables.insert(AUDIT_VARIABLE.to_owned(), text);
        plan
    }

    /// The plan with one more variable, which goes before the environment's.
    #[must_use]
    pub fn with_variable(&self, name: &str, value: &str) -> Self {
        let mut plan = self.clone();
        plan.variables.insert(name.to_owned(), value.to_owned());
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_concluded_from_what_was_out_of_sight() {
        let nothing = Trace::default();
        assert_eq!(nothing.executes(), Ok(Executes::Nothing));
        let imports = Trace { loaded_files: 1, ..Trace::default() };
        assert_eq!(imports.executes(), Ok(Executes::Imports));
        let child = Trace { children: vec!["os.fork".to_owned()], ..imports.clone() };
        assert!(child.executes().unwrap_err().contains("os.fork"));
        let fought = Trace { problem: Some("gone".to_owned()), ..imports };
        assert_eq!(fought.executes(), Err("gone".to_owned()));
        // A call that was seen was seen.
        let called = Trace { called_functions: 1, ..fought };
        assert_eq!(called.executes(), Ok(Executes::Calls));
    }

    #[test]
    fn lines_are_found_in_their_ranges() {
        let lines = BTreeMap::from([("a.py".to_owned(), vec![(1, 2), (5, 5)])]);
        let trace = Trace { lines, ..Trace::default() };
        let ran: Vec<u32> = (0..8).filter(|line| trace.ran("a.py", *line)).collect();
        assert_eq!(ran, [1, 2, 5]);
        assert!(!trace.ran("b.py", 1));
    }
}
