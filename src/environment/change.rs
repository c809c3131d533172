//! A change of a spec: what it may say, and what comes of it.

use regex::Captures;

use super::definition::Definition;
use super::network::strip_credentials;
use super::resolved::package_name;
use super::trouble::SpecChange;
use crate::model::EnvironmentSpec;

/// Why a change is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// A package that is something else.
    #[error("the change names `{package}` as a package, which is {what}; name a package as a registry knows it")]
    Package {
        /// What stands there.
        package: String,
        /// What it is.
        what: &'static str,
    },
    /// A variable that may not be set.
    #[error("the change sets the variable `{name}`, which {what}")]
    Variable {
        /// Its name.
        name: String,
        /// Why not.
        what: &'static str,
    },
    /// A version that is none.
    #[error("the change asks for the version `{0}`, which is no version")]
    Version(String),
    /// A text with characters that no command line has.
    #[error("the change has a text with a control character in it: `{0}`")]
    Control(String),
    /// More than a change needs.
    #[error("the change has {0}; propose only what the failure asks for")]
    Large(String),
    /// The language has no packages.
    #[error("the change names packages, which the language `{0}` does not have")]
    NoPackages(String),
}

/// How many texts of one kind a change may have.
const MOST: usize = 64;

/// How many bytes one of its texts may have.
const LONGEST: usize = 16 * 1024;

impl SpecChange {
    /// Whether a change that somebody proposed may be tried. What it installs comes from where everything comes from: no
    /// paths, no options of the package client, no addresses with credentials, no other index.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn check(&self, definition: &Definition) -> Result<(), ChangeError> {
        if definition.packages.is_none() && !(self.packages.is_empty() && self.without.is_empty()) {
            return Err(ChangeError::NoPackages(definition.name.clone()));
        }
        self.check_size()?;
        let texts = self.packages.iter().chain(&self.without).chain(&self.system_packages).chain(&self.version);
        let values = self.variables.iter().flat_map(|(name, value)| [name, value]);
        if let Some(text) = texts.chain(values).find(|text| text.chars().any(char::is_control)) {
            return Err(ChangeError::Control(text.escape_default().to_string()));
        }
        // Commands may have several lines, but no NUL.
        if let Some(text) = self.steps.iter().chain(&self.rebuild).find(|text| text.contains('\0')) {
            return Err(ChangeError::Control(text.escape_default().to_string()));
        }
        for package in &self.packages {
            if let Some(what) = no_package(package) {
                return Err(ChangeError::Package { package: package.clone(), what });
            }
        }
        for name in &self.without {
            if let Some(what) = no_package(name) {
                return Err(ChangeError::Package { package: name.clone(), what });
            }
        }
        for name in &self.system_packages {
            if !is_system_package(name) {
                return Err(ChangeError::Package { package: name.clone(), what: "no name of a Debian package" });
            }
        }
        for name in self.variables.keys() {
            if let Some(what) = no_variable(name) {
                return Err(ChangeError::Variable { name: name.clone(), what });
            }
        }
        match &self.version {
            Some(version) if !is_version(version) => Err(ChangeError::Version(version.clone())),
            _ => Ok(()),
        }
    }

    /// Whether it stays within bounds: who proposes it may be anybody.
    fn check_size(&self) -> Result<(), ChangeError> {
        let lists = [
            ("packages", &self.packages),
            ("packages to leave out", &self.without),
            ("packages of the system", &self.system_packages),
            ("steps", &self.steps),
            ("rebuild commands", &self.rebuild),
        ];
        let counts = lists.map(|(what, list)| (what, list.len())).into_iter();
        let mut counts = counts.chain([("variables", self.variables.len())]);
        if let Some((what, count)) = counts.find(|(_, count)| *count > MOST) {
            return Err(ChangeError::Large(format!("{count} {what}, more than {MOST}")));
        }
        let values = self.variables.iter().flat_map(|(name, value)| [name, value]);
        let mut texts = lists.into_iter().flat_map(|(_, list)| list).chain(&self.version).chain(values);
        match texts.find(|text| text.len() > LONGEST) {
            Some(text) => Err(ChangeError::Large(format!("a text of {} bytes, more than {LONGEST}", text.len()))),
            None => Ok(()),
        }
    }

    /// The spec with the change made. Equal to the spec where the change says nothing new.
    #[must_use]
    pub fn apply(&self, spec: &EnvironmentSpec, definition: &Definition) -> EnvironmentSpec {
        let mut out = spec.clone();
        let name = |requirement: &str| package_name(definition, requirement);
        if let Some(version) = &self.version {
            out.version = Some(version.clone());
        }
        let without: Vec<String> = self.without.iter().map(|requirement| name(requirement)).collect();
        out.packages.retain(|package| !without.contains(&name(package)));
        let mut names: Vec<String> = out.packages.iter().map(|package| name(package)).collect();
        for package in &self.packages {
            let own = name(package);
            match names.iter().position(|known| *known == own) {
                Some(at) => out.packages[at].clone_from(package),
                None => {
                    names.push(own);
                    out.packages.push(package.clone());
                }
            }
        }
        for package in &self.system_packages {
            if !out.system_packages.contains(package) {
                out.system_packages.push(package.clone());
            }
        }
        out.project = self.project.unwrap_or(out.project);
        out.build_isolation = self.build_isolation.or(out.build_isolation);
        out.variables.extend(self.variables.clone());
        for (mine, theirs) in [(&self.steps, &mut out.steps), (&self.rebuild, &mut out.rebuild)] {
            for command in mine {
                if !theirs.contains(command) {
                    theirs.push(command.clone());
                }
            }
        }
        out
    }

    /// The change with `$1`, `${name}` and so on replaced by what a pattern found.
    #[must_use]
    pub fn filled(&self, found: &Captures<'_>) -> Self {
        let fill = |text: &String| {
            let mut out = String::new();
            found.expand(text, &mut out);
            out
        };
        let all = |texts: &[String]| texts.iter().map(fill).collect();
        Self {
            version: self.version.as_ref().map(fill),
            packages: all(&self.packages),
            without: all(&self.without),
            system_packages: all(&self.system_packages),
            project: self.project,
            build_isolation: self.build_isolation,
            variables: self.variables.iter().map(|(name, value)| (name.clone(), fill(value))).collect(),
            steps: all(&self.steps),
            rebuild: all(&self.rebuild),
        }
    }
}

