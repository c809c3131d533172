//! What one environment needs: its definition applied to a spec, a toolchain and a head tree. Nothing runs here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::condition::{Facts, all_hold};
use super::definition::{LayerDefinition, RequiresDefinition, StepDefinition};
use super::detect::Tree;
use super::error::EnvironmentError;
use super::prepare::BuildSubject;
use super::resolved::Resolved;
use super::template::{UnknownName, Values, names};
use crate::model::{Digest, digest_bytes};
use crate::sandbox::{Mount, WORKSPACE};
use crate::store::Held;

/// Where the trees lie in a fetch.
const HEAD: &str = "/subject/head";
const MERGED: &str = "/subject/merged";

/// What every phase and every test sees.
const BASE_VARIABLES: [(&str, &str); 4] =
    [("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC"), ("PATH", "/usr/local/bin:/usr/bin:/bin")];

/// A layer that is there.
#[derive(Debug, Clone)]
pub(super) struct ReadyLayer<'a> {
    pub definition: &'a LayerDefinition,
    pub digest: Digest,
    pub root: PathBuf,
    pub lock: Value,
    /// Keeps it in the cache.
    pub held: Option<Arc<Held>>,
}

impl ReadyLayer<'_> {
    /// Its read-only mount.
    pub fn mount(&self) -> Mount {
        Mount::ReadOnly { source: self.root.clone(), target: PathBuf::from(&self.definition.path) }
    }
}

/// One environment's needs.
pub(super) struct Plan<'a> {
    pub resolved: &'a Resolved,
    pub subject: &'a BuildSubject,
    pub owner: (u32, u32),
    facts: Facts<'a>,
    values: Values,
}

impl<'a> Plan<'a> {
    /// Applies the definition.
    pub fn new(
        resolved: &'a Resolved,
        subject: &'a BuildSubject,
        owner: (u32, u32),
        cargo_arguments: Vec<String>,
    ) -> Result<Self, EnvironmentError> {
        let (spec, definition) = (&resolved.spec, &resolved.definition);
        if definition.packages.is_none() && !spec.packages.is_empty() {
            let (language, packages) = (definition.name.clone(), spec.packages.clone());
            return Err(EnvironmentError::NoPackages { language, packages });
        }
        let as_of = as_of(resolved, subject)?;
        let first = resolved.first_packages();
        let facts = Facts {
            packages: !spec.packages.is_empty(),
            first_packages: !first.is_empty(),
            no_build_isolation: spec.build_isolation == Some(false),
            project: spec.project,
            as_of: as_of.is_some(),
            tree: &subject.snapshot,
        };
        let mut values = Values::default();
        values.set("workspace", WORKSPACE);
        values.set("head", HEAD);
        values.set("merged", MERGED);
        values.set("as-of", as_of.unwrap_or_default());
        for (name, path) in &resolved.toolchain.tools {
            let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
            values.set(format!("tool.{name}.folder"), folder.display().to_string());
            values.set(format!("tool.{name}"), path.as_str());
        }
        for layer in &definition.layers {
            values.set(format!("layer.{}", layer.name), layer.path.as_str());
        }
        values.lists.insert("packages".to_owned(), spec.packages.clone());
        values.lists.insert("packages.first".to_owned(), first);
        values.lists.insert("network.cargo".to_owned(), cargo_arguments);
        Ok(Self { resolved, subject, owner, facts, values })
    }

