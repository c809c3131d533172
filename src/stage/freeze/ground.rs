//! Whether a run folder's records are of this freeze: controls must have run just now, on this machine.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::store::{StoreError, write_json};

/// The file in the run folder.
const FILE: &str = "freeze.json";

/// Where and for what the controls in a run folder ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ground {
    /// The machine, from one start of it to the next.
    pub machine: String,
    /// Whether the freeze that they ran for was written.
    pub finished: bool,
}

/// Why a run folder's records do not count.
#[derive(Debug, thiserror::Error)]
pub enum GroundError {
    /// The folder holds records of something else.
    #[error("`{0}` is a run that no freeze began; its records may be old. Name a new folder")]
    NotOurs(String),
    /// Another machine, or this one before it was started anew.
    #[error("`{0}` was begun on another machine, or before this one was started anew. Name a new folder")]
    Elsewhere(String),
    /// The freeze that it was for is done.
    #[error("`{0}` served a freeze that is done; its controls did not just pass. Name a new folder")]
    Finished(String),
    /// The file cannot be read.
    #[error("`{file}` cannot be read: {problem}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        problem: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Ground {
    /// Of this machine, now.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn here() -> Result<Self, GroundError> {
        let file = "/proc/sys/kernel/random/boot_id";
        let boot = fs_err::read_to_string(file)
            .map_err(|e| GroundError::Unreadable { file: file.to_owned(), problem: e.to_string() })?;
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(Self { machine: format!("{name}/{}", boot.trim()), finished: false })
    }

    /// Notes it in a run folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self, run: &Path) -> Result<(), GroundError> {
        Ok(write_json(&run.join(FILE), self)?)
    }

    /// Checks that a run folder is new, or that of an unfinished freeze on this machine.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(&self, run: &Path) -> Result<(), GroundError> {
        let name = run.display().to_string();
        match ground_of(run)? {
            None if run.join("manifest.json").exists() => Err(GroundError::NotOurs(name)),
            None => Ok(()),
            Some(there) if there.machine != self.machine => Err(GroundError::Elsewhere(name)),
            Some(there) if there.finished => Err(GroundError::Finished(name)),
            Some(_) => Ok(()),
        }
    }
}

/// What a run folder says; `None` where no freeze began it.
///
/// # Errors
/// When it cannot be read.
pub fn ground_of(run: &Path) -> Result<Option<Ground>, GroundError> {
    let path = run.join(FILE);
    let bad = |problem: String| GroundError::Unreadable { file: path.display().to_string(), problem };
    match fs_err::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| bad(e.to_string())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(bad(e.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_s_unfinished_freeze_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let here = Ground::here().unwrap();
        assert!(here.check(folder.path()).is_ok());
        here.write(folder.path()).unwrap();
        assert!(here.check(folder.path()).is_ok());
        Ground { finished: true, ..here.clone() }.write(folder.path()).unwrap();
        assert!(matches!(here.check(folder.path()), Err(GroundError::Finished(_))));
        Ground { machine: "x".to_owned(), ..here.clone() }.write(folder.path()).unwrap();
        assert!(matches!(here.check(folder.path()), Err(GroundError::Elsewhere(_))));
        fs_err::write(folder.path().join(FILE), "{").unwrap();
        assert!(matches!(here.check(folder.path()), Err(GroundError::Unreadable { .. })));
        fs_err::remove_file(folder.path().join(FILE)).unwrap();
        fs_err::write(folder.path().join("manifest.json"), "{}").unwrap();
        assert!(matches!(here.check(folder.path()), Err(GroundError::NotOurs(_))));
    }
}
