//! What environments need to know of the host, handed in by the caller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::base::BaseSettings;
use super::network::NetworkSettings;
use crate::engine::BuildBudget;
use crate::sandbox::Limits;
use crate::store::Uses;

const MIB: u64 = 1024 * 1024;

/// The settings of [`Environments`](super::Environments).
#[derive(Debug, Clone)]
pub struct Settings {
    /// The cache folder; layers lie in `layers-v1/` in it.
    pub cache: PathBuf,
    /// Folders of the user's own definitions, which hide those that come with the program.
    pub definitions: Vec<PathBuf>,
    /// Whether nothing may be installed that came out after the day of the commit. Other bounds of a spec's own stay.
    pub as_of_commit: bool,
    /// Whether steps that need the network are refused. What is in the cache is used all the same.
    pub offline: bool,
    /// The host's variables that lead to toolchains.
    pub host: HostVariables,
    /// How fetch steps reach package indexes.
    pub network: NetworkSettings,
    /// Limits of a fetch step.
    pub fetch_limits: Limits,
    /// Limits of the build phase as a whole.
    pub build_limits: Limits,
    /// How long a toolchain's probe may take.
    pub probe_deadline: Duration,
    /// The Debian mirror that bases are made from; absent: the host's, else the common one.
    pub debian_mirror: Option<String>,
    /// Where the container engine listens that images are taken from (`unix://…`); absent: the usual socket.
    pub engine: Option<String>,
    /// A lock file that bases must agree with.
    pub base_lock: Option<PathBuf>,
    /// How often a step that runs gives a sign of life.
    pub heartbeat: Duration,
    /// What builds may take of the machine together; `None`: each begins at once.
    pub budget: Option<BuildBudget>,
    /// Where this process lists the layers that it uses, so that no other one takes them out of the cache.
    pub uses: Option<Uses>,
    /// Limits of one proof, and of reading what a project wants.
    pub proof_limits: Limits,
    /// How long finding, building and proving one environment may take, all attempts together.
    pub search_deadline: Duration,
    /// How many changes of failed specs are tried for one tree.
    pub repairs: u32,
    /// Whether a base is made where this machine's own system lacks a toolchain or a package. It takes minutes, room and
    /// the network, so that it must have been asked for; one that is in the cache is taken in any case.
    pub makes_bases: bool,
}

impl Settings {
    /// Settings with the default limits: 15 minutes (10 for a proof, 2 hours for all attempts together), 4 GiB of memory
    /// and of scratch space, 3 repairs.
    pub fn new(cache: PathBuf, host: HostVariables) -> Self {
        let limits = Limits {
            wall: Duration::from_secs(15 * 60),
            cpu: None,
            memory: 4096 * MIB,
            pids: 1024,
            file_size: 4096 * MIB,
            output: 16 * MIB,
            scratch: 4096 * MIB,
            disk: 32 * 1024 * MIB,
        };
        Self {
            cache,
            definitions: Vec::new(),
            as_of_commit: false,
            offline: false,
            host,
            network: NetworkSettings::default(),
            fetch_limits: limits.clone(),
            proof_limits: Limits { wall: Duration::from_secs(10 * 60), ..limits.clone() },
            build_limits: limits,
            probe_deadline: Duration::from_secs(30),
            heartbeat: Duration::from_secs(30),
            budget: None,
            uses: None,
            search_deadline: Duration::from_secs(2 * 3600),
            repairs: 3,
            makes_bases: false,
            debian_mirror: None,
            engine: None,
            base_lock: None,
        }
    }

    /// What making bases needs of them.
    pub fn bases(&self) -> BaseSettings {
        BaseSettings {
            cache: self.cache.clone(),
            offline: self.offline,
            mirror: self.debian_mirror.clone(),
            engine: self.engine.clone(),
            network: self.network.clone(),
            host: self.host.clone(),
            deadline: self.fetch_limits.wall,
            lock: self.base_lock.clone(),
        }
    }
}

/// The host's variables that lead to toolchains: `PATH`, `HOME` and those of version managers.
#[derive(Debug, Clone, Default)]
pub struct HostVariables(BTreeMap<String, String>);

impl HostVariables {
    /// The variables that are taken.
    pub const NAMES: [&str; 8] =
        ["PATH", "HOME", "RUSTUP_HOME", "CARGO_HOME", "PYENV_ROOT", "NVM_DIR", "RUSTUP_TOOLCHAIN", "PYENV_VERSION"];

    /// Takes from all variables of a process those that count here.
    pub fn pick(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(
            variables
                .into_iter()
                .filter(|(name, value)| Self::NAMES.contains(&name.as_str()) && !value.is_empty())
                .collect(),
        )
    }

    /// One variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The absolute folders of `PATH`, each once.
    pub fn path_folders(&self) -> Vec<&Path> {
        let mut out: Vec<&Path> = Vec::new();
        for folder in self.get("PATH").unwrap_or_default().split(':').map(Path::new) {
            if folder.is_absolute() && !out.contains(&folder) {
                out.push(folder);
            }
        }
        out
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_variables_are_taken() {
        let variables = [("PATH", "/a:b:/c:/a"), ("TOKEN", "secret"), ("HOME", "")];
        let host = HostVariables::pick(variables.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(host.path_folders(), [Path::new("/a"), Path::new("/c")]);
        assert_eq!(host.get("TOKEN"), None);
        assert_eq!(host.get("HOME"), None);
    }
}
