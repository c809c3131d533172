//! Running a plan once: lay the test ready, rebuild, run, and try the environment itself where nothing came to life.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::fault;
use crate::sandbox::{COPY, End, Exit, Limits, Mount, Network, Root, Sandbox, Task, WORKSPACE};

use super::alive::shows_life;
use super::canary::{CanaryRun, Source};
use super::classify::passes_without_canary;
use super::error::RunError;
use super::framework::ResultKind;
use super::plan::{Placement, Plan};
use super::reporters::REPORTERS;
use super::{libtest, seal};

/// The time of a snapshot's files: 2000-01-01 00:00 UTC.
const TREE_TIME: Duration = Duration::from_secs(946_684_800);

/// Begins the names of variables that the reporter puts in place of others.
const LATE: &str = "REDGREEN_LATE_";

/// What a run stands on: one state of the repository in its environment.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// What is below everything else.
    pub root: Root,
    /// The toolchain and the dependency layers, mounted after the tree, as one of them may lie in it.
    pub mounts: Vec<Mount>,
    /// Layers of the tree, topmost first: the patch's, the build's, the snapshot.
    pub workspace: Vec<PathBuf>,
    /// Paths of the tree that the patch removes.
    pub remove: Vec<PathBuf>,
    /// The environment's variables.
    pub variables: BTreeMap<String, String>,
    /// The environment's programs: name to path inside (`python`, `node`, `cargo`, `sh`, …).
    pub tools: BTreeMap<String, String>,
    /// Shell commands that must run in the tree before an oracle does.
    pub rebuild: Vec<String>,
}

/// What one run left behind.
#[derive(Debug, Clone, Default)]
pub struct RunEvidence {
    /// How the rebuild ended; `None` when there was none to do.
    pub rebuild: Option<Exit>,
    /// How the oracle's own run ended; `None` when the rebuild did not get that far. The token is gone from it.
    pub exit: Option<Exit>,
    /// What is wrong with the seals of the result channel's lines, if anything.
    pub forged: Option<String>,
    /// The canary run of a cargo oracle that seems to pass.
    pub canary: Option<CanaryRun>,
    /// How the probe of the environment ended; `None` when the run showed a sign of life.
    pub probe: Option<Exit>,
}

impl RunEvidence {
    /// Wall-clock seconds of everything together.
    pub fn seconds(&self) -> f64 {
        let canary = self.canary.as_ref().map(|run| &run.exit);
        let exits = [self.rebuild.as_ref(), self.exit.as_ref(), self.probe.as_ref(), canary];
        exits.into_iter().flatten().map(|exit| exit.seconds).sum()
    }
}

/// The layer that a rebuild left behind, to be laid over the subject's tree. The folder is gone when this is dropped.
#[derive(Debug)]
pub struct Rebuilt {
    /// How it ended.
    pub exit: Exit,
    folder: TempDir,
}

impl Rebuilt {
    /// Whether it came to a good end.
    pub fn is_good(&self) -> bool {
        is_good(&self.exit)
    }

    /// `subject` with the rebuild done: the layer on top, and nothing more to rebuild or remove.
    pub fn over(&self, subject: &Subject) -> Subject {
        let mut subject = subject.clone();
        if self.exit.isolation.workspace == COPY {
            // A copy is the whole tree, without a mark for what is gone: below it that would come up again.
            subject.workspace.clear();
        }
        subject.workspace.insert(0, self.folder.path().to_owned());
        subject.rebuild.clear();
        subject.remove.clear(); // the layer holds what was removed, and what the rebuild made anew in its place
        subject
    }
}

/// Runs the subject's rebuild commands in a sandbox of their own. `None` when there are none. All runs on one state can
/// share the result ([`run_rebuilt`]). `scratch` is a folder of the host for the layer.
pub async fn rebuild(
    sandbox: &dyn Sandbox,
    subject: &Subject,
    limits: &Limits,
    scratch: &Path,
    cancel: &CancellationToken,
) -> Result<Option<Rebuilt>, RunError> {
    if subject.rebuild.is_empty() {
        return Ok(None);
    }
    let folder = fresh_folder(scratch, "rebuild-", sandbox.owner()).map_err(RunError::Staging)?;
    let shell = subject.tools.get("sh").cloned().unwrap_or_else(|| "/bin/sh".to_owned());
    // Each in a shell of its own: one that leaves or changes directory does not take the others along.
    let script = subject.rebuild.iter().map(|command| format!("(\n{command}\n)")).collect::<Vec<_>>().join(" && ");
    let mut mounts = vec![Mount::Overlay {
        lowers: subject.workspace.clone(),
        target: WORKSPACE.into(),
        upper: Some(folder.path().to_owned()),
        remove: subject.remove.clone(),
    }];
    mounts.extend(subject.mounts.iter().cloned());
    let task = Task {
        argv: vec![shell, "-c".to_owned(), script],
        cwd: WORKSPACE.into(),
        variables: subject.variables.clone(),
        root: subject.root.clone(),
        mounts,
        limits: limits.clone(),
        network: Network::None,
        result_channel: false,
    };
    let exit = sandbox.run(&task, cancel).await?;
    fault::point("oracle.rebuild.ended");
    Ok(Some(Rebuilt { exit, folder }))
}

