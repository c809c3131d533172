//! Two runs side by side: which verdicts differ, and why. Reads records, runs nothing.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::Serialize;

use super::ReportError;
use crate::metrics::{ArmRow, Denominator, arms_in_order, scores};
use crate::model::{Arm, CommentId, Digest, InstanceId, Outcome, Verdict, VerdictKind};
use crate::oracle::Policy;
use crate::stage::score::{InputChange, OracleRecord, Roster, Row, RowState, STAGE, input_changes, verdicts};
use crate::store::{RunFolder, RunManifest};

/// The version of `diff --json`.
pub const COMPARISON_SCHEMA: u32 = 1;

/// What differs between two runs.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The format's version.
    pub schema: u32,
    /// The two runs.
    pub runs: [RunName; 2],
    /// What differs between the runs as wholes: benchmark, policy, denominator, tool version.
    pub settings: Vec<InputChange>,
    /// How many of what.
    pub counts: Counts,
    /// The arms' rates, in the order of reports.
    pub arms: Vec<Movement>,
    /// Every verdict that is not the same, ordered by instance, comment, arm and attempt.
    pub changes: Vec<Change>,
}

/// One of the runs.
#[derive(Debug, Clone, Serialize)]
pub struct RunName {
    /// Its folder.
    pub path: PathBuf,
    /// The benchmark's name.
    pub benchmark: String,
    /// How many verdicts it has.
    pub verdicts: usize,
}

/// Counts of a comparison: `same + changed + only_first + only_second` is every verdict once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Verdicts that are the same.
    pub same: usize,
    /// Of these, how many stand on other inputs.
    pub same_with_other_inputs: usize,
    /// Verdicts that differ.
    pub changed: usize,
    /// Verdicts that only the first run has.
    pub only_first: usize,
    /// Verdicts that only the second run has.
    pub only_second: usize,
    /// The changed ones by cause.
    pub by_cause: BTreeMap<&'static str, usize>,
    /// For each input, on how many verdicts it differs, whether or not the verdict does.
    pub inputs: BTreeMap<String, usize>,
}

/// How an arm's rate moved, over the denominator of the runs.
#[derive(Debug, Clone, Serialize)]
pub struct Movement {
    /// The arm.
    pub arm: String,
    /// The first run's row; null where it has none.
    pub before: Option<ArmRow>,
    /// The second run's row; null where it has none.
    pub after: Option<ArmRow>,
    /// Verdicts that pass only now, of those that both runs have.
    pub gained: usize,
    /// Verdicts that passed only before.
    pub lost: usize,
}

/// Why a verdict is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Only the first run has it.
    OnlyFirst,
    /// Only the second run has it.
    OnlySecond,
    /// One of them, or a control of it, ended as infra.
    Infra,
    /// It was made of other inputs.
    Inputs,
    /// The same inputs gave another outcome.
    Flaky,
    /// Its own runs are the same, but a control's are not.
    Control,
    /// The verdict policies differ.
    Policy,
    /// What the run folders hold does not say why.
    Unknown,
}

impl Cause {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnlyFirst => "only-first",
            Self::OnlySecond => "only-second",
            Self::Infra => "infra",
            Self::Inputs => "inputs",
            Self::Flaky => "flaky",
            Self::Control => "control",
            Self::Policy => "policy",
            Self::Unknown => "unknown",
        }
    }
}

/// One verdict that is not the same in both runs.
#[derive(Debug, Clone, Serialize)]
pub struct Change {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// The arm.
    pub arm: Arm,
    /// The coding agent.
    pub agent: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// The attempt.
    pub attempt: u32,
    /// The first run's verdict.
    pub before: Option<Seen>,
    /// The second run's verdict.
    pub after: Option<Seen>,
    /// Why.
    pub cause: Cause,
    /// The inputs that differ: the verdict's own, else its controls'.
    pub inputs: Vec<InputChange>,
    /// The control that differs, where that is the cause.
    pub control: Option<Arm>,
}

/// One side of a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen {
    /// The verdict.
    pub verdict: VerdictKind,
    /// Why.
    pub reason: Option<String>,
    /// The outcomes of the runs.
    pub outcomes: Vec<Outcome>,
    /// The first run's key.
    pub key: Option<Digest>,
}

