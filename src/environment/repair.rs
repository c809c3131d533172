//! Changes that may help a spec whose environment failed: rules that are data, and whoever else has an idea.

use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::definition::Definition;
use super::failure::Failure;
use super::pattern::compiled;
use super::trouble::SpecChange;
use crate::model::EnvironmentSpec;
use crate::sandbox::Root;

/// How many bytes of a log's end a repairer is shown.
pub const LOG_TAIL: usize = 16 * 1024;

/// How many bytes of a log's end rules look at: what failed says so there, and whoever wrote it is not to be trusted with
/// the time that all of it takes.
const LOG_SEARCHED: usize = 1024 * 1024;

/// How many bytes of a line they look at.
const LINE_SEARCHED: usize = 4096;

/// How many different changes of one rule are weighed.
const CHANGES: usize = 32;

/// What a repairer is told. It holds nothing secret: what a log can say of the host's settings is free of credentials.
#[derive(Debug, Clone, Serialize)]
pub struct RepairRequest {
    /// The recipe that failed.
    pub spec: EnvironmentSpec,
    /// What it stands on: a command that repairs it stands there, too.
    #[serde(skip)]
    pub root: Root,
    /// The strategy that it came from.
    pub strategy: String,
    /// What went wrong.
    pub failure: Failure,
    /// The end of the failed step's log.
    pub log_tail: String,
    /// The changes that were tried or refused, and what came of each.
    pub tried: Vec<Tried>,
}

/// A change that did not help.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    /// The change.
    pub change: SpecChange,
    /// What came of it.
    pub result: String,
}

/// What a repairer says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Proposal {
    /// Try this.
    Change(SpecChange),
    /// There is nothing to try; a sentence why.
    GiveUp(String),
}

/// Why a repairer has no answer.
#[derive(Debug, thiserror::Error)]
#[error("the repairer has no answer: {0}")]
pub struct RepairerError(pub String);

/// What [`Repairer::propose`] gives.
pub type ProposalFuture<'a> = Pin<Box<dyn Future<Output = Result<Proposal, RepairerError>> + Send + 'a>>;

/// Somebody who proposes changes: a command, a model, a script of a test.
pub trait Repairer: Send + Sync {
    /// What tells it from others: a failure that one did not repair is tried again with another.
    fn identity(&self) -> Value;

    /// Proposes a change, or gives up.
    fn propose<'a>(&'a self, request: &'a RepairRequest, cancel: &'a CancellationToken) -> ProposalFuture<'a>;
}

/// Where a change came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// `rule NAME` or `repairer`.
    pub by: String,
    /// The change.
    pub change: SpecChange,
}

/// The first rule that matches a line of the log and changes the spec into one that `is_new`. Of each rule the first
/// different changes count, up to a bound.
pub(super) fn by_rule(
    definition: &Definition,
    spec: &EnvironmentSpec,
    log: &str,
    is_new: impl Fn(&EnvironmentSpec) -> bool,
) -> Option<Repair> {
    let log = &log[log.ceil_char_boundary(log.len().saturating_sub(LOG_SEARCHED))..];
    definition.repairs.iter().find_map(|rule| {
        let pattern = compiled(&rule.pattern)?;
        let mut weighed: Vec<SpecChange> = Vec::new();
        let lines = log.lines().map(|line| &line[..line.floor_char_boundary(LINE_SEARCHED)]);
        for found in lines.filter_map(|line| pattern.captures(line)) {
            let change = rule.change.filled(&found);
            if weighed.contains(&change) {
                continue;
            }
            if change.check(definition).is_ok() {
                let changed = change.apply(spec, definition);
                if changed != *spec && is_new(&changed) {
                    return Some(Repair { by: format!("rule {}", rule.name), change });
                }
            }
            weighed.push(change);
            if weighed.len() == CHANGES {
                break;
            }
        }
        None
    })
}