/// Runs `plan` once in a fresh sandbox on `subject`. `scratch` is a folder of the host for what is laid ready; nothing
/// is left in it. An error means that the run did not come about; everything else is in the evidence.
pub async fn run_once(
    sandbox: &dyn Sandbox,
    subject: &Subject,
    plan: &Plan,
    limits: &Limits,
    scratch: &Path,
    cancel: &CancellationToken,
) -> Result<RunEvidence, RunError> {
    let rebuilt = rebuild(sandbox, subject, limits, scratch, cancel).await?;
    run_rebuilt(sandbox, subject, rebuilt.as_ref(), plan, limits, scratch, cancel).await
}

/// The same where `rebuilt` is what [`rebuild`] made of `subject`.
pub async fn run_rebuilt(
    sandbox: &dyn Sandbox,
    subject: &Subject,
    rebuilt: Option<&Rebuilt>,
    plan: &Plan,
    limits: &Limits,
    scratch: &Path,
    cancel: &CancellationToken,
) -> Result<RunEvidence, RunError> {
    let mut evidence = RunEvidence::default();
    let ready;
    let subject = match rebuilt {
        Some(rebuilt) => {
            evidence.rebuild = Some(rebuilt.exit.clone());
            if !rebuilt.is_good() {
                return Ok(evidence);
            }
            ready = rebuilt.over(subject);
            &ready
        }
        None => subject,
    };
    let staged = Staged::new(plan, subject, scratch, sandbox.owner()).map_err(RunError::Staging)?;
    let task = oracle_task(subject, plan, limits, &staged);
    let mut exit = sandbox.run(&task, cancel).await?;
    evidence.forged = seal::open(&mut exit, plan.result == ResultKind::Reporter);
    let may_be_missing = !exit.cancelled && !exit.timed_out && !exit.out_of_memory && !shows_life(plan, &exit);
    evidence.exit = Some(exit);
    fault::point("oracle.run.ended");
    if may_be_missing && !plan.probe.is_empty() {
        let probe = sandbox.run(&probe_task(subject, plan, limits), cancel).await?;
        evidence.probe = Some(probe);
    }
    if plan.result == ResultKind::Libtest && passes_without_canary(plan, &evidence) {
        let library = evidence.exit.as_ref().and_then(|exit| libtest::library(&exit.stdout.text()));
        let source = Source::draw(library.as_deref()).map_err(RunError::Staging)?;
        let file = fresh_folder(scratch, "canary-", sandbox.owner()).map_err(RunError::Staging)?;
        let plan = Plan { test: file.path().join("canary.rs"), ..plan.clone() };
        fs_err::write(&plan.test, &source.text).map_err(RunError::Staging)?;
        let staged = Staged::new(&plan, subject, scratch, sandbox.owner()).map_err(RunError::Staging)?;
        let mut exit = sandbox.run(&oracle_task(subject, &plan, limits, &staged), cancel).await?;
        seal::open(&mut exit, false);
        evidence.canary = Some(CanaryRun { exit, source });
    }
    Ok(evidence)
}

pub(super) fn is_good(exit: &Exit) -> bool {
    exit.end == End::Exited(0) && !exit.timed_out && !exit.out_of_memory && !exit.cancelled
}

fn oracle_task(subject: &Subject, plan: &Plan, limits: &Limits, staged: &Staged) -> Task {
    let mut lowers = subject.workspace.clone();
    let mut remove = subject.remove.clone();
    if let Placement::InTree { path } = &plan.placement {
        lowers.insert(0, staged.folder.path().to_owned());
        // What lay in the test's place is hidden already; removing it would take the test along.
        remove.retain(|removed| !Path::new(path).starts_with(removed));
    }
    // The tree first: an environment may mount something into it (`node_modules`).
    let mut mounts = vec![Mount::Overlay { lowers, target: WORKSPACE.into(), upper: None, remove }];
    mounts.extend(subject.mounts.iter().cloned());
    mounts.push(reporters_mount(plan));
    if let Placement::Outside { path } = &plan.placement {
        mounts.push(Mount::ReadOnly { source: staged.test.clone(), target: path.clone() });
    }
    Task {
        argv: plan.argv.clone(),
        cwd: plan.cwd.clone(),
        variables: variables(subject, plan),
        root: subject.root.clone(),
        mounts,
        limits: limits.clone(),
        network: Network::None,
        // What others print, they print where they like, and is read from there.
        result_channel: matches!(plan.result, ResultKind::Reporter | ResultKind::Junit),
    }
}

/// Whether a task is the oracle's own run, and neither a rebuild nor a look at the environment.
pub fn is_oracle_run(task: &Task) -> bool {
    let has = |path: &str| task.mounts.iter().any(|mount| mount.target() == Path::new(path));
    has(REPORTERS) && has(WORKSPACE)
}

