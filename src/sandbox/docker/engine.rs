//! The connection to a container engine: every call has a deadline of ours, and says what it was for when it fails.
//!
//! A daemon may stall: accept a connection and never answer. So no call is awaited without a clock beside it.

use std::future::Future;
use std::time::Duration;

use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, Docker};

use super::config::Surroundings;
use super::endpoint::{Candidate, Endpoint, EndpointError, candidates};
use super::facts::Facts;
use crate::sandbox::SandboxError;

/// How long a call may take that moves no data: a loaded machine takes its time, a stalled daemon takes for ever.
pub const CALL: Duration = Duration::from_secs(60);
/// How long an engine may take to say who it is.
const HELLO: Duration = Duration::from_secs(10);
/// bollard's own limit on the time to the first byte of an answer, in seconds; ours are shorter or stand beside it.
const FIRST_BYTE: u64 = 3600;

/// What went wrong between us and an engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No answer in time.
    #[error("the container engine did not {step} within {seconds} s; `docker ps` tells whether it answers at all")]
    Stalled {
        /// What was asked.
        step: String,
        /// How long it had.
        seconds: u64,
    },
    /// The engine refused.
    #[error("the container engine could not {step}: {message}")]
    Refused {
        /// What was asked.
        step: String,
        /// The HTTP status of its answer.
        status: u16,
        /// Its words.
        message: String,
    },
    /// The connection broke, or what came was no answer.
    #[error("the container engine could not be asked to {step}: {source}")]
    Connection {
        /// What was asked.
        step: String,
        /// What broke.
        #[source]
        source: Box<Error>,
    },
}

impl EngineError {
    /// Whether there was nothing by that name.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether it is already as wanted, or on its way there.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: 304 | 409, .. })
    }

    /// Whether the engine's disk is full.
    pub fn is_disk(&self) -> bool {
        let full = |text: &str| text.contains("no space left on device") || text.contains("disk quota exceeded");
        match self {
            Self::Refused { message, .. } => full(message),
            Self::Connection { source, .. } => full(&source.to_string()),
            Self::Stalled { .. } => false,
        }
    }
}

/// Awaits an answer for at most `limit`. `step` reads after "could not".
pub async fn call<T>(
    step: &str,
    limit: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, EngineError> {
    let stalled = || EngineError::Stalled { step: step.to_owned(), seconds: limit.as_secs() };
    match tokio::time::timeout(limit, answer).await {
        Err(_) | Ok(Err(Error::RequestTimeoutError)) => Err(stalled()),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(name(step, error)),
    }
}

/// Says what a failed call was for.
pub fn name(step: &str, error: Error) -> EngineError {
    let step = step.to_owned();
    match error {
        Error::DockerResponseServerError { status_code, message } => {
            EngineError::Refused { step, status: status_code, message: message.trim().to_owned() }
        }
        // An error that comes inside a good answer.
        Error::DockerStreamError { error } => EngineError::Refused { step, status: 500, message: error },
        other => EngineError::Connection { step, source: Box::new(other) },
    }
}

/// An answer that came, and can't be the whole one. `step` reads after "could not be asked to".
pub fn broken(step: &str, what: &str) -> EngineError {
    let err = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what.to_owned());
    EngineError::Connection { step: step.to_owned(), source: Box::new(Error::IOError { err }) }
}

/// An engine that answered.
#[derive(Debug, Clone)]
pub struct Engine {
    /// The client.
    pub docker: Docker,
    /// Where it answers, and who named the place.
    pub at: Candidate,
    /// What it is.
    pub facts: Facts,
    /// Settings that were passed over on the way to it, and why.
    pub skipped: Vec<String>,
}

impl Engine {
    /// Connects to the first engine that answers, and agrees on a version of the API with it.
    pub async fn connect(around: &Surroundings) -> Result<Self, SandboxError> {
        let unavailable = |reason: String| SandboxError::Unavailable { reason };
        let all = candidates(around).map_err(|error: EndpointError| unavailable(error.to_string()))?;
        let skipped: Vec<String> = all.skipped.iter().map(|error| format!("not tried: {error}")).collect();
        if all.found.is_empty() {
            let mut reason =
                "no container engine was found: neither `DOCKER_HOST` nor a Docker context names one, and \
                              neither `/var/run/docker.sock` nor another usual socket is there; install Docker or \
                              Podman, or use `--sandbox local`"
                    .to_owned();
            for note in &skipped {
                reason.push_str("; ");
                reason.push_str(note);
            }
            return Err(unavailable(reason));
        }
        let mut said = Vec::new();
        for at in all.found {
            match Self::try_one(&at).await {
                Ok((docker, facts)) => return Ok(Self { docker, at, facts, skipped }),
                Err(reason) => said.push(format!("{} (by {}): {reason}", at.endpoint, at.origin)),
            }
        }
        said.extend(skipped);
        Err(unavailable(format!("no container engine answers: {}", said.join("; "))))
    }

