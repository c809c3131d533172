//! Revisions and recorded verdicts: of the resolver (arm `human`) and of each tool.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::instance::Tested;
use super::{Evaluated, Joined};
use crate::formats::ccrab::outcome::first_line;
use crate::formats::ccrab::wire::{EvaluationFile, EvaluationRow, ResolutionFile, ResolutionRow};
use crate::formats::ccrab::{Folder, Release};
use crate::model::{
    Arm, AttritionReason, AttritionScope, CommentId, Extra, FrozenRow, InstanceId, RecordedVerdict, Revision,
    RevisionStatus, from_value,
};

type Table = BTreeMap<InstanceId, Tested>;

/// The coding agent of the release's evaluations, whose files name only its model.
const AGENT: &str = "claude-code";

pub(super) fn resolution(release: &Release, table: &Table, joined: &mut Joined) {
    let arm = Arm::new(Arm::HUMAN);
    let mut seen = BTreeSet::new();
    for (folder, files) in &release.resolution {
        let source = Source { arm: &arm, stage: "resolution", folder };
        let Some(file) = source.file::<ResolutionFile>(files, joined) else { continue };
        let Some(id) = source.instance(&file.instance_id, table, &mut seen, joined) else { continue };
        let rows: Vec<ResolutionRow> = source.rows(&id, file.results, joined);
        let mut diffs = rows.iter().filter_map(|row| row.agent_diff.as_deref()).collect::<BTreeSet<_>>();
        let patch = rows.iter().find_map(|row| row.agent_diff.clone()).unwrap_or_default();
        diffs.remove(patch.as_str());
        if !diffs.is_empty() {
            let detail = format!("`{folder}`: its results hold different diffs; the first one counts");
            source.lose(&id, None, AttritionScope::Revision, AttritionReason::Duplicate, detail, joined);
        }
        let errors: Vec<_> = rows.iter().map(|row| row.error.as_deref()).collect();
        let facts = Extra::new();
        let agent = file.agent.unwrap_or_else(|| AGENT.to_owned());
        source.revision(&id, (agent, file.model), patch, &errors, file.error, facts, joined);
        for row in rows {
            resolved(&source, &id, row, table, joined);
        }
    }
}

/// One result of the resolver: a recorded verdict of the comment it joins with, which it may freeze.
fn resolved(source: &Source<'_>, id: &InstanceId, row: ResolutionRow, table: &Table, joined: &mut Joined) {
    let Some(tested) = table.get(id) else { return };
    let at = row.comment_index.map_or_else(String::new, |n| format!(" (its index {n})"));
    // Only the resolver's records say which file a comment is on; that is worth having without a valid test too.
    let first = tested.comments.iter().find(|c| c.text == row.comment_text);
    if let (Some(path), Some(comment)) = (&row.file_path, tested.by_text(&row.comment_text).or(first)) {
        let instance = joined.instances.iter_mut().find(|i| i.instance_id == *id);
        let comments = instance.map(|i| &mut i.reference_review_comments);
        if let Some(comment) = comments.and_then(|rows| rows.iter_mut().find(|c| c.id == comment.id)) {
            comment.path.clone_from(path);
        }
    }
    let Some(comment) = tested.by_text(&row.comment_text).map(|c| c.id.clone()) else {
        let detail = format!("no comment of test generation has this text and a valid test{at}");
        source.lose(id, None, AttritionScope::Recorded, AttritionReason::NoPartner, detail, joined);
        return;
    };
    let known = joined.recorded.iter().any(|r| r.instance_id == *id && r.comment == comment && r.arm == *source.arm);
    if known {
        let detail = format!("a result with the same text came before{at}");
        source.lose(id, Some(comment), AttritionScope::Recorded, AttritionReason::Duplicate, detail, joined);
        return;
    }
    if row.resolved == Some(true) {
        joined.frozen.push(FrozenRow { instance_id: id.clone(), comment: comment.clone() });
    }
    let facts = row.comment_index.map(|n| ("resolution_index".to_owned(), json!(n))).into_iter().collect();
    source.record(id, comment, row.test_passed, row.error, row.test_output, facts, joined);
}

