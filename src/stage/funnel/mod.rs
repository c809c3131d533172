//! The funnel: how many instances and comments are left after each stage, what left and why, and what it cost, from what
//! a benchmark folder holds. Pure. A stage that nothing tells of is `not-run` and has no numbers: nothing is not zero.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::llm::Call;
use crate::model::{
    Arm, Attrition, AttritionScope, CommentId, FilterDecision, FilterRow, Instance, InstanceId, SolveStatus,
};
use crate::store::bench::Benchmark;

/// The version of the output's format.
pub const FUNNEL_SCHEMA: u32 = 1;

/// The stages, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StageName {
    /// Read from the source.
    Imported,
    /// Worth a test, says the filter.
    Filtered,
    /// Runnable.
    Environment,
    /// With an oracle that fails before and passes after.
    Testable,
    /// A coding agent solved it from the human's words.
    Solvable,
    /// In the frozen set.
    Frozen,
}

impl StageName {
    /// All stages, in order.
    pub const ALL: [Self; 6] =
        [Self::Imported, Self::Filtered, Self::Environment, Self::Testable, Self::Solvable, Self::Frozen];

    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Filtered => "filtered",
            Self::Environment => "environment",
            Self::Testable => "testable",
            Self::Solvable => "solvable",
            Self::Frozen => "frozen",
        }
    }

    /// The stage that a word in attrition or in the ledger means; `None` for stages outside the funnel.
    pub fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "import" | "mine" => Self::Imported,
            "filter" => Self::Filtered,
            "environment" | "env" => Self::Environment,
            "testgen" | "synth" | "audit" => Self::Testable,
            "resolution" | "validate" => Self::Solvable,
            "freeze" => Self::Frozen,
            _ => return None,
        })
    }
}

/// Whether anything tells of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It was done.
    Done,
    /// Nothing in the folder tells of it.
    NotRun,
}

/// What left at a stage for one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Left {
    /// Whole instances, or pull requests that did not become any.
    pub instances: usize,
    /// Comments.
    pub comments: usize,
    /// Files and rows of the source.
    pub others: usize,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Stage {
    /// Which.
    pub stage: StageName,
    /// Whether it was done; what follows is null where not.
    pub status: Status,
    /// Instances with a comment that is left after it.
    pub instances: Option<usize>,
    /// Comments that are left after it.
    pub comments: Option<usize>,
    /// What left, by reason.
    pub attrition: BTreeMap<String, Left>,
    /// US dollars of model calls; null where none is recorded or a price is not known.
    pub money: Option<f64>,
    /// Hours of model calls; null where none is recorded.
    pub hours: Option<f64>,
}

/// The funnel of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Funnel {
    /// The format's version.
    pub schema: u32,
    /// The benchmark's name.
    pub benchmark: String,
    /// The digest over its dataset and tests.
    pub dataset_digest: String,
    /// The stages, in order.
    pub stages: Vec<Stage>,
    /// Attrition of stages outside the funnel (outputs of tools, for example), by stage and reason.
    pub outside: BTreeMap<String, usize>,
    /// With a frozen set: comments that are neither in it nor have a line of attrition.
    pub unexplained: Option<usize>,
}

type Key = (InstanceId, CommentId);

