//! Trying strategies in order, with repairs, until one environment is proven.

mod asking;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::accept::plain_spec;
use super::definition::Definition;
use super::error::EnvironmentError;
use super::failure::{Failure, Stage};
use super::prepare::{BuildSubject, Environments, Prepared};
use super::prove::ProofResult;
use super::record::{Attempt, Missing};
use super::repair::{Repair, by_rule};
use super::requirements::Wanted;
use super::resolved::{Resolved, package_name};
use super::strategy::StrategyDefinition;
use super::trouble::FailureKind;
use crate::model::{Digest, EnvironmentSpec, InfraReason, ProjectMode, digest_json};
use crate::sandbox::Root;

/// What is tried for a tree.
#[derive(Debug, Clone)]
pub(super) struct Aim {
    /// The language's definition.
    pub definition: Arc<Definition>,
    /// The version that is tried, as a prefix.
    pub version: Option<String>,
    /// What that version stands on.
    pub root: Root,
    /// The day of the commit.
    pub date: Option<jiff::civil::Date>,
    /// The strategies that are worth a try, in order.
    pub strategies: Vec<StrategyDefinition>,
    /// What the oracles need beside what the project wants.
    pub needs: Vec<String>,
}

/// An environment that was accepted.
#[derive(Debug)]
pub(super) struct Success {
    pub strategy: String,
    pub resolved: Resolved,
    pub prepared: Prepared,
    pub proofs: Vec<ProofResult>,
}

/// What came of a search.
#[derive(Debug)]
pub(super) struct Searched {
    pub attempts: Vec<Attempt>,
    /// What repairs asked for and was not to be had here.
    pub missing: Vec<Missing>,
    /// Whether something that would have been tried could not be, for a reason that is not the repository's: another search
    /// may find what this one did not.
    pub is_open: bool,
    /// The environment, or the furthest failure with the spec that had it.
    pub result: Result<Box<Success>, (Failure, Option<EnvironmentSpec>)>,
}

/// A search for one tree's environment.
pub(super) struct Search<'a> {
    pub environments: &'a Arc<Environments>,
    pub aim: &'a Aim,
    pub subject: &'a BuildSubject,
    pub progress: &'a (dyn Fn(&str) + Send + Sync),
    pub cancel: &'a CancellationToken,
    attempts: Vec<Attempt>,
    /// The digests of all specs that were tried.
    seen: HashSet<Digest>,
    repairs_left: u32,
    /// What came furthest so far.
    furthest: Option<Furthest>,
    /// What each `[[requirements]]` command gave.
    wanted: BTreeMap<String, Result<Wanted, Failure>>,
    missing: Vec<Missing>,
    is_open: bool,
}

#[derive(Debug, Clone)]
struct Furthest {
    failure: Failure,
    spec: EnvironmentSpec,
    strategy: String,
    reached: Stage,
    root: Root,
}

/// How far a spec really came. One that installs nothing of the project has not come further than one whose install
/// failed, when all that is known is that the project does not import so.
fn reached(spec: &EnvironmentSpec, failure: &Failure) -> Stage {
    let installs = matches!(spec.project, ProjectMode::Editable | ProjectMode::Installed);
    if !installs && failure.stage <= Stage::Import { failure.stage.min(Stage::Fetch) } else { failure.stage }
}

/// How an attempt ended that gave nothing.
enum Ended {
    /// The next one may help.
    Failed,
    /// Nothing will.
    Stop(Failure),
}

impl<'a> Search<'a> {
    pub fn new(
        environments: &'a Arc<Environments>,
        aim: &'a Aim,
        subject: &'a BuildSubject,
        progress: &'a (dyn Fn(&str) + Send + Sync),
        cancel: &'a CancellationToken,
    ) -> Self {
        Self {
            environments,
            aim,
            subject,
            progress,
            cancel,
            attempts: Vec::new(),
            seen: HashSet::new(),
            repairs_left: environments.settings.repairs,
            furthest: None,
            wanted: BTreeMap::new(),
            missing: Vec::new(),
            is_open: false,
        }
    }

    /// Tries until something is accepted, or nothing is left to try.
    pub async fn run(mut self) -> Searched {
        let result = match self.tries().await {
            Ok(success) => Ok(success),
            Err(Ended::Stop(failure)) => Err((failure, None)),
            Err(Ended::Failed) => match self.furthest {
                Some(furthest) => Err((furthest.failure, Some(furthest.spec))),
                None => Err((self.first_failure(), None)),
            },
        };
        Searched { attempts: self.attempts, missing: self.missing, is_open: self.is_open, result }
    }

    async fn tries(&mut self) -> Result<Box<Success>, Ended> {
        let aim = self.aim;
        for strategy in &aim.strategies {
            let began = Instant::now();
            let spec = match self.candidate(strategy).await {
                Ok(spec) => spec,
                Err(failure) => {
                    self.note(&strategy.name, None, None, failure.clone(), began);
                    if failure.is_of_the_machine() {
                        return Err(Ended::Stop(failure));
                    }
                    continue;
                }
            };
            match self.pursue(&strategy.name, spec, None).await {
                Err(Ended::Failed) => {}
                other => return other,
            }
        }
        self.ask_repairer().await
    }

