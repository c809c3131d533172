//! One language as data: the shape of `environments/<language>.toml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::base::BaseDefinition;
use super::check::{Fault, fault_of_search};
use super::condition::Condition;
use super::detection::{DetectDefinition, VersionDefinition};
use super::proof::ProofDefinition;
use super::strategy::{RequirementsDefinition, StrategyDefinition};
use super::template::names;
use super::trouble::{FailureDefinition, RepairDefinition};
use crate::model::{Digest, digest_json};

/// The version of the definitions' shape.
pub(super) const DEFINITION_SCHEMA: u32 = 1;

/// How one language's environments are made.
///
/// Texts may hold `{{name}}`: `tool.X` (a path from the probe; `tool.X.folder` its folder), `layer.X` (a layer's mount
/// path), `workspace`, `head` and `merged` (in a fetch, of layers with `trees`), `wanted`, `program` and
/// `host.VARIABLE` (in the toolchain part). An argument that is `{{packages...}}`, `{{packages.first...}}`,
/// `{{requires...}}` or `{{network.cargo...}}` becomes several. An argument that is `{{script.NAME}}` is the text of the
/// file `scripts/NAME` beside the definition.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The version of this shape.
    pub schema: u32,
    /// The name that specs use.
    pub name: String,
    /// Other names, compared without case.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// How the toolchain is found.
    pub toolchain: ToolchainDefinition,
    /// How package requirements are read.
    #[serde(default)]
    pub packages: Option<PackagesDefinition>,
    /// Dependency layers, in the order in which they are made.
    #[serde(default, rename = "layer")]
    pub layers: Vec<LayerDefinition>,
    /// The build phase.
    #[serde(default)]
    pub build: BuildDefinition,
    /// Further mounts of parts of layers.
    #[serde(default, rename = "mount")]
    pub mounts: Vec<MountDefinition>,
    /// What builds and tests see; a later entry of the same name wins, the spec's own variables win over all.
    #[serde(default, rename = "variable")]
    pub variables: Vec<VariableDefinition>,
    /// Programs that oracles use, by name.
    #[serde(default)]
    pub tools: BTreeMap<String, String>,
    /// Root file systems with a toolchain of this language.
    #[serde(default, rename = "base")]
    pub bases: Vec<BaseDefinition>,
    /// Whether what is installed can be bounded by a date.
    #[serde(default)]
    pub as_of: Option<AsOfDefinition>,
    /// How a project of this language is recognised.
    #[serde(default)]
    pub detect: DetectDefinition,
    /// How the wanted version is found.
    #[serde(default)]
    pub version: VersionDefinition,
    /// The ways to install a project, in the order in which they are tried.
    #[serde(default, rename = "strategy")]
    pub strategies: Vec<StrategyDefinition>,
    /// How a project's wants are read.
    #[serde(default)]
    pub requirements: Vec<RequirementsDefinition>,
    /// How an environment is proven to work.
    #[serde(default, rename = "proof")]
    pub proofs: Vec<ProofDefinition>,
    /// What failures say.
    #[serde(default, rename = "failure")]
    pub failures: Vec<FailureDefinition>,
    /// What helps.
    #[serde(default, rename = "repair")]
    pub repairs: Vec<RepairDefinition>,
    /// What [`digest`](Self::digest) gave: each instance asks for it several times.
    #[serde(skip)]
    known_digest: KnownDigest,
}

/// A digest that was made once. A copy, which may become another thing, begins without.
#[derive(Debug, Default)]
struct KnownDigest(OnceLock<Digest>);

impl Clone for KnownDigest {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// How a toolchain is found on the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolchainDefinition {
    /// Program names, looked up in `PATH` one after the other.
    pub programs: Vec<String>,
    /// Programs that must be on `PATH` too.
    #[serde(default)]
    pub requires: Vec<String>,
    /// Other places of toolchains (`*` stands for a part of a file name), newest version first. They are looked at only
    /// when one of `programs` is on `PATH`: who hides a program there does not want it to be used.
    #[serde(default)]
    pub also: Vec<String>,
    /// The oldest version to take when none is wanted.
    #[serde(default)]
    pub minimum: Option<String>,
    /// The command that gets behind shims. It prints one JSON object: `version`, `executable`, `roots` (folders to
    /// mount), `tools`, `identity` (what else tells builds apart), or `error`.
    pub probe: Vec<String>,
}

