//! The report of a run, made from its records. Runs nothing.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::metrics::{Agreement, ArmRow, Breakdown, Denominator, Overlap, Replayed, agreement, arms_in_order, scores};
use crate::model::{Digest, Extra, InstanceId, Revision, RevisionStatus, Verdict, VerdictKind, digest_bytes};
use crate::oracle::{PART_OF_THE_FIX, Policy, TEST_CONFIGURATION};
use crate::sandbox::End;
use crate::stage::score::{RecordView, Roster, Row, RowState, STAGE, verdicts};
use crate::store::{RunFolder, RunManifest, StoreError};

/// The version of `report.json`.
pub const REPORT_SCHEMA: u32 = 1;

/// `report.json`, and what `--json` prints. Its JSON Schema is `docs/report.schema.json`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    /// The format's version.
    pub schema: u32,
    /// The version of redgreen that made the report.
    pub tool_version: String,
    /// The benchmark's name.
    pub benchmark: String,
    /// The digest over its dataset and tests.
    pub benchmark_digest: String,
    /// The verdict policy.
    pub policy: String,
    /// Which comments count: `all`, `valid` or `final`.
    pub denominator: Denominator,
    /// Instances that the report is about.
    pub instances: usize,
    /// Comments that the report is about: the total of every row.
    pub comments: usize,
    /// One row an arm: tools by name, then controls.
    pub arms: Vec<ArmRow>,
    /// What the tools pass together; control arms are left out.
    pub overlap: Overlap,
    /// For each arm, its comments by outcome.
    pub outcomes: std::collections::BTreeMap<String, std::collections::BTreeMap<String, usize>>,
    /// Passes by category, kind, language and instance.
    pub breakdown: Breakdown,
    /// How far the verdicts agree with those that came with the data, over recorded revisions, whatever the denominator.
    pub agreement: Agreement,
    /// Every verdict of the denominator.
    pub verdicts: Vec<Verdict>,
    /// What a reader should know before believing a number.
    pub notes: Vec<String>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The run folder cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something in it is not what it should be.
    #[error("{0}")]
    Run(String),
}

/// A report, and what it was made of.
#[derive(Debug, Clone)]
pub struct Built {
    /// The report.
    pub report: Report,
    /// What the run is of.
    pub manifest: RunManifest,
    /// The benchmark's comments.
    pub roster: Roster,
    /// The index, with controls that the report does not show.
    pub rows: Vec<Row>,
}

/// Makes the report of a run folder.
///
/// # Errors
/// When the folder cannot be read, or the benchmark has no frozen choice and `final` is asked for.
pub fn build(run: &RunFolder, denominator: Option<Denominator>) -> Result<Built, ReportError> {
    let manifest = run.manifest()?;
    let broken =
        |what: &str, e: &dyn std::fmt::Display| ReportError::Run(format!("the run's {what} cannot be read: {e}"));
    let roster: Roster = serde_json::from_slice(&run.blob(&manifest.roster)?).map_err(|e| broken("roster", &e))?;
    let policy: Policy = manifest.policy.parse().map_err(|e| broken("policy", &e))?;
    let denominator = match denominator {
        Some(denominator) => denominator,
        None => manifest.denominator.parse().map_err(|e| broken("denominator", &e))?,
    };
    if denominator == Denominator::Final && !roster.has_frozen {
        return Err(ReportError::Run(
            "this benchmark has no frozen choice of its own; use `--denominator valid` or `all`".to_owned(),
        ));
    }
    let (rows, torn) = run.whole_and_torn_rows::<Row>()?;
    let mut report = assemble(&manifest, &roster, &rows, policy, denominator, |keys| run.records(STAGE, keys))?;
    if torn > 0 {
        report.notes.push(format!("{torn} rows cannot be read, which a crash of the machine does; score again"));
    }
    Ok(Built { report, manifest, roster, rows })
}

