//! One oracle run, recorded under the digest of everything that could change it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Digest, Outcome};
use crate::oracle::{TestId, Trace};
use crate::sandbox::{End, Isolation};

/// The name of the records' folder.
pub const STAGE: &str = "oracle";

/// The version of the records' format; part of every key.
pub const RECORD_SCHEMA: u32 = 2;

/// What one run of one oracle on one state of the code showed. Never written for infra.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OracleRecord {
    /// The format's version.
    pub schema: u32,
    /// The record's key: the digest of `inputs`.
    pub key: Digest,
    /// Everything that could change the outcome.
    pub inputs: Value,
    /// What it showed.
    pub outcome: Outcome,
    /// The tests that were seen, with their status.
    pub tests: Value,
    /// The ids of the tests that passed.
    pub passed: Vec<TestId>,
    /// Whether the oracle never loaded the project's code, where that was measured.
    pub text_only: Option<bool>,
    /// What was seen of the project's code, where the run was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The first failing assertion's message.
    pub message: Option<String>,
    /// The first line of it as the framework's text output has it (pytest's first `E ` line without the mark).
    pub first_line: Option<String>,
    /// How the result came out: `reporter`, `weak`.
    pub channel: String,
    /// How the main process ended.
    pub end: End,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// CPU seconds.
    pub cpu_seconds: f64,
    /// Peak memory in bytes, where it was measured.
    pub peak_memory: Option<u64>,
    /// Which limits were really in force.
    pub isolation: Isolation,
    /// Digests of what was written and given, by name: `stdout`, `stderr`, `result`, `patch-log`; what a rebuild, a probe
    /// of the environment or a canary run wrote has the word before it (`canary-stdout`).
    pub evidence: BTreeMap<String, Digest>,
    /// When the run began.
    pub started: jiff::Timestamp,
}

/// What a verdict needs of a record. A report over many of them is read in this form: the inputs and the single tests
/// are the larger part of a record.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecordView {
    /// The record's key.
    pub key: Digest,
    /// What it showed.
    pub outcome: Outcome,
    /// Whether the oracle never loaded the project's code, where that was measured.
    pub text_only: Option<bool>,
    /// The first failing assertion's message.
    pub message: Option<String>,
    /// The first line of it as the framework's text output has it.
    pub first_line: Option<String>,
    /// How the result came out.
    pub channel: String,
    /// How the main process ended.
    pub end: End,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Which limits were really in force.
    pub isolation: Isolation,
    /// Digests of what was written and given, by name.
    pub evidence: BTreeMap<String, Digest>,
}

/// What the runs after it need of a record.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Served {
    pub(super) key: Digest,
    pub(super) outcome: Outcome,
    /// The ids of the tests that passed.
    pub(super) passed: Vec<TestId>,
}

impl From<OracleRecord> for Served {
    fn from(record: OracleRecord) -> Self {
        Self { key: record.key, outcome: record.outcome, passed: record.passed }
    }
}
