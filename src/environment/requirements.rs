//! What a project wants, read out of its head tree by commands in a sandbox without network.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::error::{EnvironmentError, Phase};
use super::failure::{Failure, Stage};
use super::plan::Plan;
use super::prepare::{BuildSubject, Environments};
use super::resolved::Resolved;
use super::run::{log_of, succeeded};
use super::strategy::RequirementsDefinition;
use super::trouble::FailureKind;
use crate::model::InfraReason;
use crate::sandbox::{Mount, Network, Task, WORKSPACE};

/// What one command found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Wanted {
    /// Requirements in the language's syntax.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Packages of the system.
    #[serde(default)]
    pub system_packages: Vec<String>,
    /// What there is to say of it.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Environments {
    /// Runs one `[[requirements]]` command on the head tree. The toolchain is there, and no layer.
    pub(super) async fn wanted(
        &self,
        resolved: &Resolved,
        subject: &BuildSubject,
        definition: &RequirementsDefinition,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Wanted, Failure> {
        let of_error = |error: EnvironmentError| Failure {
            stage: Stage::Requirements,
            ..Failure::of_error(&error, Some(&resolved.definition))
        };
        let plan = Plan::new(resolved, subject, self.sandbox.owner(), Vec::new()).map_err(of_error)?;
        let argv =
            plan.values().expand_all(&definition.argv).map_err(|n| of_error(plan.missing(n, &definition.name)))?;
        let mut mounts = resolved.toolchain_mounts();
        mounts.push(Mount::Overlay {
            lowers: vec![subject.snapshot.clone()],
            target: PathBuf::from(WORKSPACE),
            upper: None,
            remove: Vec::new(),
        });
        let variables: BTreeMap<String, String> = plan.base_variables();
        let task = Task {
            argv,
            cwd: PathBuf::from(WORKSPACE),
            variables,
            root: resolved.root.clone(),
            mounts,
            limits: self.settings.proof_limits.clone(),
            network: Network::None,
            result_channel: false,
        };
        let exit = self.run_reader(Phase::Requirements, &definition.name, &task, progress, cancel).await;
        let exit = exit.map_err(of_error)?;
        let text = exit.stdout.text();
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let said = serde_json::from_str(last).map_err(|error| format!("its last line is no answer: {error}"));
        match said {
            Ok(wanted) if succeeded(&exit) => Ok(wanted),
            other => {
                let why = other.err().unwrap_or_else(|| "it did not succeed".to_owned());
                let detail = format!("reading what the project wants, `{}`: {why}", definition.name);
                let kind = if exit.timed_out { FailureKind::Deadline } else { FailureKind::Other };
                Err(Failure {
                    kind,
                    stage: Stage::Requirements,
                    step: definition.name.clone(),
                    lines: vec![detail.clone()],
                    detail,
                    reason: InfraReason::Environment,
                    log: log_of(&exit),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::environment::recorder::{Recorder, Room, exit};
    use crate::model::EnvironmentSpec;
    use crate::sandbox::Root;

    #[tokio::test]
    async fn on_a_base_nothing_of_the_host_is_mounted_but_the_tree() {
        let recorder = Recorder::answering(|_| Ok(exit(0, "{\"packages\": [\"six\"]}\n")));
        let room = Room::of(recorder.clone());
        let mut resolved = room.environments.resolve(&EnvironmentSpec::plain("shell")).unwrap();
        let mut toolchain = (*resolved.toolchain).clone();
        toolchain.roots = vec!["/opt/of-the-base".into()];
        resolved.toolchain = Arc::new(toolchain);
        let read = RequirementsDefinition { name: "read".to_owned(), argv: vec!["read".to_owned()] };
        let never = CancellationToken::new();
        for on_base in [false, true] {
            if on_base {
                resolved.root = Root::Base { folder: None, archive: None, image: None, digest: "d".to_owned() };
            }
            let wanted = room.environments.wanted(&resolved, &room.subject, &read, &|_| {}, &never).await.unwrap();
            assert_eq!(wanted.packages, ["six"]);
            let task = recorder.tasks().pop().unwrap();
            let mounted: Vec<_> = task.mounts.iter().map(|mount| mount.target().to_owned()).collect();
            let of_host = [PathBuf::from("/opt/of-the-base"), PathBuf::from(WORKSPACE)];
            assert_eq!(mounted, if on_base { &of_host[1..] } else { &of_host[..] });
            assert_eq!(task.root, resolved.root);
        }
    }
}
