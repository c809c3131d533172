//! Freeze: a benchmark's own choice of comments, those whose oracles' controls just did what they must. Pure over the
//! verdicts of the controls; running them is [`super::score`]'s business.

mod ground;
mod thresholds;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

pub use ground::{Ground, GroundError, ground_of};
pub use thresholds::{TextOnly, Thresholds, ThresholdsError};

use crate::model::{
    Arm, Attrition, AttritionReason, AttritionScope, CommentId, Extra, FrozenRow, Instance, InstanceId, OracleKind,
    Verdict, VerdictKind,
};
use crate::oracle::UNCONTROLLED;
use crate::store::bench::{Benchmark, Content};

/// The stage's name in attrition.
pub const STAGE: &str = "freeze";

/// Why an oracle is not in the frozen set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Refusal {
    /// The instance.
    #[schemars(with = "String")]
    pub instance_id: InstanceId,
    /// The comment.
    #[schemars(with = "String")]
    pub comment: CommentId,
    /// The kind: `bad-control`, `uncontrolled`, `threshold`, `infra`.
    #[schemars(with = "String")]
    pub reason: AttritionReason,
    /// In words.
    pub detail: String,
}

/// The choice. `frozen + refused + without_oracle` is every comment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Comments in the frozen set, in the dataset's order.
    pub frozen: Vec<FrozenRow>,
    /// Comments with an accepted oracle that is refused, in the same order.
    pub refused: Vec<Refusal>,
    /// Comments without an accepted oracle.
    pub without_oracle: usize,
    /// Frozen ones whose oracle only read the project's text.
    pub text_only: usize,
}

/// Chooses. `verdicts` are those of the arms `head` and `merged` under policy strict, `repeat` runs each.
pub fn choose(instances: &[Instance], verdicts: &[Verdict], repeat: u32, thresholds: &Thresholds) -> Choice {
    let mut of: BTreeMap<(&InstanceId, &CommentId), Vec<&Verdict>> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|v| v.arm.is_state()) {
        of.entry((&verdict.instance_id, &verdict.comment)).or_default().push(verdict);
    }
    let mut choice = Choice::default();
    for instance in instances {
        for comment in &instance.reference_review_comments {
            let Some(oracle) = instance.oracle(&comment.id) else {
                choice.without_oracle += 1;
                continue;
            };
            let controls = of.get(&(&instance.instance_id, &comment.id)).map_or(&[][..], Vec::as_slice);
            let text_only = controls.iter().any(|v| v.marks.iter().any(|m| m == "text-only"));
            let refused = judge(controls, repeat).or_else(|| {
                let why = thresholds.refuse(oracle.kind, text_only)?;
                Some((AttritionReason::Threshold, why))
            });
            let (instance_id, comment) = (instance.instance_id.clone(), comment.id.clone());
            match refused {
                Some((reason, detail)) => choice.refused.push(Refusal { instance_id, comment, reason, detail }),
                None => {
                    choice.text_only += usize::from(text_only);
                    choice.frozen.push(FrozenRow { instance_id, comment });
                }
            }
        }
    }
    choice
}

/// What is wrong with an oracle's controls, if anything.
fn judge(controls: &[&Verdict], repeat: u32) -> Option<(AttritionReason, String)> {
    let find = |arm: &str| controls.iter().find(|v| v.arm.as_str() == arm);
    let Some(head) = find(Arm::HEAD) else {
        return Some((AttritionReason::Infra, "its controls were not run".to_owned()));
    };
    let merged = find(Arm::MERGED);
    let words = |v: &Verdict| v.reason.clone().unwrap_or_else(|| v.verdict.as_str().to_owned());
    let is_infra = |v: &&&Verdict| v.reason.as_deref().is_some_and(|r| r.starts_with("infra"));
    if let Some(infra) = [Some(head), merged].into_iter().flatten().find(is_infra) {
        return Some((AttritionReason::Infra, format!("{}: {}", infra.arm, words(infra))));
    }
    if head.verdict == VerdictKind::Invalid {
        return Some((AttritionReason::BadControl, words(head)));
    }
    let uncontrolled = head.marks.iter().any(|m| m == UNCONTROLLED);
    let Some(merged) = merged.filter(|v| !uncontrolled && v.verdict != VerdictKind::Missing) else {
        let detail = "no merged commit is known, so nothing shows that the test can be passed";
        return Some((AttritionReason::Uncontrolled, detail.to_owned()));
    };
    let short = [head, merged].into_iter().find(|v| v.outcomes.len() < repeat as usize);
    if let Some(short) = short {
        let detail = format!("{} of {repeat} runs of control `{}`", short.outcomes.len(), short.arm);
        return Some((AttritionReason::Infra, detail));
    }
    // Head's verdict is that of a revision that changes nothing: with good controls it fails.
    let sound = head.verdict == VerdictKind::Fail && merged.verdict == VerdictKind::Pass;
    (!sound).then(|| (AttritionReason::BadControl, format!("head: {}; merged: {}", words(head), words(merged))))
}

