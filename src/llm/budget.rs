//! Budgets: money, tokens and calls, for a run and for each stage, never knowingly exceeded.
//!
//! Before a call the most that it can take is reserved; afterwards what it did take is settled. A call whose reservation
//! does not fit is refused. What comes from a record takes nothing.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::{FailureKind, LlmError, PriceTable, locked};

/// Bounds of one run or stage; what is `None` is not bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// US dollars.
    pub usd: Option<f64>,
    /// Tokens of prompts and answers.
    pub tokens: Option<u64>,
    /// Calls, repair turns included, retries not.
    pub calls: Option<u64>,
}

impl FromStr for Bounds {
    type Err = String;

    /// Reads `usd=5,tokens=2M,calls=1000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut bounds = Self::default();
        for part in text.split(',').map(str::trim) {
            let wrong = || format!("`{part}` is no bound (use `usd=5`, `tokens=2M`, `calls=1000`)");
            let (what, much) = part.split_once('=').ok_or_else(wrong)?;
            match what.trim() {
                "usd" => {
                    let usd: f64 = much.trim().trim_start_matches('$').parse().map_err(|_| wrong())?;
                    if !usd.is_finite() || usd < 0.0 {
                        return Err(wrong());
                    }
                    bounds.usd = Some(usd);
                }
                "tokens" => bounds.tokens = Some(count(much).ok_or_else(wrong)?),
                "calls" => bounds.calls = Some(count(much).ok_or_else(wrong)?),
                _ => return Err(wrong()),
            }
        }
        Ok(bounds)
    }
}

/// A number, with `k` or `M` behind it.
fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1000),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(factor)
}

/// The bounds of a run, and of stages in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget {
    /// Of everything.
    pub run: Bounds,
    /// Of single stages, by name.
    pub stages: BTreeMap<String, Bounds>,
}

impl Budget {
    fn bounds_money(&self, stage: &str) -> bool {
        self.run.usd.is_some() || self.stages.get(stage).is_some_and(|bounds| bounds.usd.is_some())
    }
}

/// What a call takes, or at most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Amount {
    /// US dollars; `None` where the price is not known.
    pub usd: Option<f64>,
    /// Tokens.
    pub tokens: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    usd: f64,
    tokens: u64,
    calls: u64,
}

impl Taken {
    fn add(&mut self, amount: Amount) {
        self.usd += amount.usd.unwrap_or(0.0);
        self.tokens = self.tokens.saturating_add(amount.tokens);
        self.calls += 1;
    }

    fn remove(&mut self, amount: Amount) {
        self.usd = (self.usd - amount.usd.unwrap_or(0.0)).max(0.0);
        self.tokens = self.tokens.saturating_sub(amount.tokens);
        self.calls = self.calls.saturating_sub(1);
    }

    /// What of it one more such call would exceed.
    fn exceeded(self, bounds: &Bounds, more: Amount) -> Option<String> {
        if let Some(calls) = bounds.calls.filter(|calls| self.calls + 1 > *calls) {
            return Some(format!("all {calls} calls are used"));
        }
        let tokens = self.tokens.saturating_add(more.tokens);
        if let Some(most) = bounds.tokens.filter(|most| tokens > *most) {
            let taken = self.tokens;
            return Some(format!(
                "of {most} tokens {taken} are used or reserved, and this call can take {}",
                more.tokens
            ));
        }
        let usd = self.usd + more.usd.unwrap_or(0.0);
        // A hair of rounding is no money.
        if let Some(most) = bounds.usd.filter(|most| usd > most + 1e-9) {
            let (taken, call) = (self.usd, more.usd.unwrap_or(0.0));
            return Some(format!("of ${most} ${taken:.4} are used or reserved, and this call can take ${call:.4}"));
        }
        None
    }
}

#[derive(Debug, Default)]
struct State {
    run: Taken,
    stages: BTreeMap<String, Taken>,
}

impl State {
    fn each(&mut self, stage: &str, mut change: impl FnMut(&mut Taken)) {
        change(&mut self.run);
        change(self.stages.entry(stage.to_owned()).or_default());
    }
}

/// What a budget has left. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Purse {
    budget: Arc<Budget>,
    state: Arc<Mutex<State>>,
}

impl Purse {
    /// A full purse.
    pub fn new(budget: Budget) -> Self {
        Self { budget: Arc::new(budget), state: Arc::default() }
    }

    /// Whether the model's price must be known, and is not: no call that money bounds will be let through.
    ///
    /// # Errors
    /// [`FailureKind::UnknownPrice`].
    pub fn check_price(&self, model: &str, prices: &PriceTable) -> Result<(), LlmError> {
        let budget = &self.budget;
        let bounded = budget.run.usd.is_some() || budget.stages.values().any(|bounds| bounds.usd.is_some());
        if bounded && prices.get(model).is_none() { Err(unknown_price(model)) } else { Ok(()) }
    }

    /// Takes what an earlier process of the same run used.
    pub fn used_before(&self, stage: &str, amount: Amount) {
        locked(&self.state).each(stage, |taken| taken.add(amount));
    }

