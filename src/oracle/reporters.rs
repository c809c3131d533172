//! redgreen's own small reporters, carried in the binary and laid into a folder of the host to be mounted read-only.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::model::{Digest, digest_json};

use super::error::OracleError;

/// Where the reporters lie inside a sandbox.
pub const REPORTERS: &str = "/run/redgreen/reporters";

const FILES: [(&str, &str); 7] = [
    ("redgreen_canary.rs", include_str!("../../environments/reporters/redgreen_canary.rs")),
    ("redgreen_common.py", include_str!("../../environments/reporters/redgreen_common.py")),
    ("redgreen_audit.py", include_str!("../../environments/reporters/redgreen_audit.py")),
    ("redgreen_node.mjs", include_str!("../../environments/reporters/redgreen_node.mjs")),
    ("redgreen_node_tests.mjs", include_str!("../../environments/reporters/redgreen_node_tests.mjs")),
    ("redgreen_pytest.py", include_str!("../../environments/reporters/redgreen_pytest.py")),
    ("redgreen_unittest.py", include_str!("../../environments/reporters/redgreen_unittest.py")),
];

/// The reporters, laid out on the host.
#[derive(Debug, Clone)]
pub struct Reporters {
    folder: PathBuf,
}

impl Reporters {
    /// Lays the reporters into a folder of their own below `parent`, named by their digest, so that another version
    /// of redgreen never finds its own there changed. Doing it twice is harmless.
    pub fn install(parent: &Path) -> Result<Self, OracleError> {
        let folder = parent.join(format!("reporters-{}", Self::digest().short()));
        let file = |source| OracleError::File { source };
        if !folder.is_dir() {
            fs_err::create_dir_all(parent).map_err(file)?;
            let fresh = tempfile::Builder::new()
                .prefix("reporters-")
                .tempdir_in(parent)
                .map_err(|source| OracleError::File { source })?;
            for (name, text) in FILES {
                let path = fresh.path().join(name);
                fs_err::write(&path, text).map_err(file)?;
                set_mode(&path, 0o644)?;
            }
            set_mode(fresh.path(), 0o755)?;
            // Another process may be first; then its folder holds the same.
            if let Err(source) = fs_err::rename(fresh.path(), &folder)
                && !folder.is_dir()
            {
                return Err(OracleError::File { source });
            }
        }
        Ok(Self { folder })
    }

    /// The digest of all reporters; part of the key of every run.
    pub fn digest() -> Digest {
        static DIGEST: LazyLock<Digest> = LazyLock::new(|| digest_json(&serde_json::json!(FILES)));
        DIGEST.clone()
    }

    /// The folder on the host.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), OracleError> {
    use std::os::unix::fs::PermissionsExt;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(|source| OracleError::File { source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reporters_are_laid_out_once_and_completely() {
        let parent = tempfile::tempdir().unwrap();
        let first = Reporters::install(parent.path()).unwrap();
        let second = Reporters::install(parent.path()).unwrap();
        assert_eq!(first.folder(), second.folder());
        for (name, text) in FILES {
            assert_eq!(fs_err::read_to_string(first.folder().join(name)).unwrap(), text);
        }
        assert_eq!(fs_err::read_dir(parent.path()).unwrap().count(), 1);
    }
}
