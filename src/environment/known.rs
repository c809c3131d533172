//! What is known of a tree's environment, without building anything.

use super::accept::Request;
use super::detect::{Detected, detect};
use super::prepare::Environments;
use super::record::EnvironmentRecord;
use super::resolved::Resolved;
use crate::model::digest_json;

/// What is known of a tree for which nobody describes an environment.
#[derive(Debug, Clone)]
pub enum Known {
    /// One was accepted, and is the one that would be taken now.
    Accepted(Box<Resolved>),
    /// One was accepted, and would be looked for again: its toolchain or definition changed.
    Outdated(Box<EnvironmentRecord>),
    /// None could be had, by the repository's own making, and nothing has changed since.
    Rejected(Box<EnvironmentRecord>),
    /// Nothing is on record: these ways would be tried.
    Search(Box<Detected>),
    /// Nothing installable is in the tree: it would be taken as it is.
    Bare,
}

impl Environments {
    /// Looks at the records and at the tree. Blocks for as long as that takes, and a toolchain to answer (once).
    pub fn known(&self, request: &Request) -> Known {
        if let Some(record) = self.records.get(&digest_json(&self.inputs(request))) {
            if record.environment.is_none() {
                if record.grounds == self.grounds() {
                    return Known::Rejected(Box::new(record));
                }
            } else {
                let resolved = record.spec.as_ref().and_then(|spec| self.resolve_there(spec).ok());
                let same = resolved.filter(|resolved| record.resolved.as_ref() == Some(&resolved.key()));
                return match same {
                    Some(resolved) => Known::Accepted(Box::new(resolved)),
                    None => Known::Outdated(Box::new(record)),
                };
            }
        }
        let tree = &request.subject.snapshot;
        let detected = detect(&self.definitions, tree, request.date, request.language.as_deref());
        match detected.filter(|d| d.manifest().is_some() && !d.strategies.is_empty()) {
            Some(detected) => Known::Search(Box::new(detected)),
            None => Known::Bare,
        }
    }
}
