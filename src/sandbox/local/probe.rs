//! Which level of isolation works here, found out by doing it.
//!
//! Kernel settings, distributions' patches and surrounding containers decide in too many ways; what they say is not
//! asked. An overlay, `/proc`, all namespaces, the cgroup and a command either work or do not.

use std::collections::BTreeMap;
use std::path::Path;

use fs_err as fs;

use super::cgroup::{self, Plan};
use super::config::LocalConfig;
use super::identity::Identity;
use super::local_sandbox::exit;
use super::protocol::{Job, Privilege, ROOT_MODE_ID};
use super::run;
use crate::sandbox::{End, Isolation, Limits, Mount, Network, Root, Task, WORKSPACE};

/// What one level gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// `full` or `userns`.
    pub level: String,
    /// Whether commands can run at this level.
    pub ok: bool,
    /// What was in force in the trial, or why it failed.
    pub outcome: Result<Isolation, String>,
}

/// A way to run that might work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub privilege: Privilege,
    pub owner: (u32, u32),
    pub cgroup: Option<Plan>,
}

impl Setting {
    /// The level's name.
    pub fn level(&self) -> &'static str {
        if self.cgroup.is_some() { "full" } else { "userns" }
    }
}

/// The ways to run, best first.
pub fn settings(config: &LocalConfig, identity: &Identity) -> Vec<Setting> {
    let (privilege, owner) = privilege();
    let cgroup = if config.cgroup { cgroup::find(&identity.name()).ok() } else { None };
    let with = |cgroup| Setting { privilege, owner, cgroup };
    cgroup.map(|plan| with(Some(plan))).into_iter().chain([with(None)]).collect()
}

/// With whose rights to run: root's when we are, the caller's otherwise.
fn privilege() -> (Privilege, (u32, u32)) {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if uid == 0 { (Privilege::Root, (ROOT_MODE_ID, ROOT_MODE_ID)) } else { (Privilege::User, (uid, gid)) }
}

/// Runs a command with an overlay, without network; what was in force, or why it failed.
pub fn try_setting(config: &LocalConfig, identity: &Identity, setting: &Setting) -> Result<Isolation, String> {
    fs::create_dir_all(&config.scratch_dir).map_err(|error| error.to_string())?;
    let lower = tempfile::Builder::new()
        .prefix("redgreen-probe-")
        .tempdir_in(&config.scratch_dir)
        .map_err(|error| format!("no directory could be made in `{}`: {error}", config.scratch_dir.display()))?;
    let job = Job {
        task: task(lower.path()),
        privilege: setting.privilege,
        owner: setting.owner,
        cgroup: setting.cgroup.clone(),
        name: identity.name(),
        copy_workspace: config.copy_workspace,
        streams: super::protocol::Streams::Captured,
    };
    // Held until the run ended, so that nothing cancels it.
    let (wake, _asleep) = run::wake_pipe().map_err(|error| error.to_string())?;
    let ran = run::run(&config.helper, &job, &wake, run::Ends::default())
        .and_then(|ran| exit(&job, ran))
        .map_err(|error| error.to_string())?;
    if ran.end == End::Exited(0) {
        Ok(ran.isolation)
    } else {
        Err(format!("a trial command ended with {:?} {}", ran.end, ran.stderr.text().trim()))
    }
}

fn task(lower: &Path) -> Task {
    Task {
        argv: vec!["true".to_owned()],
        cwd: WORKSPACE.into(),
        variables: BTreeMap::new(),
        root: Root::default(),
        mounts: vec![Mount::Overlay {
            lowers: vec![lower.to_path_buf()],
            target: WORKSPACE.into(),
            upper: None,
            remove: Vec::new(),
        }],
        limits: Limits::default(),
        network: Network::None,
        result_channel: false,
    }
}

/// Tries every level.
pub fn all(config: &LocalConfig) -> Vec<ProbeResult> {
    let Some(identity) = Identity::own() else {
        return vec![failed("userns", "`/proc` is not mounted".to_owned())];
    };
    let mut results = Vec::new();
    let (privilege, owner) = privilege();
    match cgroup::find(&identity.name()) {
        Ok(plan) => results.push(result(config, &identity, &Setting { privilege, owner, cgroup: Some(plan) })),
        Err(reason) => results.push(failed("full", reason)),
    }
    results.push(result(config, &identity, &Setting { privilege, owner, cgroup: None }));
    results
}

fn result(config: &LocalConfig, identity: &Identity, setting: &Setting) -> ProbeResult {
    let outcome = try_setting(config, identity, setting);
    ProbeResult { level: setting.level().to_owned(), ok: outcome.is_ok(), outcome }
}

fn failed(level: &str, reason: String) -> ProbeResult {
    ProbeResult { level: level.to_owned(), ok: false, outcome: Err(reason) }
}