/// Counts a benchmark's funnel; `calls` are those of its ledger.
pub fn funnel(bench: &Benchmark, calls: &[Call]) -> Funnel {
    let lost = Lost::of(&bench.attrition, &bench.filter);
    let mut left: BTreeSet<Key> = bench.instances.iter().flat_map(keys).collect();
    let all = left.len();
    let mut explained: BTreeSet<Key> = BTreeSet::new();
    let frozen: Option<BTreeSet<Key>> = bench
        .manifest
        .frozen
        .as_ref()
        .map(|rows| rows.iter().map(|row| (row.instance_id.clone(), row.comment.clone())).collect());
    let mut stages = Vec::new();
    for name in StageName::ALL {
        let gone = lost.of_stage(name, &left);
        explained.extend(gone.iter().cloned());
        left.retain(|key| !gone.contains(key));
        let done = is_done(name, bench);
        // What an oracle was made of is not left without one, whoever forgot to say why.
        let here: BTreeSet<&Key> = match name {
            StageName::Frozen => frozen.iter().flatten().collect(),
            StageName::Testable => left.iter().filter(|key| has_oracle(bench, key)).collect(),
            StageName::Solvable => {
                left.iter().filter(|key| has_oracle(bench, key) && !is_known_unsolved(bench, key)).collect()
            }
            _ => left.iter().collect(),
        };
        let instances: BTreeSet<&InstanceId> = here.iter().map(|(id, _)| id).collect();
        let (money, hours) = cost(name, calls);
        stages.push(Stage {
            stage: name,
            status: if done { Status::Done } else { Status::NotRun },
            instances: done.then_some(instances.len()),
            comments: done.then_some(here.len()),
            attrition: lost.reasons.get(&name).cloned().unwrap_or_default(),
            money,
            hours,
        });
    }
    let unexplained = frozen.map(|frozen| all - frozen.union(&explained).filter(|key| known(bench, key)).count());
    Funnel {
        schema: FUNNEL_SCHEMA,
        benchmark: bench.manifest.name.clone(),
        dataset_digest: bench.digest.to_string(),
        stages,
        outside: lost.outside,
        unexplained,
    }
}

fn keys(instance: &Instance) -> impl Iterator<Item = Key> + '_ {
    instance.reference_review_comments.iter().map(|c| (instance.instance_id.clone(), c.id.clone()))
}

fn known(bench: &Benchmark, (instance, comment): &Key) -> bool {
    bench.instance(instance).is_some_and(|i| i.comment(comment).is_some())
}

/// Whether agents tried a comment, and none solved it. It stays in the benchmark all the same.
fn is_known_unsolved(bench: &Benchmark, (instance, comment): &Key) -> bool {
    let mut tried =
        bench.validate.iter().filter(|row| row.instance_id == *instance && row.comment == *comment).peekable();
    tried.peek().is_some() && tried.all(|row| row.status != SolveStatus::Solved)
}

/// Whether a comment has an oracle that was accepted before anything was frozen.
fn has_oracle(bench: &Benchmark, (instance, comment): &Key) -> bool {
    let refused = || {
        let of = |a: &&Attrition| a.stage == "freeze" && a.comment.as_ref() == Some(comment);
        let mut rows = bench.attrition.iter().filter(of);
        rows.any(|a| a.instance_id.as_deref().is_some_and(|id| id.eq_ignore_ascii_case(instance.as_str())))
    };
    bench
        .instance(instance)
        .is_some_and(|i| i.oracle(comment).is_some() || (i.oracles.iter().any(|o| o.comment == *comment) && refused()))
}

fn is_done(name: StageName, bench: &Benchmark) -> bool {
    let lines = || bench.attrition.iter().any(|a| StageName::of_word(&a.stage) == Some(name));
    let human = || {
        let recorded = bench.recorded.iter().map(|r| &r.arm).chain(bench.revisions.iter().map(|r| &r.arm));
        recorded.into_iter().any(|arm| arm.as_str() == Arm::HUMAN)
    };
    match name {
        StageName::Imported => true,
        StageName::Filtered => !bench.filter.is_empty() || lines(),
        StageName::Environment => lines() || bench.instances.iter().any(|i| i.environment.is_some()),
        StageName::Testable => lines() || bench.instances.iter().any(|i| !i.oracles.is_empty()),
        StageName::Solvable => lines() || human() || !bench.validate.is_empty(),
        StageName::Frozen => bench.manifest.frozen.is_some(),
    }
}

fn cost(name: StageName, calls: &[Call]) -> (Option<f64>, Option<f64>) {
    let of = || calls.iter().filter(|call| StageName::of_word(&call.stage) == Some(name));
    if of().next().is_none() {
        return (None, None);
    }
    // One price that is not known makes the sum unknown, not smaller.
    let money = of().filter(|c| !c.replayed || c.cost.is_some()).map(|c| c.cost).sum();
    (money, Some(of().map(|c| c.seconds).fold(0.0, |a, b| a + b) / 3600.0))
}