    /// The spec that a strategy stands for.
    async fn candidate(&mut self, strategy: &StrategyDefinition) -> Result<EnvironmentSpec, Failure> {
        let definition = self.aim.definition.clone();
        let mut spec = EnvironmentSpec {
            project: strategy.project,
            build_isolation: strategy.build_isolation,
            variables: strategy.variables.clone(),
            rebuild: strategy.rebuild.clone(),
            steps: strategy.steps.clone(),
            ..plain_spec(&definition.name, self.aim.version.as_deref())
        };
        spec = self.environments.dated(spec, self.aim.date);
        for name in &strategy.requirements {
            let wanted = self.wanted(name, &spec).await?;
            for package in wanted.packages {
                if !spec.packages.contains(&package) {
                    spec.packages.push(package);
                }
            }
            for package in wanted.system_packages {
                if !spec.system_packages.contains(&package) {
                    spec.system_packages.push(package);
                }
            }
        }
        // What the project says of a package goes before what the strategy says; the oracles take what is there.
        let name = |requirement: &str| package_name(&definition, requirement);
        for package in strategy.packages.iter().chain(&self.aim.needs) {
            if !spec.packages.iter().any(|known| name(known) == name(package)) {
                spec.packages.push(package.clone());
            }
        }
        Ok(spec)
    }

    /// What a `[[requirements]]` command found; each is run once, whether it finds something or fails.
    async fn wanted(&mut self, name: &str, spec: &EnvironmentSpec) -> Result<Wanted, Failure> {
        if let Some(known) = self.wanted.get(name) {
            return known.clone();
        }
        let wanted = self.read(name, spec).await;
        // What the machine did wrong says nothing of the tree.
        if !wanted.as_ref().is_err_and(Failure::is_of_the_machine) {
            self.wanted.insert(name.to_owned(), wanted.clone());
        }
        wanted
    }

    async fn read(&self, name: &str, spec: &EnvironmentSpec) -> Result<Wanted, Failure> {
        let definition = self.aim.definition.clone();
        let Some(requirements) = definition.requirements.iter().find(|requirements| requirements.name == name) else {
            return Ok(Wanted::default());
        };
        let bare = plain_spec(&spec.language, spec.version.as_deref());
        let resolved = self.environments.resolve_heard(&bare, self.progress, self.cancel).await;
        let resolved = resolved.map_err(|error| Failure::of_error(&error, Some(&definition)))?;
        let (subject, progress) = (self.subject, self.progress);
        let wanted = self.environments.wanted(&resolved, subject, requirements, progress, self.cancel).await?;
        for note in &wanted.notes {
            progress(&format!("{name}: {note}"));
        }
        Ok(wanted)
    }

    /// Tries a spec, and what rules make of it.
    async fn pursue(
        &mut self,
        strategy: &str,
        mut spec: EnvironmentSpec,
        mut repair: Option<Repair>,
    ) -> Result<Box<Success>, Ended> {
        loop {
            if !self.seen.insert(spec_digest(&spec)) {
                return Err(Ended::Failed);
            }
            let began = Instant::now();
            (self.progress)(&match &repair {
                None => format!("strategy {strategy}"),
                Some(repair) => format!("strategy {strategy}, changed by {}", repair.by),
            });
            let mut root = self.aim.root.clone();
            let failure = match self.attempt(strategy, &spec, &mut root).await {
                Ok(success) => {
                    let seconds = began.elapsed().as_secs_f64();
                    let (strategy, spec) = (strategy.to_owned(), Some(spec));
                    self.attempts.push(Attempt { strategy, repair, spec, failure: None, log: None, seconds });
                    return Ok(success);
                }
                Err(failed) => failed,
            };
            self.note(strategy, repair.clone(), Some(&spec), failure.clone(), began);
            // What a repair asks for may not be had: that is the repair's failure. Whether it can be had may not be known
            // now, of a mirror or a disk that fails: that is the machine's.
            let is_of_the_wish = matches!(failure.reason, InfraReason::Toolchain | InfraReason::Environment);
            if repair.is_some() && failure.stage == Stage::Toolchain && is_of_the_wish {
                return Err(Ended::Failed);
            }
            if failure.is_of_the_machine() {
                return Err(Ended::Stop(failure));
            }
            self.furthest_of(strategy, &spec, &failure, root, repair.is_some());
            if self.repairs_left == 0 {
                return Err(Ended::Failed);
            }
            let log = String::from_utf8_lossy(&failure.log).into_owned();
            let is_new = |spec: &EnvironmentSpec| !self.seen.contains(&spec_digest(spec));
            let Some(next) = by_rule(&self.aim.definition, &spec, &log, is_new) else { return Err(Ended::Failed) };
            self.repairs_left -= 1;
            spec = next.change.apply(&spec, &self.aim.definition);
            repair = Some(next);
        }
    }

