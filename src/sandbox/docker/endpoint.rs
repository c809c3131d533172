//! Where a container engine may answer: by variable, by the client's context, or at one of the usual sockets.
//!
//! The order is that of Docker's own client: `DOCKER_HOST`, `DOCKER_CONTEXT`, the context that its configuration names,
//! then sockets. What is named explicitly is the only one tried.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::config::Surroundings;

/// The context that stands for no context.
const DEFAULT_CONTEXT: &str = "default";

/// An engine's address, and who named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The address.
    pub endpoint: Endpoint,
    /// What named it, in words.
    pub origin: String,
}

/// An engine's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket of this machine.
    Unix(PathBuf),
    /// A host and port, in plain text.
    Tcp(String),
    /// A host and port, by TLS.
    Tls {
        /// The host and port.
        address: String,
        /// The authority's certificate, the client's own, and its key.
        files: Certificates,
    },
}

/// The three files of a TLS connection, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificates {
    /// The authority that signed the engine's certificate.
    pub authority: PathBuf,
    /// The client's certificate.
    pub certificate: PathBuf,
    /// The client's key.
    pub key: PathBuf,
}

impl Certificates {
    fn in_folder(folder: &Path) -> Self {
        let file = |name| folder.join(name);
        Self { authority: file("ca.pem"), certificate: file("cert.pem"), key: file("key.pem") }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Tls { address, .. } => write!(f, "tcp://{address} (TLS)"),
        }
    }
}

/// A setting that names no address that can be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// An address of another kind.
    #[error("`{address}` ({origin}) is no address of an engine that can be used: {problem}")]
    Address {
        /// The address.
        address: String,
        /// What named it.
        origin: String,
        /// What is wrong, and what to do.
        problem: &'static str,
    },
    /// A context that is not there, or cannot be read.
    #[error("the Docker context `{name}` ({origin}) cannot be used: {problem}")]
    Context {
        /// Its name.
        name: String,
        /// What named it.
        origin: String,
        /// What is wrong.
        problem: String,
    },
}

/// Where to look for an engine.
#[derive(Debug, Default)]
pub struct Candidates {
    /// The addresses to try, in order. Sockets that are not there are left out, so the list may be empty.
    pub found: Vec<Candidate>,
    /// Settings that were passed over: they name something that cannot be used, and are not meant for us alone.
    pub skipped: Vec<EndpointError>,
}

impl From<Candidate> for Candidates {
    fn from(only: Candidate) -> Self {
        Self { found: vec![only], skipped: Vec::new() }
    }
}

/// The addresses to try.
///
/// # Errors
///
/// [`EndpointError`], where a setting that says which engine is meant names something that cannot be used. `CONTAINER_HOST`
/// is no such setting: it is there for Podman's own client, whatever other engine is on this machine.
pub fn candidates(around: &Surroundings) -> Result<Candidates, EndpointError> {
    if let Some(host) = &around.host {
        let folder = around.certificates.as_deref().or(around.configuration.as_deref());
        let tls = around.tls || around.certificates.is_some();
        let files = folder.filter(|_| tls).map(Certificates::in_folder);
        let origin = "DOCKER_HOST".to_owned();
        return Ok(Candidate { endpoint: parse(host, files, &origin)?, origin }.into());
    }
    if let Some((name, origin)) = context(around)? {
        return Ok(of_context(around, &name, origin)?.into());
    }
    let mut places = vec![(PathBuf::from("/var/run/docker.sock"), "the default socket")];
    let below = |folder: &Option<PathBuf>, path: &str| folder.as_ref().map(|folder| folder.join(path));
    for (place, origin) in [
        (below(&around.runtime, "docker.sock"), "the socket of a Docker engine without root's rights"),
        (below(&around.home, ".docker/run/docker.sock"), "Docker Desktop's socket"),
        (below(&around.home, ".docker/desktop/docker.sock"), "Docker Desktop's socket"),
        (below(&around.runtime, "podman/podman.sock"), "Podman's socket"),
        (Some("/run/podman/podman.sock".into()), "Podman's socket"),
    ] {
        places.extend(place.map(|place| (place, origin)));
    }
    let there = places.into_iter().filter(|(path, _)| path.exists());
    let candidate = |(path, origin): (_, &str)| Candidate { endpoint: Endpoint::Unix(path), origin: origin.to_owned() };
    let mut all = Candidates { found: there.map(candidate).collect(), skipped: Vec::new() };
    if let Some(host) = &around.podman {
        let origin = "CONTAINER_HOST".to_owned();
        match parse(host, None, &origin) {
            Ok(endpoint) => all.found.push(Candidate { endpoint, origin }),
            Err(error) => all.skipped.push(error),
        }
    }
    Ok(all)
}

