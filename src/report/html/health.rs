//! Whether the oracles can be believed: what their controls showed.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bounds::{CELL_CHARS, LISTED};
use super::evidence::Evidence;
use super::front::Count;
use super::text::line;
use crate::model::{Arm, InfraReason, Outcome, Verdict, VerdictKind};
use crate::oracle::{Controls, check};
use crate::stage::score::{RosterComment, Row, RowState};

/// What the controls of one oracle say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OracleState {
    /// Both controls are good.
    Good,
    /// `head` is good, and no merged commit is known.
    Uncontrolled,
    /// A control is bad.
    Bad,
    /// A control could not be run.
    Infra,
    /// The comment has no accepted oracle.
    NoOracle,
    /// No control was run.
    NotRun,
}

impl OracleState {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Uncontrolled => "uncontrolled",
            Self::Bad => "bad",
            Self::Infra => "infra",
            Self::NoOracle => "no-oracle",
            Self::NotRun => "not run",
        }
    }
}

/// The controls of all oracles, and infrastructure. The counts of `oracles` add up to the comments.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Health {
    /// Comments by what their oracle's controls say.
    pub oracles: Vec<Count>,
    /// Oracles with a bad control, or with one that could not be run: what it showed.
    pub bad: Vec<BadOracle>,
    /// Such oracles that are not listed.
    pub more_bad: usize,
    /// Cells that are invalid for infrastructure, by class.
    pub infra: Vec<Count>,
    /// The same by class and detail.
    pub infra_details: Vec<Count>,
    /// Details that are not listed.
    pub more_infra: usize,
    /// All cells that are invalid for infrastructure.
    pub infra_total: usize,
}

/// An oracle that says nothing.
#[derive(Debug, Clone, Serialize)]
pub struct BadOracle {
    /// The instance.
    pub instance: String,
    /// The comment.
    pub comment: String,
    /// What the controls showed.
    pub why: String,
    /// Where the page tells more; filled in when it is known.
    pub href: String,
}

/// One oracle's controls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) state: OracleState,
    pub(super) why: String,
    /// Outcomes; empty where it was not run.
    pub(super) head: Vec<Outcome>,
    /// The same; `None` where no merged commit is known.
    pub(super) merged: Option<Vec<Outcome>>,
}

/// Checks the controls of one comment. The outcomes are those of the report's verdicts where it shows the controls,
/// else those of their records.
pub(super) fn checked(evidence: &mut Evidence<'_>, comment: &RosterComment, verdicts: &[&Verdict]) -> Checked {
    let mut outcomes = |arm: Arm| -> Option<Vec<Outcome>> {
        if let Some(shown) = verdicts.iter().find(|v| v.arm == arm) {
            return (shown.verdict != VerdictKind::Missing).then(|| shown.outcomes.clone());
        }
        let row = evidence.control(comment.instance_id.folded(), comment.comment.as_str(), &arm)?;
        outcomes_of(row, |key| evidence.record(key).map(|record| record.outcome))
    };
    let head = outcomes(Arm::head()).unwrap_or_default();
    let merged = outcomes(Arm::merged());
    let controls = Controls { head: &head, merged: merged.as_deref(), before: &comment.before };
    let ran = !head.is_empty() || merged.as_ref().is_some_and(|m| !m.is_empty());
    let any_infra = head.iter().chain(merged.iter().flatten()).any(Outcome::is_infra);
    let why = check(&controls).map(|reason| reason.to_string()).unwrap_or_default();
    let state = if !comment.valid {
        OracleState::NoOracle
    } else if !ran {
        OracleState::NotRun
    } else if any_infra {
        OracleState::Infra
    } else if !why.is_empty() {
        OracleState::Bad
    } else if merged.is_none() {
        OracleState::Uncontrolled
    } else {
        OracleState::Good
    };
    Checked { state, why, head, merged }
}

fn outcomes_of(row: &Row, mut outcome: impl FnMut(&crate::model::Digest) -> Option<Outcome>) -> Option<Vec<Outcome>> {
    match &row.state {
        RowState::Runs { keys, .. } => {
            let found: Option<Vec<Outcome>> = keys.iter().map(&mut outcome).collect();
            Some(found.unwrap_or_else(|| vec![Outcome::Infra(InfraReason::Interrupted)]))
        }
        RowState::Infra { class, .. } => Some(vec![Outcome::Infra(*class)]),
        _ => None,
    }
}

impl Health {
    /// Counts infrastructure failures: `infra: CLASS: DETAIL` by class and by both.
    pub(super) fn of_verdicts(verdicts: &[Verdict]) -> Self {
        let mut classes: BTreeMap<String, usize> = BTreeMap::new();
        let mut details: BTreeMap<String, usize> = BTreeMap::new();
        for verdict in verdicts.iter().filter(|v| v.verdict == VerdictKind::Invalid) {
            let Some(rest) = verdict.reason.as_deref().and_then(|reason| reason.strip_prefix("infra: ")) else {
                continue;
            };
            let class = rest.split_once(": ").map_or(rest, |(class, _)| class);
            *classes.entry(line(class, CELL_CHARS)).or_insert(0) += 1;
            *details.entry(line(rest, 2 * CELL_CHARS)).or_insert(0) += 1;
        }
        let mut health = Self { infra_total: classes.values().sum(), ..Self::default() };
        health.infra = Count::most_first(classes);
        health.infra_details = Count::most_first(details);
        health.more_infra = health.infra_details.len().saturating_sub(LISTED);
        health.infra_details.truncate(LISTED);
        health
    }

    /// Adds what the controls of one oracle say.
    pub(super) fn add(&mut self, comment: &RosterComment, checked: &Checked, href: String) {
        let name = checked.state.as_str();
        match self.oracles.iter_mut().find(|count| count.name == name) {
            Some(count) => count.count += 1,
            None => self.oracles.push(Count { name: name.to_owned(), count: 1 }),
        }
        if matches!(checked.state, OracleState::Bad | OracleState::Infra) {
            if self.bad.len() == LISTED {
                self.more_bad += 1;
                return;
            }
            self.bad.push(BadOracle {
                instance: comment.instance_id.to_string(),
                comment: comment.comment.to_string(),
                why: line(&checked.why, 2 * CELL_CHARS),
                href,
            });
        }
    }
}
