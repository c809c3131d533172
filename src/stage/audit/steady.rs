//! Flakiness: the same code again, and with something different that must not matter.

use super::card::{Card, RunOf};
use super::one::{Bench, Order, Ran};
use crate::model::{Framework, Outcome};
use crate::oracle::{AuditSetting, TestId};
use crate::repo::ChangeSet;
use crate::stage::score::{Fitted, ScoreError};

/// How many runs [`check`] makes at most.
pub(super) const RUNS: usize = 9;

/// By how many seconds clocks are shifted: 400 days.
const AHEAD: u32 = 400 * 24 * 3600;

/// Repeats the controls, and runs the merged state with tests in other orders, other hash seeds, a shifted clock and one
/// processor. `after` is the first run on the merged state.
pub(super) async fn check(
    bench: &Bench<'_>,
    merged: &ChangeSet,
    expected: Option<&[TestId]>,
    after: &Ran,
    card: &mut Card,
) -> Result<(), ScoreError> {
    let repeats = bench.shop.budgets.repeats;
    let first = |name: &str, runs: &[RunOf]| runs.iter().find(|run| run.name == name).map(|run| run.outcome.clone());
    let none = ChangeSet::default();
    let mut groups: Vec<(String, Vec<Outcome>)> = Vec::new();
    for (state, changes) in [("merged", merged), ("head", &none)] {
        let mut outcomes: Vec<Outcome> = first(state, &card.runs).into_iter().collect();
        for repeat in 2..=repeats {
            let name = format!("{state}, again");
            let ran = bench.run(again(&bench.fitted, changes, expected, &name, repeat)).await?;
            outcomes.push(ran.run.outcome.clone());
            card.runs.push(ran.run);
        }
        if repeats > 1 {
            groups.push((format!("{state} again"), outcomes));
        }
    }
    if repeats > 1 {
        for (name, fitted) in others(bench, after) {
            let named = format!("merged, {name}");
            let ran = bench.run(again(&fitted, merged, expected, &named, 1)).await?;
            groups.push((name, first("merged", &card.runs).into_iter().chain([ran.run.outcome.clone()]).collect()));
            card.runs.push(ran.run);
        }
    }
    let said: Vec<bool> = groups.iter().filter_map(|(_, outcomes)| differ(outcomes)).collect();
    card.flaky = (!said.is_empty()).then(|| said.contains(&true));
    card.flakiness = groups.into_iter().collect();
    Ok(())
}

fn again<'a>(
    fitted: &'a Fitted,
    changes: &'a ChangeSet,
    expected: Option<&'a [TestId]>,
    name: &'a str,
    repeat: u32,
) -> Order<'a> {
    Order { fitted, changes, expected, name, about: "the same state again", class: None, repeat }
}

/// Whether outcomes differ, those that say nothing left out; `None` where there are not two.
fn differ(outcomes: &[Outcome]) -> Option<bool> {
    let said: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.is_infra()).collect();
    (said.len() > 1).then(|| said.windows(2).any(|pair| pair[0] != pair[1]))
}

/// The oracle with something different each.
fn others(bench: &Bench<'_>, after: &Ran) -> Vec<(String, Fitted)> {
    let plan = bench.fitted.plan();
    let mut found = Vec::new();
    if matches!(plan.framework, Framework::Pytest | Framework::Unittest) {
        for seed in ["1", "4021"] {
            let plan = plan.with_variable("PYTHONHASHSEED", seed);
            found.push((format!("hash seed {seed}"), bench.fitted.with_plan(plan)));
        }
    }
    if plan.can_be_audited() {
        let tests = after.record.as_ref().and_then(|record| record.tests.as_array().map(Vec::len)).unwrap_or_default();
        let seed = u32::try_from(bench.shop.budgets.seed & 0xffff).unwrap_or_default();
        let shuffle = AuditSetting { shuffle: Some(seed), ..AuditSetting::default() };
        let clock = AuditSetting { clock: Some(AHEAD), ..AuditSetting::default() };
        let core = AuditSetting { one_core: true, ..AuditSetting::default() };
        let settings = [("shuffled", shuffle, tests > 1), ("clock +400 days", clock, true), ("one core", core, true)];
        for (name, setting, _) in settings.into_iter().filter(|(_, _, makes_sense)| *makes_sense) {
            found.push((name.to_owned(), bench.fitted.with_plan(plan.audited(&setting))));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::InfraReason;

    #[test]
    fn only_what_says_something_differs() {
        let infra = Outcome::Infra(InfraReason::Disk);
        assert_eq!(differ(&[Outcome::Passed]), None);
        assert_eq!(differ(&[Outcome::Passed, infra.clone()]), None);
        assert_eq!(differ(&[Outcome::Passed, infra, Outcome::Passed]), Some(false));
        assert_eq!(differ(&[Outcome::Passed, Outcome::Passed, Outcome::Failed]), Some(true));
    }
}