/// What a requirement is that is no package of a registry.
fn no_package(text: &str) -> Option<&'static str> {
    let text = text.trim();
    let at = text.split_once('@').map(|(_, after)| after.trim());
    let is_path = |text: &str| {
        let lower = text.to_lowercase();
        text.starts_with(['/', '.', '~', '\\']) || lower.starts_with("file:") || lower.contains("+file:")
    };
    if text.is_empty() {
        Some("empty")
    } else if text.starts_with('-') || text.split_whitespace().any(|word| word.starts_with('-')) {
        Some("an option")
    } else if is_path(text) || at.is_some_and(is_path) || (!text.contains("://") && is_relative_path(text)) {
        Some("a path")
    } else if text.contains("://") && text.split_whitespace().any(has_credentials) {
        Some("an address with credentials")
    } else {
        None
    }
}

/// `wheels/a.whl`; a scope's package (`@org/name`) is none.
fn is_relative_path(text: &str) -> bool {
    let scoped = text.starts_with('@');
    let plain = text.split(['[', ';', '=', '<', '>', '!', ' ']).next().unwrap_or_default();
    plain.matches('/').count() > usize::from(scoped)
        || [".whl", ".tar.gz", ".zip", ".tgz"].iter().any(|ending| text.to_lowercase().ends_with(ending))
}

fn has_credentials(word: &str) -> bool {
    // In `name@https://host` the `@` is the requirement's own.
    let url = word.find("://").map(|colon| {
        let scheme = word[..colon].rfind(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
        &word[scheme.map_or(0, |at| at + 1)..]
    });
    url.is_some_and(|url| strip_credentials(url).1)
}

/// Debian's rule for names of packages.
fn is_system_package(name: &str) -> bool {
    name.len() >= 2
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c))
}

fn is_version(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-+_".contains(c))
}