/// How package requirements are read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackagesDefinition {
    /// A regular expression whose first group is the package's name in a requirement.
    pub name: String,
    /// Packages (lower case, `-` for `_` and `.`) that others may need while they are built.
    #[serde(default)]
    pub first: Vec<String>,
}

/// Whether what is installed can be bounded by a date. Steps tell the difference by the condition `as-of` and get the
/// last moment of the day as `{{as-of}}` (`2024-05-31T23:59:59Z`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AsOfDefinition {
    /// When it can.
    #[serde(default)]
    pub when: Vec<Condition>,
    /// What is said where it can't: why not, and what helps.
    pub otherwise: String,
}

/// One dependency layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerDefinition {
    /// Its name in this file.
    pub name: String,
    /// Where it is mounted, in all phases.
    pub path: String,
    /// When it is there.
    #[serde(default)]
    pub when: Vec<Condition>,
    /// Whether tests see it; if not, only later layers and the build phase do.
    #[serde(default = "yes")]
    pub runs: bool,
    /// Whether the build phase may write to it (into a layer of its own).
    #[serde(default)]
    pub build_writes: bool,
    /// Names of files, anywhere in the head and merged trees, on which the layer depends.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Whether both trees are there in the fetch, as throw-away copies. Only for clients that read manifests and run
    /// nothing of a tree: there may be a network.
    #[serde(default)]
    pub trees: bool,
    /// Requirements that stand in a file of the head tree.
    #[serde(default)]
    pub requires: Option<RequiresDefinition>,
    /// The commands that make it.
    #[serde(default, rename = "step")]
    pub steps: Vec<StepDefinition>,
    /// How it says what is in it.
    #[serde(default)]
    pub lock: LockDefinition,
}

/// A list of requirements in a TOML file at the head tree's root.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequiresDefinition {
    /// The file.
    pub file: String,
    /// The keys that lead to the list.
    pub key: Vec<String>,
    /// The list when the file or the keys are not there.
    pub default: Vec<String>,
    /// Always added.
    #[serde(default)]
    pub extra: Vec<String>,
}

/// One command.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepDefinition {
    /// What it does, for people.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// When it runs.
    #[serde(default)]
    pub when: Vec<Condition>,
    /// Whether it needs the network (fetch steps only).
    #[serde(default)]
    pub network: bool,
    /// Whether its failure is written to the log and no more. For steps that only save time.
    #[serde(default)]
    pub optional: bool,
    /// Whether its success completes the layer and its failure goes on with the next step (fetch steps only).
    #[serde(default)]
    pub enough: bool,
    /// The current directory (default: `/` in a fetch, the workspace in a build).
    #[serde(default)]
    pub cwd: Option<String>,
    /// Variables of this step.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
}

/// How a layer says what is in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockDefinition {
    /// A command that prints JSON.
    #[serde(default)]
    pub command: Vec<String>,
    /// Files in the layer: `.json`, or anything else as TOML.
    #[serde(default)]
    pub files: Vec<String>,
    /// Variables by which a package client is told of a file that bounds what it installs, one line for each entry of the
    /// lock: how a layer that is gone is made again as it was.
    #[serde(default)]
    pub pins: Vec<String>,
}

/// The build phase.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildDefinition {
    /// Variables of all steps.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// The commands.
    #[serde(default, rename = "step")]
    pub steps: Vec<StepDefinition>,
    /// Names of tracked files whose changes are put back instead of refused.
    #[serde(default)]
    pub restore: Vec<String>,
    /// Globs of names of untracked outputs that are not kept: caches that would outlive the source they were made from.
    #[serde(default)]
    pub drop: Vec<String>,
}

/// A part of a layer that is mounted at a second place.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountDefinition {
    /// The layer.
    pub layer: String,
    /// The folder in it.
    pub from: String,
    /// Where to.
    pub target: String,
    /// When.
    #[serde(default)]
    pub when: Vec<Condition>,
}

/// A variable of builds and tests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableDefinition {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// When it is set.
    #[serde(default)]
    pub when: Vec<Condition>,
}

fn yes() -> bool {
    true
}