    /// Sets the most that a call can take aside.
    ///
    /// # Errors
    /// [`FailureKind::Budget`] when it does not fit, [`FailureKind::UnknownPrice`] when money is bounded and the price is
    /// not known.
    pub fn reserve(&self, stage: &str, model: &str, most: Amount) -> Result<Reservation, LlmError> {
        if most.usd.is_none() && self.budget.bounds_money(stage) {
            return Err(unknown_price(model));
        }
        let mut state = locked(&self.state);
        let of_stage = state.stages.get(stage).copied().unwrap_or_default();
        let refused = state.run.exceeded(&self.budget.run, most).map(|said| format!("the run's budget: {said}"));
        let refused = refused.or_else(|| {
            let bounds = self.budget.stages.get(stage)?;
            of_stage.exceeded(bounds, most).map(|said| format!("the budget of `{stage}`: {said}"))
        });
        if let Some(said) = refused {
            return Err(LlmError::new(FailureKind::Budget, said));
        }
        state.each(stage, |taken| taken.add(most));
        drop(state);
        Ok(Reservation { purse: self.clone(), stage: stage.to_owned(), most, settled: false })
    }
}

fn unknown_price(model: &str) -> LlmError {
    let said = format!(
        "there is a budget of money, and no price of `{model}` is known; add it to a table of prices and name that with \
         `--prices FILE` (`templates/prices.toml` shows the form)"
    );
    LlmError::new(FailureKind::UnknownPrice, said)
}

/// What is set aside for one call. When it is dropped without being settled, all of it counts as taken: nobody knows what
/// became of the call.
#[derive(Debug)]
pub struct Reservation {
    purse: Purse,
    stage: String,
    most: Amount,
    settled: bool,
}

impl Reservation {
    /// Takes what the call really took.
    pub fn settle(mut self, amount: Amount) {
        self.settled = true;
        let most = self.most;
        locked(&self.purse.state).each(&self.stage, |taken| {
            taken.remove(most);
            taken.add(amount);
        });
    }

    /// Gives everything back: nothing was sent, or the server refused it.
    pub fn give_back(mut self) {
        self.settled = true;
        let most = self.most;
        locked(&self.purse.state).each(&self.stage, |taken| taken.remove(most));
    }

    /// The most that was expected.
    pub fn most(&self) -> Amount {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(usd: f64, tokens: u64) -> Amount {
        Amount { usd: Some(usd), tokens }
    }

    fn purse(run: &str, stage: &str) -> Purse {
        let stages = [("synth".to_owned(), stage.parse().unwrap_or_default())].into();
        Purse::new(Budget { run: run.parse().unwrap_or_default(), stages })
    }

    #[test]
    fn bounds_are_read() {
        let bounds: Bounds = "usd=2.5, tokens=3M,calls=10k".parse().unwrap();
        assert_eq!(bounds, Bounds { usd: Some(2.5), tokens: Some(3_000_000), calls: Some(10_000) });
        for text in ["", "usd", "usd=-1", "usd=NaN", "calls=1.5", "euros=1", "tokens=M"] {
            assert!(text.parse::<Bounds>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_call_that_could_exceed_is_refused_before_and_what_is_left_over_comes_back() {
        let purse = purse("usd=1", "");
        let first = purse.reserve("filter", "m", amount(0.6, 10)).unwrap();
        let error = purse.reserve("filter", "m", amount(0.6, 10)).unwrap_err();
        assert_eq!(error.kind, FailureKind::Budget);
        assert!(error.message.contains("$0.6000"), "{error}");
        first.settle(amount(0.1, 10));
        let second = purse.reserve("filter", "m", amount(0.6, 10)).unwrap();
        // One that nobody settles counts whole.
        drop(second);
        assert!(purse.reserve("filter", "m", amount(0.4, 10)).is_err());
        purse.reserve("filter", "m", amount(0.3, 10)).unwrap().give_back();
        purse.reserve("filter", "m", amount(0.3, 10)).unwrap();
    }

    #[test]
    fn stages_have_bounds_of_their_own_within_those_of_the_run() {
        let purse = purse("calls=3", "calls=1,tokens=100");
        assert!(purse.reserve("synth", "m", amount(0.0, 101)).unwrap_err().message.contains("`synth`"));
        purse.reserve("synth", "m", amount(0.0, 100)).unwrap().settle(amount(0.0, 1));
        assert!(purse.reserve("synth", "m", amount(0.0, 1)).is_err());
        purse.used_before("filter", amount(0.0, 1_000_000));
        purse.reserve("filter", "m", amount(0.0, 1_000_000)).unwrap().settle(amount(0.0, 1));
        assert!(purse.reserve("filter", "m", amount(0.0, 1)).unwrap_err().message.contains("the run's"));
    }

    #[test]
    fn an_unknown_price_is_refused_only_where_money_is_bounded() {
        let unknown = Amount { usd: None, tokens: 5 };
        let error = purse("usd=1", "").reserve("filter", "odd", unknown).unwrap_err();
        assert_eq!(error.kind, FailureKind::UnknownPrice);
        assert!(error.message.contains("`odd`") && error.message.contains("--prices"), "{error}");
        let purse = purse("tokens=9", "usd=1");
        assert!(purse.reserve("filter", "odd", unknown).is_ok());
        assert!(purse.reserve("synth", "odd", unknown).is_err());
    }
}