/// What left, by stage.
#[derive(Default)]
struct Lost {
    comments: BTreeMap<StageName, BTreeSet<(String, CommentId)>>,
    instances: BTreeMap<StageName, BTreeSet<String>>,
    reasons: BTreeMap<StageName, BTreeMap<String, Left>>,
    outside: BTreeMap<String, usize>,
}

impl Lost {
    fn of(attrition: &[Attrition], filter: &[FilterRow]) -> Self {
        let mut lost = Self::default();
        for row in attrition {
            let reason =
                serde_json::to_value(row.reason).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
            let Some(stage) = StageName::of_word(&row.stage) else {
                *lost.outside.entry(format!("{}: {reason}", row.stage)).or_default() += 1;
                continue;
            };
            let left = lost.reasons.entry(stage).or_default().entry(reason).or_default();
            let id = row.instance_id.as_deref().map(str::to_ascii_lowercase);
            match (row.scope, id, &row.comment) {
                (AttritionScope::Comment, Some(id), Some(comment)) => {
                    left.comments += 1;
                    lost.comments.entry(stage).or_default().insert((id, comment.clone()));
                }
                (AttritionScope::Comment, ..) => left.comments += 1,
                (AttritionScope::Instance, Some(id), _) => {
                    left.instances += 1;
                    lost.instances.entry(stage).or_default().insert(id);
                }
                (AttritionScope::Instance, ..) => left.instances += 1,
                _ => left.others += 1,
            }
        }
        let dropped = filter.iter().filter(|row| row.decision != FilterDecision::Kept);
        let dropped = dropped.map(|row| (row.instance_id.folded().to_owned(), row.comment.clone()));
        lost.comments.entry(StageName::Filtered).or_default().extend(dropped);
        lost
    }

