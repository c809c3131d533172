//! The release's JSON files, as they are. Rows are read one by one, so that a broken one does not take the others down.

use serde::Deserialize;
use serde_json::Value;

/// `result.json` of test generation.
#[derive(Debug, Deserialize)]
pub(super) struct TestgenFile {
    pub instance_id: String,
    pub repo: Option<String>,
    pub model: Option<String>,
    #[serde(default)]
    pub results: Vec<Value>,
}

/// One comment and its test.
#[derive(Debug, Deserialize)]
pub(super) struct TestgenRow {
    pub comment_index: usize,
    pub comment_text: String,
    pub comment_type: Option<String>,
    pub language: Option<String>,
    pub test_file: Option<String>,
    pub test_code: Option<String>,
    pub before_passed: Option<bool>,
    pub after_passed: Option<bool>,
    #[serde(default)]
    pub success: bool,
    pub before_output: Option<String>,
    pub attempts_used: Option<u64>,
    pub error: Option<String>,
}

/// `result.json` of agent resolution.
#[derive(Debug, Deserialize)]
pub(super) struct ResolutionFile {
    pub instance_id: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    #[serde(default)]
    pub results: Vec<Value>,
    pub error: Option<String>,
}

/// One comment's result. `comment_index` counts the filtered comments and joins with nothing else.
#[derive(Debug, Deserialize)]
pub(super) struct ResolutionRow {
    pub comment_index: Option<u64>,
    pub comment_text: String,
    pub file_path: Option<String>,
    pub resolved: Option<bool>,
    pub test_passed: Option<bool>,
    pub test_output: Option<String>,
    pub agent_diff: Option<String>,
    pub error: Option<String>,
}

/// `result.json` of one tool's evaluation. `model` is the coding agent's.
#[derive(Debug, Deserialize)]
pub(super) struct EvaluationFile {
    pub instance_id: String,
    pub model: Option<String>,
    pub num_findings: Option<u64>,
    pub agent_diff: Option<String>,
    #[serde(default)]
    pub results: Vec<Value>,
    pub error: Option<String>,
}

/// One comment's result; `comment_index` is the one of test generation.
#[derive(Debug, Deserialize)]
pub(super) struct EvaluationRow {
    pub comment_index: usize,
    pub comment_text: Option<String>,
    pub test_passed: Option<bool>,
    pub test_output: Option<String>,
    pub error: Option<String>,
}