/// The benchmark with its choice: refused oracles are kept and no longer accepted, each with a line of attrition.
pub fn content(
    bench: &Benchmark,
    mut content: Content,
    choice: &Choice,
    repeat: u32,
    thresholds: &Thresholds,
) -> Content {
    let refused: BTreeSet<(&InstanceId, &CommentId)> =
        choice.refused.iter().map(|r| (&r.instance_id, &r.comment)).collect();
    for instance in &mut content.instances {
        for oracle in instance.oracles.iter_mut().filter(|o| o.accepted) {
            oracle.accepted = !refused.contains(&(&instance.instance_id, &oracle.comment));
        }
    }
    content.attrition.retain(|row| row.stage != STAGE);
    content.attrition.extend(choice.refused.iter().map(|refusal| Attrition {
        scope: AttritionScope::Comment,
        instance_id: Some(refusal.instance_id.to_string()),
        comment: Some(refusal.comment.clone()),
        arm: None,
        stage: STAGE.to_owned(),
        reason: refusal.reason,
        detail: refusal.detail.clone(),
        extra: Extra::new(),
    }));
    content.manifest.frozen = Some(choice.frozen.clone());
    let how = json!({
        "from": bench.digest.as_str(),
        "policy": "strict",
        "repeat": repeat,
        "thresholds": thresholds,
        "tool_version": env!("CARGO_PKG_VERSION"),
    });
    content.manifest.extra.insert(STAGE.to_owned(), how);
    content
}

/// The words that a threshold's text uses for an oracle's kind.
fn kind_word(kind: OracleKind) -> &'static str {
    match kind {
        OracleKind::Behavioral => "behavioral",
        OracleKind::Structural => "structural",
        OracleKind::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ErrorKind, Outcome};

    fn instance() -> Instance {
        let comments: Vec<_> = (0..3).map(|n| json!({"id": n, "text": "t"})).collect();
        let oracle = |n: u32, kind: &str| json!({"comment": n, "framework": "exit", "test": format!("oracles/{n}"), "kind": kind});
        serde_json::from_value(json!({
            "instance_id": "o__r-1@0123abc", "repo": "o/r", "commit_to_review": {"head_commit": "0123abc"},
            "reference_review_comments": comments, "oracles": [oracle(0, "behavioral"), oracle(1, "structural")],
        }))
        .unwrap()
    }

    fn verdict(
        comment: usize,
        arm: &str,
        outcomes: &[Outcome],
        kind: VerdictKind,
        reason: Option<&str>,
        mark: Option<&str>,
    ) -> Verdict {
        serde_json::from_value(json!({
            "instance_id": "o__r-1@0123abc", "comment": comment, "arm": arm, "attempt": 1, "outcomes": outcomes,
            "verdict": kind, "reason": reason, "marks": mark.into_iter().collect::<Vec<_>>(), "seconds": 1.0,
        }))
        .unwrap()
    }

    fn pair(head: &[Outcome], merged: &[Outcome]) -> Vec<Verdict> {
        vec![
            verdict(0, "head", head, VerdictKind::Fail, Some("failed"), None),
            verdict(0, "merged", merged, VerdictKind::Pass, None, None),
        ]
    }

    fn refused(verdicts: &[Verdict], repeat: u32, thresholds: &Thresholds) -> (usize, Vec<AttritionReason>) {
        let choice = choose(&[instance()], verdicts, repeat, thresholds);
        assert_eq!(choice.frozen.len() + choice.refused.len() + choice.without_oracle, 3);
        assert_eq!(choice.without_oracle, 1);
        // Comment 1 has no verdict in these cases.
        (choice.frozen.len(), choice.refused.iter().filter(|r| r.comment.as_str() == "0").map(|r| r.reason).collect())
    }

    #[test]
    fn only_good_controls_that_ran_often_enough_freeze() {
        let (f, p) = (Outcome::Failed, Outcome::Passed);
        let plain = Thresholds::default();
        let check = |verdicts: &[Verdict]| refused(verdicts, 2, &plain);
        assert_eq!(check(&pair(&[f.clone(), f.clone()], &[p.clone(), p.clone()])), (1, vec![]));
        assert_eq!(check(&pair(std::slice::from_ref(&f), &[p.clone(), p.clone()])), (0, vec![AttritionReason::Infra]));
        assert_eq!(check(&[]), (0, vec![AttritionReason::Infra]));
        let bad = |reason| verdict(0, "head", &[p.clone(), p.clone()], VerdictKind::Invalid, Some(reason), None);
        assert_eq!(check(&[bad("control: head passed")]), (0, vec![AttritionReason::BadControl]));
        assert_eq!(check(&[bad("infra: environment: x")]), (0, vec![AttritionReason::Infra]));
        let alone = verdict(0, "head", &[f.clone(), f.clone()], VerdictKind::Fail, Some("failed"), Some(UNCONTROLLED));
        assert_eq!(check(&[alone]), (0, vec![AttritionReason::Uncontrolled]));
        let mut failing = pair(&[f.clone(), f.clone()], &[f.clone(), Outcome::Errored(ErrorKind::Import)]);
        failing[1].verdict = VerdictKind::Invalid;
        failing[1].reason = Some("control: merged failed".to_owned());
        assert_eq!(check(&failing), (0, vec![AttritionReason::BadControl]));
    }

    #[test]
    fn thresholds_drop_what_they_name() {
        let mut verdicts = pair(&[Outcome::Failed], &[Outcome::Passed]);
        verdicts[0].marks.push("text-only".to_owned());
        let text_only = |text_only| Thresholds { text_only, ..Thresholds::default() };
        assert_eq!(refused(&verdicts, 1, &text_only(TextOnly::Keep)), (1, vec![]));
        assert_eq!(refused(&verdicts, 1, &text_only(TextOnly::Drop)), (0, vec![AttritionReason::Threshold]));
        assert_eq!(refused(&verdicts, 1, &text_only(TextOnly::Structural)), (0, vec![AttritionReason::Threshold]));
        let kinds = Thresholds { kinds: vec!["structural".to_owned()], ..Thresholds::default() };
        assert_eq!(refused(&verdicts, 1, &kinds), (0, vec![AttritionReason::Threshold]));
    }
}
