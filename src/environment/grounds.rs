//! What a record stands on: its key, what a failure depends on beside it, and what was missing when it was made.

use std::path::Path;

use serde_json::{Value, json};

use super::accept::Request;
use super::network::strip_credentials;
use super::prepare::Environments;
use super::record::Missing;
use crate::model::{Digest, digest_bytes, digest_json};

impl Environments {
    /// What a tree's record depends on.
    pub(super) fn inputs(&self, request: &Request) -> Value {
        json!({
            "tool_version": env!("CARGO_PKG_VERSION"),
            "tree": request.subject.tree,
            "merged": request.subject.merged_tree,
            "as_of_commit": self.settings.as_of_commit,
            "date": request.date,
            "language": request.language.as_ref().map(|language| language.trim().to_lowercase()),
            "needs": request.needs,
            "definitions": self.definitions_digest,
            "sandbox": self.sandbox.isolation().sandbox,
        })
    }

    /// What a failure depends on beside its inputs. Whether bases are made is no part of it: a failure for want of one is
    /// never on record.
    pub(super) fn grounds(&self) -> Digest {
        let settings = &self.settings;
        let network = &settings.network;
        let folders: Vec<Value> = network.folders.iter().map(|folder| listed(folder)).collect();
        let lock = settings.base_lock.as_ref().map(|file| fs_err::read(file).ok().map(|text| digest_bytes(&text)));
        digest_json(&json!({
            "bases": [settings.debian_mirror.as_deref().map(|mirror| strip_credentials(mirror).0), lock],
            "network": [network.variables, network.cargo_registry],
            "folders": folders,
            "limits": [settings.fetch_limits, settings.build_limits, settings.proof_limits],
            "search": settings.search_deadline,
            "repairs": settings.repairs,
            "repairer": self.repairer.as_ref().map(|repairer| repairer.identity()),
        }))
    }

    /// Whether something that was not to be had is here by now, or would be made. Blocks as
    /// [`resolve_there`](Self::resolve_there) does.
    pub(super) fn has_come(&self, missing: &[Missing]) -> bool {
        missing.iter().any(|missing| match self.resolve_there(&missing.spec) {
            Ok(_) => true,
            Err(error) => missing.unmade && error.base_to_make().is_some() && self.would_make_bases(),
        })
    }
}

/// What lies in a folder of packages: with another package in it, what failed may work.
fn listed(folder: &Path) -> Value {
    let Ok(entries) = fs_err::read_dir(folder) else { return Value::Null };
    let mut out: Vec<(String, u64)> = entries
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().map_or(0, |meta| meta.len())))
        .collect();
    out.sort();
    json!(out)
}
