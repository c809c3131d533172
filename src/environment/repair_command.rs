//! A repairer that is a command: JSON on its standard input, JSON on its standard output, in the sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::repair::{Proposal, ProposalFuture, RepairRequest, Repairer, RepairerError};
use super::run::succeeded;
use crate::model::digest_bytes;
use crate::sandbox::{Limits, Mount, Network, Sandbox, Task};

/// Where the command's own file and what it is told lie inside.
const INSIDE: &str = "/repairer";

/// A repairer that is a command. It stands on what the failed recipe stands on (the host's system folders, or a base), and
/// has no network, no credentials, and of the host nothing else but its own file. It reads one [`RepairRequest`] from
/// standard input and prints one [`Proposal`].
pub struct CommandRepairer {
    command: String,
    sandbox: Arc<dyn Sandbox>,
    scratch: PathBuf,
    limits: Limits,
}

impl CommandRepairer {
    /// `command` is a line of shell. Where its first word is a file of the host, that is there inside. What the command
    /// is told lies below `scratch` while it runs.
    pub fn new(command: &str, sandbox: Arc<dyn Sandbox>, scratch: &Path, limits: Limits) -> Self {
        Self { command: command.to_owned(), sandbox, scratch: scratch.to_owned(), limits }
    }

    /// The command's own file, where it is one of the host.
    fn file(&self) -> Option<PathBuf> {
        let first = PathBuf::from(self.command.split_whitespace().next()?);
        (first.is_absolute() && first.is_file()).then_some(first)
    }

    async fn ask(&self, request: &RepairRequest, cancel: &CancellationToken) -> Result<Proposal, RepairerError> {
        let bad = |text: String| RepairerError(text);
        let root = request.root.clone();
        let folder = tempfile::Builder::new().prefix("repair-").tempdir_in(&self.scratch);
        let folder = folder.map_err(|e| bad(e.to_string()))?;
        let told = serde_json::to_vec_pretty(request).map_err(|e| bad(e.to_string()))?;
        fs_err::write(folder.path().join("request.json"), told).map_err(|e| bad(e.to_string()))?;
        // The command runs as another user.
        let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs_err::set_permissions(folder.path(), open(0o755)).map_err(|e| bad(e.to_string()))?;
        let request = folder.path().join("request.json");
        fs_err::set_permissions(&request, open(0o644)).map_err(|e| bad(e.to_string()))?;
        let mut mounts = vec![Mount::ReadOnly { source: request, target: format!("{INSIDE}/request.json").into() }];
        let mut command = self.command.clone();
        if let Some(file) = self.file() {
            let inside = format!("{INSIDE}/command");
            command = format!("{inside}{}", &command.trim_start()[file.as_os_str().len()..]);
            mounts.push(Mount::ReadOnly { source: file, target: inside.into() });
        }
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let task = Task {
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), format!("{{ {command}\n}} < {INSIDE}/request.json")],
            cwd: PathBuf::from("/tmp"),
            variables: BTreeMap::from([path]),
            root,
            mounts,
            limits: self.limits.clone(),
            network: Network::None,
            result_channel: false,
        };
        let exit = self.sandbox.run(&task, cancel).await.map_err(|e| bad(e.to_string()))?;
        if !succeeded(&exit) {
            let said = exit.stderr.text();
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
            let how = if exit.timed_out { "was stopped at its deadline" } else { "did not succeed" };
            return Err(bad(format!("`{}` {how}: {last}", self.command)));
        }
        serde_json::from_slice(&exit.stdout.bytes).map_err(|e| {
            bad(format!(
                "what `{}` printed is neither {{\"change\": {{…}}}} nor {{\"give-up\": \"why\"}}: {e}",
                self.command
            ))
        })
    }
}

impl Repairer for CommandRepairer {
    fn identity(&self) -> Value {
        let file = self.file().and_then(|file| fs_err::read(file).ok()).map(|bytes| digest_bytes(&bytes));
        json!({"command": self.command, "file": file})
    }

    fn propose<'a>(&'a self, request: &'a RepairRequest, cancel: &'a CancellationToken) -> ProposalFuture<'a> {
        Box::pin(self.ask(request, cancel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::failure::{Failure, Stage};
    use crate::environment::recorder::{Recorder, exit};
    use crate::environment::trouble::FailureKind;
    use crate::model::{EnvironmentSpec, InfraReason};
    use crate::sandbox::Root;

    #[tokio::test]
    async fn it_stands_on_what_the_recipe_stands_on() {
        let recorder = Recorder::answering(|_| Ok(exit(0, "{\"give-up\": \"no idea\"}")));
        let scratch = tempfile::tempdir().unwrap();
        let repairer = CommandRepairer::new("/bin/true", recorder.clone(), scratch.path(), Limits::default());
        let base = Root::Base { folder: Some("/b".into()), archive: None, image: None, digest: "d".to_owned() };
        for root in [Root::Host, base] {
            let request = RepairRequest {
                spec: EnvironmentSpec::plain("shell"),
                root: root.clone(),
                strategy: "s".to_owned(),
                failure: Failure::without_log(FailureKind::Other, Stage::Build, InfraReason::Environment, "it broke"),
                log_tail: String::new(),
                tried: Vec::new(),
            };
            let proposed = repairer.propose(&request, &CancellationToken::new()).await.unwrap();
            assert_eq!(proposed, Proposal::GiveUp("no idea".to_owned()));
            assert_eq!(recorder.tasks().pop().unwrap().root, root);
            // What it is told says nothing of folders of this machine.
            assert!(serde_json::to_value(&request).unwrap().get("root").is_none());
        }
    }
}
