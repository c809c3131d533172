//! Whether the engine can mount our files, found out by doing it.
//!
//! A socket of this machine does not mean that the daemon behind it sees our files, may mount them, or means the same
//! users by the same numbers: it may be forwarded, in another mount namespace, in a virtual machine, or without root's
//! rights. So a container is made of an image with one empty file, with the mounts of a task; through it files of ours are read
//! and written. It is never started. Whatever comes of that, the container and the image are gone afterwards.

use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use bollard::query_parameters::{
    CreateImageOptionsBuilder, DownloadFromContainerOptionsBuilder, RemoveImageOptions, UploadToContainerOptionsBuilder,
};
use bytes::Bytes;
use fs_err as fs;
use futures_util::StreamExt;

use super::command::Command;
use super::container::{Container, Pending};
use super::create::{Parts, body};
use super::engine::{CALL, Engine, EngineError, call, name};
use super::label::{EXPIRES, OWNER, labels, now};
use super::mounts::{Ways, prepare, setup};
use crate::sandbox::local::Identity;
use crate::sandbox::{Limits, Mount, Network, Root, SandboxError, Task, Token};

/// The repository of the trial's image.
const REPOSITORY: &str = "redgreen/trial";
/// How long anything of the trial can be of use, in seconds.
const NEEDED: u64 = 3600;
/// The file that is looked for.
const FILE: &str = "token";

/// What the trial gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Whether the engine mounts our files and overlays of them; else why not.
    pub mounts: Result<(), String>,
    /// Whether it sees memory that we mount; else why not.
    pub memory: Result<(), String>,
}

/// Tries it. `ways` says where and for whom; whether memory works is found out.
pub async fn trial(engine: &Engine, ways: &Ways, identity: &Identity, pending: &Pending) -> Trial {
    let not = |reason: &str| Trial { mounts: Err(reason.to_owned()), memory: Err(reason.to_owned()) };
    if !engine.is_by_socket() {
        return not("the engine is not on this machine");
    }
    if engine.facts.maps_users {
        return not("the engine gives users inside other numbers outside");
    }
    let with = |memory| Ways { memory, ..ways.clone() };
    let memory = if rustix::process::geteuid().is_root() {
        once(engine, &with(true), identity, pending).await.map_err(|error| error.to_string())
    } else {
        Err("only root can mount it".to_owned())
    };
    let mounts = match &memory {
        Ok(()) => Ok(()),
        Err(_) => once(engine, &with(false), identity, pending).await.map_err(|error| error.to_string()),
    };
    Trial { mounts, memory }
}

async fn once(engine: &Engine, ways: &Ways, identity: &Identity, pending: &Pending) -> Result<(), SandboxError> {
    let token = Token::fresh().map_err(setup("draw a random text"))?;
    let text = token.as_str();
    let folder =
        tempfile::Builder::new().prefix("docker-trial-").tempdir_in(&ways.scratch).map_err(setup("make a folder"))?;
    let path = |name: &str| folder.path().join(name);
    for name in ["lower", "upper"] {
        fs::create_dir(path(name)).map_err(setup("make a folder"))?;
    }
    fs::write(path("lower").join(FILE), text).map_err(setup("write a file"))?;
    let own = identity.name();
    let labels = labels(&own, NEEDED);
    let task = task(&path("lower"), &path("upper"));
    let prepared = prepare(&task, ways, &labels)?;
    let tag = format!("{REPOSITORY}:{}", &text[..16]);
    let tried = async {
        let image = import(engine, &tag, &text[..16], &own).await?;
        let parts = Parts {
            image: &image,
            command: Command { argv: task.argv.clone(), variables: Vec::new(), by_script: false, says: false },
            owner: ways.owner,
            labels,
            mounts: prepared.mounts.clone(),
            tmpfs: HashMap::new(),
            writable_root: false,
            terminal: None,
        };
        let container = Container::create(engine, body(&task, &engine.facts, parts), pending).await?;
        let looked = look(engine, &container, ways, text, &path("upper").join("written")).await;
        // Whatever it gave: the image stays as long as a container stands on it, and so do the mounts.
        let removed = container.remove().await;
        looked?;
        Ok(removed?)
    };
    let tried: Result<(), SandboxError> = tried.await;
    let removed = remove_image(engine, &tag).await;
    tried?;
    Ok(removed?)
}

/// Reads and writes files of ours through a container; `back` is where the written one must come to light.
async fn look(
    engine: &Engine,
    container: &Container,
    ways: &Ways,
    text: &str,
    back: &Path,
) -> Result<(), SandboxError> {
    for place in ["/kept", "/thrown", "/fixed"] {
        if read(engine, container, &format!("{place}/{FILE}")).await? != text {
            return Err(unseen(&format!("a file of ours is not to be seen at `{place}`")));
        }
    }
    write(engine, container, "/kept", ways.owner, text).await?;
    let data = fs::metadata(back).map_err(|_| unseen("what was written inside is not to be seen outside"))?;
    if (data.uid(), data.gid()) != ways.owner {
        return Err(unseen("users inside have other numbers outside"));
    }
    Ok(())
}

/// Removes the trial's image. A container on it may still be on its way out.
async fn remove_image(engine: &Engine, tag: &str) -> Result<(), EngineError> {
    const PAUSES: [u64; 5] = [0, 200, 500, 1000, 2000];
    let mut removed = Ok(());
    for pause in PAUSES {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let removing = engine.docker.remove_image(tag, None::<RemoveImageOptions>, None);
        removed = call("remove the trial's image", CALL, removing).await.map(|_| ());
        if !removed.as_ref().is_err_and(EngineError::is_conflict) {
            break;
        }
    }
    removed
}

