//! Oracle runs on states of the code that no plan knows, made and recorded as scoring makes and records them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::held;
use super::instance::InstanceJob;
use super::prepare::{Ready, Unavailable, blocking, of_repo, prepare};
use super::record::{OracleRecord, STAGE};
use super::run::{ScoreError, Services, Settings, Shared, Summary, close_after, guarded};
use super::runner::{Bound, Made as MadeRun, run_state};
use super::state::State;
use crate::engine::{Breaker, Event, Events, Scheduler, TaskId};
use crate::model::{Arm, CommentId, InfraReason, Instance, MergedKind};
use crate::oracle::{Plan, Policy, TestId};
use crate::repo::{BaseTree, Change, ChangeSet, FileContent, RepoError, TreePath, TreeReader};
use crate::store::RunFolder;

/// A place where instances are opened and oracles run on any state of their code.
#[derive(Clone)]
pub struct Workbench {
    shared: Arc<Shared>,
}

/// An instance that is ready, with the contents that variants are made of.
pub struct Opened {
    shared: Arc<Shared>,
    job: Arc<InstanceJob>,
    ready: Arc<Ready>,
    /// The files of the commit to review that the merged change or a comment is about.
    pub files: BTreeMap<TreePath, FileContent>,
    /// What changes from the commit to review to the commit that the pull request began from; none where that is not known.
    pub base: Option<ChangeSet>,
    /// The files at the merged change's paths just before it landed on the main branch; none where it did not, or that is
    /// not known.
    pub before: Option<BTreeMap<TreePath, FileContent>>,
}

/// An oracle that is ready to run.
pub struct Fitted(Bound);

/// A state of the code. Runs on the same one share what was laid out and rebuilt for it.
#[derive(Clone)]
pub struct Code(Arc<State>);

/// What came of a run.
pub enum Made {
    /// It is on record.
    Recorded(Box<OracleRecord>),
    /// It says nothing, and is tried again by the next run.
    Infra(Unavailable),
}

impl Workbench {
    /// Over a run folder, for so many instances. Repeats of the settings do not count.
    pub fn new(
        (bench_root, instances): (PathBuf, usize),
        settings: Settings,
        services: Services,
        scheduler: Scheduler,
        events: Events,
        run: RunFolder,
    ) -> Self {
        let scheduler = guarded(scheduler, &settings.disk, &services.cache, run.root(), &events);
        let breaker = Breaker::new(settings.bounds.same_infra, instances);
        let alone = Shared::alone(bench_root, settings, services, scheduler, events, run);
        Self { shared: Arc::new(Shared { breaker, ..alone }) }
    }

    /// Lets the run's budget begin, where it has one; what is given back ends it.
    pub fn begin(&self) -> Option<tokio::task::AbortHandle> {
        let budget = self.shared.settings.bounds.run_budget?;
        let closing = close_after(budget, self.shared.scheduler.clone(), self.shared.events.clone());
        Some(tokio::spawn(closing).abort_handle())
    }

    /// Makes an instance ready: repository, trees, environment.
    ///
    /// # Errors
    /// When it cannot be run here.
    pub async fn open(&self, instance: &Instance, comments: &[CommentId]) -> Result<Opened, Unavailable> {
        let shared = self.shared.clone();
        if shared.scheduler.is_stopping() {
            return Err(shared.not_started());
        }
        let job = Arc::new(InstanceJob {
            instance: instance.clone(),
            comments: comments.to_vec(),
            revisions: Vec::new(),
            missing: Vec::new(),
        });
        let ready = Arc::new(prepare(&shared, &job).await.map_err(|why| why.or_disk(&shared.services.cache))?);
        let mut paths: Vec<TreePath> = ready.merged.iter().flat_map(|state| state.changes.paths().cloned()).collect();
        let commented = comments.iter().filter_map(|id| instance.comment(id)).map(|comment| comment.path.as_str());
        paths.extend(commented.filter_map(|path| TreePath::new(path).ok()));
        let (files, base, before) = {
            let (shared, job) = (shared.clone(), job.clone());
            blocking(move || contents(&shared.services, &job.instance, &paths)).await?
        };
        Ok(Opened { shared, job, ready, files, base, before })
    }

    /// Whether the work is being stopped.
    pub fn is_stopping(&self) -> bool {
        self.shared.scheduler.is_stopping()
    }

    /// Counts one more thing that ended as infra.
    pub fn note_infra(&self, why: &Unavailable) {
        self.shared.counters.infra(why.class, &why.detail, None);
    }

    /// Numbers of all runs so far.
    pub fn summary(&self) -> Summary {
        self.shared.counters.summary(self.shared.scheduler.is_interrupted())
    }

