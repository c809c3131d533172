//! A state of the code, its layer on the host, and what a rebuild makes of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, OnceCell};
use tokio_util::sync::CancellationToken;

use super::prepare::{Ready, Unavailable, blocking, disk, of_repo};
use crate::fault;
use crate::oracle::{self, Rebuilt, RunError, Subject};
use crate::repo::{ChangeSet, renew_beside};
use crate::sandbox::{Limits, Sandbox};

/// A state of the code: the head tree with a change.
pub(super) struct State {
    /// The change.
    pub(super) changes: ChangeSet,
    /// How the patch came to apply, message by message; empty for head and merged.
    pub(super) log: Vec<String>,
    /// Test configuration that a revision touches and that is head's here.
    pub(super) laid_over: Vec<String>,
    layer: OnceCell<(PathBuf, Vec<PathBuf>)>,
    rebuilt: Mutex<Option<Arc<Rebuilt>>>,
    oracles_done: AtomicUsize,
}

impl State {
    pub(super) fn new(changes: ChangeSet, log: Vec<String>, laid_over: Vec<String>) -> Arc<Self> {
        let (layer, rebuilt) = (OnceCell::new(), Mutex::new(None));
        Arc::new(Self { changes, log, laid_over, layer, rebuilt, oracles_done: AtomicUsize::new(0) })
    }

    /// What an oracle runs on: the layers of this state in the instance's environment.
    pub(super) async fn subject(self: &Arc<Self>, ready: &Ready, owner: (u32, u32)) -> Result<Subject, Unavailable> {
        let (layer, remove) = self.layer(ready, owner).await?;
        let mut workspace: Vec<_> = layer.into_iter().collect();
        workspace.extend(ready.environment.workspace_layers.iter().cloned());
        workspace.push(ready.snapshot.clone());
        Ok(Subject {
            root: ready.environment.root.clone(),
            mounts: ready.environment.mounts.clone(),
            workspace,
            remove,
            variables: ready.environment.variables.clone(),
            tools: ready.environment.tools.clone(),
            rebuild: ready.environment.rebuild.clone(),
        })
    }

    /// The directory of changed files and the list of removed ones, written when first needed.
    async fn layer(
        self: &Arc<Self>,
        ready: &Ready,
        owner: (u32, u32),
    ) -> Result<(Option<PathBuf>, Vec<PathBuf>), Unavailable> {
        if self.changes.is_empty() {
            return Ok((None, Vec::new()));
        }
        let layer = self
            .layer
            .get_or_try_init(|| async {
                let state = self.clone();
                let (scratch, snapshot) = (ready.scratch.path().to_owned(), ready.snapshot.clone());
                // What was built before a file went may not notice that it is gone.
                let is_built = !ready.environment.workspace_layers.is_empty() || !ready.environment.rebuild.is_empty();
                blocking(move || {
                    let dir = tempfile::Builder::new()
                        .prefix("change-")
                        .tempdir_in(scratch)
                        .map_err(|e| disk(&e.to_string()))?
                        .keep();
                    fault::point("score.change.made");
                    let removed = state.changes.materialise(&dir, owner).map_err(|e| of_repo(&e))?;
                    if is_built {
                        renew_beside(&removed, &snapshot, &dir, owner).map_err(|e| of_repo(&e))?;
                    }
                    fault::point("score.change.written");
                    Ok((dir, removed))
                })
                .await
            })
            .await?;
        Ok((Some(layer.0.clone()), layer.1.clone()))
    }

    /// What the environment's rebuild commands make of this state; `None` without such commands. Made once for all
    /// oracles and repeats, unless a limit ended it: that may be the machine's doing, and is not put on all of them.
    pub(super) async fn rebuilt(
        &self,
        sandbox: &dyn Sandbox,
        subject: &Subject,
        limits: &Limits,
        scratch: &Path,
        cancel: &CancellationToken,
    ) -> Result<Option<Arc<Rebuilt>>, RunError> {
        if subject.rebuild.is_empty() {
            return Ok(None);
        }
        let mut kept = self.rebuilt.lock().await;
        if let Some(rebuilt) = kept.as_ref() {
            return Ok(Some(rebuilt.clone()));
        }
        let rebuilt = oracle::rebuild(sandbox, subject, limits, scratch, cancel).await?.map(Arc::new);
        kept.clone_from(&rebuilt);
        kept.take_if(|rebuilt| {
            let exit = &rebuilt.exit;
            exit.timed_out || exit.out_of_memory || exit.cancelled
        });
        Ok(rebuilt)
    }

    /// One of `oracles` oracles has no more runs on this state: with the last one what was rebuilt leaves the disk.
    pub(super) async fn oracle_is_done(&self, oracles: usize) {
        if self.oracles_done.fetch_add(1, Ordering::Relaxed) + 1 == oracles {
            self.rebuilt.lock().await.take();
        }
    }
}
