//! Trees and repositories of the cache that stay there while they are used.

use super::prepare::{Unavailable, disk, of_repo};
use super::run::Services;
use crate::repo::{RepoSources, Repository, Snapshot};
use crate::store::Held;
use crate::store::cache::Bucket;

/// How often something is made again that went between its making and its use.
const TRIES: usize = 3;

/// Finds, unpacks or clones a repository.
pub(super) fn repository(
    services: &Services,
    sources: &RepoSources,
    name: &str,
) -> Result<(Repository, Option<Held>), Unavailable> {
    for _ in 0..TRIES {
        let repository = sources.open(name).map_err(|e| of_repo(&e))?;
        let held = services.uses.hold(repository.place()).map_err(|e| disk(&e.to_string()))?;
        // A mirror is nobody's to delete.
        if repository.place().exists() {
            return Ok((repository, held));
        }
    }
    Err(gone(&format!("the repository `{name}`")))
}

/// The tree of a commit.
pub(super) fn tree(
    services: &Services,
    repository: &Repository,
    commit: &str,
) -> Result<(Snapshot, Held), Unavailable> {
    let bucket = Bucket::Snapshots.path(&services.cache);
    for _ in 0..TRIES {
        let tree = repository.snapshot(commit, &bucket, services.sandbox.owner()).map_err(|e| of_repo(&e))?;
        if let Some(held) = services.uses.hold(&tree.dir).map_err(|e| disk(&e.to_string()))? {
            return Ok((tree, held));
        }
    }
    Err(gone(&format!("the tree of {commit}")))
}

fn gone(what: &str) -> Unavailable {
    let said = format!("{what} was taken out of the cache again and again while it was needed");
    Unavailable::new(crate::model::InfraReason::Repository, said)
}