/// Why a variable may not be set by a change.
fn no_variable(name: &str) -> Option<&'static str> {
    /// Parts of names that lead package clients elsewhere, or to other settings.
    const ELSEWHERE: [&str; 9] =
        ["INDEX", "PROXY", "FIND_LINKS", "TRUSTED_HOST", "REGISTRY", "CERT", "CONFIG_FILE", "USERCONFIG", "GIT_SSH"];
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let upper = name.to_uppercase();
    if !plain {
        Some("is no name of a variable")
    } else if ELSEWHERE.iter().any(|part| upper.contains(part)) {
        Some("would lead a package client elsewhere")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use regex::Regex;
    use serde_json::{Value, json};

    use super::*;
    use crate::environment::Definitions;
    use crate::model::ProjectMode;

    fn definition(language: &str) -> Arc<Definition> {
        Definitions::load(&[]).unwrap().get(language).unwrap()
    }

    fn change(value: Value) -> SpecChange {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_change_replaces_adds_and_leaves_out() {
        let python = definition("python");
        let spec: EnvironmentSpec = serde_json::from_value(json!({
            "language": "python", "version": "3.11", "packages": ["Set.Uptools>70", "six", "numpy"], "steps": ["make"],
        }))
        .unwrap();
        let made = change(json!({
            "version": "3.9", "packages": ["set_uptools<66", "wheel"], "without": ["NumPy"], "system_packages": ["zlib1g-dev"],
            "project": "path", "build_isolation": false, "variables": {"A": "1"}, "steps": ["make", "make install"],
        }));
        let out = made.apply(&spec, &python);
        assert_eq!(out.packages, ["set_uptools<66", "six", "wheel"]);
        assert_eq!(
            (out.version.as_deref(), out.project, out.build_isolation),
            (Some("3.9"), ProjectMode::Path, Some(false))
        );
        assert_eq!((out.steps.len(), out.variables["A"].as_str()), (2, "1"));
        assert_eq!(out.system_packages, ["zlib1g-dev"]);
        // Once made, it says nothing new.
        assert_eq!(made.apply(&out, &python), out);
    }

    #[test]
    fn groups_of_the_pattern_are_filled_in() {
        let found = Regex::new(r"no module named '(\w+)' for (?<what>\w+)").unwrap();
        let found = found.captures("no module named 'six' for tests").unwrap();
        let filled = change(json!({"packages": ["$1>=1", "${what}-$1"], "variables": {"X": "$1"}})).filled(&found);
        assert_eq!(filled.packages, ["six>=1", "tests-six"]);
        assert_eq!(filled.variables["X"], "six");
    }

    #[test]
    fn only_packages_of_a_registry_are_taken() {
        let python = definition("python");
        for package in [
            "-r other.txt",
            "--index-url=https://x.example/simple",
            "six --no-binary :all:",
            "/etc/passwd",
            "./local",
            "../up",
            "~/x",
            "file:///etc/x",
            "x @ file:///etc/x",
            "git+file:///x",
            "wheels/six.whl",
            "six.whl",
            "x @ https://user:pass@host.example/x.tar.gz",
            "x@https://token@host.example/x",
            "git+https://token@host.example/x.git",
            "",
            "  ",
        ] {
            assert!(change(json!({"packages": [package]})).check(&python).is_err(), "{package}");
        }
        assert!(change(json!({"packages": ["a\nb"]})).check(&python).is_err());
        for package in [
            "six",
            "six==1.16.0",
            "a[b,c]>=1,<2; python_version < '3.9'",
            "x @ https://host.example/x",
            "zope.interface",
            "git+https://host.example/x.git@main",
        ] {
            assert_eq!(change(json!({"packages": [package]})).check(&python), Ok(()), "{package}");
        }
        let node = definition("node");
        assert_eq!(change(json!({"packages": ["@org/a@1.2.3", "lru-cache@6"]})).check(&node), Ok(()));
        assert!(change(json!({"packages": ["org/a/b"]})).check(&node).is_err());
        assert!(change(json!({"packages": ["six"]})).check(&definition("shell")).is_err());
    }

    #[test]
    fn a_change_without_measure_is_refused() {
        let python = definition("python");
        let names = |count: usize| (0..count).map(|i| format!("p{i}")).collect::<Vec<_>>();
        let refused = |value: Value| change(value).check(&python).unwrap_err().to_string();
        assert_eq!(change(json!({"packages": names(MOST)})).check(&python), Ok(()));
        assert!(refused(json!({"packages": names(MOST + 1)})).contains("65 packages, more than 64"));
        assert!(refused(json!({"steps": names(MOST + 1)})).contains("65 steps"));
        assert!(refused(json!({"variables": {"A": "x".repeat(LONGEST + 1)}})).contains("a text of 16385 bytes"));
        assert!(refused(json!({"rebuild": ["x".repeat(LONGEST + 1)]})).contains("a text of 16385 bytes"));
    }

    #[test]
    fn variables_and_system_packages_are_looked_at_too() {
        let python = definition("python");
        for (name, fits) in [
            ("SETUPTOOLS_USE_DISTUTILS", true),
            ("CFLAGS", true),
            ("PIP_INDEX_URL", false),
            ("npm_config_registry", false),
            ("https_proxy", false),
            ("A B", false),
            ("1A", false),
        ] {
            assert_eq!(change(json!({"variables": {name: "x"}})).check(&python).is_ok(), fits, "{name}");
        }
        for (name, fits) in [("zlib1g-dev", true), ("g++", true), ("-y", false), ("a b", false), ("./x.deb", false)] {
            assert_eq!(change(json!({"system_packages": [name]})).check(&python).is_ok(), fits, "{name}");
        }
        assert!(change(json!({"version": "latest"})).check(&python).is_err());
        assert!(change(json!({"version": "3.9"})).check(&python).is_ok());
    }
}