/// A run, read.
struct Side {
    run: RunFolder,
    manifest: RunManifest,
    policy: Policy,
    rows: HashMap<Digest, Row>,
    verdicts: HashMap<Digest, Verdict>,
    arms: Vec<ArmRow>,
}

/// Compares two run folders. Rates are over `denominator`, else over each run's own.
///
/// # Errors
/// When a folder cannot be read, or has no such denominator.
pub fn compare(
    first: &RunFolder,
    second: &RunFolder,
    denominator: Option<Denominator>,
) -> Result<Comparison, ReportError> {
    let (first, second) = (Side::read(first, denominator)?, Side::read(second, denominator)?);
    let mut ids: Vec<(&Digest, &Verdict)> = first.verdicts.iter().collect();
    ids.extend(second.verdicts.iter().filter(|(id, _)| !first.verdicts.contains_key(*id)));
    ids.sort_by(|(_, a), (_, b)| order(a).cmp(&order(b)));
    let mut counts = Counts::default();
    let mut changes = Vec::new();
    let mut moved: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (id, verdict) in ids {
        let (before, after) = (first.verdicts.get(id), second.verdicts.get(id));
        if let (Some(before), Some(after)) = (before, after) {
            let (was, is) = (before.verdict == VerdictKind::Pass, after.verdict == VerdictKind::Pass);
            let arm = moved.entry(verdict.arm.as_str().to_owned()).or_default();
            arm.0 += usize::from(is && !was);
            arm.1 += usize::from(was && !is);
        }
        let inputs = inputs(&first, &second, id)?;
        for input in &inputs {
            *counts.inputs.entry(input.input.clone()).or_default() += 1;
        }
        let change = match (before, after) {
            (Some(before), Some(after)) if same(before, after) => {
                counts.same += 1;
                counts.same_with_other_inputs += usize::from(!inputs.is_empty());
                continue;
            }
            (Some(before), Some(after)) => {
                counts.changed += 1;
                let change = changed(&first, &second, id, before, after, inputs)?;
                *counts.by_cause.entry(change.cause.as_str()).or_default() += 1;
                change
            }
            (before, after) => {
                let cause = if before.is_some() { Cause::OnlyFirst } else { Cause::OnlySecond };
                counts.only_first += usize::from(before.is_some());
                counts.only_second += usize::from(after.is_some());
                change(verdict, before, after, cause)
            }
        };
        changes.push(change);
    }
    Ok(Comparison {
        schema: COMPARISON_SCHEMA,
        runs: [first.name(), second.name()],
        settings: settings(&first.manifest, &second.manifest),
        counts,
        arms: movements(&first.arms, &second.arms, &moved),
        changes,
    })
}

impl Side {
    fn read(run: &RunFolder, denominator: Option<Denominator>) -> Result<Self, ReportError> {
        let manifest = run.manifest()?;
        let broken = |what: &str, e: &dyn std::fmt::Display| {
            ReportError::Run(format!("the {what} of `{}` cannot be read: {e}", run.root().display()))
        };
        let roster: Roster = serde_json::from_slice(&run.blob(&manifest.roster)?).map_err(|e| broken("roster", &e))?;
        let policy: Policy = manifest.policy.parse().map_err(|e| broken("policy", &e))?;
        let denominator = match denominator {
            Some(denominator) => denominator,
            None => manifest.denominator.parse().map_err(|e| broken("denominator", &e))?,
        };
        if denominator == Denominator::Final && !roster.has_frozen {
            return Err(ReportError::Run(format!(
                "the benchmark of `{}` has no frozen choice of its own; use `--denominator valid` or `all`",
                run.root().display()
            )));
        }
        let rows: Vec<Row> = run.rows()?;
        let scored = verdicts(&roster, &rows, policy, |keys| run.records(STAGE, keys))?;
        let chosen: std::collections::BTreeSet<&InstanceId> = rows.iter().map(|r| &r.instance_id).collect();
        let set = roster.comment_set(denominator, |id| chosen.contains(id));
        let counted: std::collections::BTreeSet<_> = set.rows.iter().map(|r| r.key()).collect();
        let of_denominator: Vec<Verdict> =
            scored.verdicts.iter().filter(|v| counted.contains(&(&v.instance_id, &v.comment))).cloned().collect();
        let arms = scores(&set, &arms_in_order(rows.iter().filter(|r| r.shown).map(|r| &r.arm)), &of_denominator).arms;
        let verdicts = scored.verdicts.into_iter().map(|verdict| (row_of(&verdict).id(), verdict)).collect();
        let rows = rows.into_iter().map(|row| (row.id(), row)).collect();
        Ok(Self { run: run.clone(), manifest, policy, rows, verdicts, arms })
    }

