//! An environment's recipe as a Dockerfile, for people who want an image of it, and to compare with.

use std::collections::BTreeMap;
use std::path::Path;

use handlebars::Handlebars;
use serde::Serialize;

use super::build::Recipe;
use super::error::EnvironmentError;
use super::plan::{Plan, ReadyLayer};
use super::prepare::{BuildSubject, Environments};
use super::resolved::Resolved;
use crate::model::digest_json;
use crate::sandbox::WORKSPACE;

const TEMPLATE: &str = include_str!("../../environments/Dockerfile.hbs");
/// The image where the definition knows none for the version.
const PLAIN: &str = "debian:bookworm-slim";

/// What the template is filled with.
#[derive(Debug, Serialize)]
struct Image {
    title: String,
    from: String,
    system_packages: String,
    tools: Vec<Command>,
    layers: Vec<Layer>,
    variables: BTreeMap<String, String>,
    workspace: &'static str,
    rebuild: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Layer {
    name: String,
    path: String,
    /// Whether it is the project's own install.
    build: bool,
    copies: Vec<String>,
    steps: Vec<Command>,
}

/// One `RUN`.
#[derive(Debug, Serialize)]
struct Command {
    name: String,
    cwd: String,
    /// Its words as JSON: the form of `RUN` that no shell reads.
    command: String,
    network: bool,
    optional: bool,
}

impl Environments {
    /// The Dockerfile of an environment. `from` is the image below everything; absent: the definition's for the version.
    /// The host's toolchain is not in an image: the image's own takes its place, under the same paths.
    ///
    /// # Errors
    /// When the spec does not fit its definition, or the tree can't be read.
    pub fn dockerfile(
        &self,
        resolved: &Resolved,
        subject: &BuildSubject,
        from: Option<&str>,
    ) -> Result<String, EnvironmentError> {
        let plan = self.plan(resolved, subject)?;
        let image = image(&plan, from)?;
        let mut engine = Handlebars::new();
        engine.register_escape_fn(handlebars::no_escape);
        let broken = |error: &dyn std::error::Error| {
            EnvironmentError::Io(std::io::Error::other(format!("the template `Dockerfile.hbs`: {error}")))
        };
        engine.render_template(TEMPLATE, &image).map_err(|error| broken(&error))
    }
}

fn image(plan: &Plan<'_>, from: Option<&str>) -> Result<Image, EnvironmentError> {
    let (spec, definition) = (&plan.resolved.spec, &plan.resolved.definition);
    let version = &plan.resolved.toolchain.version;
    let base = definition.bases.iter().filter(|base| super::version::matches_prefix(version, &base.version));
    let of_definition = base.filter_map(|base| base.image.clone()).next();
    let mut layers = Vec::new();
    let mut ready: Vec<ReadyLayer<'_>> = Vec::new();
    for layer in plan.layers() {
        let digest = digest_json(&plan.layer_key(layer, &ready)?);
        let values = plan.layer_values(layer);
        let steps = plan.steps(&layer.steps).into_iter().map(|step| {
            let mut variables = plan.base_variables();
            variables.remove("PATH");
            variables.extend(spec.variables.clone());
            let missing = |name| plan.missing(name, &step.name);
            for (name, value) in &step.variables {
                variables.insert(name.clone(), values.expand(value).map_err(missing)?);
            }
            let argv = values.expand_all(&step.argv).map_err(missing)?;
            let cwd = step.cwd.as_deref().map(|cwd| values.expand(cwd)).transpose().map_err(missing)?;
            let cwd = cwd.unwrap_or_else(|| "/".to_owned());
            Ok(run((&step.name, step.network), cwd, &argv, &variables, step.optional || step.enough))
        });
        let steps: Vec<Command> = steps.collect::<Result<_, EnvironmentError>>()?;
        let folder = Command {
            name: "its folder".to_owned(),
            cwd: "/".to_owned(),
            command: words(&["mkdir".to_owned(), "-p".to_owned(), layer.path.clone()]),
            network: false,
            optional: false,
        };
        layers.push(Layer {
            name: layer.name.clone(),
            path: layer.path.clone(),
            build: false,
            copies: if layer.trees { vec![". /subject/head".to_owned()] } else { Vec::new() },
            steps: std::iter::once(folder).chain(steps).collect(),
        });
        let root = Path::new(&layer.path).to_owned();
        ready.push(ReadyLayer { definition: layer, digest, root, lock: serde_json::Value::Null, held: None });
    }
    let variables = plan.variables()?;
    let recipe = Recipe::new(plan, &ready)?;
    let steps = recipe.map(|recipe| recipe.commands()).unwrap_or_default();
    let steps = steps.into_iter().map(|step| {
        let all = variables.iter().chain(&step.variables).map(|(name, value)| (name.clone(), value.clone())).collect();
        run((&step.name, false), step.cwd, &step.argv, &all, step.optional)
    });
    layers.push(Layer {
        name: "build".to_owned(),
        path: WORKSPACE.to_owned(),
        build: true,
        copies: vec![format!(". {WORKSPACE}")],
        steps: steps.collect(),
    });
    let quoted = variables.iter().map(|(name, value)| (name.clone(), serde_json::json!(value).to_string()));
    Ok(Image {
        title: format!("{} {version}", definition.name).trim().to_owned(),
        from: from.map(str::to_owned).or(of_definition).unwrap_or_else(|| PLAIN.to_owned()),
        system_packages: spec.system_packages.join(" "),
        tools: plan.resolved.toolchain.tools.iter().filter_map(|(name, path)| tool(name, path)).collect(),
        layers,
        variables: quoted.collect(),
        workspace: WORKSPACE,
        rebuild: spec.rebuild.iter().flat_map(|command| command.lines()).map(str::to_owned).collect(),
    })
}

/// A step (its name, and whether it needs the network) as a `RUN` with its variables.
fn run(
    (name, network): (&str, bool),
    cwd: String,
    argv: &[String],
    variables: &BTreeMap<String, String>,
    may_fail: bool,
) -> Command {
    let mut all: Vec<String> = Vec::new();
    if may_fail {
        all.extend(["sh", "-c", "\"$@\" || true", "sh"].map(str::to_owned));
    }
    if !variables.is_empty() {
        all.push("env".to_owned());
        all.extend(variables.iter().map(|(name, value)| format!("{name}={value}")));
    }
    all.extend_from_slice(argv);
    Command { name: name.to_owned(), cwd, command: words(&all), network, optional: may_fail }
}

fn words(argv: &[String]) -> String {
    serde_json::json!(argv).to_string()
}

/// Links a tool of the image's to the path under which the steps know it. What is no program of one path is left out.
fn tool(name: &str, path: &str) -> Option<Command> {
    let (folder, file) = (Path::new(path).parent()?.to_str()?, Path::new(path).file_name()?.to_str()?);
    if !path.starts_with('/') || path == "/bin/sh" {
        return None;
    }
    let major = file.rsplit_once('.').map_or(file, |(major, _)| major);
    let plain = major.trim_end_matches(|c: char| c.is_ascii_digit());
    let mut names: Vec<&str> = Vec::new();
    for candidate in [file, major, plain, name] {
        if !names.contains(&candidate) && !candidate.is_empty() {
            names.push(candidate);
        }
    }
    let looks: Vec<String> = names.iter().map(|name| format!("command -v {name}")).collect();
    let script = format!(
        "test -e {path} || {{ found=$({}) && mkdir -p {folder} && ln -s \"$found\" {path}; }}",
        looks.join(" || ")
    );
    let command = words(&["sh".to_owned(), "-c".to_owned(), script]);
    Some(Command { name: name.to_owned(), cwd: "/".to_owned(), command, network: false, optional: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_looked_for_by_its_name_with_ever_less_of_a_version() {
        let command = tool("python", "/opt/py/bin/python3.11").unwrap().command;
        assert!(command.contains("command -v python3.11 || command -v python3 || command -v python)"), "{command}");
        assert!(command.contains(r#"ln -s \"$found\" /opt/py/bin/python3.11"#), "{command}");
        assert!(tool("sh", "/bin/sh").is_none());
    }
}
