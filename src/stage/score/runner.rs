//! One oracle run: its key, its record, its evidence, and trying again after infrastructure failures.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::instance::InstanceJob;
use super::met::{Budget, Met};
use super::prepare::{Ready, Unavailable, disk, interrupted};
use super::record::{OracleRecord, RECORD_SCHEMA, STAGE, Served};
use super::run::{InfraCause, ScoreError, Shared, Summary};
use super::state::State;
use crate::engine::{Event, TaskId, time};
use crate::model::{CommentId, Digest, InfraReason, Oracle, Outcome, digest_bytes, digest_json};
use crate::oracle::{self, Classified, Plan, Policy, Reporters, RunEvidence, TestConfiguration, TestId};
use crate::repo::TreePath;
use crate::sandbox::{End, Exit, Limits};

/// Numbers of a run.
#[derive(Debug, Default)]
pub(super) struct Counters {
    made: AtomicU64,
    cached: AtomicU64,
    reasons: Mutex<BTreeMap<InfraCause, u64>>,
    recorded: Mutex<HashSet<Digest>>,
    again: Mutex<BTreeMap<String, u64>>,
}

impl Counters {
    pub(super) fn infra(&self, class: InfraReason, detail: &str, log: Option<&Digest>) {
        if class == InfraReason::Interrupted {
            return;
        }
        if let Ok(mut reasons) = self.reasons.lock() {
            let cause = InfraCause { class: class.as_str(), detail: detail.to_owned(), log: log.cloned() };
            *reasons.entry(cause).or_default() += 1;
        }
    }

    pub(super) fn summary(&self, interrupted: bool) -> Summary {
        let infra_reasons = self.reasons.lock().map(|r| r.clone()).unwrap_or_default();
        Summary {
            made: self.made.load(Ordering::Relaxed),
            cached: self.cached.load(Ordering::Relaxed),
            infra: infra_reasons.values().sum(),
            infra_reasons,
            interrupted,
            again: self.again.lock().map(|again| again.clone()).unwrap_or_default(),
            ..Summary::default()
        }
    }

    /// One run is made again, for this reason.
    pub(super) fn again(&self, reason: String) {
        if let Ok(mut again) = self.again.lock() {
            *again.entry(reason).or_default() += 1;
        }
    }
}

/// An oracle bound to an instance that is ready: how it is run, and the part of its key that is the same for all states.
pub(super) struct Bound {
    oracle: Oracle,
    plan: Plan,
    configuration: TestConfiguration,
    key: Value,
}

impl Bound {
    pub(super) fn new(
        shared: &Shared,
        job: &InstanceJob,
        ready: &Ready,
        comment: &CommentId,
    ) -> Result<Self, Unavailable> {
        Self::under(shared, job, ready, comment, shared.settings.policy)
    }

    /// The same under another policy than the run's.
    pub(super) fn under(
        shared: &Shared,
        job: &InstanceJob,
        ready: &Ready,
        comment: &CommentId,
        policy: Policy,
    ) -> Result<Self, Unavailable> {
        let environment = |detail: String| Unavailable::new(InfraReason::Environment, detail);
        let oracle = job
            .instance
            .oracle(comment)
            .cloned()
            .ok_or_else(|| environment(format!("comment {comment} has no oracle")))?;
        let test = shared.bench_root.join(&oracle.test);
        let bytes = fs_err::read(&test).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => environment(format!(
                "the benchmark has no test `{}` for comment {comment}; `redgreen check` names all that is missing",
                oracle.test
            )),
            _ => disk(&e.to_string()),
        })?;
        let settings = &shared.settings;
        let plan = oracle::plan(
            &oracle,
            &test,
            &shared.services.frameworks,
            &shared.services.reporters,
            &ready.environment.tools,
            policy,
        )
        .map_err(|e| Unavailable::new(e.infra().unwrap_or(InfraReason::Environment), e.to_string()))?;
        let configuration = shared
            .services
            .frameworks
            .test_configuration(oracle.framework, !oracle.command.is_empty())
            .map_err(|e| environment(e.to_string()))?;
        let framework = shared.services.frameworks.digest(oracle.framework).map_err(|e| environment(e.to_string()))?;
        let limits = &settings.limits;
        let key = json!({
            "schema": RECORD_SCHEMA,
            "tool_version": env!("CARGO_PKG_VERSION"),
            "policy": policy.as_str(),
            "head_tree": ready.tree,
            "environment": ready.environment.digest,
            "test": digest_bytes(&bytes),
            "plan": plan,
            "framework": framework,
            "reporters": Reporters::digest(),
            "limits": {
                "wall": limits.wall.as_secs_f64(),
                "cpu": limits.cpu.map(|c| c.as_secs_f64()),
                "memory": limits.memory,
                "pids": limits.pids,
                "file_size": limits.file_size,
                "output": limits.output,
                "scratch": limits.scratch,
                "disk": limits.disk,
            },
            "isolation": shared.services.sandbox.isolation(),
        });
        let mut key = key;
        if !ready.environment.rebuild.is_empty() && settings.bounds.phases.rebuild.is_some() {
            key["limits"]["rebuild"] = json!(settings.rebuild_wall().as_secs_f64());
        }
        Ok(Self { oracle, plan, configuration, key })
    }

    /// The same oracle, run by another plan.
    pub(super) fn with_plan(&self, plan: Plan) -> Self {
        let mut key = self.key.clone();
        key["plan"] = json!(plan);
        Self { oracle: self.oracle.clone(), plan, configuration: self.configuration.clone(), key }
    }

    /// How it is run.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The program that a run starts.
    pub(super) fn program(&self) -> &str {
        self.plan.argv.first().map_or("", String::as_str)
    }

    pub(super) fn comment(&self) -> &CommentId {
        &self.oracle.comment
    }

    /// Outcome classes that the oracle declares as failing before the fix.
    pub(super) fn before(&self) -> &[String] {
        &self.oracle.before
    }

    /// The files that steer this oracle's framework among those that a state changes.
    pub(super) fn test_configuration(&self, state: &State) -> BTreeSet<TreePath> {
        state.changes.paths().filter(|path| self.configuration.has(path.as_path())).cloned().collect()
    }

    pub(super) fn key(&self, state: &State, expected: Option<&[TestId]>, repeat: u32) -> (Digest, Value) {
        let mut inputs = self.key.clone();
        inputs["changes"] = json!(state.changes.digest());
        inputs["expected"] = json!(expected);
        inputs["repeat"] = json!(repeat);
        if !state.laid_over.is_empty() {
            inputs["head_configuration"] = json!(state.laid_over);
        }
        (digest_json(&inputs), inputs)
    }
}

