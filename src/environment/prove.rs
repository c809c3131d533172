//! Running an environment's proofs: in the finished environment, on the head tree, as an oracle is run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::condition::all_hold;
use super::deadline::Deadline;
use super::error::{EnvironmentError, Phase};
use super::failure::{Failure, Stage};
use super::plan::Plan;
use super::prepare::{BuildSubject, Environments, Prepared};
use super::proof::{ProofDefinition, ProofKind};
use super::resolved::Resolved;
use super::run::{log_of, succeeded};
use super::trouble::FailureKind;
use crate::model::InfraReason;
use crate::sandbox::{Exit, Network, Task, WORKSPACE};

/// How many ids of tests are kept of each kind.
const IDS: usize = 500;

/// What one proof showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProofResult {
    /// What it shows.
    pub kind: ProofKind,
    /// Its name.
    pub name: String,
    /// Whether it holds.
    pub ok: bool,
    /// A sentence for people.
    #[serde(default)]
    pub detail: String,
    /// Sampled tests that pass, at most 500.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<String>,
    /// Sampled tests that fail, at most 500.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// What all proofs of an environment showed: up to the first that does not hold, in the order of [`ProofKind`].
#[derive(Debug, Clone, Default)]
pub struct Proven {
    /// What they showed.
    pub results: Vec<ProofResult>,
    /// What does not hold.
    pub failure: Option<Failure>,
}

/// The last line of a proof's output.
#[derive(Debug, Deserialize)]
struct Said {
    ok: bool,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    passed: Vec<String>,
    #[serde(default)]
    failed: Vec<String>,
}

