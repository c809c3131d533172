//! What an instance's environment would need, and what of it is in the cache: looked at, and nothing built or fetched.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::environment::{Foreseen, foresee, not_made};
use super::prepare::{Unavailable, by_hand, disk, of_repo};
use super::run::Services;
use crate::environment::{BuildSubject, LayerState, Resolved, Staleness};
use crate::model::{CommentId, InfraReason, Instance, InstanceId};
use crate::repo::{RepoError, Repository, SnapshotMode};
use crate::sandbox::Root;
use crate::store::cache::Bucket;

/// How far a survey may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Only at what is there: where a tree is not in the cache, nothing is said of what depends on it.
    AsItIs,
    /// Trees that are not in the cache are written to a throw-away folder, so that all can be said.
    Through,
}

/// Where an instance's environment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// All is in the cache.
    Ready,
    /// Something is still to be made.
    Missing,
    /// It was made, and would be another one now: its definition, toolchain, base, trees, spec or lock changed.
    Stale,
    /// It can't be had here as things are; the reason tells.
    Unavailable,
}

/// What one survey found.
#[derive(Debug, Clone, Serialize)]
pub struct Survey {
    /// The instance.
    pub instance_id: InstanceId,
    /// Where it stands.
    pub standing: Standing,
    /// Why it is not ready, for people; empty when it is.
    pub reason: String,
    /// Whether the repository is at hand.
    pub repository: bool,
    /// The trees of head and merged commit.
    pub trees: Vec<TreeState>,
    /// What is below everything: `host`, or the digest of a base.
    pub root: String,
    /// Whether that is at hand.
    pub root_there: bool,
    /// The layers; none where a tree was missing and not looked through.
    pub layers: Vec<LayerState>,
    /// What differs from the one that was made last.
    pub stale: Vec<Staleness>,
}

/// The tree of a commit.
#[derive(Debug, Clone, Serialize)]
pub struct TreeState {
    /// `head` or `merged`.
    pub of: &'static str,
    /// Its commit.
    pub commit: String,
    /// Whether it is in the cache.
    pub cached: bool,
    /// Its place in the cache.
    pub folder: PathBuf,
}

impl Survey {
    /// Of which nothing is known yet.
    fn new(instance: &Instance) -> Self {
        Self {
            instance_id: instance.instance_id.clone(),
            standing: Standing::Missing,
            reason: String::new(),
            repository: false,
            trees: Vec::new(),
            root: String::new(),
            root_there: false,
            layers: Vec::new(),
            stale: Vec::new(),
        }
    }
}

/// Looks at the environment of one instance. Never uses the network, never builds; blocks for as long as a toolchain
/// takes to answer (once) and, with [`Look::Through`], as long as writing the trees takes.
pub fn survey(services: &Services, instance: &Instance, comments: &[CommentId], look: Look) -> Survey {
    let mut survey = Survey::new(instance);
    if let Err(why) = fill(&mut survey, services, instance, comments, look) {
        survey.standing = Standing::Unavailable;
        survey.reason = format!("{}: {}", why.class.as_str(), why.detail);
    }
    survey
}

fn fill(
    survey: &mut Survey,
    services: &Services,
    instance: &Instance,
    comments: &[CommentId],
    look: Look,
) -> Result<(), Unavailable> {
    let throw_away = tempfile::tempdir_in(services.scratch.path()).map_err(|e| disk(&e.to_string()))?;
    let found = find(survey, services, instance, comments, look, throw_away.path())?;
    let Some((resolved, subject)) = found else { return Ok(()) };
    let inspected = services.environments.inspect(&resolved, &subject);
    survey.layers = inspected.map_err(|e| Unavailable::of_environment(&e, Some(&resolved), ""))?;
    conclude(survey, services);
    Ok(())
}

/// The Dockerfile of an instance's environment. Never uses the network.
///
/// # Errors
/// Why it can't be told.
pub fn dockerfile(
    services: &Services,
    instance: &Instance,
    comments: &[CommentId],
    from: Option<&str>,
) -> Result<String, Unavailable> {
    let mut survey = Survey::new(instance);
    let throw_away = tempfile::tempdir_in(services.scratch.path()).map_err(|e| disk(&e.to_string()))?;
    match find(&mut survey, services, instance, comments, Look::Through, throw_away.path())? {
        Some((resolved, subject)) => {
            let text = services.environments.dockerfile(&resolved, &subject, from);
            text.map_err(|e| Unavailable::of_environment(&e, Some(&resolved), ""))
        }
        None => Err(Unavailable::new(InfraReason::Environment, survey.reason)),
    }
}