/// What came of one run.
pub(super) enum Made {
    Recorded(Served),
    Infra(Unavailable),
}

/// Serves a run from its record, or makes it.
pub(super) async fn run_state(
    shared: &Arc<Shared>,
    ready: &Arc<Ready>,
    bound: &Bound,
    state: &Arc<State>,
    expected: Option<&[TestId]>,
    task: TaskId,
) -> Result<Made, ScoreError> {
    let (key, inputs) = bound.key(state, expected, task.repeat);
    if let Some(record) = on_record(shared, &key)? {
        shared.counters.cached.fetch_add(1, Ordering::Relaxed);
        shared.events.send(Event::TaskFinished { task, outcome: record.outcome.clone(), seconds: 0.0, cached: true });
        return Ok(Made::Recorded(record));
    }
    let Some(_slot) = shared.scheduler.slot().await else { return Ok(Made::Infra(shared.not_started())) };
    // Another row with the same key (an empty revision, two equal patches) may have made it meanwhile.
    if let Some(record) = on_record(shared, &key)? {
        shared.counters.cached.fetch_add(1, Ordering::Relaxed);
        shared.events.send(Event::TaskFinished { task, outcome: record.outcome.clone(), seconds: 0.0, cached: true });
        return Ok(Made::Recorded(record));
    }
    let met = Met { shared, ready, bound };
    if let Some(why) = met.in_the_way() {
        let outcome = Outcome::Infra(why.class);
        shared.events.send(Event::TaskFinished { task, outcome, seconds: 0.0, cached: false });
        return Ok(Made::Infra(why));
    }
    shared.why_again(&task, &key, &inputs);
    shared.events.send(Event::TaskStarted { task: task.clone() });
    let started = jiff::Timestamp::now();
    let began = std::time::Instant::now();
    let made = match attempt(shared, ready, bound, state, expected, &task).await {
        Ok((evidence, classified)) => match classified.outcome {
            Outcome::Infra(InfraReason::Interrupted) => Made::Infra(interrupted()),
            Outcome::Infra(class) => {
                let detail =
                    classified.message.clone().unwrap_or_else(|| "the run says nothing of the code".to_owned());
                Made::Infra(met.concerning(Unavailable::new(class, detail)).or_disk(&shared.services.cache))
            }
            _ if let Some(said) = met.not_to_be_believed(&classified.outcome) => {
                Made::Infra(Unavailable::new(InfraReason::Disk, format!("{said}: what failed may have wanted room")))
            }
            _ => {
                met.worked();
                let record = record(shared, state, key, inputs, started, &evidence, classified)?;
                shared.run.put_record(STAGE, &record.key, &record)?;
                if let Ok(mut keys) = shared.counters.recorded.lock() {
                    keys.insert(record.key.clone());
                }
                Made::Recorded(record.into())
            }
        },
        Err(why) => Made::Infra(met.concerning(why).or_disk(&shared.services.cache)),
    };
    if let Made::Infra(why) = &made {
        shared.failed(why, &task.instance_id);
    }
    // A run that was broken off is no run that was made.
    if !matches!(&made, Made::Infra(why) if why.class == InfraReason::Interrupted) {
        shared.counters.made.fetch_add(1, Ordering::Relaxed);
    }
    let outcome = match &made {
        Made::Recorded(record) => record.outcome.clone(),
        Made::Infra(why) => Outcome::Infra(why.class),
    };
    let seconds = began.elapsed().as_secs_f64();
    shared.events.send(Event::TaskFinished { task, outcome, seconds, cached: false });
    Ok(made)
}

