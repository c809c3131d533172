//! What the benchmark and the command say of a row, as one digest: known before anything is prepared.

use std::collections::HashMap;

use serde_json::json;

use super::instance::InstanceJob;
use super::row::Row;
use super::run::{Services, Settings};
use crate::model::{CommentId, Digest, Revision, digest_bytes, digest_json};
use crate::oracle::Reporters;

/// What the command says that could change a run.
pub(super) fn command_digest(settings: &Settings, services: &Services) -> Digest {
    digest_json(&json!({
        "tool_version": env!("CARGO_PKG_VERSION"),
        "policy": settings.policy.as_str(),
        "repeat": settings.repeat,
        "limits": settings.limits,
        "isolation": services.sandbox.isolation(),
        "overrides": *services.overrides,
        "as_of_commit": services.environments.is_as_of_commit(),
        "reporters": Reporters::digest(),
    }))
}

/// The grounds of the rows of one scoring.
///
/// A record's key holds more: what the environment resolves to, and which tests the fixed code shows. That is known only
/// when an instance is ready, and a row whose grounds are the same as last time keeps its verdict until then.
pub(super) struct Grounds<'a> {
    services: &'a Services,
    bench_root: &'a std::path::Path,
    command: Digest,
}

impl<'a> Grounds<'a> {
    /// `None` when the command wants things run again whatever they are.
    pub(super) fn new(settings: &Settings, services: &'a Services, bench_root: &'a std::path::Path) -> Option<Self> {
        if settings.redo || !settings.retry.is_empty() {
            return None;
        }
        Some(Self { services, bench_root, command: command_digest(settings, services) })
    }

    /// The grounds of an instance's rows, by comment. A comment is left out when something of it cannot be read.
    pub(super) fn of(&self, job: &InstanceJob) -> HashMap<CommentId, Digest> {
        let instance = &job.instance;
        let definition =
            |language: &str| self.services.environments.definitions().get(language).ok().map(|d| d.digest());
        // Of one that has to be found all definitions decide; of one by hand, which may be of another language than the
        // instance's own, any of them may.
        let environment = match &instance.environment {
            Some(spec) if self.services.overrides.is_empty() => definition(&spec.language),
            _ => Some(self.services.environments.definitions_digest().clone()),
        };
        let whole = digest_json(&json!([self.command, instance, environment]));
        job.comments
            .iter()
            .filter_map(|comment| {
                let oracle = match instance.oracle(comment) {
                    Some(oracle) => {
                        let test = digest_bytes(&fs_err::read(self.bench_root.join(&oracle.test)).ok()?);
                        json!([test, self.services.frameworks.digest(oracle.framework).ok()?])
                    }
                    None => json!(null),
                };
                Some((comment.clone(), digest_json(&json!([whole, oracle]))))
            })
            .collect()
    }
}

/// The grounds of one row: its comment's, and the revision.
pub(super) fn of_row(row: &Row, comment: &Digest, revision: Option<&Revision>) -> Digest {
    let status = revision.map(|revision| revision.status);
    digest_json(&json!([comment, row.patch, status]))
}