/// The environment alone: nothing of the revision is in reach, so it has no part in the answer.
fn probe_task(subject: &Subject, plan: &Plan, limits: &Limits) -> Task {
    let mut mounts = subject.mounts.clone();
    mounts.push(reporters_mount(plan));
    Task {
        argv: plan.probe.clone(),
        cwd: "/".into(),
        variables: variables(subject, plan),
        root: subject.root.clone(),
        mounts,
        limits: Limits { wall: limits.wall.max(Duration::from_secs(60)), ..limits.clone() },
        network: Network::None,
        result_channel: false,
    }
}

fn reporters_mount(plan: &Plan) -> Mount {
    Mount::ReadOnly { source: plan.reporters.clone(), target: REPORTERS.into() }
}

fn variables(subject: &Subject, plan: &Plan) -> BTreeMap<String, String> {
    let mut all = plan.defaults.clone();
    all.extend(subject.variables.clone());
    all.extend(plan.variables.clone());
    for name in &plan.late {
        keep_late(&mut all, name);
    }
    all
}

/// Takes the folders of the tree out of the list `name`, and gives the whole list as another variable. An interpreter
/// looks for its own start along such lists, and what it found in the tree would run before the reporter.
fn keep_late(variables: &mut BTreeMap<String, String>, name: &str) {
    let Some(list) = variables.get(name).cloned() else { return };
    let outside = |entry: &&str| entry.starts_with('/') && !Path::new(entry).starts_with(WORKSPACE);
    let early: Vec<&str> = list.split(':').filter(outside).collect();
    let early = early.join(":");
    if early == list {
        return;
    }
    if early.is_empty() {
        variables.remove(name);
    } else {
        variables.insert(name.to_owned(), early);
    }
    variables.insert(format!("{LATE}{name}"), list);
}

/// A copy of the test that the sandbox's user can read. For a test in the tree its folder is a layer of the tree, and
/// not a mount: whatever a revision has put in the test's place, be it a symlink on the way, is hidden by it.
struct Staged {
    folder: TempDir,
    test: PathBuf,
}

impl Staged {
    fn new(plan: &Plan, subject: &Subject, scratch: &Path, owner: (u32, u32)) -> io::Result<Self> {
        let folder = fresh_folder(scratch, "test-", owner)?;
        let relative = match &plan.placement {
            Placement::InTree { path } => Path::new(path),
            Placement::Outside { path } => path.file_name().map_or(path.as_path(), Path::new),
        };
        let mut at = folder.path().to_owned();
        let mut parts = relative.iter().peekable();
        while let Some(part) = parts.next() {
            at.push(part);
            let is_file = parts.peek().is_none();
            if is_file {
                fs_err::copy(&plan.test, &at)?;
            } else {
                fs_err::create_dir(&at)?;
            }
            let executable = fs_err::metadata(&at)?.permissions().mode() & 0o111 != 0;
            let mode = if executable || !is_file { 0o755 } else { 0o644 };
            fs_err::set_permissions(&at, std::fs::Permissions::from_mode(mode))?;
            give(&at, owner)?;
        }
        if !subject.workspace.iter().any(|layer| layer.join(relative).symlink_metadata().is_ok()) {
            // A file that is new to the tree can't be in any cache. Dated like the tree, it does not make cargo run the
            // package's build script, and then compile everything, again; in another test's place it must be newer.
            fs_err::File::open(&at)?.into_parts().0.set_modified(SystemTime::UNIX_EPOCH + TREE_TIME)?;
        }
        fault::point("oracle.test.staged");
        Ok(Self { folder, test: at })
    }
}

fn fresh_folder(scratch: &Path, prefix: &str, owner: (u32, u32)) -> io::Result<TempDir> {
    fs_err::create_dir_all(scratch)?;
    let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(scratch)?;
    fs_err::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
    give(folder.path(), owner)?;
    fault::point("oracle.folder.made");
    Ok(folder)
}

fn give(path: &Path, (user, group): (u32, u32)) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let now = fs_err::metadata(path)?;
    if (now.uid(), now.gid()) == (user, group) { Ok(()) } else { chown(path, Some(user), Some(group)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_tree_are_kept_from_the_interpreters_start() {
        for (list, early) in [
            ("/env/start:/workspace:/workspace/src:/opt", Some("/env/start:/opt")),
            ("/workspace", None),
            ("src:/env/start", Some("/env/start")), // relative to the tree
            (":/env/start:", Some("/env/start")),   // an empty entry is the current folder
            ("/workspace-tools:/env/start", Some("/workspace-tools:/env/start")),
        ] {
            let mut variables = BTreeMap::from([("PATHS".to_owned(), list.to_owned())]);
            keep_late(&mut variables, "PATHS");
            assert_eq!(variables.get("PATHS").map(String::as_str), early, "{list}");
            let late = (early != Some(list)).then_some(list);
            assert_eq!(variables.get("REDGREEN_LATE_PATHS").map(String::as_str), late, "{list}");
        }
        let mut none = BTreeMap::new();
        keep_late(&mut none, "PATHS");
        assert!(none.is_empty());
    }
}
