//! Everything about one verdict.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::bounds::{CELL_CHARS, LISTED_TESTS, MESSAGE_BYTES};
use super::evidence::Evidence;
use super::patch::{self, PatchView};
use super::text::{cut, line, seconds, size, visible};
use crate::model::{Digest, Outcome, Verdict};
use crate::sandbox::{End, Isolation};
use crate::stage::score::{OracleRecord, Row, RowState};

/// One verdict.
#[derive(Debug, Clone, Serialize)]
pub struct Detail {
    /// Its anchor on the page; the same in every report of the run.
    pub id: String,
    /// The arm.
    pub arm: String,
    /// Whether it is a control arm.
    pub control: bool,
    /// Agent, model and attempt, as far as there is more than one to tell apart.
    pub by: String,
    /// The verdict's string form.
    pub verdict: &'static str,
    /// Why.
    pub reason: String,
    /// The message in one line.
    pub summary: String,
    /// The message.
    pub message: String,
    /// One outcome a run.
    pub outcomes: Vec<String>,
    /// Marks beside the verdict.
    pub marks: Vec<String>,
    /// Time of all runs together; empty where nothing ran.
    pub seconds: String,
    /// What else is known, by name.
    pub facts: Vec<Fact>,
    /// The runs, where there are several.
    pub runs: Vec<RunLine>,
    /// The tests that the telling run showed.
    pub tests: Vec<Fact>,
    /// Tests that are not listed.
    pub more_tests: usize,
    /// The revision's patch.
    pub patch: Option<PatchView>,
    /// The verdict that shows the patch, where that is another one of the same instance.
    pub patch_at: Option<Elsewhere>,
    /// What was written.
    pub outputs: Vec<Output>,
    /// Whether the evidence is embedded; else only what the summary shows is filled in.
    pub embedded: bool,
    /// The record's key; empty where nothing ran.
    pub key: String,
}

/// Another verdict on the same page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Elsewhere {
    /// Its anchor.
    pub id: String,
    /// Its comment.
    pub comment: String,
}

/// A name and a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// One of several runs.
#[derive(Debug, Clone, Serialize)]
pub struct RunLine {
    /// Its number, from 1.
    pub number: usize,
    /// Its outcome.
    pub outcome: String,
    /// Its wall-clock time.
    pub seconds: String,
    /// Whether it ran with head's test configuration.
    pub head_configuration: bool,
    /// Its record's path in the run folder.
    pub record: String,
}

/// What a run wrote under one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Output {
    /// `stdout`, `stderr`, `result`, …
    pub name: String,
    /// The whole size.
    pub size: String,
    /// The beginning.
    pub head: String,
    /// Bytes left out in the middle.
    pub left_out: usize,
    /// The end.
    pub tail: String,
    /// The file in the run folder.
    pub path: String,
    /// Why it cannot be shown.
    pub problem: Option<String>,
}

/// Where patches of one instance are shown already.
pub(super) type ShownPatches = HashMap<Digest, Elsewhere>;

/// Everything about a verdict.
pub(super) fn detail(evidence: &mut Evidence<'_>, verdict: &Verdict, patches: &mut ShownPatches) -> Detail {
    let row = evidence.row(verdict);
    let id = row.map_or_else(|| "v".to_owned(), |row| format!("v-{}", row.id().short()));
    let message = verdict.message.as_deref().unwrap_or_default();
    let reason = verdict.reason.as_deref().unwrap_or_default();
    let mut detail = Detail {
        arm: visible(verdict.arm.as_str()).into_owned(),
        control: verdict.arm.is_control(),
        by: by(verdict),
        verdict: verdict.verdict.as_str(),
        reason: cut_text(reason),
        summary: line(message, CELL_CHARS),
        message: String::new(),
        outcomes: Vec::new(),
        marks: verdict.marks.iter().map(|mark| visible(mark).into_owned()).collect(),
        seconds: if verdict.key.is_some() { seconds(verdict.seconds) } else { String::new() },
        facts: Vec::new(),
        runs: Vec::new(),
        tests: Vec::new(),
        more_tests: 0,
        patch: None,
        patch_at: None,
        outputs: Vec::new(),
        embedded: evidence.admits(verdict),
        key: verdict.key.as_ref().map(ToString::to_string).unwrap_or_default(),
        id,
    };
    if !detail.embedded {
        return detail;
    }
    detail.message = cut_text(message);
    detail.outcomes = verdict.outcomes.iter().map(Outcome::to_string).collect();
    if !verdict.with_head_configuration.is_empty() {
        let outcomes: Vec<String> = verdict.with_head_configuration.iter().map(Outcome::to_string).collect();
        detail.fact("with head's test configuration", outcomes.join(" · "));
    }
    detail.embed(evidence, verdict, row, patches);
    detail
}

impl Detail {
    /// Bytes of text that it embeds.
    fn bytes(&self) -> usize {
        let patch = self.patch.iter().flat_map(|p| &p.chunks).map(|c| c.text.len()).sum::<usize>();
        let facts = self.facts.iter().chain(&self.tests).map(|f| f.name.len() + f.value.len()).sum::<usize>();
        patch + facts + self.message.len()
    }

