//! Takes away what dead processes left with an engine. A live process's is never touched, nor what is not ours.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::ImageSummary;
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListImagesOptionsBuilder, ListVolumesOptionsBuilder, RemoveImageOptions,
    RemoveVolumeOptions,
};
use futures_util::StreamExt;

use super::container;
use super::engine::{CALL, Engine, EngineError, call};
use super::label::{BASE, OWNER, is_leftover, now};
use super::own_images::is_base_name;
use crate::sandbox::local::Identity;

/// How many things are removed at once.
const AT_ONCE: usize = 4;
/// How long the whole of it may take.
const ALTOGETHER: Duration = Duration::from_secs(120);

/// What is ours at an engine and belongs to nobody alive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Containers, by id.
    pub containers: Vec<String>,
    /// Volumes, by name.
    pub volumes: Vec<String>,
    /// Images, by id.
    pub images: Vec<String>,
}

impl Leftovers {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.containers.len() + self.volumes.len() + self.images.len()
    }
}

/// An image that was made from a base.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BaseImage {
    /// Its id.
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// Bytes.
    pub size: i64,
}

/// Finds leftovers, as `own` sees them.
///
/// # Errors
///
/// [`EngineError`], when the engine does not list what it has.
pub async fn leftovers(engine: &Engine, own: &Identity) -> Result<Leftovers, EngineError> {
    let ours = HashMap::from([("label", vec![OWNER])]);
    let docker = &engine.docker;
    let time = now();
    let dead = |labels: Option<&HashMap<String, String>>| labels.is_some_and(|labels| is_leftover(labels, own, time));
    let options = ListContainersOptionsBuilder::new().all(true).filters(&ours).build();
    let containers = call("list containers", CALL, docker.list_containers(Some(options))).await?;
    let options = ListVolumesOptionsBuilder::new().filters(&ours).build();
    let volumes = call("list volumes", CALL, docker.list_volumes(Some(options))).await?;
    let options = ListImagesOptionsBuilder::new().filters(&ours).build();
    let images = call("list images", CALL, docker.list_images(Some(options))).await?;
    Ok(Leftovers {
        containers: containers.into_iter().filter(|one| dead(one.labels.as_ref())).filter_map(|one| one.id).collect(),
        volumes: volumes
            .volumes
            .unwrap_or_default()
            .into_iter()
            .filter(|one| dead(Some(&one.labels)))
            .map(|one| one.name)
            .collect(),
        images: images.into_iter().filter(|one| dead(Some(&one.labels))).map(|one| one.id).collect(),
    })
}

/// Removes leftovers, containers first, as the others are theirs. How many could not be removed.
pub async fn remove(engine: &Engine, left: Leftovers) -> usize {
    let all = left.count();
    let work = async {
        let containers =
            failures(engine, left.containers, |engine, id| async move { container::remove(&engine, &id).await });
        let mut failed = containers.await;
        failed += failures(engine, left.volumes, |engine, name| async move {
            let removed = engine.docker.remove_volume(&name, None::<RemoveVolumeOptions>);
            call("remove a volume", CALL, removed).await
        })
        .await;
        failed += failures(engine, left.images, |engine, id| async move { remove_image(&engine, &id).await }).await;
        failed
    };
    tokio::time::timeout(ALTOGETHER, work).await.unwrap_or(all)
}

/// Removes some things at once; how many of them stay. What is not there any more does not.
async fn failures<F: Future<Output = Result<(), EngineError>>>(
    engine: &Engine,
    names: Vec<String>,
    remove: impl Fn(Engine, String) -> F,
) -> usize {
    futures_util::stream::iter(names)
        .map(|name| remove(engine.clone(), name))
        .buffer_unordered(AT_ONCE)
        .filter(|removed| std::future::ready(removed.as_ref().is_err_and(|error| !error.is_absent())))
        .count()
        .await
}

/// The images that were made from bases.
///
/// # Errors
///
/// [`EngineError`], when the engine does not list what it has.
pub async fn base_images(engine: &Engine) -> Result<Vec<BaseImage>, EngineError> {
    let options = ListImagesOptionsBuilder::new().filters(&HashMap::from([("label", vec![BASE])])).build();
    let images = call("list images", CALL, engine.docker.list_images(Some(options))).await?;
    // An image that somebody built on one of ours has its label, too, and a name of theirs.
    let ours = |image: &ImageSummary| image.repo_tags.iter().all(|name| is_base_name(name));
    let made = images.into_iter().filter(ours).map(|image| BaseImage {
        id: image.id,
        names: image.repo_tags,
        created: image.created,
        size: image.size,
    });
    Ok(made.collect())
}

/// Removes an image, unless a container stands on it.
///
/// # Errors
///
/// [`EngineError`], also where it is in use.
pub async fn remove_image(engine: &Engine, id: &str) -> Result<(), EngineError> {
    let removed = engine.docker.remove_image(id, None::<RemoveImageOptions>, None);
    call("remove an image", CALL, removed).await.map(|_| ())
}