    async fn try_one(at: &Candidate) -> Result<(Docker, Facts), String> {
        let client = client(&at.endpoint).map_err(|error| chain(&error))?;
        let docker = call("say which versions of its API it speaks", HELLO, client.negotiate_version())
            .await
            .map_err(|error| chain(&error))?;
        let version = call("tell its version", HELLO, docker.version()).await.map_err(|error| chain(&error))?;
        let info = call("tell about itself", HELLO, docker.info()).await.map_err(|error| chain(&error))?;
        let facts = Facts::of(&version, &info, docker.client_version().to_string());
        facts.check()?;
        Ok((docker, facts))
    }

    /// Whether the engine is reached by a socket of this machine, so that it may see our files.
    pub fn is_by_socket(&self) -> bool {
        matches!(self.at.endpoint, Endpoint::Unix(_))
    }
}

fn client(endpoint: &Endpoint) -> Result<Docker, Error> {
    match endpoint {
        Endpoint::Unix(path) => Docker::connect_with_unix(&path.to_string_lossy(), FIRST_BYTE, API_DEFAULT_VERSION),
        Endpoint::Tcp(address) => Docker::connect_with_http(address, FIRST_BYTE, API_DEFAULT_VERSION),
        Endpoint::Tls { address, files } => Docker::connect_with_ssl(
            address,
            &files.key,
            &files.certificate,
            &files.authority,
            FIRST_BYTE,
            API_DEFAULT_VERSION,
        ),
    }
}

/// An error with its causes, as the innermost one tells most, and with what to do where that is known.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = error.source();
    }
    let hint = hint(&text);
    text + hint
}

fn hint(text: &str) -> &'static str {
    if text.contains("Permission denied") {
        " (only root and the group of the socket may use it: `sudo usermod -aG docker $USER`, then log in again)"
    } else if text.contains("Connection refused") {
        " (is the daemon running?)"
    } else if text.contains("HTTP request to an HTTPS server") {
        " (it wants TLS: set `DOCKER_TLS_VERIFY=1`, and `DOCKER_CERT_PATH` to the folder with `ca.pem`, `cert.pem` and \
         `key.pem`)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_daemon_that_stalls_is_named_in_time() {
        let answer = std::future::pending::<Result<(), Error>>();
        let error = call("start the container", Duration::from_millis(20), answer).await.unwrap_err();
        assert!(matches!(&error, EngineError::Stalled { .. }) && error.to_string().contains("start the container"));
    }

    #[tokio::test]
    async fn a_socket_that_answers_nothing_is_no_engine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mute = std::thread::spawn(move || drop(listener.accept()));
        let around = Surroundings { host: Some(format!("unix://{}", path.display())), ..Surroundings::default() };
        let error = Engine::connect(&around).await.unwrap_err().to_string();
        assert!(error.contains("no container engine answers") && error.contains("DOCKER_HOST"), "{error}");
        mute.join().unwrap();
    }

    #[tokio::test]
    async fn what_to_do_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        // A socket that nobody listens at any more.
        let path = folder.path().join("docker.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        for host in [format!("unix://{}", path.display()), "tcp://127.0.0.1:1".to_owned()] {
            let around = Surroundings { host: Some(host), ..Surroundings::default() };
            let error = Engine::connect(&around).await.unwrap_err().to_string();
            assert_eq!(error.matches("is the daemon running?").count(), 1, "{error}");
        }
    }

    #[tokio::test]
    async fn what_was_passed_over_is_told_where_no_engine_answers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker.sock");
        let around = Surroundings {
            runtime: Some(folder.path().to_owned()),
            podman: Some("ssh://h".to_owned()),
            ..Surroundings::default()
        };
        // Whether or not a usual socket of this machine is there and answers.
        let told = |connected: Result<Engine, SandboxError>| match connected {
            Ok(engine) => engine.skipped.join("; "),
            Err(error) => error.to_string(),
        };
        let said = told(Engine::connect(&around).await);
        assert!(said.contains("CONTAINER_HOST") && said.contains("ssh://h"), "{said}");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let said = told(Engine::connect(&around).await);
        assert!(said.contains("CONTAINER_HOST") && said.contains("ssh://h"), "{said}");
    }

    #[test]
    fn errors_tell_what_they_mean() {
        let refused = |status_code, message: &str| {
            name("do it", Error::DockerResponseServerError { status_code, message: message.to_owned() })
        };
        assert!(refused(404, "No such container").is_absent());
        assert!(refused(409, "removal in progress").is_conflict());
        assert!(refused(500, "write /var/lib/docker/x: no space left on device").is_disk());
    }
}
