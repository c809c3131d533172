//! The bases of these tests: redgreen's own, each made once into a cache that all of them share.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use redgreen::sandbox::docker::own_name;
use redgreen::sandbox::{Root, Task};

use super::{contract, try_run};
use crate::support::Place;

/// The cache of all tests with an engine.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("docker/cache")
}

/// A base in the cache, whose image the engine has.
pub struct Base {
    name: &'static str,
    folder: PathBuf,
    root: Root,
}

pub static PYTHON: LazyLock<Base> = LazyLock::new(|| Base::make("python-3.11"));
/// Takes minutes to make.
static RUST: LazyLock<Base> = LazyLock::new(|| Base::make("rust-1.85"));
/// Takes minutes to make.
static NODE: LazyLock<Base> = LazyLock::new(|| Base::make("node-20"));

/// The base that an environment of a language gets which wants no version.
pub fn of(language: &str) -> &'static Base {
    match language {
        "python" => &PYTHON,
        "rust" => &RUST,
        "javascript" => &NODE,
        other => panic!("no base for {other}"),
    }
}

/// The base of Python.
pub fn root() -> Root {
    PYTHON.root.clone()
}

impl Base {
    fn make(name: &'static str) -> Self {
        let shared = cache();
        fs_err::create_dir_all(&shared).unwrap();
        let shared = shared.display().to_string();
        // Processes take turns in it by themselves.
        let made = Place::new().run(&["env", "base", name, "--cache", &shared, "--json"]).exits(0).json();
        let base = &made[0];
        let folder = PathBuf::from(base["folder"].as_str().unwrap());
        let archive = folder.join("root.tar");
        assert!(archive.is_file(), "{base}");
        let digest = base["record"]["content"].as_str().unwrap().to_owned();
        let root = Root::Base { folder: None, archive: Some(archive), image: None, digest };
        // Imported before anybody's clock runs.
        let sandbox = super::sandbox().unwrap();
        try_run(sandbox, &Task { root: root.clone(), ..contract::task(&["true"]) }).unwrap();
        Self { name, folder, root }
    }

    /// The name of its image.
    pub fn image(&self) -> String {
        let Root::Base { digest, .. } = &self.root else { unreachable!() };
        own_name(digest)
    }

    /// Puts it into another cache, where the two can be by other names of the same files.
    pub fn lend(&self, cache: &Path) {
        let bucket = cache.join("bases-v1");
        fs_err::create_dir_all(&bucket).unwrap();
        let copied = |how: &str| {
            let mut copy = Command::new("cp");
            copy.arg(how).arg(&self.folder).arg(&bucket);
            copy.output().unwrap().status.success()
        };
        assert!(copied("-al") || copied("-a"), "{} cannot be copied", self.folder.display());
        let cache = cache.display().to_string();
        let there = ["env", "base", self.name, "--cache", &cache, "--offline", "--json"];
        assert_eq!(Place::new().run(&there).exits(0).json()[0]["made"], false, "{}", self.name);
    }
}