/// The context in force, and who named it; `None` where that is none.
fn context(around: &Surroundings) -> Result<Option<(String, String)>, EndpointError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Configuration {
        current_context: Option<String>,
    }
    let named = around.context.clone().map(|name| (name, "DOCKER_CONTEXT".to_owned()));
    let named = match (named, &around.configuration) {
        (None, Some(folder)) => {
            let file = folder.join("config.json");
            let Ok(text) = fs::read_to_string(&file) else { return Ok(None) };
            let read: Result<Configuration, _> = serde_json::from_str(&text);
            let read = read.map_err(|error| EndpointError::Context {
                name: DEFAULT_CONTEXT.to_owned(),
                origin: file.display().to_string(),
                problem: format!("the file is no configuration of Docker's: {error}"),
            })?;
            read.current_context.map(|name| (name, file.display().to_string()))
        }
        (named, _) => named,
    };
    Ok(named.filter(|(name, _)| name != DEFAULT_CONTEXT && !name.is_empty()))
}

/// Reads a context's address: its folders are named by the SHA-256 of its name.
fn of_context(around: &Surroundings, name: &str, origin: String) -> Result<Candidate, EndpointError> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "Endpoints")]
        endpoints: std::collections::BTreeMap<String, ContextEndpoint>,
    }
    #[derive(Deserialize)]
    struct ContextEndpoint {
        #[serde(rename = "Host")]
        host: String,
        #[serde(rename = "SkipTLSVerify", default)]
        unverified: bool,
    }
    let broken = |problem: String| EndpointError::Context { name: name.to_owned(), origin: origin.clone(), problem };
    let folder = around.configuration.as_ref().ok_or_else(|| broken("no home folder is known".to_owned()))?;
    let id: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let file = folder.join("contexts/meta").join(&id).join("meta.json");
    let text = fs::read_to_string(&file).map_err(|error| broken(error.to_string()))?;
    let meta: Meta = serde_json::from_str(&text).map_err(|error| broken(format!("`{}`: {error}", file.display())))?;
    let found = meta.endpoints.get("docker");
    let found = found.ok_or_else(|| broken(format!("`{}` names no `docker` endpoint", file.display())))?;
    let keys = folder.join("contexts/tls").join(&id).join("docker");
    let files = keys.is_dir().then(|| Certificates::in_folder(&keys));
    if found.unverified && files.is_some() {
        return Err(broken(
            "it asks for TLS without a check of the engine's certificate; name the `ca.pem`".to_owned(),
        ));
    }
    let origin = format!("the context `{name}` of {origin}");
    Ok(Candidate { endpoint: parse(&found.host, files, &origin)?, origin })
}

