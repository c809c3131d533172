//! The base of these tests: redgreen's own `python-3.11`, made once into a cache that all of them share.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use redgreen::sandbox::Root;

use crate::support::Place;

/// The cache of all tests with an engine.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("docker/cache")
}

static ROOT: LazyLock<Root> = LazyLock::new(|| {
    let cache = cache();
    fs_err::create_dir_all(&cache).unwrap();
    let cache = cache.display().to_string();
    // Processes take turns in it by themselves.
    let made = Place::new().run(&["env", "base", "python-3.11", "--cache", &cache, "--json"]).exits(0).json();
    let base = &made[0];
    let archive = Path::new(base["folder"].as_str().unwrap()).join("root.tar");
    assert!(archive.is_file(), "{base}");
    let digest = base["record"]["content"].as_str().unwrap().to_owned();
    Root::Base { folder: None, archive: Some(archive), image: None, digest }
});

/// The base.
pub fn root() -> Root {
    ROOT.clone()
}
