//! The build phase: the repository's own install, without network and without any index setting.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::definition::StepDefinition;
use super::error::{EnvironmentError, Phase};
use super::layers::{Found, Layers};
use super::plan::{Plan, ReadyLayer};
use super::pulse::STEP_MARK;
use super::run::{Runner, failure, log_of, succeeded};
use super::settings::Settings;
use super::tracked::{age, drop_outputs, settle};
use crate::model::{Digest, digest_json};
use crate::sandbox::{Mount, Network, Task, WORKSPACE};
use crate::store::Held;

/// The log's line after a step that failed and did not have to succeed.
const NOT_MATTER: &str = "(this failed, and does not matter)";

/// What the build phase left.
#[derive(Debug, Clone, Default)]
pub(super) struct Built {
    /// The layer's folder in the cache.
    pub folder: Option<PathBuf>,
    /// Untracked outputs, if there are any.
    pub workspace: Option<PathBuf>,
    /// What was changed in dependency layers, by layer.
    pub over: BTreeMap<String, PathBuf>,
    /// Keeps both in the cache.
    pub held: Option<Arc<Held>>,
}

/// What the build phase needs.
pub(super) struct Build<'a> {
    pub plan: &'a Plan<'a>,
    pub layers: &'a Layers,
    pub settings: &'a Settings,
    pub runner: Runner<'a>,
    pub progress: &'a (dyn Fn(&str) + Send + Sync),
}

struct Step {
    name: String,
    argv: Vec<String>,
    cwd: String,
    variables: BTreeMap<String, String>,
    optional: bool,
}

impl Build<'_> {
    /// Finds the build's layer, or makes it. Without steps there is none.
    pub async fn run(&self, ready: &[ReadyLayer<'_>]) -> Result<Built, EnvironmentError> {
        let Some(Recipe { steps, variables, key, kind, digest }) = Recipe::new(self.plan, ready)? else {
            return Ok(Built::default());
        };
        let definition = &self.plan.resolved.definition;
        if let Some(found) = self.layers.find(&kind, &digest)? {
            return built(&found, ready);
        }
        let turn = self.layers.turn(&digest, &self.runner.deadline.token).await?;
        if let Some(found) = self.layers.find(&kind, &digest)? {
            return built(&found, ready);
        }
        let draft = self.layers.start(&kind, &digest, &turn)?;
        let workspace = draft.folder("workspace")?;
        let mut mounts = self.plan.resolved.toolchain_mounts();
        mounts.push(Mount::Overlay {
            lowers: vec![self.plan.subject.snapshot.clone()],
            target: PathBuf::from(WORKSPACE),
            upper: Some(workspace.clone()),
            remove: Vec::new(),
        });
        for layer in ready {
            mounts.push(if layer.definition.build_writes {
                Mount::Overlay {
                    lowers: vec![layer.root.clone()],
                    target: PathBuf::from(&layer.definition.path),
                    upper: Some(draft.folder(&format!("over/{}", layer.definition.name))?),
                    remove: Vec::new(),
                }
            } else {
                layer.mount()
            });
        }
        mounts.extend(self.plan.extra_mounts(ready)?);
        (self.progress)(&format!(
            "{}: {}",
            definition.name,
            steps.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ")
        ));
        let task = Task {
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), script(&steps)],
            cwd: PathBuf::from(WORKSPACE),
            variables,
            root: self.plan.resolved.root.clone(),
            mounts,
            limits: self.settings.build_limits.clone(),
            network: Network::None,
            result_channel: false,
        };
        let began = SystemTime::now();
        let exit = self.runner.run("build", &task).await?;
        if !succeeded(&exit) {
            let text = exit.stdout.text();
            let name = text.lines().rev().find_map(|line| line.strip_prefix(STEP_MARK)).unwrap_or("build");
            let command = steps.iter().find(|step| step.name == name).map(|step| step.argv.clone()).unwrap_or_default();
            return Err(failure(definition, Phase::Build, name, &command, &task, &exit, &[]));
        }
        let log = log_of(&exit);
        let files = settle(&workspace, &self.plan.subject.snapshot, &definition.build.restore)?;
        if !files.is_empty() {
            return Err(EnvironmentError::TrackedFiles { files, log });
        }
        for layer in ready.iter().filter(|layer| layer.definition.build_writes) {
            // What the install changed there is its business; copies that equal what is below only take room.
            settle(&draft.folder(&format!("over/{}", layer.definition.name))?, &layer.root, &[])?;
        }
        drop_outputs(&workspace, &definition.build.drop)?;
        age(&workspace, &self.plan.subject.snapshot, began)?;
        built(&draft.finish(key, Value::Null, &log)?, ready)
    }
}

/// What a build's layer is made of.
pub(super) struct Recipe {
    steps: Vec<Step>,
    variables: BTreeMap<String, String>,
    /// All that its content depends on.
    pub key: Value,
    /// The kind of layer.
    pub kind: String,
    /// The layer's name.
    pub digest: Digest,
}