fn unseen(what: &str) -> SandboxError {
    SandboxError::Unavailable { reason: what.to_owned() }
}

/// A task with one mount of each kind.
fn task(lower: &Path, upper: &Path) -> Task {
    let overlay = |target: &str, upper| Mount::Overlay {
        lowers: vec![lower.to_owned()],
        target: target.into(),
        upper,
        remove: Vec::new(),
    };
    Task {
        argv: vec!["/redgreen".to_owned()],
        cwd: "/".into(),
        variables: Default::default(),
        root: Root::Host,
        mounts: vec![
            overlay("/kept", Some(upper.to_owned())),
            overlay("/thrown", None),
            Mount::ReadOnly { source: lower.to_owned(), target: "/fixed".into() },
        ],
        limits: Limits::default(),
        network: Network::None,
        result_channel: false,
    }
}

/// Imports an image with one file, which is empty; its digest.
async fn import(engine: &Engine, image: &str, tag: &str, owner: &str) -> Result<String, SandboxError> {
    let archive = archive("redgreen", "", (0, 0)).map_err(setup("make an archive"))?;
    let changes = vec![format!("LABEL {OWNER}={owner} {EXPIRES}={}", now().saturating_add(NEEDED))];
    let options = CreateImageOptionsBuilder::new().from_src("-").repo(REPOSITORY).tag(tag).changes(changes).build();
    let step = "import the trial's image";
    let mut said = engine.docker.create_image(Some(options), Some(bollard::body_full(archive.into())), None);
    while let Some(answer) = call(step, CALL, async { Ok(said.next().await) }).await? {
        answer.map_err(|error| name(step, error))?;
    }
    let found = call("look at the trial's image", CALL, engine.docker.inspect_image(image)).await?;
    Ok(found.id.unwrap_or_else(|| image.to_owned()))
}

/// Reads a file of a container.
async fn read(engine: &Engine, container: &Container, path: &str) -> Result<String, EngineError> {
    let step = format!("read `{path}` of the trial's container");
    let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
    let mut coming = engine.docker.download_from_container(container.name(), Some(options));
    let mut archive = Vec::new();
    while let Some(part) = call(&step, CALL, async { Ok(coming.next().await) }).await? {
        archive.extend_from_slice(&part.map_err(|error| name(&step, error))?);
    }
    let mut text = String::new();
    if let Some(mut entry) = tar::Archive::new(&archive[..]).entries().ok().and_then(|mut all| all.next()?.ok()) {
        let _ = entry.read_to_string(&mut text);
    }
    Ok(text)
}

/// Writes a file of a user's into a container.
async fn write(
    engine: &Engine,
    container: &Container,
    folder: &str,
    owner: (u32, u32),
    text: &str,
) -> Result<(), SandboxError> {
    let archive = archive("written", text, owner).map_err(setup("make an archive"))?;
    let options = UploadToContainerOptionsBuilder::new().path(folder).build();
    let body = bollard::body_full(Bytes::from(archive));
    let sent = engine.docker.upload_to_container(container.name(), Some(options), body);
    Ok(call("write into the trial's container", CALL, sent).await?)
}

/// An archive of one file.
fn archive(name: &str, text: &str, (uid, gid): (u32, u32)) -> std::io::Result<Vec<u8>> {
    let mut header = tar::Header::new_gnu();
    header.set_uid(uid.into());
    header.set_gid(gid.into());
    header.set_mode(0o644);
    header.set_size(text.len() as u64);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, name, text.as_bytes())?;
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use super::super::fake::{Fake, Reply};
    use super::*;

    #[tokio::test]
    async fn a_trial_that_fails_leaves_nothing() {
        // How many images there are, and until when the container is.
        let state = Arc::new(Mutex::new((0, Instant::now())));
        let own = state.clone();
        let fake = Fake::new(move |request| {
            let mut state = own.lock().unwrap();
            if request.starts_with("POST /images/create") {
                state.0 += 1;
                Reply::After(0, 200, "")
            } else if request.starts_with("GET /images") {
                Reply::After(0, 200, r#"{"Id":"sha256:0"}"#)
            } else if request.starts_with("POST /containers/create") {
                state.1 = Instant::now() + Duration::from_secs(3600);
                Reply::After(0, 201, r#"{"Id":"4c01","Warnings":[]}"#)
            } else if request.starts_with("DELETE /containers") {
                state.1 = Instant::now() + Duration::from_millis(300);
                Reply::After(300, 204, "")
            } else if request.starts_with("DELETE /images") && state.1 <= Instant::now() {
                state.0 -= 1;
                Reply::After(0, 200, "[]")
            } else if request.starts_with("DELETE /images") {
                Reply::After(0, 409, r#"{"message":"a container stands on it"}"#)
            } else {
                Reply::After(0, 404, r#"{"message":"no such file"}"#)
            }
        });
        let place = tempfile::tempdir().unwrap();
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let ways = Ways { scratch: place.path().to_owned(), owner, memory: false, etc: Vec::new() };
        let pending = Pending::default();
        let tried = trial(&fake.engine, &ways, &Identity::own().unwrap(), &pending).await;
        assert!(tried.mounts.unwrap_err().contains("no such file") && tried.memory.is_err());
        assert!(fake.count("POST /containers/create") > 0);
        let (images, until) = *state.lock().unwrap();
        assert!(images == 0 && until <= Instant::now(), "{images}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