pub(super) fn evaluations(release: &Release, table: &Table, joined: &mut Joined) -> Evaluated {
    let mut evaluated = Evaluated::new();
    for (tool, folders) in &release.evaluations {
        let arm = Arm::new(tool.as_str());
        let mut seen = BTreeSet::new();
        for (folder, files) in folders {
            let source = Source { arm: &arm, stage: "evaluation", folder };
            let Some(file) = source.file::<EvaluationFile>(files, joined) else { continue };
            let Some(id) = source.instance(&file.instance_id, table, &mut seen, joined) else { continue };
            evaluate(&source, &id, file, &table[&id], joined);
        }
        evaluated.insert(arm, seen);
    }
    evaluated
}

fn evaluate(source: &Source<'_>, id: &InstanceId, file: EvaluationFile, tested: &Tested, joined: &mut Joined) {
    let rows: Vec<EvaluationRow> = source.rows(id, file.results, joined);
    let errors: Vec<_> = rows.iter().map(|row| row.error.as_deref()).collect();
    let facts = file.num_findings.map(|n| ("num_findings".to_owned(), json!(n))).into_iter().collect();
    let patch = file.agent_diff.unwrap_or_default();
    source.revision(id, (AGENT.to_owned(), file.model), patch, &errors, file.error, facts, joined);
    let mut seen = BTreeSet::new();
    for row in rows {
        let index = row.comment_index;
        let comment = CommentId::from_index(index);
        let text = row.comment_text.as_deref();
        let partner = tested.by_index(index).filter(|c| text.is_none_or(|text| text == c.text));
        let (reason, detail) = if partner.is_none() {
            (AttritionReason::NoPartner, format!("test generation has no comment {index} with this text"))
        } else if !seen.insert(index) {
            (AttritionReason::Duplicate, format!("comment {index} has a result before"))
        } else {
            source.record(id, comment, row.test_passed, row.error, row.test_output, Extra::new(), joined);
            continue;
        };
        source.lose(id, Some(comment), AttritionScope::Recorded, reason, detail, joined);
    }
    let untold = tested.comments.iter().filter(|c| matches!(c.state, super::instance::State::Valid));
    for comment in untold.filter(|c| !seen.iter().any(|index| CommentId::from_index(*index) == c.id)) {
        let detail = format!("the output of `{}` has no result for this comment", source.arm);
        let id_of = Some(comment.id.clone());
        source.lose(id, id_of, AttritionScope::Recorded, AttritionReason::NoOutput, detail, joined);
    }
}

/// Where a row comes from.
struct Source<'a> {
    arm: &'a Arm,
    stage: &'static str,
    folder: &'a str,
}

