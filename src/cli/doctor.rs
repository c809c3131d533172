//! `redgreen doctor`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Outcome;
use super::common::{self, CacheOption, RepositoryOptions};
use super::error::Status;
use super::printer::Printer;
use super::settings::Source;
use crate::engine::PhaseLimits;
use crate::model::{EnvironmentSpec, ProjectMode};
use crate::sandbox::docker::{DockerConfig, DockerSandbox, Surroundings};
use crate::sandbox::local::{LocalConfig, LocalSandbox};
use crate::store::Scratch;

/// Tell what this machine can do: sandbox, limits, toolchains, git, disk, settings.
///
/// Exit code 1 when oracles cannot be run here.
///
/// Example: redgreen doctor
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cache: CacheOption,
    #[command(flatten)]
    repositories: RepositoryOptions,
    /// Folder with environment definitions that add to or override the built-in ones; may be repeated.
    #[arg(long, value_name = "DIR", help_heading = "Where things are")]
    definitions: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One line of the answer.
struct Line {
    topic: &'static str,
    ok: bool,
    text: String,
    detail: Value,
}

impl Line {
    fn new(topic: &'static str, ok: bool, text: impl Into<String>) -> Self {
        Self { topic, ok, text: text.into(), detail: Value::Null }
    }
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let layers = common::layers()?;
    let cache = args.cache.resolve(&layers)?;
    let repositories = args.repositories.resolve(&layers)?;
    let mut lines = vec![Line::new("redgreen", true, env!("CARGO_PKG_VERSION"))];
    let scratch = common::scratch(&cache.value);
    let mut runs = scratch.as_ref().is_ok_and(|scratch| sandbox(scratch, &mut lines));
    let made = scratch
        .as_ref()
        .map_err(|error| error.message.clone())
        .and_then(|scratch| common::sandbox("local", &Source::Default, scratch).map_err(|error| error.message));
    if let Ok(scratch) = &scratch {
        engine(scratch, &mut lines);
    }
    match made {
        Ok(sandbox) => {
            let folders = common::definitions(&layers, &args.definitions)?;
            let environments =
                common::environments(&cache.value, true, &folders, &PhaseLimits::default(), sandbox, (None, None))?;
            let names: Vec<String> = environments.definitions().iter().map(|d| d.name.clone()).collect();
            for name in names {
                lines.push(toolchain(&environments, &name));
            }
        }
        Err(error) => {
            runs = false;
            lines.push(Line::new("sandbox", false, error));
        }
    }
    lines.push(git());
    lines.push(disk(&cache.value, &cache.source));
    for (name, value, source) in repositories.describe() {
        if source != Source::Default {
            lines.push(Line::new("setting", true, format!("{name} = {value} ({source})")));
        }
    }
    if args.json {
        let list: Vec<Value> =
            lines.iter().map(|l| json!({"topic": l.topic, "ok": l.ok, "text": l.text, "detail": l.detail})).collect();
        printer.value(&json!({"ok": runs, "checks": list}))?;
    } else {
        let text: String = lines
            .iter()
            .map(|l| format!("{} {:<10} {}\n", if l.ok { "ok  " } else { "no  " }, l.topic, l.text))
            .collect();
        printer.data(&text)?;
    }
    Ok(if runs { Status::Done } else { Status::GateSaysNo })
}

fn sandbox(scratch: &Scratch, lines: &mut Vec<Line>) -> bool {
    let helper = match std::env::current_exe() {
        Ok(helper) => helper,
        Err(error) => {
            lines.push(Line::new("sandbox", false, error.to_string()));
            return false;
        }
    };
    let mut any = false;
    for probe in LocalSandbox::probe(&LocalConfig::new(helper, scratch.path())) {
        any |= probe.ok;
        let (text, detail) = match &probe.outcome {
            Ok(i) => (
                format!("memory by {}, processes by {}, workspace by {}", i.memory, i.pids, i.workspace),
                serde_json::to_value(i).unwrap_or_default(),
            ),
            Err(reason) => (reason.clone(), Value::Null),
        };
        let mut line = Line::new("sandbox", probe.ok, format!("level {}: {text}", probe.level));
        line.detail = detail;
        lines.push(line);
    }
    any
}

/// The container engine. That there is none is no fault: nothing needs one.
fn engine(scratch: &Scratch, lines: &mut Vec<Line>) {
    let config = DockerConfig::new(Surroundings::of(&super::variables::all()), scratch.path());
    let found = match DockerSandbox::examine(config) {
        Ok(found) => found,
        Err(error) => {
            lines.push(Line::new("docker", false, error.to_string()));
            return;
        }
    };
    let facts = &found.facts;
    let detail = serde_json::to_value(&found).unwrap_or_default();
    let mut first = Line::new(
        "docker",
        true,
        format!("{} {} at {} ({}), API {}", facts.product, facts.version, found.address, found.origin, facts.api),
    );
    first.detail = detail;
    lines.push(first);
    let word = |is, what: &str| if is { what.to_owned() } else { format!("no {what}") };
    let limits = [
        format!("cgroup version {}", facts.cgroup),
        word(facts.limits_memory, "memory limit"),
        word(facts.limits_pids, "limit of processes"),
        word(facts.filters_calls, "filter of system calls"),
        word(facts.has_init, "init process"),
        format!("images by {}", facts.storage),
    ];
    lines.push(Line::new("docker", facts.limits_memory && facts.limits_pids, limits.join(", ")));
    let mounts = match (&found.no_mounts, &found.no_memory) {
        (Some(reason), _) => format!("workspaces are copied into containers: {reason}"),
        (None, Some(reason)) => format!("workspaces by overlayfs, changes on disk: {reason}"),
        (None, None) => "workspaces by overlayfs, changes in memory".to_owned(),
    };
    lines.push(Line::new("docker", true, mounts));
    lines.extend(found.skipped.iter().map(|note| Line::new("docker", true, note.clone())));
}

fn toolchain(environments: &crate::environment::Environments, name: &str) -> Line {
    let spec = EnvironmentSpec { project: ProjectMode::Path, ..EnvironmentSpec::plain(name) };
    match environments.resolve_there(&spec) {
        Ok(resolved) => {
            let toolchain = &resolved.toolchain;
            let text = format!("{name} {} at {}", toolchain.version, toolchain.executable.display());
            let mut line = Line::new("toolchain", true, text.replace("  ", " "));
            line.detail = resolved.identity();
            line
        }
        Err(error) => Line::new("toolchain", false, format!("{name}: {error}")),
    }
}

fn git() -> Line {
    let Some(program) = common::find_program("git") else {
        return Line::new("git", false, "no `git` on PATH: bundles and clones cannot be read");
    };
    let answer = std::process::Command::new(&program).arg("--version").output();
    match answer {
        Ok(output) if output.status.success() => {
            let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            Line::new("git", true, format!("{version} at {}", program.display()))
        }
        Ok(output) => Line::new("git", false, format!("{} ended with {}", program.display(), output.status)),
        Err(error) => Line::new("git", false, format!("{}: {error}", program.display())),
    }
}

fn disk(cache: &Path, source: &Source) -> Line {
    // The folder may not be there yet; the nearest one that is tells of the same disk.
    let there = cache.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(there) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let text = format!("{} GiB free for the cache {} ({source})", free >> 30, cache.display());
            let mut line = Line::new("disk", free > 1 << 30, text);
            line.detail = json!({"free_bytes": free, "cache": cache});
            line
        }
        Err(error) => Line::new("disk", false, format!("{}: {error}", there.display())),
    }
}
