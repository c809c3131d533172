//! The build phase: the repository's own install, without network and without any index setting.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::definition::StepDefinition;
use super::error::{EnvironmentError, Phase};
use super::layers::{Found, Layers};
use super::plan::{Plan, ReadyLayer};
use super::run::{Runner, failure, log_of, succeeded};
use super::settings::Settings;
use super::tracked::{age, drop_outputs, settle};
use crate::model::digest_json;
use crate::sandbox::{Mount, Network, Task, WORKSPACE};

/// Starts a line of the build's log that says which step comes.
const STEP_MARK: &str = "==> ";

/// What the build phase left.
#[derive(Debug, Clone, Default)]
pub(super) struct Built {
    /// The layer's folder in the cache.
    pub folder: Option<PathBuf>,
    /// Untracked outputs, if there are any.
    pub workspace: Option<PathBuf>,
    /// What was changed in dependency layers, by layer.
    pub over: BTreeMap<String, PathBuf>,
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
        let steps = self.steps()?;
        if steps.is_empty() {
            return Ok(Built::default());
        }
        let variables = self.plan.variables()?;
        let definition = &self.plan.resolved.definition;
        let key = json!({
            "language": definition.name,
            "build": definition.build,
            "steps": steps.iter().map(|s| json!([s.name, s.argv, s.cwd, s.variables, s.optional])).collect::<Vec<_>>(),
            "variables": variables,
            "toolchain": *self.plan.resolved.toolchain,
            "base": self.plan.resolved.root.digest(),
            "layers": ready.iter().map(|l| json!([l.definition.path, l.digest])).collect::<Vec<_>>(),
            "tree": self.plan.subject.tree,
            "owner": self.plan.owner,
        });
        let digest = digest_json(&key);
        let kind = format!("{}-build", definition.name);
        if let Some(found) = self.layers.find(&kind, &digest) {
            return built(&found, ready);
        }
        let turn = self.layers.turn(&digest, &self.runner.deadline.token).await?;
        if let Some(found) = self.layers.find(&kind, &digest) {
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
            return Err(failure(Phase::Build, name, &command, &task, &exit, &[]));
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

    /// The definition's steps that apply, then the spec's own.
    fn steps(&self) -> Result<Vec<Step>, EnvironmentError> {
        let build = &self.plan.resolved.definition.build;
        let values = self.plan.values();
        let mut out = Vec::new();
        let own = |step: &StepDefinition| {
            let missing = |name| self.plan.missing(name, &step.name);
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
        for step in self.plan.steps(&build.steps) {
            out.push(own(step)?);
        }
        for (i, command) in self.plan.resolved.spec.steps.iter().enumerate() {
            let mut variables = BTreeMap::new();
            for (name, value) in &build.variables {
                variables.insert(name.clone(), self.plan.expand(value, name)?);
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
    Ok(Built { folder: Some(found.folder.clone()), workspace: filled(found.folder.join("workspace"))?, over })
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
        let on_failure = if step.optional { "echo '(this failed, and does not matter)'" } else { "exit $?" };
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