    fn name(&self) -> RunName {
        RunName {
            path: self.run.root().to_owned(),
            benchmark: self.manifest.benchmark.name.clone(),
            verdicts: self.verdicts.len(),
        }
    }

    /// The keys of a row's runs.
    fn keys(&self, id: &Digest) -> &[Digest] {
        self.rows.get(id).map(Row::keys).unwrap_or_default()
    }

    fn record(&self, key: &Digest) -> Result<Option<OracleRecord>, ReportError> {
        Ok(self.run.record(STAGE, key)?)
    }

    /// The row of a control of the same oracle.
    fn control(&self, verdict: &Verdict, arm: &Arm) -> Digest {
        let control = Verdict { arm: arm.clone(), agent: None, model: None, attempt: 1, ..verdict.clone() };
        let _ = self;
        row_of(&control).id()
    }

    fn outcomes(&self, id: &Digest) -> Result<Vec<Outcome>, ReportError> {
        if let Some(Row { state: RowState::Infra { class, .. }, .. }) = self.rows.get(id) {
            return Ok(vec![Outcome::Infra(*class)]);
        }
        let mut outcomes = Vec::new();
        for key in self.keys(id) {
            outcomes.extend(self.record(key)?.map(|record| record.outcome));
        }
        Ok(outcomes)
    }
}

/// A row with a verdict's identity.
fn row_of(verdict: &Verdict) -> Row {
    Row {
        instance_id: verdict.instance_id.clone(),
        comment: verdict.comment.clone(),
        arm: verdict.arm.clone(),
        agent: verdict.agent.clone(),
        model: verdict.model.clone(),
        attempt: verdict.attempt,
        state: RowState::Missing,
        marks: Vec::new(),
        patch: None,
        shown: true,
        grounds: None,
    }
}

fn order(v: &Verdict) -> (&InstanceId, &CommentId, &Arm, &Option<String>, &Option<String>, u32) {
    (&v.instance_id, &v.comment, &v.arm, &v.agent, &v.model, v.attempt)
}

/// Whether two verdicts say the same. Details of infra differ from run to run (names of temporary files).
fn same(before: &Verdict, after: &Verdict) -> bool {
    let infra = |verdict: &Verdict| verdict.outcomes.iter().any(Outcome::is_infra);
    before.verdict == after.verdict
        && before.outcomes == after.outcomes
        && (before.reason == after.reason || infra(before) && infra(after))
}

/// The inputs that differ between the runs of one row: of the patch, and of the records.
fn inputs(first: &Side, second: &Side, id: &Digest) -> Result<Vec<InputChange>, ReportError> {
    let (Some(old), Some(new)) = (first.rows.get(id), second.rows.get(id)) else { return Ok(Vec::new()) };
    let (before, after) = (first.keys(id), second.keys(id));
    let mut changes: Vec<InputChange> = Vec::new();
    let second_runs = old.keys_with_head_configuration().iter().zip(new.keys_with_head_configuration());
    for (old, new) in before.iter().zip(after).chain(second_runs).filter(|(old, new)| old != new) {
        let (Some(old), Some(new)) = (first.record(old)?, second.record(new)?) else { continue };
        for change in input_changes(&old.inputs, &new.inputs) {
            if !changes.iter().any(|c| c.input == change.input) {
                changes.push(change);
            }
        }
    }
    if before.is_empty() || after.is_empty() {
        // A patch that is rejected, or whose run a control stands in the way of, has no record.
        let patch = |row: &Row| row.patch.as_ref().map(|digest| digest.as_str().to_owned());
        if patch(old) != patch(new) {
            changes.push(InputChange::new("patch", patch(old), patch(new)));
        }
    } else if before.len() != after.len() {
        changes.push(InputChange::new("repeats", before.len(), after.len()));
    }
    Ok(changes)
}

