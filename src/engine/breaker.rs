//! The circuit breaker: a cause that many share is met a few times and not a thousand times.
//!
//! A failure has a cause with a *scope*: what else would meet it. Failures are counted by cause; work that went well where
//! a cause of that scope would have shown itself sets the count back, so that a rare hiccup of a long run never adds up.
//! When a count reaches the limit, the scope is closed for the rest of the run. Causes that belong to one instance have no
//! scope and are not counted at all.

use std::collections::{BTreeSet, HashMap};
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::Regex;

use crate::model::InstanceId;

/// What would meet a cause.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything on this machine: its sandbox, its disk.
    Machine,
    /// Whatever needs the network.
    Network,
    /// Whatever needs this toolchain.
    Toolchain(String),
    /// Whatever needs this environment's packages, by the digest of what they are made from.
    Environment(String),
}

/// A cause that more than one piece of work can meet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cause {
    /// What would meet it.
    pub scope: Scope,
    /// The failure's text without what differs each time; see [`normalised`].
    pub identity: String,
}

/// Counts causes.
#[derive(Debug)]
pub struct Breaker {
    limit: u32,
    /// How many instances there are: a cause that must show itself in several cannot with one.
    instances: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: HashMap<Cause, (u32, BTreeSet<InstanceId>)>,
    closed: HashMap<Scope, String>,
}

impl Breaker {
    /// A breaker that closes a scope after `limit` failures in a row for the same cause; 0: never.
    pub fn new(limit: u32, instances: usize) -> Self {
        Self { limit, instances, state: Mutex::default() }
    }

    /// Counts a failure. Gives the number of failures when this one closes the scope.
    ///
    /// A cause of the machine's must have shown itself in two instances: one that breaks the sandbox by itself is
    /// its own cause.
    pub fn failed(&self, cause: &Cause, detail: &str, instance: &InstanceId) -> Option<u32> {
        if self.limit == 0 {
            return None;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed.contains_key(&cause.scope) {
            return None;
        }
        let (count, instances) = state.counts.entry(cause.clone()).or_default();
        *count += 1;
        instances.insert(instance.clone());
        let enough = if cause.scope == Scope::Machine { 2.min(self.instances) } else { 1 };
        if *count < self.limit || instances.len() < enough {
            return None;
        }
        let count = *count;
        state.closed.insert(cause.scope.clone(), detail.to_owned());
        Some(count)
    }

    /// Something went well that a cause of this scope would have stopped.
    pub fn worked(&self, scope: &Scope) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.counts.is_empty() {
            state.counts.retain(|cause, _| cause.scope != *scope);
        }
    }

    /// The failure that closed a scope.
    pub fn closed(&self, scope: &Scope) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed.get(scope).cloned()
    }
}

/// A failure's text without what differs each time: numbers, digests, names of temporary files.
pub fn normalised(text: &str) -> String {
    // A pattern that is fixed; should it ever not parse, texts are compared as they are.
    static CHANGING: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\b[0-9a-f]{7,}\b|\d+|-[A-Za-z0-9]{6}\b").ok());
    CHANGING.as_ref().map_or_else(|| text.to_owned(), |changing| changing.replace_all(text, "#").into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(scope: Scope, text: &str) -> Cause {
        Cause { scope, identity: normalised(text) }
    }

    fn instance(number: u32) -> InstanceId {
        format!("o__r-{number}@0123abc").parse().unwrap()
    }

    #[test]
    fn the_same_cause_closes_its_scope_once() {
        let breaker = Breaker::new(3, 9);
        let network = cause(Scope::Network, "timed out after 3 s");
        assert_eq!(breaker.failed(&network, "d", &instance(1)), None);
        assert_eq!(breaker.failed(&network, "d", &instance(2)), None);
        assert_eq!(breaker.closed(&Scope::Network), None);
        assert_eq!(breaker.failed(&network, "the third", &instance(3)), Some(3));
        assert_eq!(breaker.closed(&Scope::Network).as_deref(), Some("the third"));
        assert_eq!(breaker.failed(&network, "d", &instance(4)), None, "said once");
        assert_eq!(breaker.closed(&Scope::Machine), None);
    }

    #[test]
    fn different_causes_and_success_in_between_do_not_add_up() {
        let breaker = Breaker::new(2, 9);
        for number in 0..20 {
            let letters: String = std::iter::repeat_n('x', number).collect();
            let other = cause(Scope::Network, &format!("index {letters} is gone"));
            assert_eq!(breaker.failed(&other, "d", &instance(1)), None);
        }
        let same = cause(Scope::Machine, "no namespace");
        for number in 0..20 {
            assert_eq!(breaker.failed(&same, "d", &instance(number)), None);
            breaker.worked(&Scope::Machine);
        }
        assert_eq!(Breaker::new(0, 9).failed(&same, "d", &instance(1)), None, "off");
    }

    #[test]
    fn one_instance_alone_does_not_stop_the_machine() {
        let breaker = Breaker::new(2, 9);
        let same = cause(Scope::Machine, "no namespace");
        for _ in 0..9 {
            assert_eq!(breaker.failed(&same, "d", &instance(1)), None);
        }
        assert_eq!(breaker.failed(&same, "d", &instance(2)), Some(10));
        // Unless it is the only one there is.
        let breaker = Breaker::new(2, 1);
        assert_eq!(breaker.failed(&same, "d", &instance(1)), None);
        assert_eq!(breaker.failed(&same, "d", &instance(1)), Some(2));
    }

    #[test]
    fn what_differs_each_time_is_taken_out() {
        let texts = [
            "could not make `/c/scratch-v1/instance-VKE8nR/x` after 12.5 s (errno 28)",
            "could not make `/c/scratch-v1/instance-aaBBcc/x` after 9.1 s (errno 28)",
        ];
        assert_eq!(normalised(texts[0]), normalised(texts[1]));
        assert_ne!(normalised("no python"), normalised("no node"));
    }
}