impl Recipe {
    /// `None`: there is nothing to build.
    pub fn new(plan: &Plan<'_>, ready: &[ReadyLayer<'_>]) -> Result<Option<Self>, EnvironmentError> {
        let steps = steps(plan)?;
        if steps.is_empty() {
            return Ok(None);
        }
        let variables = plan.variables()?;
        let definition = &plan.resolved.definition;
        let key = json!({
            "language": definition.name,
            "build": definition.build,
            "steps": steps.iter().map(|s| json!([s.name, s.argv, s.cwd, s.variables, s.optional])).collect::<Vec<_>>(),
            "variables": variables,
            "toolchain": *plan.resolved.toolchain,
            "base": plan.resolved.root.digest(),
            "layers": ready.iter().map(|l| json!([l.definition.path, l.digest])).collect::<Vec<_>>(),
            "tree": plan.subject.tree,
            "owner": plan.owner,
        });
        let (kind, digest) = (format!("{}-build", definition.name), digest_json(&key));
        Ok(Some(Self { steps, variables, key, kind, digest }))
    }

    /// Its steps, for other ways to run them.
    pub fn commands(self) -> Vec<BuildCommand> {
        let of = |step: Step| BuildCommand {
            name: step.name,
            argv: step.argv,
            cwd: step.cwd,
            variables: step.variables,
            optional: step.optional,
        };
        self.steps.into_iter().map(of).collect()
    }
}

/// One step of a build: its words, where it runs, its own variables.
pub(super) struct BuildCommand {
    pub name: String,
    pub argv: Vec<String>,
    pub cwd: String,
    pub variables: BTreeMap<String, String>,
    pub optional: bool,
}

/// The definition's steps that apply, then the spec's own.
fn steps(plan: &Plan<'_>) -> Result<Vec<Step>, EnvironmentError> {
    let build = &plan.resolved.definition.build;
    let values = plan.values();
    let mut out = Vec::new();
    let own = |step: &StepDefinition| {
        let missing = |name| plan.missing(name, &step.name);
        let mut variables = BTreeMap::new();
        for (name, value) in build.variables.iter().chain(&step.variables) {
            variables.insert(name.clone(), values.expand(value).map_err(missing)?);
        }
        Ok::<_, EnvironmentError>(Step {
            name: step.name.clone(),
            argv: values.expand_all(&step.argv).map_err(missing)?,
            cwd: values.expand(step.cwd.as_deref().unwrap_or(WORKSPACE)).map_err(missing)?,
            variables,
            optional: step.optional,
        })
    };
    for step in plan.steps(&build.steps) {
        out.push(own(step)?);
    }
    for (i, command) in plan.resolved.spec.steps.iter().enumerate() {
        let mut variables = BTreeMap::new();
        for (name, value) in &build.variables {
            variables.insert(name.clone(), plan.expand(value, name)?);
        }
        out.push(Step {
            name: format!("the environment's own step {}", i + 1),
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), command.clone()],
            cwd: WORKSPACE.to_owned(),
            variables,
            optional: false,
        });
    }
    Ok(out)
}

fn built(found: &Found, ready: &[ReadyLayer<'_>]) -> Result<Built, EnvironmentError> {
    let filled = |folder: PathBuf| -> Result<Option<PathBuf>, EnvironmentError> {
        let some = folder.is_dir() && fs_err::read_dir(&folder)?.next().is_some();
        Ok(some.then_some(folder))
    };
    let mut over = BTreeMap::new();
    for layer in ready.iter().filter(|layer| layer.definition.build_writes) {
        let name = &layer.definition.name;
        if let Some(folder) = filled(found.folder.join("over").join(name))? {
            over.insert(name.clone(), folder);
        }
    }
    let workspace = filled(found.folder.join("workspace"))?;
    Ok(Built { folder: Some(found.folder.clone()), workspace, over, held: found.held.clone() })
}

/// One script for all steps: a step must see what the ones before it wrote. Each is announced in the log, so that a
/// failure can be put down to its step.
fn script(steps: &[Step]) -> String {
    let mut out = String::from("exec 2>&1\n");
    for step in steps {
        let mut words: Vec<String> = Vec::new();
        if !step.variables.is_empty() {
            words.push("env".to_owned());
            words.extend(step.variables.iter().map(|(name, value)| quoted(&format!("{name}={value}"))));
        }
        words.extend(step.argv.iter().map(|argument| quoted(argument)));
        let on_failure = if step.optional { format!("echo '{NOT_MATTER}'") } else { "exit $?".to_owned() };
        out.push_str(&format!(
            "printf '%s\\n' {}\n( cd {} && {} ) || {on_failure}\n",
            quoted(&format!("{STEP_MARK}{}", step.name)),
            quoted(&step.cwd),
            words.join(" "),
        ));
    }
    out
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn step(name: &str, command: &str, optional: bool) -> Step {
        Step {
            name: name.to_owned(),
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), command.to_owned()],
            cwd: "/".to_owned(),
            variables: BTreeMap::from([("GREETING".to_owned(), "it's $HOME".to_owned())]),
            optional,
        }
    }

    fn run(steps: &[Step]) -> (Option<i32>, String) {
        let out = Command::new("/bin/sh").arg("-c").arg(script(steps)).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    }

    #[test]
    fn steps_run_in_order_until_one_fails_that_matters() {
        let steps = [
            step("first", "echo \"$GREETING\"; echo to stderr >&2", false),
            step("warm-up", "exit 3", true),
            step("it's second", "exit 4", false),
            step("third", "echo never", false),
        ];
        let (code, out) = run(&steps);
        assert_eq!(code, Some(4));
        assert_eq!(
            out,
            "==> first\nit's $HOME\nto stderr\n==> warm-up\n(this failed, and does not matter)\n==> it's second\n"
        );
        assert_eq!(run(&steps[..2]).0, Some(0));
    }
}
