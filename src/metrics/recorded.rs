//! Scores from the verdicts that came with the data, without running anything.

use super::{CommentSet, Denominator, DenominatorError, Scores, arms_in_order, scores};
use crate::model::{Arm, BenchManifest, Extra, Instance, RecordedVerdict, Verdict, VerdictKind, VerdictReason};

/// Recorded verdicts as rows of a report. Nothing ran here: no outcomes, no seconds, no keys.
pub fn recorded_verdicts(recorded: &[RecordedVerdict]) -> Vec<Verdict> {
    recorded
        .iter()
        .map(|row| Verdict {
            instance_id: row.instance_id.clone(),
            comment: row.comment.clone(),
            arm: row.arm.clone(),
            agent: None,
            model: None,
            attempt: 1,
            outcomes: Vec::new(),
            with_head_configuration: Vec::new(),
            verdict: if row.passed { VerdictKind::Pass } else { VerdictKind::Fail },
            reason: match (row.passed, row.says_no_changes()) {
                (true, _) => None,
                (false, true) => Some(VerdictReason::NoChanges.to_string()),
                (false, false) => Some(row.error.clone().unwrap_or_else(|| "recorded".to_owned())),
            },
            marks: vec!["recorded".to_owned()],
            message: row.first_line.clone(),
            seconds: 0.0,
            isolation: serde_json::Value::Null,
            key: None,
            evidence: Extra::new(),
        })
        .collect()
}

/// The report of `recorded.jsonl` alone. Arms are those of the benchmark's list and of the rows; a comment with an
/// oracle and no row is missing.
///
/// # Errors
/// When `final` is asked for and the benchmark made no choice.
pub fn recorded_report(
    manifest: &BenchManifest,
    instances: &[Instance],
    recorded: &[RecordedVerdict],
    denominator: Denominator,
) -> Result<Scores, DenominatorError> {
    let set = CommentSet::of(manifest, instances, denominator)?;
    let listed: Vec<Arm> = manifest.arms.iter().map(|name| Arm::new(name.as_str())).collect();
    let arms = arms_in_order(listed.iter().chain(recorded.iter().map(|row| &row.arm)));
    Ok(scores(&set, &arms, &recorded_verdicts(recorded)))
}
