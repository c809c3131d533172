//! What an import brought, in numbers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::formats::github::Counted;
use crate::store::bench::{Content, Problem};

/// The counts of an import. Nothing that went in is without a place here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Summary {
    /// Instances in the benchmark.
    pub instances: usize,
    /// Comments of these instances.
    pub comments: usize,
    /// Accepted oracles.
    pub accepted_oracles: usize,
    /// Oracles that are kept but not accepted.
    pub rejected_oracles: usize,
    /// Comments in the frozen set; absent where the source has none.
    pub frozen: Option<usize>,
    /// Reviews, by tool.
    pub reviews: BTreeMap<String, usize>,
    /// Revisions, by arm.
    pub revisions: BTreeMap<String, usize>,
    /// Recorded verdicts, by arm.
    pub recorded: BTreeMap<String, usize>,
    /// Lines of attrition, by scope and reason (`comment: not-solved`).
    pub attrition: BTreeMap<String, usize>,
    /// Instances that got an environment from the caller's file.
    pub environments: usize,
    /// Repositories in that file that no instance is of.
    pub unknown_environment_repos: Vec<String>,
    /// Instances whose merged commit was found by the caller's finder.
    pub merged_found: usize,
    /// Instances whose merged commit was looked for in vain.
    pub merged_not_found: usize,
    /// Objects that were read, by kind, where the source is made of objects (GitHub's API).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub read: BTreeMap<String, Counted>,
    /// Rows that could not be read.
    pub problems: Vec<Problem>,
}

impl Summary {
    /// Counts a benchmark's content; what only the import knows stays as it is.
    pub(super) fn count(&mut self, content: &Content) {
        self.instances = content.instances.len();
        self.comments = content.instances.iter().map(|i| i.reference_review_comments.len()).sum();
        let oracles = || content.instances.iter().flat_map(|i| &i.oracles);
        self.accepted_oracles = oracles().filter(|o| o.accepted).count();
        self.rejected_oracles = oracles().filter(|o| !o.accepted).count();
        self.frozen = content.manifest.frozen.as_ref().map(Vec::len);
        self.reviews = tally(content.reviews.iter().map(|r| r.tool.clone()));
        self.revisions = tally(content.revisions.iter().map(|r| r.arm.to_string()));
        self.recorded = tally(content.recorded.iter().map(|r| r.arm.to_string()));
        self.attrition = tally(content.attrition.iter().map(|a| format!("{}: {}", word(&a.scope), word(&a.reason))));
    }
}

fn tally(words: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_insert(0) += 1;
    }
    counts
}

/// The string form that serde gives a word of a closed set.
fn word<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}