fn on_record(shared: &Shared, key: &Digest) -> Result<Option<Served>, ScoreError> {
    // A record that cannot be read is made again.
    let Ok(record) = shared.run.record::<Served>(STAGE, key) else { return Ok(None) };
    // `--redo` and `--retry` are about what earlier runs recorded; what this one made serves.
    let ours = shared.counters.recorded.lock().is_ok_and(|keys| keys.contains(key));
    let again =
        |r: &Served| shared.settings.redo || shared.settings.retry.iter().any(|class| class == r.outcome.class());
    Ok(record.filter(|r| r.key == *key && (ours || !again(r))))
}

/// Runs once, and again in a fresh workspace after a transient infrastructure failure.
pub(super) async fn attempt(
    shared: &Arc<Shared>,
    ready: &Arc<Ready>,
    bound: &Bound,
    state: &Arc<State>,
    expected: Option<&[TestId]>,
    task: &TaskId,
) -> Result<(RunEvidence, Classified), Unavailable> {
    let sandbox = shared.services.sandbox.as_ref();
    let subject = state.subject(ready, sandbox.owner()).await?;
    let (limits, scratch) = (&shared.settings.limits, ready.scratch.path());
    let of_rebuild = Limits { wall: shared.settings.rebuild_wall(), ..limits.clone() };
    let budget = Budget::new(shared.settings.bounds.task_budget, &shared.scheduler.stop);
    let stop = &budget.token;
    let mut tries = 0;
    loop {
        let ended = match state.rebuilt(sandbox, &subject, &of_rebuild, scratch, stop).await {
            Ok(rebuilt) => {
                oracle::run_rebuilt(sandbox, &subject, rebuilt.as_deref(), &bound.plan, limits, scratch, stop).await
            }
            Err(error) => Err(error),
        };
        let why = match ended {
            Ok(evidence) => {
                let mut classified = oracle::classify(&bound.plan, &evidence, expected);
                if budget.is_over() && classified.outcome == Outcome::Infra(InfraReason::Interrupted) {
                    return Err(budget.over(tries + 1));
                }
                if evidence.rebuild.as_ref().is_some_and(|exit| exit.timed_out) {
                    let limit = time(of_rebuild.wall);
                    classified.message = Some(format!("rebuild phase: not done at its deadline of {limit}"));
                }
                match classified.outcome {
                    Outcome::Infra(class) if class.is_transient() => {
                        Unavailable::new(class, classified.message.clone().unwrap_or_default())
                    }
                    _ => return Ok((evidence, classified)),
                }
            }
            Err(error) => Unavailable::new(error.infra(), error.to_string()),
        };
        tries += 1;
        if budget.is_over() {
            return Err(budget.over(tries));
        }
        if tries > shared.settings.infra_retries || !why.class.is_transient() || shared.scheduler.is_stopping() {
            return Err(why);
        }
        shared.events.send(Event::TaskRetried { task: task.clone(), reason: why.detail });
    }
}

pub(super) fn record(
    shared: &Shared,
    state: &State,
    key: Digest,
    inputs: Value,
    started: jiff::Timestamp,
    evidence: &RunEvidence,
    classified: Classified,
) -> Result<OracleRecord, ScoreError> {
    let mut kept = BTreeMap::new();
    let exits = [
        ("", evidence.exit.as_ref()),
        ("rebuild-", evidence.rebuild.as_ref()),
        ("probe-", evidence.probe.as_ref()),
        ("canary-", evidence.canary.as_ref().map(|run| &run.exit)),
    ];
    for (prefix, exit) in exits.iter().filter_map(|(prefix, exit)| exit.map(|exit| (prefix, exit))) {
        for (name, captured) in [("stdout", &exit.stdout), ("stderr", &exit.stderr), ("result", &exit.result)] {
            if !captured.bytes.is_empty() {
                kept.insert(format!("{prefix}{name}"), shared.run.put_blob(&captured.bytes)?);
            }
        }
    }
    if !state.log.is_empty() {
        kept.insert("patch-log".to_owned(), shared.run.put_blob(state.log.join("\n").as_bytes())?);
    }
    // A record is only made where something ran; a rebuild that failed is all there is then.
    let last: Option<&Exit> = evidence.exit.as_ref().or(evidence.rebuild.as_ref());
    Ok(OracleRecord {
        schema: RECORD_SCHEMA,
        key,
        inputs,
        tests: serde_json::to_value(&classified.seen).unwrap_or_default(),
        passed: classified.passed_ids(),
        outcome: classified.outcome,
        text_only: classified.text_only,
        trace: classified.trace,
        message: classified.message,
        first_line: classified.first_line,
        channel: classified.channel.as_str().to_owned(),
        end: last.map_or(End::Exited(0), |e| e.end),
        seconds: evidence.seconds(),
        cpu_seconds: [&evidence.exit, &evidence.rebuild].into_iter().flatten().map(|e| e.cpu_seconds).sum(),
        peak_memory: last.and_then(|e| e.peak_memory),
        isolation: last.map_or_else(|| shared.services.sandbox.isolation(), |e| e.isolation.clone()),
        evidence: kept,
        started,
    })
}
