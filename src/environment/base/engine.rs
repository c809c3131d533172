//! Taking images out of a container engine.

use std::io::Write;
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;

use super::error::BaseError;
use super::make::Told;
use crate::environment::waiting::wait;

/// Where an engine listens when nobody says so.
const SOCKET: &str = "unix:///var/run/docker.sock";

/// An image that was taken out.
pub struct Taken {
    /// What pins it: its digest in a registry, else its id.
    pub pin: String,
    /// The archive that holds it, as `docker save` writes it.
    pub archive: PathBuf,
}

/// Finds what pins an image, pulling it where it is not there.
///
/// # Errors
/// [`BaseError::Image`], and why the work was ended.
pub fn pin(host: Option<&str>, reference: &str, offline: bool, told: &Told<'_>) -> Result<String, BaseError> {
    let failed = |why: String| BaseError::Image { reference: reference.to_owned(), why };
    let work = async {
        let engine = connect(host).map_err(failed)?;
        if let Err(missing) = engine.inspect_image(reference).await {
            if !is_missing(&missing) {
                return Err(failed(said(&missing)));
            }
            if offline {
                return Err(failed("the engine does not have it, and the network is refused (`--offline`)".to_owned()));
            }
            told.say(&format!("pulling {reference}"));
            pull(&engine, reference).await.map_err(failed)?;
        }
        let image = engine.inspect_image(reference).await.map_err(|e| failed(said(&e)))?;
        let digest = image.repo_digests.unwrap_or_default().into_iter().min();
        digest.or(image.id).ok_or_else(|| failed("the engine gives it neither digest nor id".to_owned()))
    };
    ended(wait(until(told, work)))
}

/// Takes a pinned image out of the engine, into a file in `work`. It is pulled by its pin where it is not there.
///
/// # Errors
/// As [`pin`].
pub fn take(host: Option<&str>, pin: &str, offline: bool, work: &Path, told: &Told<'_>) -> Result<Taken, BaseError> {
    let failed = |why: String| BaseError::Image { reference: pin.to_owned(), why };
    let archive = work.join("image.tar");
    let to = archive.clone();
    let taking = async {
        let engine = connect(host).map_err(failed)?;
        if let Err(missing) = engine.inspect_image(pin).await {
            if !is_missing(&missing) || offline || !pin.contains('@') {
                return Err(failed(said(&missing)));
            }
            told.say(&format!("pulling {pin}"));
            pull(&engine, pin).await.map_err(failed)?;
        }
        told.say(&format!("taking {pin} out of the container engine"));
        let mut file = fs_err::File::create(&to)?;
        let mut stream = std::pin::pin!(engine.export_image(pin));
        while let Some(bytes) = stream.next().await {
            file.write_all(&bytes.map_err(|e| failed(said(&e)))?)?;
        }
        Ok(())
    };
    ended(wait(until(told, taking)))?;
    Ok(Taken { pin: pin.to_owned(), archive })
}

fn connect(host: Option<&str>) -> Result<Docker, String> {
    Docker::connect_with_host(host.unwrap_or(SOCKET)).map_err(|e| format!("no container engine: {}", said(&e)))
}

async fn pull(engine: &Docker, reference: &str) -> Result<(), String> {
    // A digest goes along with the name; a tag must be given, or all of them would be pulled.
    let options = match reference.rsplit_once(':') {
        Some((name, tag)) if !reference.contains('@') && !tag.contains('/') => {
            CreateImageOptionsBuilder::new().from_image(name).tag(tag).build()
        }
        _ if reference.contains('@') => CreateImageOptionsBuilder::new().from_image(reference).build(),
        _ => CreateImageOptionsBuilder::new().from_image(reference).tag("latest").build(),
    };
    let mut stream = std::pin::pin!(engine.create_image(Some(options), None, None));
    while let Some(step) = stream.next().await {
        let step = step.map_err(|e| said(&e))?;
        if let Some(error) = step.error_detail {
            return Err(error.message.unwrap_or_else(|| "the engine gives no reason".to_owned()));
        }
    }
    Ok(())
}

/// The work, or why it ended early.
async fn until<T>(told: &Told<'_>, work: impl Future<Output = Result<T, BaseError>>) -> Result<T, BaseError> {
    tokio::select! {
        done = work => done,
        () = told.cancel().cancelled() => Err(BaseError::Cancelled),
        () = tokio::time::sleep_until(told.until().into()) => match told.check() {
            Err(ended) => Err(ended),
            Ok(()) => Err(BaseError::Cancelled),
        },
    }
}

fn ended<T>(waited: std::io::Result<Result<T, BaseError>>) -> Result<T, BaseError> {
    waited.map_err(BaseError::from).and_then(|done| done)
}

fn is_missing(error: &bollard::errors::Error) -> bool {
    matches!(error, bollard::errors::Error::DockerResponseServerError { status_code: 404, .. })
}

fn said(error: &bollard::errors::Error) -> String {
    match error {
        bollard::errors::Error::DockerResponseServerError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}
