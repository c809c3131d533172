//! What the Docker sandbox needs to know of its surroundings.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// How to make a [`DockerSandbox`](super::DockerSandbox).
#[derive(Debug, Clone)]
pub struct DockerConfig {
    /// Where an engine may answer.
    pub surroundings: Surroundings,
    /// A directory on the file system where workspaces and caches lie. It is made when it is missing; nothing stays in it.
    pub scratch_dir: PathBuf,
    /// Copy workspaces into containers even where the engine could mount them.
    pub copy_workspace: bool,
}

impl DockerConfig {
    /// The usual configuration.
    pub fn new(surroundings: Surroundings, scratch_dir: impl Into<PathBuf>) -> Self {
        Self { surroundings, scratch_dir: scratch_dir.into(), copy_workspace: false }
    }
}

/// What a process's environment says of container engines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// `DOCKER_HOST`: the address of an engine.
    pub host: Option<String>,
    /// `DOCKER_CONTEXT`: the name of one of the client's contexts.
    pub context: Option<String>,
    /// `DOCKER_TLS_VERIFY`, set to anything: addresses in the network are spoken to by TLS.
    pub tls: bool,
    /// `DOCKER_CERT_PATH`: the folder with `ca.pem`, `cert.pem` and `key.pem`.
    pub certificates: Option<PathBuf>,
    /// `DOCKER_CONFIG`, else `.docker` in the home folder: contexts, and certificates where no other folder is named.
    pub configuration: Option<PathBuf>,
    /// The home folder.
    pub home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`: where engines without root's rights keep their sockets.
    pub runtime: Option<PathBuf>,
    /// `CONTAINER_HOST`: the address of Podman's service.
    pub podman: Option<String>,
}

impl Surroundings {
    /// Picks what matters out of a process's variables.
    pub fn of(variables: &BTreeMap<String, String>) -> Self {
        let get = |name: &str| variables.get(name).filter(|value| !value.is_empty()).cloned();
        let folder = |name: &str| get(name).map(PathBuf::from);
        let home = folder("HOME");
        Self {
            host: get("DOCKER_HOST"),
            context: get("DOCKER_CONTEXT"),
            tls: get("DOCKER_TLS_VERIFY").is_some(),
            certificates: folder("DOCKER_CERT_PATH"),
            configuration: folder("DOCKER_CONFIG").or_else(|| home.as_ref().map(|home| home.join(".docker"))),
            runtime: folder("XDG_RUNTIME_DIR"),
            podman: get("CONTAINER_HOST"),
            home,
        }
    }
}