impl Definition {
    /// The digest of what a spec's environment is made by: comments and layout do not count, nor does what only serves
    /// to find the spec or to judge what came of it.
    pub fn digest(&self) -> Digest {
        const OF_THE_SEARCH: [&str; 9] =
            ["as_of", "base", "detect", "version", "strategy", "requirements", "proof", "failure", "repair"];
        let made = || {
            // Strings, lists and string maps alone: this cannot fail to serialize.
            let mut value = serde_json::to_value(self).unwrap_or_default();
            if let Some(map) = value.as_object_mut() {
                map.retain(|key, _| !OF_THE_SEARCH.contains(&key.as_str()));
            }
            digest_json(&value)
        };
        self.known_digest.0.get_or_init(made).clone()
    }

    /// Whether `language` names this definition.
    pub fn answers_to(&self, language: &str) -> bool {
        let language = language.trim();
        std::iter::once(&self.name).chain(&self.aliases).any(|name| name.eq_ignore_ascii_case(language))
    }

    /// What is wrong with it beyond its shape, if anything.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.fault_of_recipe().map(Fault::quoted).or_else(|| fault_of_search(self))
    }

    fn fault_of_recipe(&self) -> Option<String> {
        if self.schema != DEFINITION_SCHEMA {
            return Some(format!("schema {} is not {DEFINITION_SCHEMA}, the one that this version reads", self.schema));
        }
        if self.toolchain.programs.is_empty() || self.toolchain.probe.is_empty() {
            return Some("`toolchain.programs` and `toolchain.probe` must not be empty".to_owned());
        }
        if let Some(packages) = &self.packages {
            match regex::Regex::new(&packages.name) {
                Ok(pattern) if pattern.captures_len() == 2 => {}
                Ok(_) => return Some("`packages.name` must have exactly one group".to_owned()),
                Err(error) => return Some(format!("`packages.name`: {error}")),
            }
        }
        let plain = |n: &str| !n.is_empty() && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !plain(&self.name) {
            return Some(format!("the name `{}` may only have letters, digits and `-`", self.name));
        }
        for (i, layer) in self.layers.iter().enumerate() {
            if !plain(&layer.name) || layer.name == "build" || self.layers[..i].iter().any(|l| l.name == layer.name) {
                return Some(format!(
                    "layer `{}` needs a name of its own (letters, digits, `-`, not `build`)",
                    layer.name
                ));
            }
            if !layer.path.starts_with("/env/") {
                return Some(format!("layer `{}` must be mounted below `/env/`, not at `{}`", layer.name, layer.path));
            }
        }
        if let Some(mount) = self.mounts.iter().find(|m| !self.layers.iter().any(|l| l.name == m.layer)) {
            return Some(format!("mount of `{}`: there is no such layer", mount.layer));
        }
        let unknown = |text: &str, allowed: &[&str]| {
            names(text)
                .into_iter()
                .find(|name| !self.knows(name, allowed))
                .map(|n| format!("`{{{{{n}}}}}` stands for nothing in `{text}`"))
        };
        let fetch: &[&str] = &[
            "workspace",
            "head",
            "merged",
            "as-of",
            "packages...",
            "packages.first...",
            "requires...",
            "network.cargo...",
        ];
        let build: &[&str] = &["workspace", "packages...", "packages.first..."];
        let steps = |steps: &[StepDefinition], allowed: &[&str]| {
            steps.iter().find_map(|step| {
                let texts = step.argv.iter().chain(&step.cwd).chain(step.variables.values());
                texts
                    .into_iter()
                    .find_map(|text| unknown(text, allowed))
                    .map(|fault| format!("step `{}`: {fault}", step.name))
            })
        };
        self.layers
            .iter()
            .find_map(|layer| {
                let lock = || layer.lock.command.iter().find_map(|text| unknown(text, fetch));
                steps(&layer.steps, fetch).or_else(lock)
            })
            .or_else(|| steps(&self.build.steps, build))
            .or_else(|| {
                let texts = self.build.variables.values().chain(self.variables.iter().map(|v| &v.value));
                let texts = texts.chain(self.mounts.iter().map(|m| &m.target)).chain(self.tools.values());
                texts.into_iter().find_map(|text| unknown(text, &["workspace"]))
            })
            .or_else(|| self.toolchain.probe.iter().find_map(|text| unknown(text, &["program"])))
    }

    pub(super) fn knows(&self, name: &str, allowed: &[&str]) -> bool {
        allowed.contains(&name)
            || name.strip_prefix("layer.").is_some_and(|layer| self.layers.iter().any(|l| l.name == layer))
            || name.starts_with("tool.")
    }
}
