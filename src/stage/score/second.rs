//! The rule for revisions that touch test configuration: what passed is run once more with head's versions of those
//! files, and counts only if it passes again.
//!
//! The second run's tree is the revision without its changes of those files: a layer of its own, made from the change
//! and not from the first run's layer. Where the fix itself touches test configuration the `merged` control is put to the
//! same question first: if it does not pass with head's versions, the oracle depends on what the fix changes there, and
//! nothing can be said against a revision that changes these files, too.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::instance::{InstanceJob, Runs, runs};
use super::prepare::{Ready, Unavailable};
use super::run::{ScoreError, Shared};
use super::runner::Bound;
use super::state::State;
use crate::engine::Event;
use crate::model::{Arm, Digest, Outcome};
use crate::oracle::{PART_OF_THE_FIX, Policy, TEST_CONFIGURATION, TestId};
use crate::repo::TreePath;

/// What the fix changes of one oracle's test configuration, as far as revisions touch the same files.
#[derive(Default)]
pub(super) struct OfTheFix {
    touched: BTreeSet<TreePath>,
    /// Whether the oracle passes on the fix with head's versions of `touched`.
    holds: Option<Result<bool, Unavailable>>,
    /// The records that say so.
    pub(super) keys: Vec<Digest>,
}

/// What there is to do about a revision's test configuration.
#[derive(Debug, Default, PartialEq, Eq)]
struct Touched {
    /// To be laid over in head's versions.
    laid_over: BTreeSet<TreePath>,
    /// Left as the revision has them.
    part_of_the_fix: BTreeSet<TreePath>,
}

impl Touched {
    fn new(touched: BTreeSet<TreePath>, of_the_fix: &BTreeSet<TreePath>, rule_holds: bool) -> Self {
        let (part_of_the_fix, laid_over) =
            touched.into_iter().partition(|path| !rule_holds && of_the_fix.contains(path));
        Self { laid_over, part_of_the_fix }
    }

    fn marks(&self) -> Vec<String> {
        let marks = [(&self.laid_over, TEST_CONFIGURATION), (&self.part_of_the_fix, PART_OF_THE_FIX)];
        marks.into_iter().filter(|(paths, _)| !paths.is_empty()).map(|(_, mark)| mark.to_owned()).collect()
    }
}

/// Whom and what a second run is of.
pub(super) struct Subject<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) job: &'a Arc<InstanceJob>,
    pub(super) ready: &'a Arc<Ready>,
    pub(super) bound: &'a Bound,
    pub(super) expected: &'a Option<Vec<TestId>>,
}

impl Subject<'_> {
    /// Puts the question to the `merged` control, where a revision touches test configuration that it touches.
    pub(super) async fn of_the_fix(&self) -> Result<OfTheFix, ScoreError> {
        let Some(merged) = self.ready.merged.as_ref().filter(|_| self.shared.settings.policy == Policy::Strict) else {
            return Ok(OfTheFix::default());
        };
        let touched = self.bound.test_configuration(merged);
        let is_asked = |revision: &Arc<State>| !self.bound.test_configuration(revision).is_disjoint(&touched);
        if touched.is_empty() || !self.ready.revisions.iter().flatten().any(is_asked) {
            return Ok(OfTheFix::default());
        }
        let second = self.run(merged, &touched, &Arm::merged(), 1).await?;
        let holds = match second.infra {
            Some(why) => Err(why),
            None => Ok(all_passed(&second.outcomes)),
        };
        Ok(OfTheFix { touched, holds: Some(holds), keys: second.keys })
    }

    /// Adds to a revision's runs, where they all passed, those with head's test configuration. Gives the marks.
    pub(super) async fn add(
        &self,
        state: &Arc<State>,
        arm: &Arm,
        attempt: u32,
        fix: &OfTheFix,
        runs: &mut Runs,
    ) -> Result<Vec<String>, ScoreError> {
        let touched = self.bound.test_configuration(state);
        let concerned = !touched.is_disjoint(&fix.touched);
        let rule_holds = !matches!(fix.holds, Some(Ok(false)));
        let touched = Touched::new(touched, &fix.touched, rule_holds);
        let marks = touched.marks();
        let passed = runs.infra.is_none() && all_passed(&runs.outcomes);
        if self.shared.settings.policy != Policy::Strict || !passed || touched.laid_over.is_empty() {
            return Ok(marks);
        }
        match &fix.holds {
            // Nobody knows whether the rule holds for these files.
            Some(Err(why)) if concerned => runs.infra = Some(why.clone()),
            _ => {
                let second = self.run(state, &touched.laid_over, arm, attempt).await?;
                runs.with_head_configuration = second.keys;
                runs.infra = second.infra;
            }
        }
        Ok(marks)
    }

    async fn run(
        &self,
        state: &Arc<State>,
        paths: &BTreeSet<TreePath>,
        arm: &Arm,
        attempt: u32,
    ) -> Result<Runs, ScoreError> {
        let named: Vec<String> = paths.iter().take(3).map(|path| format!("`{path}`")).collect();
        let more = if paths.len() > named.len() { ", …" } else { "" };
        self.shared.events.send(Event::TasksAdded {
            count: u64::from(self.shared.settings.repeat),
            instance_id: self.job.instance.instance_id.clone(),
            reason: format!("arm {arm} touches test configuration ({}{more})", named.join(", ")),
        });
        let laid = self.ready.with_head_versions(state, paths);
        let mut expected = self.expected.clone();
        runs(self.shared, self.job, self.ready, self.bound, &laid, arm, attempt, &mut expected).await
    }
}

fn all_passed(outcomes: &[Outcome]) -> bool {
    !outcomes.is_empty() && outcomes.iter().all(|outcome| *outcome == Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(texts: &[&str]) -> BTreeSet<TreePath> {
        texts.iter().map(|text| TreePath::new(*text).unwrap()).collect()
    }

    #[test]
    fn only_what_the_fix_needs_is_left_as_it_is() {
        let touched = || paths(&["conftest.py", "pyproject.toml"]);
        let fix = paths(&["pyproject.toml", "setup.cfg"]);
        for (touched, holds, laid_over, part, marks) in [
            (touched(), true, touched(), paths(&[]), &[TEST_CONFIGURATION][..]),
            (
                touched(),
                false,
                paths(&["conftest.py"]),
                paths(&["pyproject.toml"]),
                &[TEST_CONFIGURATION, PART_OF_THE_FIX],
            ),
            (paths(&["pyproject.toml"]), false, paths(&[]), paths(&["pyproject.toml"]), &[PART_OF_THE_FIX]),
            (paths(&["conftest.py"]), false, paths(&["conftest.py"]), paths(&[]), &[TEST_CONFIGURATION]),
            (paths(&[]), false, paths(&[]), paths(&[]), &[]),
        ] {
            let got = Touched::new(touched, &fix, holds);
            assert_eq!(got.marks(), marks);
            assert_eq!(got, Touched { laid_over, part_of_the_fix: part });
        }
    }
}
