//! When a layer, a step or a variable of a definition applies.

use std::fmt;
use std::path::{Component, Path};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::detect::Tree;
use crate::model::ProjectMode;

/// One condition: alternatives separated by `|`, each perhaps negated by a leading `!`.
///
/// The words: `packages` (the spec has some), `first-packages` (some of them build the others), `no-build-isolation`,
/// `path` · `editable` · `installed` · `none` (the project mode), `as-of` (the spec bounds what is installed by a date),
/// and of the head tree: `file:NAME` (with `*` for a part of a file's name), `directory:NAME`, and `key:NAME:a.b` (a TOML
/// or JSON file has something at this key).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition(Vec<Alternative>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Alternative {
    negated: bool,
    word: Word,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Packages,
    FirstPackages,
    NoBuildIsolation,
    Project(ProjectMode),
    AsOf,
    File(String),
    Directory(String),
    Key(String, Vec<String>),
}

/// What conditions are asked of.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// Whether the spec has packages.
    pub packages: bool,
    /// Whether some of them are installed before the others.
    pub first_packages: bool,
    /// Whether the build back end is among the packages.
    pub no_build_isolation: bool,
    /// How the project is made importable.
    pub project: ProjectMode,
    /// Whether what is installed is bounded by a date.
    pub as_of: bool,
    /// The head tree on the host.
    pub tree: &'a Path,
}

impl Condition {
    /// Whether the condition holds.
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        self.0.iter().any(|alternative| alternative.word.holds(facts) != alternative.negated)
    }
}

/// Whether all conditions hold; none hold always.
pub(super) fn all_hold(conditions: &[Condition], facts: &Facts<'_>) -> bool {
    conditions.iter().all(|condition| condition.holds(facts))
}

impl Word {
    fn holds(&self, facts: &Facts<'_>) -> bool {
        match self {
            Self::Packages => facts.packages,
            Self::FirstPackages => facts.first_packages,
            Self::NoBuildIsolation => facts.no_build_isolation,
            Self::Project(mode) => facts.project == *mode,
            // A link may lead out of the tree, so it is neither.
            Self::AsOf => facts.as_of,
            Self::File(name) => Tree(facts.tree).has_file(name),
            Self::Key(name, key) => Tree(facts.tree).value(name, key).is_some(),
            Self::Directory(name) => facts.tree.join(name).symlink_metadata().is_ok_and(|m| m.is_dir()),
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packages => f.write_str("packages"),
            Self::FirstPackages => f.write_str("first-packages"),
            Self::NoBuildIsolation => f.write_str("no-build-isolation"),
            Self::Project(ProjectMode::Path) => f.write_str("path"),
            Self::Project(ProjectMode::Editable) => f.write_str("editable"),
            Self::Project(ProjectMode::Installed) => f.write_str("installed"),
            Self::Project(ProjectMode::None) => f.write_str("none"),
            Self::File(name) => write!(f, "file:{name}"),
            Self::Directory(name) => write!(f, "directory:{name}"),
            Self::Key(name, key) => write!(f, "key:{name}:{}", key.join(".")),
            Self::AsOf => f.write_str("as-of"),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, alternative) in self.0.iter().enumerate() {
            let bar = if i > 0 { "|" } else { "" };
            let not = if alternative.negated { "!" } else { "" };
            write!(f, "{bar}{not}{}", alternative.word)?;
        }
        Ok(())
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split('|')
            .map(|part| {
                let (negated, word) = part.strip_prefix('!').map_or((false, part), |word| (true, word));
                let in_tree = |name: &str| {
                    let plain = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
                    if plain && !name.is_empty() {
                        Ok(name.to_owned())
                    } else {
                        Err(format!("`{name}` leaves the tree"))
                    }
                };
                let word = match word {
                    "packages" => Word::Packages,
                    "first-packages" => Word::FirstPackages,
                    "no-build-isolation" => Word::NoBuildIsolation,
                    "path" => Word::Project(ProjectMode::Path),
                    "editable" => Word::Project(ProjectMode::Editable),
                    "installed" => Word::Project(ProjectMode::Installed),
                    "none" => Word::Project(ProjectMode::None),
                    "as-of" => Word::AsOf,
                    other => match other.split_once(':') {
                        Some(("file", name)) => Word::File(in_tree(name)?),
                        Some(("directory", name)) => Word::Directory(in_tree(name)?),
                        Some(("key", rest)) => match rest.split_once(':') {
                            Some((name, key)) if key.split('.').all(|part| !part.is_empty()) => {
                                Word::Key(in_tree(name)?, key.split('.').map(str::to_owned).collect())
                            }
                            _ => return Err(format!("`{other}` is not `key:FILE:a.b`")),
                        },
                        _ => return Err(format!("`{other}` is not a condition")),
                    },
                };
                Ok(Alternative { negated, word })
            })
            .collect::<Result<Vec<_>, _>>()
            .map(Self)
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_alternatives_and_negation() {
        let tree = tempfile::tempdir().unwrap();
        fs_err::create_dir(tree.path().join("src")).unwrap();
        fs_err::write(tree.path().join("Cargo.toml"), "[package.metadata]").unwrap();
        fs_err::write(tree.path().join("package.json"), r#"{"scripts": {"test": "x", "build": null}}"#).unwrap();
        let facts = Facts {
            packages: false,
            first_packages: false,
            no_build_isolation: true,
            project: ProjectMode::Editable,
            as_of: false,
            tree: tree.path(),
        };
        for (text, expected) in [
            ("packages", false),
            ("!packages", true),
            ("packages|editable|installed", true),
            ("path|none", false),
            ("no-build-isolation", true),
            ("file:Cargo.toml", true),
            ("file:src", false),
            ("directory:src", true),
            ("!directory:src", false),
            ("as-of", false),
            ("file:*.toml", true),
            ("file:src/*", false),
            ("key:Cargo.toml:package.metadata", true),
            ("key:Cargo.toml:package.name", false),
            ("key:Cargo.toml:package.metadata.x", false),
            ("key:package.json:scripts.test", true),
            ("key:package.json:scripts.build", false),
            ("key:gone.toml:a", false),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.holds(&facts), expected, "{text}");
            assert_eq!(condition.to_string(), text);
        }
    }

    #[test]
    fn unknown_words_and_ways_out_of_the_tree_are_refused() {
        for text in [
            "",
            "package",
            "file:",
            "file:../x",
            "file:/etc/passwd",
            "packages|",
            "x:y",
            "key:a",
            "key:a:",
            "key:a:b..c",
            "key:../a:b",
        ] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
    }
}
