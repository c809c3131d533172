//! The rendered reports of a run folder: `report.html` (with `instances/` where it is large), `report.json`,
//! `report.md`, `junit.xml`, `arms.csv`, `verdicts.csv`, `swebench.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use handlebars::Handlebars;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tables::{interval, percent};
use super::{Built, Report, html, junit};
use crate::model::VerdictKind;
use crate::store::{RunFolder, StoreError, write_atomic, write_json};

const MARKDOWN: &str = include_str!("../../templates/report.md.hbs");

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The disk says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A template does not fit.
    #[error("a template of the report does not fit: {0}")]
    Template(String),
    /// A table could not be written.
    #[error("a table could not be written: {0}")]
    Table(String),
}

/// The files that every report has.
const FILES: [&str; 7] =
    ["report.html", "report.json", "report.md", "junit.xml", "arms.csv", "verdicts.csv", "swebench.json"];

/// Writes all of them to the run's `report` folder and returns their paths.
///
/// # Errors
/// See [`RenderError`].
pub fn write_files(run: &RunFolder, built: &Built) -> Result<Vec<PathBuf>, RenderError> {
    let Built { report, .. } = built;
    run.forget_report()?;
    let folder = run.report_folder();
    let at = |name: &str| folder.join(name);
    let table = |e: Box<dyn std::error::Error>| RenderError::Table(e.to_string());
    let tables = || -> Result<(), RenderError> {
        write_json(&at("report.json"), report)?;
        write_atomic(&at("report.md"), markdown(report)?.as_bytes())?;
        write_atomic(&at("arms.csv"), &arms_csv(report).map_err(table)?)?;
        write_atomic(&at("verdicts.csv"), &verdicts_csv(report).map_err(table)?)?;
        write_json(&at("swebench.json"), &swebench(report))?;
        write_atomic(&at("junit.xml"), &junit::junit(built).map_err(|e| RenderError::Table(e.to_string()))?)?;
        Ok(())
    };
    // Side by side: each of them is made from what is in memory, and none waits for another.
    let made = std::thread::scope(|scope| {
        let beside = scope.spawn(tables);
        let made = html::write(run, built)?;
        beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok::<_, RenderError>(made)
    })?;
    write_json(&run.report_stamp(), &Stamp::of(built, made.pages)?)?;
    Ok(FILES.map(at).to_vec())
}

/// The same, where they are not there already: a scoring that ran nothing leaves its report as it is.
///
/// # Errors
/// See [`RenderError`].
pub fn write_files_unless_there(run: &RunFolder, built: &Built) -> Result<Vec<PathBuf>, RenderError> {
    let folder = run.report_folder();
    let stands = fs_err::read(run.report_stamp())
        .ok()
        .and_then(|text| serde_json::from_slice::<Stamp>(&text).ok())
        .is_some_and(|stamp| stamp.files().all(|name| folder.join(name).is_file()) && stamp.is_of(built));
    if stands { Ok(FILES.map(|name| folder.join(name)).to_vec()) } else { write_files(run, built) }
}

/// What the files in a report's folder were made of. Written after all of them, and gone before anything that they
/// show changes.
#[derive(Debug, Serialize, Deserialize)]
struct Stamp {
    /// [`html::content_digest`]; redgreen's own version is part of it.
    content: String,
    /// The pages of instances.
    pages: Vec<String>,
}

impl Stamp {
    fn of(built: &Built, pages: Vec<String>) -> Result<Self, RenderError> {
        Ok(Self { content: html::content_digest(built)?, pages })
    }

    fn is_of(&self, built: &Built) -> bool {
        html::content_digest(built).is_ok_and(|content| content == self.content)
    }

    fn files(&self) -> impl Iterator<Item = &str> {
        FILES.into_iter().chain(self.pages.iter().map(String::as_str))
    }
}

/// What the template sees.
fn context(report: &Report) -> Value {
    let arms: Vec<Value> = report
        .arms
        .iter()
        .map(|a| {
            json!({
                "arm": a.arm, "control": a.control, "passed": a.passed, "failed": a.failed, "invalid": a.invalid,
                "missing": a.missing, "missing_instances": a.missing_instances, "total": a.total,
                "rate": percent(a.rate), "rate_interval": interval(a.rate_interval),
                "rate_scored": percent(a.rate_scored), "rate_scored_interval": interval(a.rate_scored_interval),
            })
        })
        .collect();
    let not_passed: Vec<Value> = report
        .verdicts
        .iter()
        .filter(|v| v.verdict != VerdictKind::Pass)
        .map(|v| {
            json!({
                "instance_id": v.instance_id, "comment": v.comment, "arm": v.arm, "verdict": v.verdict.as_str(),
                "reason": cell(v.reason.as_deref().unwrap_or_default()),
                "message": cell(v.message.as_deref().unwrap_or_default()),
            })
        })
        .collect();
    json!({
        "benchmark": report.benchmark, "digest": report.benchmark_digest, "policy": report.policy,
        "denominator": report.denominator.as_str(), "instances": report.instances, "comments": report.comments,
        "tool_version": report.tool_version, "arms": arms, "union": report.overlap.union, "pairs": report.overlap.pairs,
        "exclusive": report.overlap.exclusive, "agreement": report.agreement, "notes": report.notes,
        "not_passed": not_passed,
    })
}

