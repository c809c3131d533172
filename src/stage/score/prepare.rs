//! Makes an instance ready: repository, trees, environment, patches.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::causes::{packages_of, toolchain_of};
use super::environment::{Chosen, choose, resolve_own};
use super::held;
use super::instance::InstanceJob;
use super::run::{Services, Shared};
use super::state::State;
use crate::engine::{Cause, Event, Scope, is_nothing_left, time};
use crate::environment::{BuildSubject, EnvironmentError, Prepared, Resolved, SpecSource};
use crate::fault;
use crate::model::{Digest, EnvironmentSpec, InfraReason, Instance, Revision};
use crate::repo::{ChangeSet, RepoError, RepoSources, Repository, TreePath, TreeReader, apply_patch};
use crate::sandbox::Mount;
use crate::store::Held;
use crate::store::cache;

/// Why an instance cannot be run here.
#[derive(Debug, Clone)]
pub struct Unavailable {
    /// The class.
    pub class: InfraReason,
    /// What happened.
    pub detail: String,
    /// The log of what failed, where there is one.
    pub log: Option<Vec<u8>>,
    /// What it has in common with failures of others; `None` where it is the instance's own.
    pub(super) cause: Option<Cause>,
}

impl Unavailable {
    /// Without a log.
    pub fn new(class: InfraReason, detail: impl Into<String>) -> Self {
        let why = Self::new_without_cause(class, detail);
        match class {
            InfraReason::Sandbox | InfraReason::Disk => why.shared(Scope::Machine),
            _ => why,
        }
    }

    /// Without a log, and of no concern to others.
    pub(super) fn new_without_cause(class: InfraReason, detail: impl Into<String>) -> Self {
        Self { class, detail: detail.into(), log: None, cause: None }
    }

    /// Names the disk where it is the cause: programs and libraries of others report a full disk each in their own way,
    /// often without saying so.
    pub(super) fn or_disk(mut self, cache: &Path) -> Self {
        const SAID: [&str; 2] = ["No space left on device", "Disk quota exceeded"];
        let could_be = matches!(
            self.class,
            InfraReason::Repository | InfraReason::Environment | InfraReason::Sandbox | InfraReason::Disk
        );
        // What an environment's steps wrote is code of others: it can say so of any disk.
        let says_so = || self.class != InfraReason::Environment && SAID.iter().any(|text| self.detail.contains(text));
        let is_named = self.detail.starts_with("the disk of ");
        if could_be && !is_named && (says_so() || is_nothing_left(cache)) {
            self.class = InfraReason::Disk;
            self.detail = format!("the disk of the cache `{}` is full: {}", cache.display(), self.detail);
            return self.shared(Scope::Machine);
        }
        self
    }
}

/// An instance that is ready.
pub(super) struct Ready {
    /// The head tree's directory.
    pub(super) snapshot: PathBuf,
    /// The head tree's id.
    pub(super) tree: String,
    /// The environment.
    pub(super) environment: Prepared,
    /// The change from head to merged; `None` where no merged commit is known.
    pub(super) merged: Option<Arc<State>>,
    /// The head itself.
    pub(super) head: Arc<State>,
    /// Each revision's state, or why its patch was rejected, in the job's order.
    pub(super) revisions: Vec<Result<Arc<State>, String>>,
    /// States with head's versions of test configuration, by their changes and what was laid over.
    laid: Mutex<HashMap<LaidKey, Arc<State>>>,
    /// The toolchain that the environment wants, for people.
    pub(super) toolchain: String,
    /// Where layers of states go; removed when the instance is done.
    pub(super) scratch: tempfile::TempDir,
    /// Keeps the trees in the cache.
    _held: Vec<Held>,
}

/// The digest of a state's changes, and the paths that are head's in it.
type LaidKey = (Digest, Vec<String>);

impl Ready {
    /// A revision's state with head's versions of `paths`, which it touches. Oracles that want the same share it.
    pub(super) fn with_head_versions(&self, state: &Arc<State>, paths: &BTreeSet<TreePath>) -> Arc<State> {
        let changes = state.changes.without(paths);
        let laid_over: Vec<String> = paths.iter().map(ToString::to_string).collect();
        let mut laid = self.laid.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (changes.digest(), laid_over.clone());
        laid.entry(key).or_insert_with(|| State::new(changes, state.log.clone(), laid_over)).clone()
    }
}