fn changed(
    first: &Side,
    second: &Side,
    id: &Digest,
    before: &Verdict,
    after: &Verdict,
    inputs: Vec<InputChange>,
) -> Result<Change, ReportError> {
    let mut made = change(before, Some(before), Some(after), Cause::Unknown);
    made.inputs = inputs;
    let infra = |v: &Verdict| {
        v.outcomes.iter().any(Outcome::is_infra) || v.reason.as_deref().is_some_and(|r| r.starts_with("infra: "))
    };
    if infra(before) || infra(after) {
        made.cause = Cause::Infra;
        return Ok(made);
    }
    if !made.inputs.is_empty() {
        made.cause = Cause::Inputs;
        return Ok(made);
    }
    let ran = !first.keys(id).is_empty() && !second.keys(id).is_empty();
    if ran && before.outcomes != after.outcomes {
        made.cause = Cause::Flaky;
        return Ok(made);
    }
    for arm in [Arm::merged(), Arm::head()] {
        let control = first.control(before, &arm);
        let (old, new) = (first.outcomes(&control)?, second.outcomes(&control)?);
        if old != new {
            made.control = Some(arm);
            made.inputs = self::inputs(first, second, &control)?;
            made.cause = match () {
                () if old.iter().chain(&new).any(Outcome::is_infra) => Cause::Infra,
                () if !made.inputs.is_empty() => Cause::Inputs,
                // The same control on the same inputs.
                () if !old.is_empty() && !new.is_empty() => Cause::Flaky,
                () => Cause::Control,
            };
            return Ok(made);
        }
    }
    if first.policy != second.policy {
        made.cause = Cause::Policy;
    }
    Ok(made)
}

fn change(verdict: &Verdict, before: Option<&Verdict>, after: Option<&Verdict>, cause: Cause) -> Change {
    let seen = |verdict: &Verdict| Seen {
        verdict: verdict.verdict,
        reason: verdict.reason.clone(),
        outcomes: verdict.outcomes.clone(),
        key: verdict.key.clone(),
    };
    Change {
        instance_id: verdict.instance_id.clone(),
        comment: verdict.comment.clone(),
        arm: verdict.arm.clone(),
        agent: verdict.agent.clone(),
        model: verdict.model.clone(),
        attempt: verdict.attempt,
        before: before.map(seen),
        after: after.map(seen),
        cause,
        inputs: Vec::new(),
        control: None,
    }
}

fn settings(first: &RunManifest, second: &RunManifest) -> Vec<InputChange> {
    let pairs = [
        ("benchmark", &first.benchmark.name, &second.benchmark.name),
        ("policy", &first.policy, &second.policy),
        ("denominator", &first.denominator, &second.denominator),
        ("tool version", &first.tool_version, &second.tool_version),
    ];
    let mut changes: Vec<InputChange> = pairs
        .iter()
        .filter(|(_, before, after)| before != after)
        .map(|(name, before, after)| InputChange::new(name, before.as_str(), after.as_str()))
        .collect();
    let digest = |manifest: &RunManifest| manifest.benchmark.digest.as_str().to_owned();
    if digest(first) != digest(second) {
        changes.push(InputChange::new("benchmark digest", digest(first), digest(second)));
    }
    changes
}

fn movements(before: &[ArmRow], after: &[ArmRow], moved: &BTreeMap<String, (usize, usize)>) -> Vec<Movement> {
    let names =
        arms_in_order(before.iter().chain(after).map(|row| Arm::new(row.arm.clone())).collect::<Vec<_>>().iter());
    let of = |rows: &[ArmRow], arm: &Arm| rows.iter().find(|row| row.arm == arm.as_str()).cloned();
    names
        .iter()
        .map(|arm| {
            let (gained, lost) = moved.get(arm.as_str()).copied().unwrap_or_default();
            Movement { arm: arm.as_str().to_owned(), before: of(before, arm), after: of(after, arm), gained, lost }
        })
        .collect()
}
