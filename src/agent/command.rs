//! An agent that is a program: it runs in the sandbox, in a tree of its own, without network.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError, AgentFuture, AgentJob, AgentStatus, AgentWork, Captured, captured};
use crate::model::{InfraReason, digest_bytes};
use crate::sandbox::{End, Exit, Limits, Mount, Network, Root, Sandbox, Task, WORKSPACE};

/// Where the command's own file and its prompt lie inside.
const INSIDE: &str = "/agent";

/// How much of an output is kept, in bytes.
const KEPT: usize = 20_000;

/// A program as an agent. It has the host's system folders to run on, its work tree at `/workspace`, the prompt as a
/// file, and of the host nothing else but its own file: no network, no keys.
pub struct CommandAgent {
    name: String,
    command: String,
    sandbox: Arc<dyn Sandbox>,
    scratch: PathBuf,
    limits: Limits,
}

impl CommandAgent {
    /// `command` is a line of shell, in which `{prompt_file}` and `{repo}` become the prompt's file and the tree inside.
    /// Where its first word is a file of the host, that is there inside. The prompt lies below `scratch` while it runs.
    pub fn new(name: &str, command: &str, sandbox: Arc<dyn Sandbox>, scratch: PathBuf, limits: Limits) -> Self {
        Self { name: name.to_owned(), command: command.to_owned(), sandbox, scratch, limits }
    }

    /// The command's own file, where it is one of the host.
    fn file(&self) -> Option<PathBuf> {
        let first = PathBuf::from(self.command.split_whitespace().next()?);
        (first.is_absolute() && first.is_file()).then_some(first)
    }

    async fn attempt(&self, job: &AgentJob<'_>, cancel: &CancellationToken) -> Result<AgentWork, AgentError> {
        let infra = |class, detail: String| AgentError { class, detail };
        let disk = |e: std::io::Error| infra(InfraReason::Disk, e.to_string());
        let (Some(tree), Some(repository)) = (job.tree, job.repository) else {
            return Err(infra(InfraReason::Repository, "the agent was given no work tree".to_owned()));
        };
        let folder = tempfile::Builder::new().prefix("prompt-").tempdir_in(&self.scratch).map_err(disk)?;
        let prompt = folder.path().join("prompt.txt");
        fs_err::write(&prompt, job.prompt).map_err(disk)?;
        // The command runs as another user.
        let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs_err::set_permissions(folder.path(), open(0o755)).map_err(disk)?;
        fs_err::set_permissions(&prompt, open(0o644)).map_err(disk)?;
        let inside = format!("{INSIDE}/prompt.txt");
        let mut mounts = vec![
            Mount::ReadWrite { source: tree.to_owned(), target: WORKSPACE.into() },
            Mount::ReadOnly { source: prompt, target: inside.clone().into() },
        ];
        let mut command = self.command.trim_start().to_owned();
        if let Some(file) = self.file() {
            let own = format!("{INSIDE}/command");
            command = format!("{own}{}", &command[file.as_os_str().len()..]);
            mounts.push(Mount::ReadOnly { source: file, target: own.into() });
        }
        let command = command.replace("{prompt_file}", &inside).replace("{repo}", WORKSPACE);
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let attempt = ("REDGREEN_ATTEMPT".to_owned(), job.attempt.to_string());
        let told = ("REDGREEN_PROMPT".to_owned(), inside.clone());
        let task = Task {
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), command],
            cwd: WORKSPACE.into(),
            variables: BTreeMap::from([path, attempt, told]),
            root: Root::Host,
            mounts,
            limits: self.limits.clone(),
            network: Network::None,
            result_channel: false,
        };
        let exit =
            self.sandbox.run(&task, cancel).await.map_err(|e| {
                infra(if e.is_disk() { InfraReason::Disk } else { InfraReason::Sandbox }, e.to_string())
            })?;
        if exit.cancelled {
            return Err(infra(InfraReason::Interrupted, "the run was interrupted".to_owned()));
        }
        let (repository, head, tree) = (repository.clone(), job.instance.head_commit().to_owned(), tree.to_owned());
        let captured = tokio::task::spawn_blocking(move || captured(&repository, &head, &tree)).await;
        let captured = captured.map_err(|e| infra(InfraReason::Sandbox, format!("a task of ours broke: {e}")))?;
        let (patch, unfit) = match captured {
            Ok(Captured::Patch(patch)) => (patch, None),
            Ok(Captured::NoText(why)) => (String::new(), Some(why)),
            Err(error) if error.is_infra() => return Err(AgentError::of_repo(&error)),
            Err(error) => (String::new(), Some(error.to_string())),
        };
        Ok(AgentWork {
            status: status(&exit, unfit, patch.is_empty()),
            patch,
            usage: Value::Null,
            seconds: exit.seconds,
            trajectory: json!({"stdout": tail(&exit.stdout.text()), "stderr": tail(&exit.stderr.text())}),
        })
    }
}

fn status(exit: &Exit, unfit: Option<String>, is_empty: bool) -> AgentStatus {
    if exit.timed_out {
        return AgentStatus::TimedOut;
    }
    if exit.out_of_memory {
        return AgentStatus::Failed("it was out of memory".to_owned());
    }
    match (exit.end, unfit) {
        (End::Exited(0), None) if is_empty => AgentStatus::NoChanges,
        (End::Exited(0), None) => AgentStatus::Done,
        (End::Exited(0), Some(why)) => AgentStatus::Failed(why),
        (End::Exited(code), _) => {
            let said = exit.stderr.text();
            let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            AgentStatus::Failed(format!("exit code {code}: {last}"))
        }
        (End::Signaled(signal), _) => AgentStatus::Failed(format!("it was ended by signal {signal}")),
    }
}

fn tail(text: &str) -> String {
    let mut start = text.len().saturating_sub(KEPT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}

impl Agent for CommandAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self, job: &AgentJob<'_>) -> Value {
        let file = self.file().and_then(|file| fs_err::read(file).ok()).map(|bytes| digest_bytes(&bytes));
        json!({
            "kind": "command", "name": self.name, "command": self.command, "file": file, "limits": self.limits,
            "isolation": self.sandbox.isolation(), "attempt": job.attempt,
        })
    }

    fn work<'a>(&'a self, job: &'a AgentJob<'a>, cancel: &'a CancellationToken) -> AgentFuture<'a> {
        Box::pin(self.attempt(job, cancel))
    }
}