/// Text for a cell of a Markdown table: one line, no bars, not too long.
fn cell(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    if line.chars().count() <= 160 { line } else { format!("{}…", line.chars().take(160).collect::<String>()) }
}

fn markdown(report: &Report) -> Result<String, RenderError> {
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    engine.register_escape_fn(handlebars::no_escape);
    engine.render_template(MARKDOWN, &context(report)).map_err(|e| RenderError::Template(e.to_string()))
}

fn arms_csv(report: &Report) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record([
        "arm",
        "control",
        "passed",
        "failed",
        "invalid",
        "missing",
        "missing_instances",
        "total",
        "rate",
        "rate_low",
        "rate_high",
        "rate_scored",
        "rate_scored_low",
        "rate_scored_high",
    ])?;
    let number = |n: Option<f64>| n.map(|n| n.to_string()).unwrap_or_default();
    for a in &report.arms {
        out.write_record([
            a.arm.clone(),
            a.control.to_string(),
            a.passed.to_string(),
            a.failed.to_string(),
            a.invalid.to_string(),
            a.missing.to_string(),
            a.missing_instances.to_string(),
            a.total.to_string(),
            number(a.rate),
            number(a.rate_interval.map(|i| i.0)),
            number(a.rate_interval.map(|i| i.1)),
            number(a.rate_scored),
            number(a.rate_scored_interval.map(|i| i.0)),
            number(a.rate_scored_interval.map(|i| i.1)),
        ])?;
    }
    Ok(out.into_inner()?)
}

fn verdicts_csv(report: &Report) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record([
        "instance_id",
        "comment",
        "arm",
        "agent",
        "model",
        "attempt",
        "verdict",
        "reason",
        "outcomes",
        "marks",
        "message",
        "seconds",
        "key",
    ])?;
    for v in &report.verdicts {
        let outcomes: Vec<String> = v.outcomes.iter().map(ToString::to_string).collect();
        out.write_record([
            v.instance_id.to_string(),
            v.comment.to_string(),
            v.arm.to_string(),
            v.agent.clone().unwrap_or_default(),
            v.model.clone().unwrap_or_default(),
            v.attempt.to_string(),
            v.verdict.as_str().to_owned(),
            v.reason.clone().unwrap_or_default(),
            outcomes.join(" "),
            v.marks.join("; "),
            v.message.clone().unwrap_or_default(),
            format!("{:.3}", v.seconds),
            v.key.as_ref().map(ToString::to_string).unwrap_or_default(),
        ])?;
    }
    Ok(out.into_inner()?)
}

/// A summary in the words of SWE-bench's run reports, one an arm, for scripts that know it. An instance is resolved when
/// every one of its comments passes, and an error when one of them is invalid.
fn swebench(report: &Report) -> Value {
    let mut arms: BTreeMap<&str, BTreeMap<String, Vec<VerdictKind>>> = BTreeMap::new();
    for row in &report.arms {
        arms.entry(row.arm.as_str()).or_default();
    }
    for verdict in &report.verdicts {
        if let Some(instances) = arms.get_mut(verdict.arm.as_str()) {
            instances.entry(verdict.instance_id.to_string()).or_default().push(verdict.verdict);
        }
    }
    let summary = |instances: &BTreeMap<String, Vec<VerdictKind>>| {
        let ids = |keep: &dyn Fn(&[VerdictKind]) -> bool| -> Vec<&String> {
            instances.iter().filter(|(_, kinds)| keep(kinds)).map(|(id, _)| id).collect()
        };
        let has = |kinds: &[VerdictKind], kind| kinds.contains(&kind);
        let submitted = ids(&|k| !k.iter().all(|k| *k == VerdictKind::Missing));
        let resolved = ids(&|k| k.iter().all(|k| *k == VerdictKind::Pass));
        let errors = ids(&|k| has(k, VerdictKind::Invalid));
        let incomplete = ids(&|k| k.iter().all(|k| *k == VerdictKind::Missing));
        let unresolved = ids(&|k| {
            !has(k, VerdictKind::Invalid)
                && !k.iter().all(|k| *k == VerdictKind::Pass)
                && !k.iter().all(|k| *k == VerdictKind::Missing)
        });
        let completed: Vec<&String> = resolved.iter().chain(&unresolved).copied().collect();
        json!({
            "total_instances": instances.len(),
            "submitted_instances": submitted.len(),
            "completed_instances": completed.len(),
            "resolved_instances": resolved.len(),
            "unresolved_instances": unresolved.len(),
            "error_instances": errors.len(),
            "submitted_ids": submitted,
            "completed_ids": completed,
            "resolved_ids": resolved,
            "unresolved_ids": unresolved,
            "error_ids": errors,
            "incomplete_ids": incomplete,
            "schema_version": 2,
        })
    };
    arms.iter()
        .map(|(arm, instances)| ((*arm).to_owned(), summary(instances)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