fn assemble(
    manifest: &RunManifest,
    roster: &Roster,
    rows: &[Row],
    policy: Policy,
    denominator: Denominator,
    read: impl FnOnce(&[&Digest]) -> Result<Vec<Option<RecordView>>, StoreError>,
) -> Result<Report, StoreError> {
    let mut exits = std::collections::HashMap::new();
    let scored = verdicts(roster, rows, policy, |keys| {
        let found = read(keys)?;
        for (key, record) in keys.iter().zip(&found) {
            if let Some(RecordView { end: End::Exited(code), .. }) = record {
                exits.insert((*key).clone(), *code);
            }
        }
        Ok::<_, StoreError>(found)
    })?;
    let chosen: HashSet<&InstanceId> = rows.iter().map(|r| &r.instance_id).collect();
    let set = roster.comment_set(denominator, |id| chosen.contains(id));
    let arms = arms_in_order(rows.iter().filter(|r| r.shown).map(|r| &r.arm));
    let all = scored.verdicts;
    let replayed: Vec<_> = all
        .iter()
        .zip(&scored.first_lines)
        .map(|(verdict, line)| Replayed {
            verdict,
            exit_code: verdict.key.as_ref().and_then(|key| exits.get(key).copied()),
            first_line: line.as_deref(),
        })
        .collect();
    let agreement = agreement(&roster.recorded, &revisions_of(rows), &replayed);
    let counted: HashSet<_> = set.rows.iter().map(|r| (&r.instance_id, &r.comment)).collect();
    let of_denominator: Vec<Verdict> =
        all.into_iter().filter(|v| counted.contains(&(&v.instance_id, &v.comment))).collect();
    let scores = scores(&set, &arms, &of_denominator);
    let notes = notes(&scores.arms, &of_denominator, set.rows.len(), scored.lost);
    Ok(Report {
        schema: REPORT_SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        benchmark: manifest.benchmark.name.clone(),
        benchmark_digest: manifest.benchmark.digest.to_string(),
        policy: policy.as_str().to_owned(),
        denominator,
        instances: chosen.len(),
        comments: set.rows.len(),
        arms: scores.arms,
        overlap: scores.overlap,
        outcomes: scores.outcomes,
        breakdown: scores.breakdown,
        agreement,
        verdicts: of_denominator,
        notes,
    })
}

/// The revisions behind the rows, as far as agreement asks: whether there is a patch, and what the agent said.
fn revisions_of(rows: &[Row]) -> Vec<Revision> {
    let empty = digest_bytes(b"");
    rows.iter()
        .filter(|row| row.patch.is_some())
        .map(|row| Revision {
            instance_id: row.instance_id.clone(),
            arm: row.arm.clone(),
            agent: row.agent.clone(),
            model: row.model.clone(),
            attempt: row.attempt,
            patch: if row.patch.as_ref() == Some(&empty) { String::new() } else { "(kept as evidence)".to_owned() },
            status: match row.state {
                RowState::NoChanges => RevisionStatus::NoChanges,
                _ => RevisionStatus::Unknown,
            },
            usage: serde_json::Value::Null,
            trajectory: serde_json::Value::Null,
            extra: Extra::new(),
        })
        .collect()
}

/// Why cells are invalid, in the words before the detail, with counts: `infra: toolchain 21, control 2`.
fn invalid_reasons(verdicts: &[Verdict]) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for verdict in verdicts.iter().filter(|v| v.verdict == VerdictKind::Invalid) {
        let reason = verdict.reason.as_deref().unwrap_or("no reason given");
        let words = if reason.starts_with("infra: ") { 2 } else { 1 };
        let kind: Vec<&str> = reason.split(": ").take(words).collect();
        *counts.entry(kind.join(": ")).or_insert(0) += 1;
    }
    counts.iter().map(|(kind, n)| format!("{kind} {n}")).collect::<Vec<_>>().join(", ")
}

fn notes(arms: &[ArmRow], verdicts: &[Verdict], total: usize, lost: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if total < 30 {
        notes.push(format!("few comments ({total}): intervals are wide, and small differences mean nothing"));
    }
    let marked = |mark: &str| verdicts.iter().filter(|v| v.marks.iter().any(|m| m == mark)).count();
    for (mark, text) in [
        ("uncontrolled", "are of oracles without a `merged` control, as no merged commit is known"),
        (TEST_CONFIGURATION, "are of revisions that touch test configuration; passes among them hold with head's, too"),
        (
            PART_OF_THE_FIX,
            "are of revisions that touch test configuration as the fix does; head's cannot be used in its place",
        ),
        ("channel: weak", "come from a framework whose result the code under test could write"),
        ("text-only", "are of tests that never loaded the project's code: they read its text"),
    ] {
        let count = marked(mark);
        if count > 0 {
            notes.push(format!("{count} verdicts {text}"));
        }
    }
    let invalid: usize = arms.iter().map(|a| a.invalid).sum();
    if invalid > 0 {
        let reasons = invalid_reasons(verdicts);
        notes.push(format!("{invalid} cells are invalid, nothing can be said of them: {reasons}"));
    }
    if lost > 0 {
        notes.push(format!("{lost} rows point to records that are gone; score again"));
    }
    notes
}