    /// The layers that the environment has.
    pub fn layers(&self) -> Vec<&'a LayerDefinition> {
        self.resolved.definition.layers.iter().filter(|layer| all_hold(&layer.when, &self.facts)).collect()
    }

    /// The steps that apply.
    pub fn steps<'b>(&self, steps: &'b [StepDefinition]) -> Vec<&'b StepDefinition> {
        steps.iter().filter(|step| all_hold(&step.when, &self.facts)).collect()
    }

    /// The values that texts of a layer's steps see.
    pub fn layer_values(&self, layer: &LayerDefinition) -> Values {
        let mut values = self.values.clone();
        if let Some(requires) = &layer.requires {
            values.lists.insert("requires".to_owned(), requires_of(requires, &self.subject.snapshot));
        }
        values
    }

    /// What conditions are asked of.
    pub fn facts(&self) -> &Facts<'a> {
        &self.facts
    }

    /// The values that texts of build steps see.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// All that a layer's content depends on; its digest is the layer's name.
    ///
    /// What the layer does not use is left out, so that environments share it: a virtual environment is the same
    /// whether or not the project is installed above it.
    pub fn layer_key(&self, layer: &LayerDefinition, earlier: &[ReadyLayer<'_>]) -> Result<Value, EnvironmentError> {
        let steps = self.steps(&layer.steps);
        let of_steps = steps.iter().flat_map(|step| step.argv.iter().chain(step.variables.values()).chain(&step.cwd));
        let used: BTreeSet<String> = of_steps.chain(&layer.lock.command).flat_map(|text| names(text)).collect();
        let layers: BTreeMap<&str, &Digest> = earlier
            .iter()
            .filter(|ready| used.contains(&format!("layer.{}", ready.definition.name)))
            .map(|ready| (ready.definition.name.as_str(), &ready.digest))
            .collect();
        let values = self.layer_values(layer);
        let list = |name: &str| {
            let wanted = used.contains(&format!("{name}..."));
            wanted.then(|| values.lists.get(name)).flatten()
        };
        let spec = &self.resolved.spec;
        let as_of = used.contains("as-of").then(|| values.single.get("as-of")).flatten();
        let mut key = json!({
            "language": self.resolved.definition.name,
            "layer": layer,
            "steps": steps,
            "toolchain": *self.resolved.toolchain,
            "base": self.resolved.root.digest(),
            "packages": list("packages"),
            "first": list("packages.first"),
            "requires": list("requires"),
            "inputs": self.inputs(layer)?,
            "variables": spec.variables,
            "layers": layers,
            "owner": self.owner,
        });
        if let (Some(as_of), Some(map)) = (as_of, key.as_object_mut()) {
            map.insert("as_of".to_owned(), json!(as_of));
        }
        Ok(key)
    }

    /// The digests of a layer's input files in both trees.
    fn inputs(&self, layer: &LayerDefinition) -> Result<Value, EnvironmentError> {
        if layer.inputs.is_empty() {
            return Ok(Value::Null);
        }
        let of = |tree: &Path| -> Result<BTreeMap<String, Digest>, EnvironmentError> {
            let mut out = BTreeMap::new();
            let walk =
                walkdir::WalkDir::new(tree).into_iter().filter_entry(|e| e.depth() == 0 || e.file_name() != ".git");
            for entry in walk {
                let entry = entry.map_err(std::io::Error::from)?;
                if entry.file_type().is_file() && layer.inputs.iter().any(|name| entry.file_name() == name.as_str()) {
                    let path = entry.path().strip_prefix(tree).unwrap_or(entry.path()).display().to_string();
                    out.insert(path, digest_bytes(&fs_err::read(entry.path())?));
                }
            }
            Ok(out)
        };
        let merged = self.subject.merged.as_deref().map(of).transpose()?;
        Ok(json!({"head": of(&self.subject.snapshot)?, "merged": merged}))
    }

    /// Throw-away copies of the trees, for layers that ask for them.
    pub fn subject_mounts(&self, layer: &LayerDefinition) -> Vec<Mount> {
        if !layer.trees {
            return Vec::new();
        }
        let overlay = |tree: &Path, target: &str| Mount::Overlay {
            lowers: vec![tree.to_owned()],
            target: PathBuf::from(target),
            upper: None,
            remove: Vec::new(),
        };
        let mut mounts = vec![overlay(&self.subject.snapshot, HEAD)];
        mounts.extend(self.subject.merged.as_deref().map(|tree| overlay(tree, MERGED)));
        mounts
    }

    /// The variables before the definition's own: what fetch steps start from.
    pub fn base_variables(&self) -> BTreeMap<String, String> {
        BASE_VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The variables of builds and tests.
    pub fn variables(&self) -> Result<BTreeMap<String, String>, EnvironmentError> {
        let mut out = self.base_variables();
        for variable in self.resolved.definition.variables.iter().filter(|v| all_hold(&v.when, &self.facts)) {
            out.insert(variable.name.clone(), self.expand(&variable.value, &variable.name)?);
        }
        out.extend(self.resolved.spec.variables.clone());
        Ok(out)
    }

    /// The programs that oracles use.
    pub fn tools(&self) -> Result<BTreeMap<String, String>, EnvironmentError> {
        let tools = &self.resolved.definition.tools;
        tools.iter().map(|(name, path)| Ok((name.clone(), self.expand(path, name)?))).collect()
    }

    /// Further mounts of parts of layers.
    pub fn extra_mounts(&self, layers: &[ReadyLayer<'_>]) -> Result<Vec<Mount>, EnvironmentError> {
        let mut out = Vec::new();
        for mount in self.resolved.definition.mounts.iter().filter(|m| all_hold(&m.when, &self.facts)) {
            let Some(layer) = layers.iter().find(|ready| ready.definition.name == mount.layer) else { continue };
            let (source, target) =
                (layer.root.join(&mount.from), PathBuf::from(self.expand(&mount.target, &mount.from)?));
            if source.is_dir() {
                out.push(Mount::ReadOnly { source, target });
            }
        }
        Ok(out)
    }

    /// A text with its names replaced.
    pub fn expand(&self, text: &str, step: &str) -> Result<String, EnvironmentError> {
        self.values.expand(text).map_err(|name| self.missing(name, step))
    }

    /// The error for a name that stands for nothing. The definition was checked, so it is a tool.
    pub fn missing(&self, name: UnknownName, step: &str) -> EnvironmentError {
        EnvironmentError::ToolMissing {
            language: self.resolved.definition.name.clone(),
            tool: name.0.strip_prefix("tool.").unwrap_or(&name.0).to_owned(),
            step: step.to_owned(),
            executable: self.resolved.toolchain.executable.clone(),
        }
    }

    /// What a layer's network steps would fetch, for people.
    pub fn would_fetch(&self, layer: &LayerDefinition) -> Vec<String> {
        let mut out = match &layer.requires {
            Some(requires) => requires_of(requires, &self.subject.snapshot),
            None => self.resolved.spec.packages.clone(),
        };
        if out.is_empty() {
            out.extend(layer.inputs.iter().map(|file| format!("the dependencies in {file}")));
        }
        if out.is_empty() {
            out.push(format!("the layer {}", layer.name));
        }
        out
    }
}

/// The last moment of the spec's `as_of` day, if it has one and the language's clients can keep it.
fn as_of(resolved: &Resolved, subject: &BuildSubject) -> Result<Option<String>, EnvironmentError> {
    let (spec, definition) = (&resolved.spec, &resolved.definition);
    let Some(day) = &spec.as_of else { return Ok(None) };
    let unsupported = |help: &str| EnvironmentError::AsOfUnsupported {
        language: definition.name.clone(),
        day: day.clone(),
        help: help.to_owned(),
    };
    let Ok(date) = day.parse::<jiff::civil::Date>() else {
        return Err(unsupported("it is not a day like `2024-05-31`"));
    };
    let facts = Facts {
        packages: !spec.packages.is_empty(),
        first_packages: false,
        no_build_isolation: spec.build_isolation == Some(false),
        project: spec.project,
        as_of: true,
        tree: &subject.snapshot,
    };
    match &definition.as_of {
        Some(known) if all_hold(&known.when, &facts) => Ok(Some(format!("{date}T23:59:59Z"))),
        Some(known) => Err(unsupported(&known.otherwise)),
        None => Err(unsupported("its definition has no `[as_of]` part")),
    }
}

/// The requirements in a TOML file at the tree's root, or the default; then what is always added and not there yet.
fn requires_of(definition: &RequiresDefinition, tree: &Path) -> Vec<String> {
    let listed = || {
        let list = Tree(tree).value(&definition.file, &definition.key)?;
        Some(list.as_array()?.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>())
    };
    let mut out = listed().unwrap_or_else(|| definition.default.clone());
    for extra in &definition.extra {
        if !out.contains(extra) {
            out.push(extra.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::toolchain::Toolchain;
    use super::*;
    use crate::environment::Definitions;
    use crate::model::digest_json;

    struct Case {
        tree: tempfile::TempDir,
        subject: BuildSubject,
    }

    fn case(files: &[(&str, &str)]) -> Case {
        let tree = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs_err::create_dir_all(tree.path().join(name).parent().unwrap()).unwrap();
            fs_err::write(tree.path().join(name), text).unwrap();
        }
        let snapshot = tree.path().to_owned();
        Case { tree, subject: BuildSubject { snapshot, tree: "t".to_owned(), merged: None, merged_tree: None } }
    }

    fn resolved(spec: Value, version: &str) -> Resolved {
        let spec: crate::model::EnvironmentSpec = serde_json::from_value(spec).unwrap();
        let tools = ["python", "node", "cargo", "rustc", "sh"].map(|t| (t.to_owned(), format!("/opt/{t}/bin/{t}")));
        let mut tools = BTreeMap::from(tools);
        tools.insert("sysroot".to_owned(), "/opt/rust".to_owned());
        let toolchain = Toolchain {
            version: version.to_owned(),
            executable: "/opt/x".into(),
            roots: Vec::new(),
            tools,
            identity: Value::Null,
        };
        let definition = Definitions::load(&[]).unwrap().get(&spec.language).unwrap();
        Resolved { spec, definition, toolchain: Arc::new(toolchain), root: crate::sandbox::Root::Host }
    }

    /// The digests of all layers by name, each made with the earlier ones.
    fn digests(resolved: &Resolved, subject: &BuildSubject, owner: (u32, u32)) -> BTreeMap<String, Digest> {
        let plan = Plan::new(resolved, subject, owner, Vec::new()).unwrap();
        let mut ready: Vec<ReadyLayer<'_>> = Vec::new();
        for definition in plan.layers() {
            let digest = digest_json(&plan.layer_key(definition, &ready).unwrap());
            ready.push(ReadyLayer { definition, digest, root: PathBuf::new(), lock: Value::Null, held: None });
        }
        ready.into_iter().map(|layer| (layer.definition.name.clone(), layer.digest)).collect()
    }

    #[test]
    fn a_layers_digest_follows_what_it_is_made_of_and_nothing_else() {
        let c = case(&[("a.py", "")]);
        let base = json!({"language": "python", "packages": ["six==1.16.0"]});
        let of = |spec: &Value, version: &str, owner| {
            digests(&resolved(spec.clone(), version), &c.subject, owner)["python"].clone()
        };
        let first = of(&base, "3.11.7", (0, 0));
        assert_eq!(
            first,
            of(&json!({"language": "Python", "packages": ["six==1.16.0"], "rebuild": ["make"]}), "3.11.7", (0, 0))
        );
        assert_eq!(
            first,
            of(&json!({"language": "python", "packages": ["six==1.16.0"], "project": "editable"}), "3.11.7", (0, 0))
        );
        let others = [
            of(&json!({"language": "python", "packages": ["six==1.15.0"]}), "3.11.7", (0, 0)),
            of(&json!({"language": "python", "packages": ["six==1.16.0"], "build_isolation": false}), "3.11.7", (0, 0)),
            of(&json!({"language": "python", "packages": ["six==1.16.0"], "variables": {"A": "1"}}), "3.11.7", (0, 0)),
            of(&base, "3.11.8", (0, 0)),
            of(&base, "3.11.7", (100_000, 100_000)),
        ];
        let all: BTreeSet<&Digest> = others.iter().chain([&first]).collect();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn manifests_of_both_trees_count_for_rust_and_other_files_do_not() {
        let rust = resolved(json!({"language": "rust"}), "1.95.0");
        let of = |subject: &BuildSubject| digests(&rust, subject, (0, 0))["cargo"].clone();
        let head = case(&[("Cargo.toml", "[package]\nname = \"a\""), ("src/lib.rs", "")]);
        let first = of(&head.subject);
        fs_err::write(head.tree.path().join("src/lib.rs"), "changed").unwrap();
        assert_eq!(first, of(&head.subject));
        let merged = case(&[("Cargo.toml", "[package]\nname = \"b\"")]);
        let both = BuildSubject { merged: Some(merged.tree.path().to_owned()), ..head.subject.clone() };
        let second = of(&both);
        assert_ne!(first, second);
        fs_err::create_dir(merged.tree.path().join("sub")).unwrap();
        fs_err::write(merged.tree.path().join("sub/Cargo.toml"), "[package]").unwrap();
        assert_ne!(second, of(&both));
        assert!(digests(&rust, &case(&[]).subject, (0, 0)).is_empty());
    }

    #[test]
    fn variables_follow_the_mode_and_the_spec_wins() {
        let c = case(&[("src/p/__init__.py", "")]);
        let variables = |spec: Value| {
            let resolved = resolved(spec, "3.11.7");
            Plan::new(&resolved, &c.subject, (0, 0), Vec::new()).unwrap().variables().unwrap()
        };
        let path = variables(json!({"language": "python"}));
        assert_eq!(path["PYTHONPATH"], "/env/python/start:/workspace:/workspace/src");
        assert!(path["PATH"].starts_with("/env/python/bin:"));
        let editable =
            variables(json!({"language": "python", "project": "editable", "variables": {"TZ": "Asia/Tokyo"}}));
        assert_eq!(editable["PYTHONPATH"], "/env/python/start");
        assert_eq!(editable["TZ"], "Asia/Tokyo");
    }

    #[test]
    fn back_end_requirements_come_from_the_head() {
        let c = case(&[("pyproject.toml", "[build-system]\nrequires = [\"hatchling>=1\", \"wheel\"]")]);
        let spec = json!({"language": "python", "project": "editable"});
        let definition = Definitions::load(&[]).unwrap().get("python").unwrap();
        let requires = definition.layers.iter().find_map(|layer| layer.requires.clone()).unwrap();
        assert_eq!(requires_of(&requires, c.tree.path()), ["hatchling>=1", "wheel", "editables"]);
        let usual = ["setuptools>=64", "wheel", "editables"];
        assert_eq!(requires_of(&requires, case(&[]).tree.path()), usual);
        // Nobody writes that much, and it must not be read.
        let much = format!("[build-system]\nrequires = [\"hatchling\"]\n#{}", "x".repeat(1 << 20));
        assert_eq!(requires_of(&requires, case(&[("pyproject.toml", &much)]).tree.path()), usual);
        let resolved = resolved(spec, "3.11.7");
        let plan = Plan::new(&resolved, &c.subject, (0, 0), Vec::new()).unwrap();
        let names: Vec<&str> = plan.layers().iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names, ["pip", "backend", "python"]);
        // A requirement may be a path: the tree must not be there to be built while there is a network.
        assert!(plan.layers().iter().all(|layer| plan.subject_mounts(layer).is_empty()));
    }

    #[test]
    fn a_day_bounds_what_is_installed_and_is_refused_where_it_cant_be_kept() {
        let c = case(&[("pyproject.toml", "[build-system]\nrequires = [\"hatchling\"]")]);
        let of = |spec: &Value| digests(&resolved(spec.clone(), "3.11.7"), &c.subject, (0, 0));
        let free = of(&json!({"language": "python", "packages": ["six"], "project": "editable"}));
        let day = |day: &str| json!({"language": "python", "packages": ["six"], "project": "editable", "as_of": day});
        let (first, second) = (of(&day("2024-05-31")), of(&day("2024-06-01")));
        assert!(!free.contains_key("uv") && first.contains_key("uv"));
        for layer in ["backend", "python"] {
            let digests = BTreeSet::from([&free[layer], &first[layer], &second[layer]]);
            assert_eq!(digests.len(), 3, "{layer}");
        }
        // What knows no day is shared.
        assert_eq!((&free["pip"], &first["uv"]), (&first["pip"], &second["uv"]));
        let resolved = resolved(day("2024-05-31"), "3.11.7");
        let plan = Plan::new(&resolved, &c.subject, (0, 0), Vec::new()).unwrap();
        let python = *plan.layers().last().unwrap();
        let steps = plan.steps(&python.steps);
        let install = steps.last().unwrap();
        let argv = plan.layer_values(python).expand_all(&install.argv).unwrap();
        let bound = argv.iter().position(|argument| argument == "--exclude-newer").unwrap();
        assert_eq!(argv[bound + 1], "2024-05-31T23:59:59Z");
        assert!(argv.last().unwrap() == "six" && !argv.iter().any(|argument| argument.contains("/env/pip")));
    }

    #[test]
    fn a_day_is_refused_where_it_cant_be_kept() {
        let refused = |spec: Value, files: &[(&str, &str)]| {
            let c = case(files);
            match Plan::new(&resolved(spec, "1"), &c.subject, (0, 0), Vec::new()) {
                Err(EnvironmentError::AsOfUnsupported { help, .. }) => help,
                Err(other) => panic!("{other}"),
                Ok(_) => String::new(),
            }
        };
        let rust = json!({"language": "rust", "as_of": "2024-05-31"});
        assert!(refused(rust.clone(), &[("Cargo.toml", "")]).contains("Cargo.lock"));
        assert_eq!(refused(rust, &[("Cargo.toml", ""), ("Cargo.lock", "")]), "");
        let java = |mode: &str| json!({"language": "java", "project": mode, "as_of": "2024-05-31"});
        assert!(refused(java("installed"), &[("pom.xml", "")]).contains("maven"));
        assert_eq!(refused(java("path"), &[("pom.xml", "")]), "");
        let node = |mode: &str| json!({"language": "node", "project": mode, "as_of": "2024-05-31"});
        assert!(refused(node("installed"), &[("package.json", "{}"), ("yarn.lock", "")]).contains("yarn"));
        assert_eq!(refused(node("installed"), &[("package.json", "{}"), ("package-lock.json", "")]), "");
        assert_eq!(refused(json!({"language": "go", "as_of": "2024-05-31"}), &[("go.mod", "")]), "");
        assert_eq!(refused(json!({"language": "sh", "as_of": "2024-05-31"}), &[]), "");
        assert!(refused(json!({"language": "python", "as_of": "May"}), &[]).contains("not a day"));
    }

    #[test]
    fn a_language_without_packages_refuses_some() {
        let c = case(&[]);
        let shell = resolved(json!({"language": "sh", "packages": ["jq"]}), "");
        assert!(matches!(Plan::new(&shell, &c.subject, (0, 0), Vec::new()), Err(EnvironmentError::NoPackages { .. })));
    }
}
