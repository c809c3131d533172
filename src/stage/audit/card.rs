//! What is known of one oracle after its audit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{CommentId, Digest, Framework, InstanceId, OracleKind, Outcome};
use crate::oracle::Executes;
use crate::variants::{Class, Spot};

/// How far an audit came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// To its end.
    Audited,
    /// The oracle does not pass on the merged state, or passes on the commit to review: variants of the fix say nothing.
    BadControl,
    /// There is no merged commit, and so no fix to vary.
    NoFix,
    /// The machine's fault: tried again by the next audit.
    Infra,
}

/// The card of one oracle. Shares are between 0 and 1, and absent where there was nothing to count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// How the oracle is run.
    pub framework: Framework,
    /// What it says to look at.
    pub kind: OracleKind,
    /// Whether the benchmark's own frozen choice has it; null where there is no such choice.
    #[serde(rename = "final")]
    pub frozen: Option<bool>,
    /// How far the audit came.
    pub state: State,
    /// Why not further.
    pub problem: Option<String>,
    /// Whether the run never executed project code; null where that is not known.
    pub text_only: Option<bool>,
    /// What the run executed of the project.
    pub executes: Option<Executes>,
    /// Why `text_only` is not known.
    pub text_only_unknown: Option<String>,
    /// Files of the project that the test opened for reading; null where that is not known.
    pub opens: Option<Vec<String>>,
    /// Outcomes of the controls, by name.
    pub controls: BTreeMap<String, Outcome>,
    /// How exactly the place of the comment is known.
    pub place: Spot,
    /// States in which the concern is as it was.
    pub near_misses: NearMisses,
    /// States without a part of the fix of which nobody knows whether it matters.
    pub drops: Drops,
    /// States in which the fix means the same.
    pub rewrites: Rewrites,
    /// States in which the fix has a small mistake.
    pub mutants: Mutants,
    /// The lines of the fix, and how many of them the test ran.
    pub fix_lines: Coverage,
    /// Whether outcomes on the same code differ; null where nothing was repeated.
    pub flaky: Option<bool>,
    /// The outcomes of repeats, by what was different.
    pub flakiness: BTreeMap<String, Vec<Outcome>>,
    /// The share of rated negative states (head, near-misses) that the oracle rejects.
    pub sensitivity: Option<f64>,
    /// The share of positive states (merged, rewrites) that it accepts.
    pub specificity: Option<f64>,
    /// The share of mutants that it notices.
    pub kill_rate: Option<f64>,
    /// Whether the thresholds keep it.
    pub keep: bool,
    /// Why they do not.
    pub reasons: Vec<String>,
    /// Every run.
    pub runs: Vec<RunOf>,
}

/// Near-misses that failed, as they should.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearMisses {
    /// On these the oracle did not pass.
    pub failed: u64,
    /// All that were run.
    pub total: u64,
    /// The names of those on which it passed.
    pub accepted: Vec<String>,
}

/// Drops that failed. Not rated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// On these the oracle did not pass.
    pub failed: u64,
    /// All that were run.
    pub total: u64,
    /// The names of those that it rejects: what they lack, the oracle asks for.
    pub rejected: Vec<String>,
}

/// Rewrites that passed, as they should.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrites {
    /// On these the oracle passed.
    pub passed: u64,
    /// All that were run.
    pub total: u64,
    /// The names of those on which it did not.
    pub rejected: Vec<String>,
}

/// Mutants that were noticed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutants {
    /// On these the oracle did not pass.
    pub killed: u64,
    /// All that were run and compile.
    pub total: u64,
    /// Those that do not compile or load; not in `total`.
    pub unviable: u64,
    /// How many could have been drawn.
    pub candidates: u64,
    /// Which lines they are of.
    pub lines: MutantLines,
    /// Those on which it passed.
    pub survivors: Vec<String>,
}

/// Which lines of the fix mutants are of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MutantLines {
    /// Changed lines that the test ran.
    Executed,
    /// All changed lines, as it is not known which ran, or none did.
    #[default]
    Changed,
}

/// Lines of the fix. Comments, docstrings, blank lines and files of languages that are not known do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Lines of code that the fix adds or changes.
    pub changed: u64,
    /// How many of them the test ran; null where that is not known.
    pub executed: Option<u64>,
}

/// One run of an audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOf {
    /// What the code was.
    pub name: String,
    /// What the variant is to the oracle; null for controls and repeats.
    pub class: Option<Class>,
    /// What was done to the code.
    pub about: String,
    /// What the run showed.
    pub outcome: Outcome,
    /// What the first failing assertion said.
    pub message: Option<String>,
    /// The record's key; null where nothing is on record.
    pub key: Option<Digest>,
    /// The blob with the patch, where the oracle's answer is one to look at: from the merged state, or for variants that
    /// have nothing of the fix from the commit to review.
    pub patch: Option<Digest>,
}

/// A share, where there is something to count.
pub(super) fn share(part: u64, total: u64) -> Option<f64> {
    (total > 0).then(|| part as f64 / total as f64)
}