    /// Those of `left` that go at a stage.
    fn of_stage(&self, stage: StageName, left: &BTreeSet<Key>) -> BTreeSet<Key> {
        let (comments, instances) = (self.comments.get(&stage), self.instances.get(&stage));
        let goes = |(id, comment): &&Key| {
            comments.is_some_and(|set| set.contains(&(id.folded().to_owned(), comment.clone())))
                || instances.is_some_and(|set| set.contains(id.folded()))
        };
        left.iter().filter(goes).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::BenchManifest;

    fn bench() -> Benchmark {
        let instance = |n: u32, comments: u32| {
            let comments: Vec<_> = (0..comments).map(|c| json!({"id": c, "text": "t"})).collect();
            json!({"instance_id": format!("o__r-{n}@0123abc"), "repo": "o/r", "commit_to_review": {"head_commit": "0123abc"},
                   "reference_review_comments": comments})
        };
        let instances = vec![instance(1, 3), instance(2, 1)];
        Benchmark {
            dir: "x".into(),
            digest: crate::model::digest_bytes(b"x"),
            manifest: serde_json::from_value::<BenchManifest>(json!({"schema": 1, "name": "b"})).unwrap(),
            instances: instances.into_iter().map(|i| serde_json::from_value(i).unwrap()).collect(),
            reviews: Vec::new(),
            revisions: Vec::new(),
            recorded: Vec::new(),
            attrition: Vec::new(),
            filter: Vec::new(),
            synth: Vec::new(),
            validate: Vec::new(),
        }
    }

    fn row(stage: &str, scope: &str, reason: &str, instance: Option<u32>, comment: Option<u32>) -> Attrition {
        let id = instance.map(|n| format!("O__R-{n}@0123abc"));
        serde_json::from_value(
            json!({"scope": scope, "instance_id": id, "comment": comment, "stage": stage, "reason": reason}),
        )
        .unwrap()
    }

    fn counts(funnel: &Funnel) -> Vec<Option<(usize, usize)>> {
        funnel.stages.iter().map(|s| s.instances.zip(s.comments)).collect()
    }

    #[test]
    fn what_nothing_tells_of_is_not_run() {
        let funnel = funnel(&bench(), &[]);
        assert_eq!(counts(&funnel), [Some((2, 4)), None, None, None, None, None]);
        assert!(funnel.stages.iter().all(|s| s.money.is_none() && s.hours.is_none()));
        assert_eq!((funnel.stages[1].status, funnel.unexplained), (Status::NotRun, None));
    }

    #[test]
    fn each_stage_has_what_those_before_it_left() {
        let mut bench = bench();
        let oracle = |n: u32, accepted: bool| json!({"comment": n, "framework": "exit", "test": "oracles/x", "accepted": accepted});
        bench.instances[0].oracles = serde_json::from_value(json!([oracle(0, true), oracle(1, false)])).unwrap();
        bench.attrition = vec![
            row("import", "row", "malformed", None, None),
            row("import", "instance", "no-comments", Some(9), None),
            row("filter", "comment", "filtered", Some(2), Some(0)),
            row("testgen", "comment", "no-test", Some(1), Some(2)),
            row("freeze", "comment", "bad-control", Some(1), Some(1)),
            row("evaluation", "revision", "no-output", Some(1), None),
        ];
        bench.manifest.frozen =
            serde_json::from_value(json!([{"instance_id": "o__r-1@0123abc", "comment": 0}])).unwrap();
        let found = funnel(&bench, &[]);
        assert_eq!(counts(&found), [Some((2, 4)), Some((1, 3)), None, Some((1, 2)), None, Some((1, 1))]);
        assert_eq!(found.stages[0].attrition["malformed"].others, 1);
        assert_eq!(found.stages[0].attrition["no-comments"].instances, 1);
        assert_eq!(found.outside["evaluation: no-output"], 1);
        assert_eq!(found.unexplained, Some(0));
        bench.attrition.retain(|a| a.stage != "freeze");
        assert_eq!(funnel(&bench, &[]).unexplained, Some(1));
    }

    #[test]
    fn solvable_is_what_an_agent_solved() {
        let mut bench = bench();
        let oracle = |n: u32| json!({"comment": n, "framework": "exit", "test": "oracles/x", "accepted": true});
        bench.instances[0].oracles = serde_json::from_value(json!([oracle(0), oracle(1)])).unwrap();
        let attempt = |comment: u32, attempt: u32, status: &str| {
            let key = crate::model::digest_bytes(b"x");
            json!({"instance_id": "o__r-1@0123abc", "comment": comment, "agent": "a", "attempt": attempt, "status": status, "key": key})
        };
        let rows = [attempt(0, 1, "not-solved"), attempt(0, 2, "solved"), attempt(1, 1, "agent-failed")];
        bench.validate = serde_json::from_value(json!(rows)).unwrap();
        let found = counts(&funnel(&bench, &[]));
        assert_eq!((found[3], found[4]), (Some((1, 2)), Some((1, 1))));
    }

    #[test]
    fn the_filter_and_the_ledger_are_read() {
        let key = crate::model::digest_bytes(b"x");
        let row = |n: u32, comment: u32, decision: &str| json!({"instance_id": format!("o__r-{n}@0123abc"), "comment": comment, "decision": decision, "key": key});
        let call = |cost: Option<f64>, seconds: f64| {
            json!({"stage": "filter", "purpose": "classify", "request": key, "model": "m", "outcome": "answered",
                   "cost": cost, "seconds": seconds, "attempts": 1})
        };
        let mut bench = bench();
        let rows = [row(1, 0, "kept"), row(1, 1, "dropped"), row(1, 2, "failed"), row(2, 0, "kept")];
        bench.filter = serde_json::from_value(json!(rows)).unwrap();
        let mut calls = vec![call(Some(0.5), 1800.0), call(Some(0.25), 1800.0)];
        let found =
            |calls: &[serde_json::Value]| funnel(&bench, &serde_json::from_value::<Vec<Call>>(json!(calls)).unwrap());
        assert_eq!(counts(&found(&calls))[1], Some((2, 2)));
        let stages = found(&calls).stages;
        assert_eq!((stages[1].money, stages[1].hours, stages[0].hours), (Some(0.75), Some(1.0), None));
        calls.push(call(None, 0.0));
        assert_eq!(found(&calls).stages[1].money, None);
    }
}