    /// The evidence itself.
    fn embed(&mut self, evidence: &mut Evidence<'_>, verdict: &Verdict, row: Option<&Row>, patches: &mut ShownPatches) {
        let (keys, second): (&[Digest], &[Digest]) = match row.map(|row| &row.state) {
            Some(RowState::Runs { keys, with_head_configuration }) => (keys, with_head_configuration),
            _ => (&[], &[]),
        };
        let mut telling = None;
        for (index, key) in keys.iter().chain(second).enumerate() {
            let record = evidence.record(key);
            if keys.len() + second.len() > 1 {
                self.runs.push(RunLine {
                    number: index + 1,
                    head_configuration: index >= keys.len(),
                    outcome: record.as_ref().map_or_else(|| "gone".to_owned(), |r| r.outcome.to_string()),
                    seconds: record.as_ref().map(|r| seconds(r.seconds)).unwrap_or_default(),
                    record: Evidence::record_path(key),
                });
            }
            if verdict.key.as_ref() == Some(key) {
                telling = record;
            }
        }
        match &telling {
            Some(record) => self.tell(record),
            None => self.isolation(&verdict.isolation),
        }
        if let Some(key) = &verdict.key {
            self.fact("record", Evidence::record_path(key));
        }
        for (name, digest) in ordered(verdict) {
            if name == "patch" {
                self.show_patch(evidence, verdict, &digest, patches);
            } else {
                self.outputs.push(evidence.output(&name, &digest));
            }
        }
        evidence.spend(self.bytes());
    }

    fn show_patch(
        &mut self,
        evidence: &mut Evidence<'_>,
        verdict: &Verdict,
        digest: &Digest,
        patches: &mut ShownPatches,
    ) {
        if let Some(at) = patches.get(digest) {
            self.patch_at = Some(at.clone());
            return;
        }
        let path = Evidence::blob_path(digest);
        match evidence.blob(digest) {
            Ok(bytes) if bytes.is_empty() => self.fact("patch", "empty".to_owned()),
            Ok(bytes) => {
                self.patch = Some(patch::view(&bytes, path));
                patches.insert(digest.clone(), Elsewhere { id: self.id.clone(), comment: verdict.comment.to_string() });
            }
            Err(problem) => self.fact("patch", format!("cannot be read: {}", visible(&problem))),
        }
    }

    /// What a record says beside its outcome.
    fn tell(&mut self, record: &OracleRecord) {
        self.fact(
            "ended",
            match record.end {
                End::Exited(code) => format!("exit code {code}"),
                End::Signaled(signal) => format!("signal {signal}"),
            },
        );
        let memory = record.peak_memory.map(|peak| format!(" · peak memory {}", size(peak))).unwrap_or_default();
        self.fact("took", format!("{} · CPU {}{memory}", seconds(record.seconds), seconds(record.cpu_seconds)));
        self.fact("began", record.started.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
        self.fact("result by", visible(&record.channel).into_owned());
        if let Some(text_only) = record.text_only {
            self.fact("project code", if text_only { "not loaded" } else { "loaded" }.to_owned());
        }
        self.describe(&record.isolation);
        self.limits(&record.inputs["limits"]);
        let tests = record.tests.as_array().map(Vec::as_slice).unwrap_or_default();
        self.more_tests = tests.len().saturating_sub(LISTED_TESTS);
        self.tests = tests
            .iter()
            .take(LISTED_TESTS)
            .map(|test| {
                let text = |field: &str| line(test[field].as_str().unwrap_or_default(), CELL_CHARS);
                Fact { name: text("id"), value: text("status") }
            })
            .collect();
    }

    fn isolation(&mut self, isolation: &Value) {
        if let Ok(isolation) = serde_json::from_value::<Isolation>(isolation.clone()) {
            self.describe(&isolation);
        }
    }

    fn describe(&mut self, of: &Isolation) {
        let text = format!(
            "{} · {} · network {} · memory {} · processes {} · workspace {}",
            of.sandbox, of.level, of.network, of.memory, of.pids, of.workspace
        );
        self.fact("isolation", visible(&text).into_owned());
    }

    fn limits(&mut self, limits: &Value) {
        let mut parts = Vec::new();
        for (field, name) in [("wall", "wall"), ("cpu", "CPU")] {
            parts.extend(limits[field].as_f64().map(|s| format!("{name} {s} s")));
        }
        parts.extend(limits["memory"].as_u64().map(|bytes| format!("memory {}", size(bytes))));
        parts.extend(limits["pids"].as_u64().map(|pids| format!("{pids} processes")));
        for (field, name) in [("file_size", "a file"), ("output", "an output"), ("scratch", "scratch")] {
            parts.extend(limits[field].as_u64().map(|bytes| format!("{name} {}", size(bytes))));
        }
        if !parts.is_empty() {
            self.fact("limits", parts.join(" · "));
        }
    }

    fn fact(&mut self, name: &str, value: String) {
        self.facts.push(Fact { name: name.to_owned(), value });
    }
}

fn cut_text(text: &str) -> String {
    let shown = cut(text.as_bytes(), MESSAGE_BYTES, MESSAGE_BYTES);
    let head = visible(&shown.head).into_owned();
    if shown.left_out == 0 { head } else { format!("{head}… ({} bytes more)", shown.left_out) }
}

fn by(verdict: &Verdict) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend([&verdict.agent, &verdict.model].into_iter().flatten().map(|name| line(name, CELL_CHARS)));
    if verdict.attempt != 1 {
        parts.push(format!("attempt {}", verdict.attempt));
    }
    parts.join(" · ")
}

/// The evidence by name, in the order in which a person wants it: the patch, what the run said, then the rest.
fn ordered(verdict: &Verdict) -> Vec<(String, Digest)> {
    const FIRST: [&str; 5] = ["patch", "patch-log", "stdout", "stderr", "result"];
    let digest = |value: &Value| value.as_str().and_then(|text| text.parse::<Digest>().ok());
    let mut all: Vec<(String, Digest)> =
        verdict.evidence.iter().filter_map(|(name, value)| Some((name.clone(), digest(value)?))).collect();
    all.sort_by_key(|(name, _)| (FIRST.iter().position(|n| n == name).unwrap_or(FIRST.len()), name.clone()));
    all
}