impl Source<'_> {
    fn lose(
        &self,
        id: &InstanceId,
        comment: Option<CommentId>,
        scope: AttritionScope,
        reason: AttritionReason,
        detail: String,
        joined: &mut Joined,
    ) {
        let row = joined.lose(scope, self.stage, reason, detail);
        row.instance_id = Some(id.to_string());
        row.comment = comment;
        row.arm = Some(self.arm.clone());
    }

    fn file<T: DeserializeOwned>(&self, files: &Folder, joined: &mut Joined) -> Option<T> {
        let result = match files.get("result.json") {
            None => Err((AttritionReason::NotInSource, "there is no `result.json`".to_owned())),
            Some(bytes) => serde_json::from_slice::<Value>(bytes)
                .map_err(|error| error.to_string())
                .and_then(|value| from_value(value).map_err(|(field, problem)| format!("field `{field}`: {problem}")))
                .map_err(|problem| (AttritionReason::Malformed, problem)),
        };
        match result {
            Ok(file) => Some(file),
            Err((reason, problem)) => {
                let detail = format!("{} of `{}`: folder `{}`: {problem}", self.stage, self.arm, self.folder);
                let row = joined.lose(AttritionScope::Revision, self.stage, reason, detail);
                row.instance_id = Some(self.folder.to_owned());
                row.arm = Some(self.arm.clone());
                None
            }
        }
    }

    fn instance(
        &self,
        text: &str,
        table: &Table,
        seen: &mut BTreeSet<InstanceId>,
        joined: &mut Joined,
    ) -> Option<InstanceId> {
        let (reason, detail) = match text.parse::<InstanceId>() {
            Err(error) => (AttritionReason::Malformed, error.to_string()),
            Ok(id) => match table.get_key_value(&id) {
                None => (AttritionReason::NoPartner, "test generation has no such instance".to_owned()),
                // The spelling of test generation, should the two differ in case.
                Some((id, _)) if seen.insert(id.clone()) => return Some(id.clone()),
                Some(_) => (AttritionReason::Duplicate, format!("folder `{}` has the id of another one", self.folder)),
            },
        };
        let row = joined.lose(AttritionScope::Revision, self.stage, reason, detail);
        row.instance_id = Some(text.to_owned());
        row.arm = Some(self.arm.clone());
        None
    }

    fn rows<T: DeserializeOwned>(&self, id: &InstanceId, values: Vec<Value>, joined: &mut Joined) -> Vec<T> {
        let mut rows = Vec::with_capacity(values.len());
        for (position, value) in values.into_iter().enumerate() {
            match from_value(value) {
                Ok(row) => rows.push(row),
                Err((field, problem)) => {
                    let detail = format!("entry {position} of `{}`: field `{field}`: {problem}", self.folder);
                    self.lose(id, None, AttritionScope::Row, AttritionReason::Malformed, detail, joined);
                }
            }
        }
        rows
    }

    #[expect(clippy::too_many_arguments, reason = "one call's worth of a record's fields")]
    fn revision(
        &self,
        id: &InstanceId,
        (agent, model): (String, Option<String>),
        patch: String,
        errors: &[Option<&str>],
        error: Option<String>,
        mut extra: Extra,
        joined: &mut Joined,
    ) {
        let noted = !errors.is_empty() && errors.iter().all(|e| e.map(str::trim) == Some(RecordedVerdict::NO_CHANGES));
        let status = match (patch.trim().is_empty(), noted, &error) {
            (true, true, _) => RevisionStatus::NoChanges,
            (_, _, Some(_)) => RevisionStatus::Errored,
            _ => RevisionStatus::Done,
        };
        if status == RevisionStatus::NoChanges {
            let detail = format!("the record says `{}`", RecordedVerdict::NO_CHANGES);
            self.lose(id, None, AttritionScope::Revision, AttritionReason::NoChanges, detail, joined);
        } else if patch.trim().is_empty() {
            let detail = "the recorded diff is empty, and nothing says that the agent made no changes";
            self.lose(id, None, AttritionScope::Revision, AttritionReason::EmptyDiff, detail.to_owned(), joined);
        }
        if let Some(error) = error {
            extra.insert("error".to_owned(), Value::from(error));
        }
        joined.revisions.push(Revision {
            instance_id: id.clone(),
            arm: self.arm.clone(),
            agent: Some(agent),
            model,
            attempt: 1,
            patch,
            status,
            usage: Value::Null,
            trajectory: Value::Null,
            extra,
        });
    }

    #[expect(clippy::too_many_arguments, reason = "one call's worth of a record's fields")]
    fn record(
        &self,
        id: &InstanceId,
        comment: CommentId,
        passed: Option<bool>,
        error: Option<String>,
        output: Option<String>,
        extra: Extra,
        joined: &mut Joined,
    ) {
        let Some(passed) = passed else {
            let detail = "the record has no verdict (`test_passed` is null)".to_owned();
            self.lose(id, Some(comment), AttritionScope::Recorded, AttritionReason::NoOutput, detail, joined);
            return;
        };
        let first_line = output.as_deref().filter(|_| !passed).and_then(first_line);
        let instance_id = id.clone();
        let arm = self.arm.clone();
        joined.recorded.push(RecordedVerdict { instance_id, comment, arm, passed, error, first_line, extra });
    }
}
