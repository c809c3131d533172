//! The image below a task: one that the engine has, or a base's archive, imported once under a name of ours.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::query_parameters::CreateImageOptionsBuilder;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncReadExt;
use tokio::sync::OnceCell;

use super::engine::{CALL, Engine, EngineError, call, name};
use super::label::BASE;
use super::mounts::setup;
use crate::fault;
use crate::sandbox::{Root, SandboxError};

/// The repository of images that were made from bases; the tag is the base's digest.
pub const REPOSITORY: &str = "redgreen/base";
/// How long an import may take.
const IMPORT: Duration = Duration::from_secs(900);
/// How much of an archive is read at once, in bytes.
const CHUNK: usize = 256 * 1024;
/// The longest tag that engines take.
const TAG: usize = 128;

/// An image that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its digest in the engine's store.
    pub id: String,
    /// The names of the variables that it would set.
    pub variables: Vec<String>,
}

/// The images of one process, each looked for or imported once.
#[derive(Debug, Default)]
pub struct Images {
    known: Mutex<HashMap<String, Arc<OnceCell<Image>>>>,
}

impl Images {
    /// The image of a task's root. `locks` is a folder that all processes of this cache share.
    ///
    /// # Errors
    ///
    /// [`SandboxError::NoBase`] for the host's root, else why there is no image.
    pub async fn of(&self, engine: &Engine, root: &Root, locks: &Path) -> Result<Image, SandboxError> {
        let Root::Base { archive, image, digest, .. } = root else { return Err(SandboxError::NoBase) };
        let cell = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let key = format!("{} {digest}", image.as_deref().unwrap_or_default());
            known.entry(key).or_default().clone()
        };
        let made = cell.get_or_try_init(|| find(engine, archive.as_deref(), image.as_deref(), digest, locks));
        Ok(made.await?.clone())
    }

    /// Forgets an image that is not there any more, so that it is looked for, or made, again.
    pub fn forget(&self, id: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, cell| cell.get().is_none_or(|image| image.id != id));
    }
}

/// The image that the engine has, else the archive's.
async fn find(
    engine: &Engine,
    archive: Option<&Path>,
    image: Option<&str>,
    digest: &str,
    locks: &Path,
) -> Result<Image, SandboxError> {
    if let Some(image) = image {
        match inspect(engine, image).await {
            Ok(found) => return Ok(found),
            Err(error) if error.is_absent() && archive.is_some() => {}
            Err(error) if error.is_absent() => {
                let reason = format!(
                    "the container engine has no image `{image}`; get it with `docker pull {image}` or `docker load`"
                );
                return Err(SandboxError::Unavailable { reason });
            }
            Err(error) => return Err(error.into()),
        }
    }
    let own = own_name(digest);
    match inspect(engine, &own).await {
        Err(error) if error.is_absent() => {}
        other => return Ok(other?),
    }
    let Some(archive) = archive else {
        let reason =
            format!("the base `{digest}` has neither an image nor an archive; make it again: `redgreen env base`");
        return Err(SandboxError::Unavailable { reason });
    };
    let _turn = turn(&locks.join(format!("docker-{}.lock", tag(digest)))).await?;
    // Another process may have been first.
    match inspect(engine, &own).await {
        Err(error) if error.is_absent() => {}
        other => return Ok(other?),
    }
    import(engine, archive, digest).await?;
    fault::point("docker.image.imported");
    Ok(inspect(engine, &own).await?)
}

async fn inspect(engine: &Engine, image: &str) -> Result<Image, EngineError> {
    let found = call(&format!("look at the image `{image}`"), CALL, engine.docker.inspect_image(image)).await?;
    let variables = found.config.and_then(|config| config.env).unwrap_or_default();
    let name = |variable: &String| variable.split_once('=').map_or(variable.clone(), |(name, _)| name.to_owned());
    Ok(Image { id: found.id.unwrap_or_else(|| image.to_owned()), variables: variables.iter().map(name).collect() })
}

/// Imports an archive of a root file system under our name.
async fn import(engine: &Engine, archive: &Path, digest: &str) -> Result<(), SandboxError> {
    let step = format!("import the base `{}`", archive.display());
    let file = tokio::fs::File::open(archive).await.map_err(setup(&format!("open `{}`", archive.display())))?;
    let options = CreateImageOptionsBuilder::new()
        .from_src("-")
        .repo(REPOSITORY)
        .tag(&tag(digest))
        .changes(vec![format!("LABEL {BASE}={}", tag(digest))])
        .build();
    let body = bollard::body_try_stream(chunks(file));
    let mut said = engine.docker.create_image(Some(options), Some(body), None);
    let until = Instant::now() + IMPORT;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, said.next()).await {
            Err(_) => return Err(EngineError::Stalled { step, seconds: IMPORT.as_secs() }.into()),
            Ok(None) => return Ok(()),
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(error))) => return Err(name(&step, error).into()),
        }
    }
}

/// A file's bytes.
pub fn chunks(file: tokio::fs::File) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    futures_util::stream::unfold(Some(file), |file| async move {
        let mut file = file?;
        let mut buffer = vec![0; CHUNK];
        match file.read(&mut buffer).await {
            Ok(0) => None,
            Ok(length) => {
                buffer.truncate(length);
                Some((Ok(Bytes::from(buffer)), Some(file)))
            }
            Err(error) => Some((Err(error), None)),
        }
    })
}

/// The name under which a base is imported.
pub fn own_name(digest: &str) -> String {
    format!("{REPOSITORY}:{}", tag(digest))
}

/// A digest as a tag: letters, digits and `_.-`.
fn tag(digest: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '-' };
    let tag: String = digest.chars().map(fits).take(TAG).collect();
    let tag = tag.trim_start_matches(['.', '-']);
    if tag.is_empty() { "none".to_owned() } else { tag.to_owned() }
}

/// Waits for the turn to import, over all processes of this cache. It ends with the file that is given back.
async fn turn(path: &Path) -> Result<std::fs::File, SandboxError> {
    const LOOK: Duration = Duration::from_millis(100);
    let place: PathBuf = path.to_owned();
    let open = || -> std::io::Result<std::fs::File> {
        if let Some(folder) = place.parent() {
            fs_err::create_dir_all(folder)?;
        }
        Ok(fs_err::OpenOptions::new().create(true).append(true).open(&place)?.into_parts().0)
    };
    let file = open().map_err(setup(&format!("open the lock `{}`", path.display())))?;
    let until = Instant::now() + IMPORT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // A file system without locks: nobody waits for anybody.
            Err(std::fs::TryLockError::Error(_)) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < until => tokio::time::sleep(LOOK).await,
            Err(std::fs::TryLockError::WouldBlock) => {
                let step = format!("wait for another process's import (`{}`)", path.display());
                return Err(setup(&step)(std::io::Error::from_raw_os_error(libc::ETIMEDOUT)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_become_tags() {
        assert_eq!(own_name("0a1b"), "redgreen/base:0a1b");
        assert_eq!(own_name("sha256:0a"), "redgreen/base:sha256-0a");
        assert_eq!(tag(&"a".repeat(300)).len(), 128);
        assert_eq!(tag(":"), "none");
    }

    #[tokio::test]
    async fn a_file_comes_in_pieces_and_whole() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let text = vec![7_u8; CHUNK * 2 + 5];
        fs_err::write(place.path(), &text).unwrap();
        let file = tokio::fs::File::open(place.path()).await.unwrap();
        let parts: Vec<Bytes> = chunks(file).map(Result::unwrap).collect().await;
        assert_eq!(parts.concat(), text);
    }
}
