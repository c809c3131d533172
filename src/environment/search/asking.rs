//! Asking a repairer for changes, when strategies and rules have failed.

use std::time::Instant;

use super::{Ended, Search, Success, refusal, spec_digest};
use crate::environment::failure::Failure;
use crate::environment::prove::interrupted;
use crate::environment::repair::{Proposal, Repair, RepairRequest, Tried, tail};

impl Search<'_> {
    /// When all strategies failed: a repairer looks at what came furthest.
    pub(super) async fn ask_repairer(&mut self) -> Result<Box<Success>, Ended> {
        let Some(repairer) = self.environments.repairer.clone() else { return Err(Ended::Failed) };
        let mut tried: Vec<Tried> = Vec::new();
        while self.repairs_left > 0 {
            let Some(furthest) = self.furthest.clone() else { break };
            self.repairs_left -= 1;
            let began = Instant::now();
            let request = RepairRequest {
                spec: furthest.spec.clone(),
                root: furthest.root.clone(),
                strategy: furthest.strategy.clone(),
                log_tail: tail(&furthest.failure.log),
                failure: furthest.failure.clone(),
                tried: tried.clone(),
            };
            (self.progress)("asking the repairer");
            let proposed = repairer.propose(&request, self.cancel).await;
            if self.cancel.is_cancelled() {
                return Err(Ended::Stop(interrupted()));
            }
            let change = match proposed {
                Ok(Proposal::Change(change)) => change,
                Ok(Proposal::GiveUp(why)) => {
                    (self.progress)(&format!("the repairer gives up: {why}"));
                    break;
                }
                // It may know better when it works: nothing is said for good.
                Err(error) => {
                    (self.progress)(&error.to_string());
                    self.is_open = true;
                    break;
                }
            };
            let repair = Repair { by: "repairer".to_owned(), change: change.clone() };
            let changed = change.apply(&furthest.spec, &self.aim.definition);
            let refused = match change.check(&self.aim.definition) {
                Err(error) => Some(error.to_string()),
                Ok(()) if changed == furthest.spec => Some("the change changes nothing".to_owned()),
                Ok(()) if self.seen.contains(&spec_digest(&changed)) => {
                    Some("what the change makes was tried before".to_owned())
                }
                Ok(()) => None,
            };
            if let Some(why) = refused {
                let failure = refusal(&why, furthest.failure.stage);
                self.note(&furthest.strategy, Some(repair), None, failure, began);
                tried.push(Tried { change, result: format!("refused: {why}") });
                continue;
            }
            match self.pursue(&furthest.strategy, changed, Some(repair)).await {
                Err(Ended::Failed) => {
                    let last = self.attempts.iter().rev().find_map(|attempt| attempt.failure.as_ref());
                    let result = last.map(Failure::summary).unwrap_or_default();
                    tried.push(Tried { change, result });
                }
                other => return other,
            }
        }
        Err(Ended::Failed)
    }
}
