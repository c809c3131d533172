//! Workspaces that are copied: into a container before its command starts, and what is kept back to the host afterwards.

use std::time::Duration;

use bollard::query_parameters::{DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder};
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::container::Container;
use super::download::{Unpacked, take_in};
use super::engine::{EngineError, call, name};
use super::mounts::setup;
use super::run::Shared;
use super::upload::{Pieces, Upload};
use crate::sandbox::{Mount, SandboxError, Task};

/// What moving a workspace to or from the engine may take.
const TRANSFER: Duration = Duration::from_secs(900);

/// Puts a task's file systems into the container.
pub async fn upload(shared: &Shared, task: &Task, container: &Container) -> Result<(), SandboxError> {
    let step = "copy the workspace into the container";
    let upload = Upload {
        mounts: task.mounts.clone(),
        owner: shared.ways.owner,
        etc: shared.ways.etc.clone(),
        empty: shared.ways.scratch.clone(),
    };
    let (pieces, coming) = mpsc::channel(4);
    let failed = pieces.clone();
    let writing = tokio::task::spawn_blocking(move || {
        let mut out = Pieces::new(pieces);
        let written = upload.write(&mut out).and_then(|()| std::io::Write::flush(&mut out));
        if let Err(error) = &written {
            // The engine must not take the part for the whole.
            let _ = failed.blocking_send(Err(std::io::Error::from(error.kind())));
        }
        written
    });
    let stream = futures_util::stream::unfold(coming, |mut coming| async move { Some((coming.recv().await?, coming)) });
    let options = UploadToContainerOptionsBuilder::new().path("/").build();
    let body = bollard::body_try_stream(stream);
    let sent =
        call(step, TRANSFER, shared.engine.docker.upload_to_container(container.name(), Some(options), body)).await;
    let written = writing.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    match (sent, written) {
        (Ok(()), Ok(())) => Ok(()),
        // That nobody listened any more is the engine's doing.
        (Err(error), Err(own)) if own.kind() == std::io::ErrorKind::BrokenPipe => Err(error.into()),
        (_, Err(own)) => Err(setup(step)(own)),
        (Err(error), Ok(())) => Err(error.into()),
    }
}

/// Brings directories that are kept back to the host; whether they were more than the limit. About `uploaded` bytes were
/// there before.
pub async fn bring_back(
    shared: &Shared,
    task: &Task,
    container: &Container,
    uploaded: u64,
) -> Result<bool, SandboxError> {
    let mut over = false;
    for mount in &task.mounts {
        let (folder, target) = match mount {
            Mount::ReadWrite { source, target } => (source, target),
            Mount::Overlay { upper: Some(upper), target, .. } => (upper, target),
            _ => continue,
        };
        let step = format!("bring back `{}`", target.display());
        let options = DownloadFromContainerOptionsBuilder::new().path(&target.to_string_lossy()).build();
        let mut coming = shared.engine.docker.download_from_container(container.name(), Some(options));
        let (pieces, received) = mpsc::channel(4);
        let carry = async {
            while let Some(piece) = coming.next().await {
                let piece = piece.map_err(|error| name(&step, error))?;
                if pieces.send(piece).await.is_err() {
                    break;
                }
            }
            drop(pieces);
            Ok::<(), EngineError>(())
        };
        let (folder, owner, limit) = (folder.clone(), shared.ways.owner, task.limits.disk);
        let limit = limit.saturating_add(uploaded);
        let unpacking = tokio::task::spawn_blocking(move || take_in(Coming::new(received), &folder, owner, limit));
        let carried = tokio::time::timeout(TRANSFER, carry).await;
        let unpacked = unpacking.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        match carried {
            Err(_) => return Err(EngineError::Stalled { step, seconds: TRANSFER.as_secs() }.into()),
            Ok(Err(error)) => return Err(error.into()),
            Ok(Ok(())) => over |= unpacked.map_err(setup(&step))? == Unpacked::TooMuch,
        }
    }
    Ok(over)
}

/// Pieces that come through a channel, as a reader.
struct Coming {
    pieces: mpsc::Receiver<bytes::Bytes>,
    piece: bytes::Bytes,
}

impl Coming {
    fn new(pieces: mpsc::Receiver<bytes::Bytes>) -> Self {
        Self { pieces, piece: bytes::Bytes::new() }
    }
}

impl std::io::Read for Coming {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.piece.len());
        let part = self.piece.split_to(length);
        buffer[..length].copy_from_slice(&part);
        Ok(length)
    }
}