/// What an environment would be made of; `None` where that is not known yet, and then the survey says why.
fn find(
    survey: &mut Survey,
    services: &Services,
    instance: &Instance,
    comments: &[CommentId],
    look: Look,
    throw_away: &Path,
) -> Result<Option<(Box<Resolved>, BuildSubject)>, Unavailable> {
    // A toolchain that is not here is the first thing to know.
    if let Some(spec) = instance.environment.as_ref().filter(|_| services.overrides.is_empty())
        && let Err(error) = services.environments.resolve_there(spec)
    {
        let Some(base) = error.base_to_make() else {
            return Err(Unavailable::of_environment(&error, None, spec.version.as_deref().unwrap_or_default()));
        };
        survey.reason = not_made(base);
        survey.root = base.to_owned();
        return Ok(None);
    }
    let mut sources = services.repositories.clone();
    sources.offline = true;
    let repository = match sources.open(&instance.repo) {
        // Asked to build, it would be cloned.
        Err(RepoError::NotFound { .. }) if can_clone(services) => {
            survey.reason = "the repository is not here yet".to_owned();
            return Ok(None);
        }
        opened => opened.map_err(|e| of_repo(&e))?,
    };
    survey.repository = true;
    let mut commits = vec![("head", repository.resolve(instance.head_commit()).map_err(|e| of_repo(&e))?)];
    if let Some(merged) = &instance.merged_commit {
        commits.push(("merged", repository.resolve(merged).map_err(|e| of_repo(&e))?));
    }
    let bucket = Bucket::Snapshots.path(&services.cache);
    let owner = services.sandbox.owner();
    for (of, commit) in &commits {
        let (folder, cached) = repository.kept_snapshot(commit, &bucket, owner).map_err(|e| of_repo(&e))?;
        survey.trees.push(TreeState { of, commit: commit.clone(), cached, folder });
    }
    let missing: Vec<&str> = survey.trees.iter().filter(|tree| !tree.cached).map(|tree| tree.of).collect();
    if !missing.is_empty() {
        survey.reason = format!("not made yet: the tree of {}", missing.join(" and "));
        if look == Look::AsItIs {
            return Ok(None);
        }
    }
    let subject = subject(&repository, survey, throw_away, owner)?;
    let (overridden, day) = by_hand(services, &repository, instance, &commits[0].1)?;
    let resolved = match foresee(services, instance, comments, overridden.as_ref(), subject.clone(), day)? {
        Foreseen::Resolved(resolved) => resolved,
        Foreseen::Search(said) => {
            survey.reason = said;
            return Ok(None);
        }
        Foreseen::Outdated(said) => {
            (survey.standing, survey.reason) = (Standing::Stale, said);
            return Ok(None);
        }
        Foreseen::Rejected(said) => {
            (survey.standing, survey.reason) = (Standing::Unavailable, said);
            return Ok(None);
        }
    };
    (survey.root, survey.root_there) = root(&resolved.root);
    Ok(Some((resolved, subject)))
}

fn can_clone(services: &Services) -> bool {
    !services.repositories.offline && services.repositories.template.is_some()
}

/// The trees, those that are not in the cache in a throw-away folder.
fn subject(
    repository: &Repository,
    survey: &Survey,
    throw_away: &Path,
    owner: (u32, u32),
) -> Result<BuildSubject, Unavailable> {
    let mut subject = BuildSubject { snapshot: PathBuf::new(), tree: String::new(), merged: None, merged_tree: None };
    for tree in &survey.trees {
        let id = repository.tree_id(&tree.commit).map_err(|e| of_repo(&e))?;
        let folder = if tree.cached {
            tree.folder.clone()
        } else {
            let folder = throw_away.join(tree.of);
            let written = repository.write_snapshot(&SnapshotMode::Run, &tree.commit, &folder, owner);
            written.map_err(|e| of_repo(&e))?;
            folder
        };
        if tree.of == "head" {
            (subject.snapshot, subject.tree) = (folder, id);
        } else {
            (subject.merged, subject.merged_tree) = (Some(folder), Some(id));
        }
    }
    Ok(subject)
}

fn conclude(survey: &mut Survey, services: &Services) {
    let missing: Vec<&str> =
        survey.layers.iter().filter(|layer| !layer.cached).map(|layer| layer.name.as_str()).collect();
    if let Some(made) = services.environments.made(survey.instance_id.folded()) {
        survey.stale = made.staleness(&survey.layers);
    }
    if !survey.stale.is_empty() {
        survey.standing = Standing::Stale;
        let changed: Vec<String> =
            survey.stale.iter().map(|stale| format!("{} ({})", stale.kind, stale.changed.join(", "))).collect();
        survey.reason = format!("changed since it was made: {}", changed.join("; "));
    } else if !missing.is_empty() {
        survey.reason = format!("not made yet: {}", missing.join(", "));
    } else if !survey.root_there {
        survey.reason = format!("not made yet: the base {}", survey.root);
    } else if survey.trees.iter().all(|tree| tree.cached) {
        survey.standing = Standing::Ready;
    }
}

/// What an environment stands on, and whether that is at hand.
fn root(root: &Root) -> (String, bool) {
    match root {
        Root::Host => ("host".to_owned(), true),
        Root::Base { folder, archive, image, digest } => {
            let there = [folder, archive].into_iter().flatten().any(|path| path.exists()) || image.is_some();
            (digest.clone(), there)
        }
    }
}
