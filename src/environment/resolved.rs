//! A spec with its definition and the toolchain that was found for it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::definition::Definition;
use super::pattern::compiled;
use super::toolchain::Toolchain;
use crate::model::{Digest, EnvironmentSpec, digest_json};
use crate::sandbox::{Mount, Root};

/// An environment whose toolchain is known; nothing is built yet.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// What is wanted.
    pub spec: EnvironmentSpec,
    /// How it is made.
    pub definition: Arc<Definition>,
    /// With which toolchain.
    pub toolchain: Arc<Toolchain>,
    /// What it stands on.
    pub root: Root,
}

impl Resolved {
    /// The same environment with these packages too. A package that the spec already names stays as the spec has it.
    ///
    /// This is how a caller brings in what its test framework needs (`pytest`), which must come from a layer.
    #[must_use]
    pub fn with_packages(&self, packages: &[&str]) -> Self {
        let mut out = self.clone();
        for package in packages {
            let name = self.package_name(package);
            if !out.spec.packages.iter().any(|known| self.package_name(known) == name) {
                out.spec.packages.push((*package).to_owned());
            }
        }
        out
    }

    /// The read-only mounts that make the toolchain visible; none where it lies in the base itself.
    pub(super) fn toolchain_mounts(&self) -> Vec<Mount> {
        match self.root {
            Root::Host => self.toolchain.mounts(),
            Root::Base { .. } => Vec::new(),
        }
    }

    /// What identifies the toolchain and the definition: part of every record's key.
    pub fn identity(&self) -> Value {
        json!({
            "language": self.definition.name,
            "definition": self.definition.digest(),
            "toolchain": *self.toolchain,
            "base": self.root.digest(),
        })
    }

    /// The digest of spec, definition and toolchain, known before anything is built.
    pub fn key(&self) -> Digest {
        digest_json(&json!({"spec": self.spec, "identity": self.identity()}))
    }

    /// The packages that others may need while they are built, in the spec's order.
    pub(super) fn first_packages(&self) -> Vec<String> {
        let Some(definition) = &self.definition.packages else { return Vec::new() };
        let first = |package: &&String| definition.first.contains(&self.package_name(package));
        self.spec.packages.iter().filter(first).cloned().collect()
    }

    fn package_name(&self, requirement: &str) -> String {
        package_name(&self.definition, requirement)
    }
}

/// The name in a requirement, in lower case and with `-` for `_` and `.`.
pub(super) fn package_name(definition: &Definition, requirement: &str) -> String {
    let pattern = definition.packages.as_ref().and_then(|packages| compiled(&packages.name));
    let name = pattern.and_then(|p| p.captures(requirement)?.get(1).map(|m| m.as_str().to_owned()));
    name.unwrap_or_else(|| requirement.trim().to_owned()).to_lowercase().replace(['_', '.'], "-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::environment::Definitions;

    pub(super) fn resolved(spec: Value) -> Resolved {
        let spec: EnvironmentSpec = serde_json::from_value(spec).unwrap();
        let toolchain = Toolchain {
            version: "3.11.7".to_owned(),
            executable: "/opt/py/bin/python3.11".into(),
            roots: vec!["/opt/py".into()],
            tools: BTreeMap::from([("python".to_owned(), "/opt/py/bin/python3.11".to_owned())]),
            identity: json!({"build": "x"}),
        };
        let definition = Definitions::load(&[]).unwrap().get(&spec.language).unwrap();
        Resolved { spec, definition, toolchain: Arc::new(toolchain), root: Root::Host }
    }

    #[test]
    fn packages_are_added_only_when_they_are_not_named_yet() {
        let r = resolved(json!({"language": "python", "packages": ["PyTest[x]==7.4.4", "zope.interface>5"]}));
        let more = r.with_packages(&["pytest", "zope_interface", "six==1.16.0"]);
        assert_eq!(more.spec.packages, ["PyTest[x]==7.4.4", "zope.interface>5", "six==1.16.0"]);
        let node = resolved(json!({"language": "js", "packages": ["@org/a@1.2.3", "lru-cache@6.0.0"]}));
        assert_eq!(node.with_packages(&["@org/a", "lru-cache", "b"]).spec.packages.len(), 3);
    }

    #[test]
    fn build_back_ends_go_first_in_the_specs_order() {
        let r = resolved(
            json!({"language": "python", "packages": ["six", "wheel==0.41.3", "Setuptools==65.5.0", "setuptools-git"]}),
        );
        assert_eq!(r.first_packages(), ["wheel==0.41.3", "Setuptools==65.5.0"]);
    }

    #[test]
    fn the_key_follows_spec_and_toolchain() {
        let r = resolved(json!({"language": "python", "packages": ["six"]}));
        assert_eq!(r.key(), r.clone().key());
        assert_ne!(r.key(), r.with_packages(&["pytest"]).key());
        let mut other = r.clone();
        let mut toolchain = (*r.toolchain).clone();
        toolchain.identity = json!({"build": "y"});
        other.toolchain = Arc::new(toolchain);
        assert_ne!(r.key(), other.key());
    }
}