    /// The run folder.
    pub fn run_folder(&self) -> &RunFolder {
        &self.shared.run
    }

    /// Sends an event.
    pub fn send(&self, event: Event) {
        self.shared.events.send(event);
    }
}

type Files = BTreeMap<TreePath, FileContent>;

/// The contents of some files of the commit to review, the way to the base, and the files before the merged commit.
fn contents(
    services: &Services,
    instance: &Instance,
    paths: &[TreePath],
) -> Result<(Files, Option<ChangeSet>, Option<Files>), Unavailable> {
    let (repository, _held) = held::repository(services, &services.repositories, &instance.repo)?;
    let head = repository.resolve(instance.head_commit()).map_err(|e| of_repo(&e))?;
    let tree = repository.tree_of(&head).map_err(|e| of_repo(&e))?;
    let read = |tree: &TreeReader| {
        let mut files = BTreeMap::new();
        for path in paths {
            if let Some(file) = tree.read(path)? {
                files.insert(path.clone(), file);
            }
        }
        Ok::<_, RepoError>(files)
    };
    let files = read(&tree).map_err(|e| of_repo(&e))?;
    // The last commit of a branch came after other commits of the branch, which are no base.
    let on_main = matches!(instance.merged_kind, MergedKind::Merge | MergedKind::Squash);
    let merged = instance.merged_commit.as_deref().filter(|_| on_main);
    // A base that the mirror lacks is one control less, and no reason to stop.
    let base = repository.fork_point(&head, instance.base_commit.as_deref(), merged).ok().flatten();
    let base = base.and_then(|base| repository.changes_between(&head, &base).ok());
    let before = merged.and_then(|merged| repository.first_parent(merged).ok().flatten());
    let before = before.and_then(|before| read(&repository.tree_of(&before).ok()?).ok());
    Ok((files, base.filter(|changes| !changes.is_empty()), before))
}

impl Opened {
    /// The merged change; none where no merged commit is known.
    pub fn merged(&self) -> Option<&ChangeSet> {
        self.ready.merged.as_ref().map(|state| &state.changes)
    }

    /// The files where the pull request began, at the paths of [`Opened::files`]; none where that is not known.
    pub fn base_files(&self) -> Option<BTreeMap<TreePath, FileContent>> {
        let base = self.base.as_ref()?;
        let mut files = self.files.clone();
        for (path, change) in &base.changes {
            match change {
                Change::Write(file) => files.insert(path.clone(), file.clone()),
                Change::Remove => files.remove(path),
            };
        }
        Some(files)
    }

    /// A state of the code: the commit to review with these changes.
    pub fn code(&self, changes: ChangeSet) -> Code {
        Code(State::new(changes, Vec::new(), Vec::new()))
    }

    /// A comment's oracle, under a policy.
    ///
    /// # Errors
    /// When it cannot be run here.
    pub fn oracle(&self, comment: &CommentId, policy: Policy) -> Result<Fitted, Unavailable> {
        Bound::under(&self.shared, &self.job, &self.ready, comment, policy).map(Fitted)
    }

    /// Serves a run from its record, or makes it. `name` says to people what the code is, `repeat` counts from 1.
    ///
    /// # Errors
    /// When the run folder cannot be written.
    pub async fn run(
        &self,
        oracle: &Fitted,
        code: &Code,
        expected: Option<&[TestId]>,
        name: &str,
        repeat: u32,
    ) -> Result<Made, ScoreError> {
        let task = TaskId {
            instance_id: self.job.instance.instance_id.clone(),
            comment: oracle.0.comment().clone(),
            arm: Arm::new(name),
            attempt: 1,
            repeat,
            with_head_configuration: false,
        };
        let made = match run_state(&self.shared, &self.ready, &oracle.0, &code.0, expected, task).await? {
            MadeRun::Infra(why) => why,
            MadeRun::Recorded(served) => match self.shared.run.record::<OracleRecord>(STAGE, &served.key)? {
                Some(record) => return Ok(Made::Recorded(Box::new(record))),
                None => Unavailable::new(InfraReason::Disk, "a record went while it was read"),
            },
        };
        self.shared.counters.infra(made.class, &made.detail, None);
        Ok(Made::Infra(made))
    }
}

impl Fitted {
    /// How the oracle is run.
    pub fn plan(&self) -> &Plan {
        self.0.plan()
    }

    /// The same oracle, run by another plan.
    #[must_use]
    pub fn with_plan(&self, plan: Plan) -> Self {
        Self(self.0.with_plan(plan))
    }

    /// Outcome classes that the oracle declares as failing before the fix.
    pub fn before(&self) -> &[String] {
        self.0.before()
    }
}