/// The end of a log, cut at a line's beginning.
pub(super) fn tail(log: &[u8]) -> String {
    if log.len() <= LOG_TAIL {
        return String::from_utf8_lossy(log).into_owned();
    }
    let end = &log[log.len() - LOG_TAIL..];
    let start = end.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    String::from_utf8_lossy(&end[start..]).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::environment::{Definitions, RepairDefinition};

    fn definition(rules: Value) -> Definition {
        let mut definition = Definition::clone(&Definitions::load(&[]).unwrap().get("python").unwrap());
        definition.repairs = serde_json::from_value::<Vec<RepairDefinition>>(rules).unwrap();
        definition
    }

    #[test]
    fn the_first_rule_that_matches_and_changes_something_is_taken() {
        let definition = definition(json!([
            {"name": "nothing new", "pattern": "pkg", "change": {"packages": ["six"]}},
            {"name": "an option", "pattern": "No module named '(.*)'", "change": {"packages": ["$1"]}},
            {"name": "pkg", "pattern": "No module named 'pkg_resources'", "change": {"packages": ["setuptools<81"]}},
        ]));
        let spec = serde_json::from_value(json!({"language": "python", "packages": ["six"]})).unwrap();
        let log = "x\nNo module named '-r/etc/passwd'\nNo module named 'pkg_resources'\n";
        // The first match of the second rule is an option of pip's: the next line is looked at.
        let repair = by_rule(&definition, &spec, log, |_| true).unwrap();
        assert_eq!((repair.by.as_str(), repair.change.packages[0].as_str()), ("rule an option", "pkg_resources"));
        let other =
            by_rule(&definition, &spec, log, |spec| !spec.packages.contains(&"pkg_resources".to_owned())).unwrap();
        assert_eq!(other.by, "rule pkg");
        assert!(by_rule(&definition, &spec, log, |_| false).is_none());
        assert!(by_rule(&definition, &spec, "all is well", |_| true).is_none());
    }

    #[test]
    fn a_hostile_log_takes_little_time_and_few_changes_are_weighed() {
        let definition = definition(json!([
            {"name": "module", "pattern": "No module named '(.*)'", "change": {"packages": ["$1"]}},
            {"name": "other", "pattern": "(x+)$", "change": {"packages": ["$1"]}},
        ]));
        let spec: EnvironmentSpec = serde_json::from_value(json!({"language": "python", "packages": ["six"]})).unwrap();
        let weighed = |log: &str| {
            let weighed = std::cell::RefCell::new(Vec::new());
            let found = by_rule(&definition, &spec, log, |changed| {
                weighed.borrow_mut().push(changed.packages.clone());
                false
            });
            assert!(found.is_none());
            weighed.into_inner()
        };
        // Many different ones, the same one over and over, a line without an end.
        let many: String = (0..300_000).map(|i| format!("No module named 'm{i}'\n")).collect();
        assert_eq!(weighed(&many).len(), CHANGES);
        assert_eq!(weighed(&"No module named 'same'\n".repeat(300_000)).len(), 1);
        let endless = weighed(&format!("No module named 'a\n{}", "x".repeat(2 * LOG_SEARCHED)));
        assert!(endless.iter().flatten().all(|package| package.len() <= LINE_SEARCHED), "{}", endless.len());
        // What is before the part that is looked at is not seen; a letter that lies across its beginning is no trouble.
        let early = format!("No module named 'early'\n{}", "ä".repeat(LOG_SEARCHED / 2));
        assert!(weighed(&early).is_empty() && weighed(&format!("{early}a")).is_empty());
    }

    #[test]
    fn proposals_have_one_form() {
        let change: Proposal = serde_json::from_value(json!({"change": {"packages": ["six"]}})).unwrap();
        assert!(matches!(change, Proposal::Change(change) if change.packages == ["six"]));
        let text = json!({"give-up": "no idea"}).to_string();
        assert_eq!(serde_json::from_str::<Proposal>(&text).unwrap(), Proposal::GiveUp("no idea".to_owned()));
        for wrong in [json!({}), json!({"change": {"pakages": []}}), json!({"change": {}, "why": 1}), json!("change")] {
            assert!(serde_json::from_value::<Proposal>(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_tail_begins_with_a_line() {
        let log: Vec<u8> = (0..10_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
        let tail = tail(&log);
        assert!(tail.starts_with("line ") && tail.ends_with("line 9999\n") && tail.len() <= LOG_TAIL);
    }
}