/// Makes an instance ready.
pub(super) async fn prepare(shared: &Arc<Shared>, job: &Arc<InstanceJob>) -> Result<Ready, Unavailable> {
    let step = |text: &str| {
        shared.events.send(Event::Preparing { instance_id: job.instance.instance_id.clone(), step: text.to_owned() });
    };
    let closed = |why: Unavailable| {
        why.cause.as_ref().and_then(|cause| shared.in_the_way(&cause.scope, why.class)).unwrap_or(why)
    };
    // The toolchain first, where it is known: a missing one must be infra now and not an old answer from the records.
    let stop = &shared.scheduler.stop;
    let own = resolve_own(&shared.services, &job.instance, &step, stop).await.map_err(closed)?;
    if let Some(resolved) = &own
        && let Some(why) = shared.in_the_way(&packages_of(resolved), InfraReason::Environment)
    {
        return Err(why);
    }

    if !shared.scheduler.has_room().await {
        return Err(shared.not_started());
    }
    step("repository");
    let trees = {
        let (shared, job) = (shared.clone(), job.clone());
        let (limit, stop) = (shared.settings.bounds.phases.repository, shared.scheduler.stop.clone());
        let work = blocking(move || trees(&shared, &job.instance, &job.revisions));
        in_time("repository", limit, &stop, work).await?
    };

    let slot = shared.scheduler.slot().await.ok_or_else(|| shared.not_started())?;
    let fetched = AtomicBool::new(false);
    let told = |text: &str| {
        fetched.store(true, Ordering::Relaxed);
        step(text);
    };
    let chosen = match own {
        Some(resolved) => Chosen::Given(Box::new(resolved), SpecSource::Benchmark),
        None => choose(&shared.services, job, &trees, false, &told, stop).await.map_err(|not| match not.why.class {
            _ if stop.is_cancelled() => interrupted(),
            InfraReason::Network => shared.in_the_way(&Scope::Network, InfraReason::Network).unwrap_or(not.why),
            _ => closed(not.why),
        })?,
    };
    let (resolved, environment) = match chosen {
        Chosen::Found(accepted) => (accepted.resolved, accepted.prepared),
        Chosen::Given(resolved, _) => {
            let environment = made(shared, &resolved, &trees, &told).await?;
            (*resolved, environment)
        }
    };
    if fetched.into_inner() {
        shared.breaker.worked(&Scope::Network);
    }
    shared.breaker.worked(&packages_of(&resolved));
    drop(slot);
    let mounted = environment.mounts.iter().flat_map(Mount::sources);
    mounted.chain(&environment.workspace_layers).for_each(|folder| cache::used(&shared.services.cache, folder));
    remember(&shared.services, &job.instance, &environment, &trees);

    let folder = shared.services.scratch.path();
    let scratch = tempfile::Builder::new().prefix("instance-").tempdir_in(folder).map_err(|e| disk(&e.to_string()))?;
    fault::point("score.instance.made");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(scratch.path(), open).map_err(|e| disk(&e.to_string()))?;
    Ok(Ready {
        snapshot: trees.snapshot,
        tree: trees.tree,
        environment,
        merged: trees.merged.map(|changes| State::new(changes, Vec::new(), Vec::new())),
        head: State::new(ChangeSet::default(), Vec::new(), Vec::new()),
        revisions: trees.revisions,
        laid: Mutex::default(),
        toolchain: toolchain_of(&resolved),
        scratch,
        _held: trees.held,
    })
}

/// The environment of a spec that is taken at its word.
async fn made(
    shared: &Shared,
    resolved: &Resolved,
    trees: &Trees,
    told: &(dyn Fn(&str) + Send + Sync),
) -> Result<Prepared, Unavailable> {
    if let Some(why) = shared.in_the_way(&packages_of(resolved), InfraReason::Environment) {
        return Err(why);
    }
    let stop = &shared.scheduler.stop;
    let made = shared.services.environments.prepare(resolved, &trees.subject(), told, stop).await;
    made.map_err(|error| match error.root() {
        _ if stop.is_cancelled() => interrupted(),
        EnvironmentError::Offline { .. } => shared
            .in_the_way(&Scope::Network, InfraReason::Network)
            .unwrap_or_else(|| of_environment(&error, Some(resolved))),
        _ => of_environment(&error, Some(resolved)),
    })
}

/// What the phase gives, or that it did not end in time. Work that waits for the system (a file system that does not
/// answer) cannot be ended from outside: it is left to itself, and goes with the program.
async fn in_time<T>(
    phase: &str,
    limit: Duration,
    stop: &CancellationToken,
    work: impl Future<Output = Result<T, Unavailable>>,
) -> Result<T, Unavailable> {
    /// What a program that is at the same deadline may take to be ended and to say so.
    const GRACE: Duration = Duration::from_secs(5);
    tokio::select! {
        done = work => done,
        () = stop.cancelled() => Err(interrupted()),
        () = tokio::time::sleep(limit + GRACE) => {
            let detail = format!("{phase} phase: not done at its deadline of {}", time(limit));
            Err(Unavailable::new(InfraReason::Deadline, detail))
        }
    }
}

/// An instance's trees on the host.
pub(super) struct Trees {
    snapshot: PathBuf,
    tree: String,
    /// The day of the head's commit.
    pub(super) day: jiff::civil::Date,
    /// The environment that was given by hand.
    pub(super) overridden: Option<EnvironmentSpec>,
    merged: Option<ChangeSet>,
    merged_snapshot: Option<PathBuf>,
    merged_tree: Option<String>,
    revisions: Vec<Result<Arc<State>, String>>,
    /// Keeps all of them in the cache.
    held: Vec<Held>,
}

