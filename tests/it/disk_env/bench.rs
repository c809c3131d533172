//! Benchmarks of small projects whose environments have something to make, and commands on them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Place, Ran};
use crate::truth::fixture::{Fixture, git, instance, write};

/// A language of the tests' own, in which everything is made by the system's shell. Its layer holds a file of some MiB
/// and what the packages are called; a package `slow` waits until a file of that name lies in the tree of the tests.
pub const HEAVY: &str = r#"
schema = 1
name = "heavy"

[toolchain]
programs = ["sh"]
probe = ["/bin/sh", "-c", '''printf '{"version": "1", "executable": "/bin/sh", "roots": [], "tools": {"sh": "/bin/sh"}, "identity": {}}' ''']

[packages]
name = '^([a-z]+)'

[[layer]]
name = "deps"
path = "/env/deps"

[[layer.step]]
name = "lay the packages down"
argv = ["/bin/sh", "-c", '''
for name in "$@"; do
  echo "$name" >"{{layer.deps}}/$name"
  case "$name" in
    slow) echo "halfway through"; sleep 600 ;;
    big) head -c 4m /dev/urandom >"{{layer.deps}}/content" ;;
    careless) head -c 64m /dev/urandom >"{{layer.deps}}/content" 2>/dev/null; exit 0 ;;
    greedy) head -c 64m /dev/urandom >"{{layer.deps}}/content" ;;
  esac
done
exit $?''', "sh", "{{packages...}}"]

[layer.lock]
command = ["/bin/sh", "-c", "printf '[\"%s\"]' \"$(ls {{layer.deps}} | tr '\\n' ' ')\""]

[[variable]]
name = "PATH"
value = "/usr/local/bin:/usr/bin:/bin"

[tools]
sh = "/bin/sh"
"#;

/// A benchmark at `bench` of the place: one repository with a commit for each instance.
pub struct Bench<'a> {
    pub place: &'a Place,
    /// In the instances' order.
    pub ids: Vec<String>,
    variables: Vec<(String, String)>,
}

impl<'a> Bench<'a> {
    /// `count` instances of one project, whose trees hold `files` and a file `number`. `environment` makes the
    /// environment of each.
    pub fn new(place: &'a Place, count: usize, files: &[(&str, &str)], environment: impl Fn(usize) -> Value) -> Self {
        let mut fixture = Fixture::new(place);
        let repository = fixture.repository("many");
        let mut ids = Vec::new();
        for number in 1..=count {
            let mut tree: BTreeMap<String, String> =
                files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
            tree.insert("number".to_owned(), format!("{number}\n"));
            write(&repository, &tree);
            git(&repository, &["add", "--all"]);
            git(&repository, &["commit", "--quiet", "--message", &format!("Step {number}")]);
            let head = git(&repository, &["rev-parse", "HEAD"]).trim().to_owned();
            let mut one = instance("many", number as u64, &head, None);
            one["environment"] = environment(number);
            one["comments"] = json!([{"id": "c1", "text": "This is wrong.", "test": "c1.sh", "framework": "exit"}]);
            ids.push(fixture.add(one, &[("c1.sh", "test -e number\n")]));
        }
        fixture.import();
        fs_err::create_dir_all(place.join("definitions")).unwrap();
        fs_err::write(place.join("definitions/heavy.toml"), HEAVY).unwrap();
        Self { place, ids, variables: Vec::new() }
    }

    /// The same, with a variable for each command.
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn cache(&self) -> PathBuf {
        self.place.join("cache")
    }

    /// A command on the benchmark, with a cache of its own, the tests' definitions and no network.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let (mirrors, definitions) = (self.place.join("mirrors"), self.place.join("definitions"));
        let mut command = self.place.command(arguments);
        command.env("REDGREEN_CACHE", self.cache()).env("REDGREEN_MIRRORS", mirrors);
        command.env("REDGREEN_DEFINITIONS", definitions);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Whole layers of a kind in the cache, by their digests.
    pub fn layers(&self, kind: &str) -> Vec<String> {
        let entries = fs_err::read_dir(self.cache().join("layers-v1").join(kind)).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }

    /// Half-made layers and trees in the cache, and folders of processes.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let half = walkdir::WalkDir::new(self.cache()).max_depth(3).into_iter().flatten();
        let half = half.filter(|entry| {
            let name = entry.file_name().to_string_lossy();
            name.ends_with(".tmp") || (name.starts_with('.') && name != ".git") || name.starts_with("process-")
        });
        half.map(walkdir::DirEntry::into_path).collect()
    }
}

/// Bytes of one kind in what `env du --json` says; of all layers with `layer`.
pub fn bytes(du: &Value, kind: &str) -> u64 {
    let kinds = du["kinds"].as_array().unwrap().iter().filter(|row| row["kind"] == kind);
    kinds.map(|row| row["bytes"].as_u64().unwrap()).sum()
}
