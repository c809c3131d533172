//! What the embedded sandbox needs to know of its surroundings.

use std::path::PathBuf;

/// How to make a [`LocalSandbox`](super::LocalSandbox).
#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// The binary that becomes the helper: redgreen's own path, or another whose `main` calls
    /// [`helper_main_if_asked`](super::helper_main_if_asked) first. The calling user must be able to execute it.
    pub helper: PathBuf,
    /// A directory on the file system where workspaces and caches lie; the probe tries an overlay over it. It is made
    /// when it is missing, and nothing stays in it.
    pub scratch_dir: PathBuf,
    /// Whether to make a cgroup for each run where that is possible; otherwise limits are by rlimits and the watcher.
    pub cgroup: bool,
    /// Copy workspaces even where overlayfs works.
    pub copy_workspace: bool,
}

impl LocalConfig {
    /// The usual configuration.
    pub fn new(helper: impl Into<PathBuf>, scratch_dir: impl Into<PathBuf>) -> Self {
        Self { helper: helper.into(), scratch_dir: scratch_dir.into(), cgroup: true, copy_workspace: false }
    }
}