impl Trees {
    pub(super) fn subject(&self) -> BuildSubject {
        BuildSubject {
            snapshot: self.snapshot.clone(),
            tree: self.tree.clone(),
            merged: self.merged_snapshot.clone(),
            merged_tree: self.merged_tree.clone(),
        }
    }
}

/// The trees of a run: without the network where it was given up.
fn trees(shared: &Shared, instance: &Instance, revisions: &[Revision]) -> Result<Trees, Unavailable> {
    let Some(closed) = shared.in_the_way(&Scope::Network, InfraReason::Network) else {
        return trees_from(&shared.services, &shared.services.repositories, instance, revisions);
    };
    let mut repositories = shared.services.repositories.clone();
    let was_online = !repositories.offline;
    repositories.offline = true;
    match repositories.open(&instance.repo) {
        Err(RepoError::NotFound { offline: true, .. }) if was_online => Err(closed),
        _ => trees_from(&shared.services, &repositories, instance, revisions),
    }
}

pub(super) fn trees_from(
    services: &Services,
    repositories: &RepoSources,
    instance: &Instance,
    revisions: &[Revision],
) -> Result<Trees, Unavailable> {
    let (repository, held) = held::repository(services, repositories, &instance.repo)?;
    let head = repository.resolve(instance.head_commit()).map_err(|e| of_repo(&e))?;
    let (overridden, day) = by_hand(services, &repository, instance, &head)?;
    let (snapshot, tree) = held::tree(services, &repository, &head)?;
    let mut trees = Trees {
        held: held.into_iter().chain([tree]).collect(),
        snapshot: snapshot.dir,
        tree: snapshot.tree,
        day,
        overridden,
        merged: None,
        merged_snapshot: None,
        merged_tree: None,
        revisions: Vec::new(),
    };
    if let Some(merged) = &instance.merged_commit {
        let merged = repository.resolve(merged).map_err(|e| of_repo(&e))?;
        trees.merged = Some(repository.changes_between(&head, &merged).map_err(|e| of_repo(&e))?);
        let (snapshot, held) = held::tree(services, &repository, &merged)?;
        trees.held.push(held);
        trees.merged_snapshot = Some(snapshot.dir);
        trees.merged_tree = Some(snapshot.tree);
    }
    let base = repository.tree_of(&head).map_err(|e| e.to_string());
    trees.revisions =
        revisions.iter().map(|r| revision(base.as_ref().map_err(Clone::clone)?, r.patch.as_bytes())).collect();
    Ok(trees)
}

fn revision(base: &TreeReader, patch: &[u8]) -> Result<Arc<State>, String> {
    let applied = apply_patch(base, patch).map_err(|e| e.to_string())?;
    Ok(State::new(applied.changes, applied.log, Vec::new()))
}

/// Notes what an instance's environment was made of. That it can't be written is no reason to stop: a check then only
/// says less.
pub(super) fn remember(services: &Services, instance: &Instance, prepared: &Prepared, trees: &Trees) {
    let folders: Vec<&Path> =
        [Some(&trees.snapshot), trees.merged_snapshot.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect();
    let _ = services.environments.remember(instance.instance_id.folded(), prepared, &folders);
}

/// The environment that was given by hand for a commit, and the commit's day.
pub(super) fn by_hand(
    services: &Services,
    repository: &Repository,
    instance: &Instance,
    head: &str,
) -> Result<(Option<EnvironmentSpec>, jiff::civil::Date), Unavailable> {
    let in_range = |from: &str, to: &str| repository.is_in_range(head, from, to).map_err(|e| e.to_string());
    let overridden = services.overrides.find(&instance.repo, head, in_range);
    let overridden = overridden.map_err(|e| Unavailable::new(InfraReason::Environment, e.to_string()))?.cloned();
    Ok((overridden, repository.day(head).map_err(|e| of_repo(&e))?))
}

pub(super) fn interrupted() -> Unavailable {
    Unavailable::new(InfraReason::Interrupted, "the run was interrupted")
}

pub(super) fn disk(detail: &str) -> Unavailable {
    Unavailable::new(InfraReason::Disk, detail)
}

pub(super) fn of_repo(error: &RepoError) -> Unavailable {
    Unavailable::of_repo(error)
}

fn of_environment(error: &EnvironmentError, resolved: Option<&Resolved>) -> Unavailable {
    Unavailable::of_environment(error, resolved, "")
}

/// Runs blocking work on the runtime's own threads for it.
pub(super) async fn blocking<T, F>(work: F) -> Result<T, Unavailable>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Unavailable> + Send + 'static,
{
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Unavailable::new(InfraReason::Sandbox, format!("a task of ours broke: {e}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_others_is_not_believed_that_the_disk_is_full() {
        let roomy = std::env::temp_dir();
        let of = |class| Unavailable::new(class, "x: No space left on device").or_disk(&roomy).class;
        assert_eq!(of(InfraReason::Repository), InfraReason::Disk);
        assert_eq!(of(InfraReason::Sandbox), InfraReason::Disk);
        assert_eq!(of(InfraReason::Environment), InfraReason::Environment);
    }
}
