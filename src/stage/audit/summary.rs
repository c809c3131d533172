//! What the cards say together. Pure.

use serde::Serialize;

use super::card::{Card, State};

/// Counts of oracles, of all and by what they run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// All oracles.
    pub all: Row,
    /// Those that never run project code.
    pub text_only: Row,
    /// Those that do.
    pub running: Row,
    /// Those of which that is not known.
    pub unknown: Row,
}

/// Counts of oracles, but for mutants.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// All.
    pub oracles: u64,
    /// Of how many instances.
    pub instances: u64,
    /// Their audit came to its end.
    pub audited: u64,
    /// Bad controls.
    pub bad_control: u64,
    /// No merged commit.
    pub no_fix: u64,
    /// The machine's fault.
    pub infra: u64,
    /// They never run project code.
    pub text_only: u64,
    /// They import modules of the project, and call nothing of it.
    pub only_import: u64,
    /// Audited ones that pass where there is nothing of the fix but its lines as comments.
    pub accept_fix_as_comment: u64,
    /// Audited ones that pass on a near-miss.
    pub accept_near_miss: u64,
    /// Audited ones of which near-misses were run.
    pub with_near_misses: u64,
    /// Audited ones that do not pass on a rewrite.
    pub reject_rewrite: u64,
    /// Audited ones of which rewrites were run.
    pub with_rewrites: u64,
    /// Audited ones that pass where the pull request began.
    pub pass_on_base: u64,
    /// Audited ones that miss all mutants.
    pub miss_all_mutants: u64,
    /// Audited ones of which mutants were run.
    pub with_mutants: u64,
    /// Mutants that were noticed.
    pub mutants_killed: u64,
    /// All mutants that were run.
    pub mutants: u64,
    /// Audited ones whose outcomes differ from run to run.
    pub flaky: u64,
    /// The thresholds keep them.
    pub keep: u64,
}

/// Sums cards up.
pub fn summary(cards: &[Card]) -> Summary {
    let some = |text_only: Option<bool>| row(cards.iter().filter(|card| card.text_only == text_only));
    Summary { all: row(cards.iter()), text_only: some(Some(true)), running: some(Some(false)), unknown: some(None) }
}

fn row<'a>(cards: impl Iterator<Item = &'a Card>) -> Row {
    let cards: Vec<&Card> = cards.collect();
    let count = |fits: &dyn Fn(&Card) -> bool| cards.iter().filter(|card| fits(card)).count() as u64;
    let audited = |fits: &dyn Fn(&Card) -> bool| count(&|card| card.state == State::Audited && fits(card));
    let passes = |card: &Card, name: &str| card.controls.get(name) == Some(&crate::model::Outcome::Passed);
    let mut instances: Vec<&str> = cards.iter().map(|card| card.instance_id.folded()).collect();
    instances.sort_unstable();
    instances.dedup();
    let of_audited = |part: &dyn Fn(&Card) -> u64| {
        cards.iter().filter(|card| card.state == State::Audited).map(|card| part(card)).sum::<u64>()
    };
    Row {
        oracles: cards.len() as u64,
        instances: instances.len() as u64,
        audited: audited(&|_| true),
        bad_control: count(&|card| card.state == State::BadControl),
        no_fix: count(&|card| card.state == State::NoFix),
        infra: count(&|card| card.state == State::Infra),
        text_only: count(&|card| card.text_only == Some(true)),
        only_import: count(&|card| card.executes == Some(crate::oracle::Executes::Imports)),
        accept_fix_as_comment: audited(&|card| passes(card, crate::variants::FIX_AS_COMMENT)),
        accept_near_miss: audited(&|card| !card.near_misses.accepted.is_empty()),
        with_near_misses: audited(&|card| card.near_misses.total > 0),
        reject_rewrite: audited(&|card| !card.rewrites.rejected.is_empty()),
        with_rewrites: audited(&|card| card.rewrites.total > 0),
        pass_on_base: audited(&|card| passes(card, "base")),
        miss_all_mutants: audited(&|card| card.mutants.total > 0 && card.mutants.killed == 0),
        with_mutants: audited(&|card| card.mutants.total > 0),
        mutants_killed: of_audited(&|card| card.mutants.killed),
        mutants: of_audited(&|card| card.mutants.total),
        flaky: audited(&|card| card.flaky == Some(true)),
        keep: count(&|card| card.keep),
    }
}
