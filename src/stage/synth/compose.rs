//! The benchmark with the stage's rows in it: accepted tests as oracles, the others as attrition.

use std::collections::BTreeMap;

use serde_json::json;

use super::kit::{Kit, word};
use super::question::STAGE;
use crate::model::{
    Arm, Attrition, AttritionReason, AttritionScope, Comment, CommentId, Extra, InstanceId, Oracle, SynthAnswer,
    SynthReason, SynthRow,
};
use crate::store::bench::{Content, ORACLES};

/// The oracle's field that says that this stage made it.
const MARK: &str = "synth";

/// Whether this stage made an oracle.
pub(super) fn is_ours(oracle: &Oracle) -> bool {
    oracle.extra.contains_key(MARK)
}

/// An answer as an oracle whose test lies at this path.
pub(super) fn oracle(comment: &Comment, answer: &SynthAnswer, test: String) -> Oracle {
    Oracle {
        comment: comment.id.clone(),
        kind: answer.kind,
        framework: answer.framework,
        test,
        install_as: None,
        needs_conftest: false,
        command: Vec::new(),
        before: Vec::new(),
        accepted: true,
        extra: Extra::new(),
    }
}

/// Puts rows into a benchmark: all attempts as `synth.jsonl`, the accepted tests as oracles, and attrition of comments
/// whose last attempt was rejected. Rows of other comments that are there stay; comments of `open` have no end yet, and
/// their attempts stay without one.
pub fn compose(content: &mut Content, kit: &Kit, rows: &[SynthRow], open: &[(InstanceId, CommentId)]) {
    let mut all: BTreeMap<(InstanceId, CommentId), Vec<SynthRow>> = BTreeMap::new();
    for row in content.synth.drain(..) {
        all.entry((row.instance_id.clone(), row.comment.clone())).or_default().push(row);
    }
    // What is new takes the place of all attempts of its comment.
    for row in rows {
        all.remove(&(row.instance_id.clone(), row.comment.clone()));
    }
    for key in open {
        all.remove(key);
    }
    for row in rows {
        all.entry((row.instance_id.clone(), row.comment.clone())).or_default().push(row.clone());
    }
    content.attrition.retain(|old| old.stage != STAGE || old.scope != AttritionScope::Comment);
    for instance in &mut content.instances {
        instance.oracles.retain(|old| !is_ours(old));
        for comment in &instance.reference_review_comments {
            let key = (instance.instance_id.clone(), comment.id.clone());
            let Some(mut attempts) = all.remove(&key) else { continue };
            attempts.sort_by_key(|row| row.attempt);
            let is_open = open.contains(&key);
            if let Some(last) = attempts.last().filter(|_| !is_open) {
                match last.answer.as_ref().filter(|_| last.accepted) {
                    Some(answer) => {
                        let (oracle, bytes) = bound(&instance.instance_id, comment, kit, last, answer, &attempts);
                        content.tests.insert(oracle.test.clone(), bytes);
                        instance.oracles.push(oracle);
                    }
                    None => content.attrition.push(attrition(last)),
                }
            }
            content.synth.extend(attempts);
        }
    }
    // Tests of oracles that are gone go, too.
    let named: std::collections::BTreeSet<&str> =
        content.instances.iter().flat_map(|one| &one.oracles).map(|oracle| oracle.test.as_str()).collect();
    content.tests.retain(|path, _| named.contains(path.as_str()));
}

fn bound(
    instance: &InstanceId,
    comment: &Comment,
    kit: &Kit,
    row: &SynthRow,
    answer: &SynthAnswer,
    attempts: &[SynthRow],
) -> (Oracle, Vec<u8>) {
    let name = kit.file_name(answer.framework, &comment.id);
    let id = comment.id.as_str();
    let plain = id.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) && !id.starts_with('.');
    // Two ids may have the same word.
    let folder = if plain { id.to_owned() } else { format!("{}-{}", word(id), &row.key.as_str()[..8]) };
    let mut oracle = oracle(comment, answer, format!("{ORACLES}/{instance}/{folder}/{name}"));
    let before = row.before.as_ref().and_then(|side| side.outcomes.first());
    if let Some(before) = before.filter(|outcome| outcome.class() != "failed") {
        oracle.before = vec![before.class().to_owned()];
    }
    let mark = json!({
        "key": row.key,
        "model": row.model,
        "attempts": attempts.len(),
        "saw_merged": row.saw_merged,
        "before": before,
        "message": row.before.as_ref().and_then(|side| side.message.as_ref()),
        "runs": row.before.as_ref().map(|side| side.outcomes.len()),
        "why": answer.why,
    });
    oracle.extra.insert(MARK.to_owned(), mark);
    (oracle, answer.test.clone().into_bytes())
}

fn attrition(row: &SynthRow) -> Attrition {
    let reason = match row.reason {
        Some(SynthReason::PassesBefore) => AttritionReason::PassesBefore,
        Some(SynthReason::FailsAfter) => AttritionReason::FailsAfter,
        Some(SynthReason::Model) => AttritionReason::NoOutput,
        _ => AttritionReason::NoTest,
    };
    let why = row.reason.map_or("rejected", |reason| reason.as_str());
    Attrition {
        scope: AttritionScope::Comment,
        instance_id: Some(row.instance_id.to_string()),
        comment: Some(row.comment.clone()),
        arm: None::<Arm>,
        stage: STAGE.to_owned(),
        reason,
        detail: if row.detail.is_empty() { why.to_owned() } else { format!("{why}: {}", row.detail) },
        extra: Extra::new(),
    }
}