impl Environments {
    /// Runs the proofs that apply to an environment, in order, until one does not hold.
    ///
    /// Never an error: what the machine did wrong is a [`Failure`], too.
    pub async fn prove(
        &self,
        resolved: &Resolved,
        subject: &BuildSubject,
        prepared: &Prepared,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Proven {
        let mut proven = Proven::default();
        let plan = match Plan::new(resolved, subject, self.sandbox.owner(), Vec::new()) {
            Ok(plan) => plan,
            Err(error) => {
                proven.failure = Some(Failure::of_error(&error, Some(&resolved.definition)));
                return proven;
            }
        };
        let facts = plan.facts();
        let mut proofs: Vec<&ProofDefinition> =
            resolved.definition.proofs.iter().filter(|proof| all_hold(&proof.when, facts)).collect();
        proofs.sort_by_key(|proof| proof.kind);
        for proof in proofs {
            progress(&format!("{}: {}", resolved.definition.name, proof.name));
            let ran = match self.proof_task(&plan, prepared, proof) {
                Ok(task) => self.run_reader(Phase::Proof, &proof.name, &task, progress, cancel).await,
                Err(error) => Err(error),
            };
            let (result, failure) = match ran {
                Ok(exit) => judge(resolved, proof, &exit),
                Err(error) => {
                    let failure = Failure { stage: proof.kind.into(), ..Failure::of_error(&error, None) };
                    (None, Some(failure))
                }
            };
            proven.results.extend(result);
            if failure.is_some() {
                proven.failure = failure;
                break;
            }
        }
        proven
    }

    /// Runs what only reads, a proof or a command that reads requirements, as steps are run: it gives signs of life, and
    /// what it says on a full disk counts for nothing.
    pub(super) async fn run_reader(
        &self,
        phase: Phase,
        name: &str,
        task: &Task,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Exit, EnvironmentError> {
        let deadline = Deadline::new(phase, task.limits.wall, cancel);
        self.runner(&deadline, progress).run(name, task).await
    }

    fn proof_task(
        &self,
        plan: &Plan<'_>,
        prepared: &Prepared,
        proof: &ProofDefinition,
    ) -> Result<Task, EnvironmentError> {
        let missing = |name| plan.missing(name, &proof.name);
        let values = plan.values();
        let mut variables = prepared.variables.clone();
        for (name, value) in &proof.variables {
            variables.insert(name.clone(), values.expand(value).map_err(missing)?);
        }
        let cwd = proof.cwd.as_deref().map(|cwd| values.expand(cwd)).transpose().map_err(missing)?;
        Ok(Task {
            argv: values.expand_all(&proof.argv).map_err(missing)?,
            cwd: PathBuf::from(cwd.unwrap_or_else(|| WORKSPACE.to_owned())),
            variables,
            root: prepared.root.clone(),
            mounts: prepared.mounts_over(&plan.subject.snapshot),
            limits: self.settings.proof_limits.clone(),
            network: Network::None,
            result_channel: false,
        })
    }
}

/// What one run of a proof shows.
fn judge(resolved: &Resolved, proof: &ProofDefinition, exit: &Exit) -> (Option<ProofResult>, Option<Failure>) {
    let log = log_of(exit);
    let failure = |kind: Option<FailureKind>, detail: String| {
        let mut failure = Failure::of_check(proof.kind, &proof.name, &detail, &log, &resolved.definition);
        if let Some(kind) = kind {
            failure.kind = kind;
            failure.lines = vec![detail];
        }
        failure
    };
    let seconds = exit.seconds;
    let broken = |kind, detail: String| {
        let result = ProofResult {
            kind: proof.kind,
            name: proof.name.clone(),
            ok: false,
            detail: detail.clone(),
            passed: Vec::new(),
            failed: Vec::new(),
            seconds,
        };
        (Some(result), Some(failure(kind, detail)))
    };
    if exit.timed_out {
        return broken(Some(FailureKind::Deadline), format!("`{}` was stopped at its deadline", proof.name));
    }
    if exit.out_of_memory {
        return broken(Some(FailureKind::Memory), format!("`{}` ran out of memory", proof.name));
    }
    let Some(said) = last_line(exit) else {
        return broken(None, String::new());
    };
    let ok = said.ok && succeeded(exit);
    let cut = |ids: Vec<String>| ids.into_iter().take(IDS).collect();
    let result = ProofResult {
        kind: proof.kind,
        name: proof.name.clone(),
        ok,
        detail: said.detail.clone(),
        passed: cut(said.passed),
        failed: cut(said.failed),
        seconds,
    };
    let failure = (!ok).then(|| failure(None, said.detail));
    (Some(result), failure)
}

/// The JSON of the last line of standard output.
fn last_line(exit: &Exit) -> Option<Said> {
    let text = String::from_utf8_lossy(&exit.stdout.bytes);
    serde_json::from_str(text.lines().rev().find(|line| !line.trim().is_empty())?).ok()
}

/// The failure of what somebody broke off.
pub(super) fn interrupted() -> Failure {
    Failure::without_log(FailureKind::Other, Stage::Detect, InfraReason::Interrupted, "interrupted")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::environment::recorder::{Recorder, Room, exit};
    use crate::model::EnvironmentSpec;

    #[tokio::test]
    async fn a_proof_is_watched_as_a_step_is() {
        let takes = Duration::from_millis(300);
        let recorder = Recorder::answering_after(takes, |_| Ok(exit(0, "{\"ok\": true, \"detail\": \"it runs\"}\n")));
        let room = Room::with(recorder.clone(), |settings| settings.heartbeat = Duration::from_millis(5));
        let (environments, never) = (&room.environments, CancellationToken::new());
        let resolved = environments.resolve(&EnvironmentSpec::plain("shell")).unwrap();
        let prepared = environments.prepare(&resolved, &room.subject, &|_| {}, &never).await.unwrap();
        let said = Mutex::new(Vec::new());
        let say = |text: &str| said.lock().unwrap().push(text.to_owned());
        let proven = environments.prove(&resolved, &room.subject, &prepared, &say, &never).await;
        assert!(proven.failure.is_none() && proven.results[0].ok, "{proven:?}");
        let said = said.into_inner().unwrap();
        assert!(said.iter().any(|line| line.starts_with("proof: the shell runs: ")), "{said:?}");
        // It sees the tree, copy-on-write.
        let task = &recorder.tasks()[0];
        assert_eq!(task.mounts[0].target(), std::path::Path::new(WORKSPACE));
        assert_eq!(task.mounts[0].sources(), std::slice::from_ref(&room.subject.snapshot));
    }
}