    /// Builds and proves one spec. `root` becomes what it stands on.
    async fn attempt(
        &mut self,
        strategy: &str,
        spec: &EnvironmentSpec,
        root: &mut Root,
    ) -> Result<Box<Success>, Failure> {
        let environments = self.environments;
        let definition = &self.aim.definition;
        let of_error = |error: EnvironmentError| Failure::of_error(&error, Some(definition));
        let resolved = match environments.resolve_heard(spec, self.progress, self.cancel).await {
            Ok(resolved) => resolved,
            Err(error) => {
                let missing = Missing::of(spec, &error).filter(|missing| !self.missing.contains(missing));
                self.missing.extend(missing);
                self.is_open |= error.is_for_want_of_a_base();
                return Err(of_error(error));
            }
        };
        root.clone_from(&resolved.root);
        let prepared = environments.prepare(&resolved, self.subject, self.progress, self.cancel).await;
        let prepared = prepared.map_err(of_error)?;
        let proven = environments.prove(&resolved, self.subject, &prepared, self.progress, self.cancel).await;
        match proven.failure {
            Some(failure) => Err(failure),
            None => {
                let strategy = strategy.to_owned();
                Ok(Box::new(Success { strategy, resolved, prepared, proofs: proven.results }))
            }
        }
    }

    /// Puts a failed attempt on the list, with its log.
    fn note(
        &mut self,
        strategy: &str,
        repair: Option<Repair>,
        spec: Option<&EnvironmentSpec>,
        failure: Failure,
        began: Instant,
    ) {
        (self.progress)(&format!("strategy {strategy} failed, {}: {}", failure.stage, failure.summary()));
        // Without room for a log there is none; the lines that matter are in the record.
        let log = self.environments.records.put_log(&failure.log).ok().flatten();
        self.attempts.push(Attempt {
            strategy: strategy.to_owned(),
            repair,
            spec: spec.cloned(),
            failure: Some(failure),
            log,
            seconds: began.elapsed().as_secs_f64(),
        });
    }

    fn furthest_of(
        &mut self,
        strategy: &str,
        spec: &EnvironmentSpec,
        failure: &Failure,
        root: Root,
        is_repaired: bool,
    ) {
        let reached = reached(spec, failure);
        let further = self.furthest.as_ref().is_none_or(|known| {
            // A repair that came as far is where the next one goes on.
            reached > known.reached || is_repaired && known.strategy == strategy && reached == known.reached
        });
        if further {
            let (failure, spec, strategy) = (failure.clone(), spec.clone(), strategy.to_owned());
            self.furthest = Some(Furthest { failure, spec, strategy, reached, root });
        }
    }

    fn first_failure(&self) -> Failure {
        let failures = self.attempts.iter().filter_map(|attempt| attempt.failure.clone());
        failures
            .max_by_key(|failure| failure.stage)
            .unwrap_or_else(|| refusal("no strategy of the language applies to the tree", Stage::Detect))
    }
}

/// The failure of what nobody knows how to go on with.
fn refusal(why: &str, stage: Stage) -> Failure {
    Failure::without_log(FailureKind::Other, stage, InfraReason::Environment, why)
}

fn spec_digest(spec: &EnvironmentSpec) -> Digest {
    digest_json(&serde_json::to_value(spec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::RequirementsDefinition;
    use crate::environment::recorder::{Recorder, Room, broken, exit};
    use crate::sandbox::{Exit, SandboxError, Task};

    #[tokio::test]
    async fn requirements_that_cannot_be_read_are_read_once_and_a_machine_that_fails_is_asked_again() {
        for (answer, reads) in [((|_| Ok(exit(1, "no"))) as fn(&Task) -> Result<Exit, SandboxError>, 1), (broken, 2)] {
            let recorder = Recorder::answering(answer);
            let room = Room::of(recorder.clone());
            let mut definition = Definition::clone(&room.environments.definitions().get("shell").unwrap());
            let argv = vec!["read".to_owned()];
            definition.requirements = vec![RequirementsDefinition { name: "all".to_owned(), argv }];
            let aim = Aim {
                definition: Arc::new(definition),
                version: None,
                root: Root::Host,
                date: None,
                strategies: Vec::new(),
                needs: Vec::new(),
            };
            let never = CancellationToken::new();
            let mut search = Search::new(&room.environments, &aim, &room.subject, &|_| {}, &never);
            let spec = plain_spec("shell", None);
            let first = search.wanted("all", &spec).await.unwrap_err();
            assert_eq!(search.wanted("all", &spec).await.unwrap_err(), first);
            assert_eq!(recorder.tasks().len(), reads, "{first:?}");
            assert_eq!(first.is_of_the_machine(), reads == 2);
        }
    }
}