/// Reads an address. With certificates, one in the network is spoken to by TLS.
fn parse(text: &str, files: Option<Certificates>, origin: &str) -> Result<Endpoint, EndpointError> {
    let bad = |problem| EndpointError::Address { address: text.to_owned(), origin: origin.to_owned(), problem };
    let (scheme, rest) = text.split_once("://").unwrap_or(("tcp", text));
    let rest = rest.trim_end_matches('/');
    if rest.is_empty() {
        return Err(bad("nothing stands behind the `://`"));
    }
    match (scheme, files) {
        ("unix", _) if rest.starts_with('/') => Ok(Endpoint::Unix(rest.into())),
        ("unix", _) => Err(bad("the socket's path must begin with `/`")),
        ("tcp" | "https", Some(files)) => Ok(Endpoint::Tls { address: rest.to_owned(), files }),
        ("https", None) => Err(bad("`https` needs certificates: set `DOCKER_CERT_PATH`")),
        ("tcp" | "http", _) => Ok(Endpoint::Tcp(rest.to_owned())),
        ("ssh", _) => Err(bad("forward the engine's socket instead, as by `ssh -nNT -L /tmp/docker.sock:/var/run/\
                               docker.sock HOST`, and set `DOCKER_HOST=unix:///tmp/docker.sock`")),
        _ => Err(bad("use `unix:///path` or `tcp://host:port`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(around: &Surroundings) -> Endpoint {
        let mut found = candidates(around).unwrap().found;
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0).endpoint
    }

    #[test]
    fn an_address_is_read_in_its_usual_forms() {
        let host = |host: &str| Surroundings { host: Some(host.to_owned()), ..Surroundings::default() };
        assert_eq!(only(&host("unix:///run/x.sock")), Endpoint::Unix("/run/x.sock".into()));
        assert_eq!(only(&host("tcp://h:2375/")), Endpoint::Tcp("h:2375".to_owned()));
        assert_eq!(only(&host("h:2375")), Endpoint::Tcp("h:2375".to_owned()));
        for (bad, part) in [
            ("ssh://h", "forward"),
            ("npipe:////./pipe/x", "unix:///path"),
            ("unix://x", "begin"),
            ("tcp://", "nothing"),
            ("https://h:2376", "DOCKER_CERT_PATH"),
        ] {
            let error = candidates(&host(bad)).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("DOCKER_HOST"), "{error}");
        }
    }

    #[test]
    fn an_address_of_podmans_that_cannot_be_used_is_passed_over() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".docker/run")).unwrap();
        fs::write(home.path().join(".docker/run/docker.sock"), "").unwrap();
        let around = |podman: &str| Surroundings {
            home: Some(home.path().to_owned()),
            podman: Some(podman.to_owned()),
            ..Surroundings::default()
        };
        let all = candidates(&around("ssh://core@127.0.0.1:53685/run/podman/podman.sock")).unwrap();
        assert!(all.found.iter().any(|found| found.origin == "Docker Desktop's socket"), "{all:?}");
        assert!(all.found.iter().all(|found| found.origin != "CONTAINER_HOST"), "{all:?}");
        let said = all.skipped[0].to_string();
        assert!(said.contains("CONTAINER_HOST") && said.contains("forward"), "{said}");
        let all = candidates(&around("unix:///run/p.sock")).unwrap();
        assert!(all.found.iter().any(|found| found.origin == "CONTAINER_HOST") && all.skipped.is_empty(), "{all:?}");
    }

    #[test]
    fn tls_comes_with_its_folder() {
        let mut around = Surroundings {
            host: Some("tcp://h:2376".to_owned()),
            configuration: Some("/home/u/.docker".into()),
            ..Surroundings::default()
        };
        assert_eq!(only(&around), Endpoint::Tcp("h:2376".to_owned()));
        around.tls = true;
        let Endpoint::Tls { files, .. } = only(&around) else { panic!() };
        assert_eq!(files.key, Path::new("/home/u/.docker/key.pem"));
        around = Surroundings { tls: false, certificates: Some("/certs".into()), ..around };
        let Endpoint::Tls { files, .. } = only(&around) else { panic!() };
        assert_eq!(files.authority, Path::new("/certs/ca.pem"));
    }

    #[test]
    fn a_context_is_found_by_the_digest_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("config.json", r#"{"auths":{},"currentContext":"far"}"#);
        let mut around = Surroundings { configuration: Some(folder.path().to_owned()), ..Surroundings::default() };
        let error = candidates(&around).unwrap_err().to_string();
        assert!(error.contains("`far`") && error.contains("config.json"), "{error}");
        // As `printf far | sha256sum` says.
        let own = "512eea46ceb3921dff4363c7069d89d4964d1d9fccaa0f411851a7aa60a5c868";
        write(
            &format!("contexts/meta/{own}/meta.json"),
            r#"{"Name":"far","Metadata":{},"Endpoints":{"docker":{"Host":"tcp://far:2376","SkipTLSVerify":false}}}"#,
        );
        assert_eq!(only(&around), Endpoint::Tcp("far:2376".to_owned()));
        write(&format!("contexts/tls/{own}/docker/ca.pem"), "");
        assert!(matches!(only(&around), Endpoint::Tls { .. }));
        // A variable goes before the file, and `default` is none.
        around.context = Some("default".to_owned());
        assert!(candidates(&around).unwrap().found.iter().all(|found| !found.origin.contains("context")));
        around.context = None;
        around.host = Some("unix:///x".to_owned());
        assert_eq!(only(&around), Endpoint::Unix("/x".into()));
    }
}
