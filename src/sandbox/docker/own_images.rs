//! Our images at an engine, for whoever tells of them or makes room: those that were made from bases, and environments
//! that somebody loaded.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use bollard::query_parameters::{ListContainersOptionsBuilder, ListImagesOptionsBuilder};
use serde::Serialize;

use super::config::Surroundings;
use super::docker_sandbox::{on, runtime};
use super::engine::{CALL, Engine, EngineError, call};
use super::image::REPOSITORY;
use super::label::BASE;
use super::reaper;
use crate::sandbox::SandboxError;

/// The label of an image that was exported as an environment, with the environment's digest.
pub const ENVIRONMENT: &str = "redgreen.environment";
/// What the names of all our images begin with.
const OURS: &str = "redgreen/";

/// What an image of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageKind {
    /// It was made from a base, and is made again when it is needed.
    Base,
    /// It is an environment that somebody exported and loaded: nobody but who has the archive can make it again.
    Environment,
}

impl ImageKind {
    /// Its string form, one of a closed set.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Environment => "environment",
        }
    }
}

/// An image of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnImage {
    /// Its id.
    pub id: String,
    /// Its names; none where another image has taken its name over.
    pub names: Vec<String>,
    /// What it is.
    pub kind: ImageKind,
    /// The digest of the base's content, or of the environment.
    pub of: String,
    /// Bytes. Images of one environment's kind may share some of them.
    pub bytes: u64,
    /// Since when the engine has it.
    pub since: SystemTime,
    /// Whether a container stands on it, be it that it runs or not.
    pub in_use: bool,
}

/// All images of ours at one engine, and the way to it.
#[derive(Debug)]
pub struct OwnImages {
    /// The engine's address.
    pub address: String,
    /// The images, by kind and id.
    pub images: Vec<OwnImage>,
    engine: Engine,
    runtime: tokio::runtime::Runtime,
}

impl OwnImages {
    /// Asks the engine, for as long as `patience` says.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Unavailable`] when no engine answers, or not in time.
    pub fn list(around: &Surroundings, patience: Duration) -> Result<Self, SandboxError> {
        let runtime = runtime()?;
        let (engine, images) = on(&runtime, async {
            let asked = async {
                let engine = Engine::connect(around).await?;
                let images = images(&engine).await?;
                Ok((engine, images))
            };
            let late = || SandboxError::Unavailable {
                reason: format!("the container engine did not list its images within {} s", patience.as_secs()),
            };
            tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| Err(late()))
        })?;
        Ok(Self { address: engine.at.endpoint.to_string(), images, engine, runtime })
    }

    /// Removes an image; `false` when something stands on it, or when it has got a name of somebody else's. One that is gone
    /// already was removed.
    ///
    /// # Errors
    ///
    /// What the engine says.
    pub fn remove(&self, image: &OwnImage) -> Result<bool, SandboxError> {
        on(&self.runtime, async {
            match reaper::remove_image(&self.engine, &image.id).await {
                Ok(()) => Ok(true),
                Err(error) if error.is_absent() => Ok(true),
                Err(error) if error.is_conflict() => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }
}

async fn images(engine: &Engine) -> Result<Vec<OwnImage>, EngineError> {
    let docker = &engine.docker;
    let options = ListContainersOptionsBuilder::new().all(true).build();
    let containers = call("list containers", CALL, docker.list_containers(Some(options))).await?;
    let used: HashSet<String> = containers.into_iter().filter_map(|container| container.image_id).collect();
    let mut found = Vec::new();
    for (label, kind) in [(BASE, ImageKind::Base), (ENVIRONMENT, ImageKind::Environment)] {
        let options = ListImagesOptionsBuilder::new().filters(&HashMap::from([("label", vec![label])])).build();
        for image in call("list images", CALL, docker.list_images(Some(options))).await? {
            let names: Vec<String> = image.repo_tags.into_iter().filter(|name| !name.contains("<none>")).collect();
            let of = image.labels.get(label).cloned().unwrap_or_default();
            let Some(since) = since(engine, &image.id, kind, &names).await? else { continue };
            let bytes = u64::try_from(image.size).unwrap_or(0);
            let in_use = used.contains(&image.id);
            found.push(OwnImage { id: image.id, names, kind, of, bytes, since, in_use });
        }
    }
    found.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
    Ok(found)
}

/// Since when the engine has an image; `None` where it is not ours after all: an image that somebody built on one of ours
/// has its labels, too.
async fn since(
    engine: &Engine,
    id: &str,
    kind: ImageKind,
    names: &[String],
) -> Result<Option<SystemTime>, EngineError> {
    let details = match call("look at an image", CALL, engine.docker.inspect_image(id)).await {
        Err(error) if error.is_absent() => return Ok(None),
        other => other?,
    };
    let prefix = match kind {
        ImageKind::Base => format!("{REPOSITORY}:"),
        ImageKind::Environment => OURS.to_owned(),
    };
    let named = !names.is_empty() && names.iter().all(|name| is_ours(name, &prefix));
    // An import has one layer, whoever took its name over.
    let layers = details.root_fs.and_then(|root| root.layers).map_or(0, |layers| layers.len());
    if !(named || names.is_empty() && kind == ImageKind::Base && layers == 1) {
        return Ok(None);
    }
    let time = |text: Option<String>| -> Option<SystemTime> {
        let time: jiff::Timestamp = text?.parse().ok()?;
        let seconds = u64::try_from(time.as_second()).ok().filter(|seconds| *seconds > 0)?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    };
    let came = details.metadata.and_then(|metadata| time(metadata.last_tag_time));
    Ok(Some(came.or_else(|| time(details.created)).unwrap_or(SystemTime::UNIX_EPOCH)))
}

/// Whether an image with this name may be one that was made from a base: it has our name, or none.
pub fn is_base_name(name: &str) -> bool {
    name.contains("<none>") || is_ours(name, &format!("{REPOSITORY}:"))
}

/// Whether a name is one that we give; engines may put a registry before it.
fn is_ours(name: &str, prefix: &str) -> bool {
    let plain = name.strip_prefix("localhost/").or_else(|| name.strip_prefix("docker.io/")).unwrap_or(name);
    plain.starts_with(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ours_are_told_from_others() {
        for (name, is) in [
            ("redgreen/base:0123", true),
            ("localhost/redgreen/base:0123", true),
            ("docker.io/redgreen/base:0123", true),
            ("registry.example/redgreen/base:0123", false),
            ("redgreen/basement:1", false),
            ("mine:1", false),
        ] {
            assert_eq!(is_ours(name, "redgreen/base:"), is, "{name}");
        }
    }
}
