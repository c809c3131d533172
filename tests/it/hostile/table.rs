//! What a table's file holds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::generate::Generator;
use super::level::Level;
use crate::support::root;
use crate::truth::fixture::Oracle;

/// One table: an instance, its oracle, and rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its heading in the page.
    pub title: String,
    /// What stands under the heading.
    pub about: String,
    /// Options of `score`.
    pub arguments: Vec<String>,
    /// Marks of every row whose oracle ran.
    #[serde(default)]
    pub marks: Vec<String>,
    /// Its toolchain may lie in a home that is closed to others.
    #[serde(default)]
    pub home: bool,
    /// More fields of the instance.
    #[serde(default)]
    pub instance: BTreeMap<String, Value>,
    /// The three are `clamp/` where a table does not say.
    #[serde(default = "own_oracle")]
    pub oracle: Oracle,
    #[serde(default = "own_head")]
    pub head: BTreeMap<String, String>,
    #[serde(default = "own_merged")]
    pub merged: BTreeMap<String, String>,
    /// Pieces of code that several rows use as `@name@`.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
    pub row: Vec<Row>,
}

/// One revision and what must come of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub name: String,
    /// What it does, for the page.
    pub does: String,
    /// The verdict and its reason, at `full` and `userns`.
    pub expect: String,
    /// The same at `userns`, where it is another.
    pub userns: Option<String>,
    /// The same in a container, where it is another; `the engine…` says why it is not run there.
    pub container: Option<String>,
    /// The same without a sandbox; such rows run there, too.
    pub none: Option<String>,
    #[serde(default)]
    pub marks: Vec<String>,
    /// Who runs the same code without the sandbox, and gets through.
    pub control: Option<Control>,
    /// The body of a Python function that is true where it got through; the module gives right values only then.
    pub attempt: Option<String>,
    #[serde(default)]
    pub write: BTreeMap<String, String>,
    #[serde(default)]
    pub delete: Vec<String>,
    /// Symbolic links: path to target.
    #[serde(default)]
    pub link: BTreeMap<String, String>,
    /// A patch word for word.
    pub patch: Option<String>,
    /// A patch, or files, too large to stand in a table.
    pub generate: Option<Generator>,
}

/// How the check of a row is shown to be able to fail: its code is run on the host, without redgreen, and must pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// By the user that the sandbox's commands are to the host.
    Bare,
    /// By root, in mount and other namespaces of its own, so that it does the host no harm.
    Root,
    /// By a user of its own, with a process of that user which must be dead afterwards.
    Storm,
}

fn own_oracle() -> Oracle {
    let text = include_str!("clamp/clamp_test.py");
    toml::from_str(&format!("framework = 'unittest'\nfile = 'clamp_test.py'\ntext = '''{text}'''\n")).unwrap()
}

fn own_head() -> BTreeMap<String, String> {
    BTreeMap::from([("clamp.py".to_owned(), include_str!("clamp/head.py").to_owned())])
}

fn own_merged() -> BTreeMap<String, String> {
    BTreeMap::from([("clamp.py".to_owned(), include_str!("clamp/merged.py").to_owned())])
}

impl Table {
    pub fn read(name: &str) -> Self {
        let path = root().join("tests/it/hostile").join(format!("{name}.toml"));
        let text = fs_err::read_to_string(&path).unwrap();
        let table: Self = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let names: BTreeSet<_> = table.row.iter().map(|row| &row.name).collect();
        assert_eq!(names.len(), table.row.len(), "{}: a name is there twice", path.display());
        table
    }

    /// The language of its instance.
    pub fn language(&self) -> &str {
        self.instance.get("language").and_then(Value::as_str).unwrap_or("python")
    }

    /// The rows that are run at a level.
    pub fn rows(&self, level: Level) -> impl Iterator<Item = &Row> {
        self.row.iter().filter(move |row| row.expected(level).is_some())
    }
}

impl Row {
    /// Verdict and reason at a level.
    pub fn expected(&self, level: Level) -> Option<&str> {
        match level {
            Level::Full => Some(&self.expect),
            Level::Userns | Level::UsernsOfRoot => Some(self.userns.as_ref().unwrap_or(&self.expect)),
            Level::Container => match &self.container {
                // Not run where it depends on the engine.
                Some(text) if text.starts_with("the engine") => None,
                other => Some(other.as_ref().unwrap_or(&self.expect)),
            },
            Level::None => self.none.as_deref(),
        }
    }

    /// Writes the row's files below a tree, which is head's.
    pub fn lay_out(&self, tree: &Path, fill: &dyn Fn(&str) -> String) {
        for path in &self.delete {
            let path = tree.join(path);
            if path.is_dir() { fs_err::remove_dir_all(path).unwrap() } else { fs_err::remove_file(path).unwrap() }
        }
        let attempt = self.attempt.as_ref().map(|body| {
            let body = body.trim().replace('\n', "\n    ");
            ("clamp.py", include_str!("clamp/attempt.py").replace("@attempt@", &body))
        });
        let written = self.write.iter().map(|(path, text)| (path.as_str(), text.clone()));
        for (path, text) in written.chain(attempt) {
            let path = tree.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, fill(&text)).unwrap();
        }
        for (path, target) in &self.link {
            let path = tree.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::os::unix::fs::symlink(fill(target), path).unwrap();
        }
    }
}
