//! The task's own mounts.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::super::cleanup::{self, work_dir};
use super::super::failure::{Failure, Step};
use super::super::protocol::{Job, Privilege};
use super::overlay::{Layers, Upper};
use super::place;
use super::remove;
use super::root::Root;
use crate::fault;
use crate::sandbox::Mount;

/// A mount whose host side is open, so that it can be made where the host cannot be seen any more.
pub enum Source {
    /// A bind mount, still detached.
    Bind { tree: OwnedFd, target: PathBuf },
    /// Copy-on-write.
    Overlay { layers: Layers, target: PathBuf, remove: Vec<PathBuf> },
}

/// Opens the host side of all mounts. Must run while the host's paths are all visible.
pub fn open(job: &Job) -> Result<Vec<Source>, Failure> {
    job.task.mounts.iter().map(|mount| open_one(mount, job)).collect()
}

fn open_one(mount: &Mount, job: &Job) -> Result<Source, Failure> {
    let below = |target: &Path| place::below_root(target).step(|| format!("mount at `{}`", target.display()));
    match mount {
        Mount::ReadOnly { source, target } => {
            let tree = bind(source)?;
            place::read_only(&tree).step(|| format!("make `{}` read-only", source.display()))?;
            Ok(Source::Bind { tree, target: below(target)? })
        }
        Mount::ReadWrite { source, target } => {
            let tree = bind(source)?;
            place::harmless(&tree).step(|| format!("bind `{}`", source.display()))?;
            Ok(Source::Bind { tree, target: below(target)? })
        }
        Mount::Overlay { lowers, target, upper, remove } => {
            let lowers = lowers.iter().map(|lower| open_dir(lower)).collect::<Result<Vec<_>, _>>()?;
            let upper = match upper {
                None => None,
                Some(upper) => {
                    let work = work_dir(upper);
                    // Left by a run that was killed.
                    cleanup::remove_work_dir(&work);
                    fs_err::create_dir(&work).step(|| format!("make `{}`", work.display()))?;
                    fault::point("init.workdir.made");
                    Some(Upper { dir: open_dir(upper)?, work: open_dir(&work)? })
                }
            };
            let user = job.privilege == Privilege::User;
            let layers = Layers { lowers, upper, user, copy: job.copy_workspace };
            Ok(Source::Overlay { layers, target: below(target)?, remove: remove.clone() })
        }
    }
}

fn bind(source: &Path) -> Result<OwnedFd, Failure> {
    place::detached(rustix::fs::CWD, source).step(|| format!("open `{}`", source.display()))
}

fn open_dir(path: &Path) -> Result<OwnedFd, Failure> {
    let step = || format!("open the directory `{}`", path.display());
    let dir = place::open_host(path).step(step)?;
    if place::is_dir(&dir) { Ok(dir) } else { Err(Failure { step: step(), errno: libc::ENOTDIR }) }
}

/// Mounts everything in order. Says how the copy-on-write mounts were made: `overlayfs`, `copy`, or `none` where
/// there is no such mount.
pub fn attach(root: &Root, sources: Vec<Source>) -> Result<&'static str, Failure> {
    let mut workspace = "none";
    for (number, source) in sources.into_iter().enumerate() {
        let (tree, target) = match source {
            Source::Bind { tree, target } => (tree, target),
            Source::Overlay { layers, target, remove } => {
                let (tree, copied) = layers.mount(root, number)?;
                for path in &remove {
                    remove::remove(&tree, path)
                        .step(|| format!("remove `{}` from `/{}`", path.display(), target.display()))?;
                }
                workspace = if copied || workspace == "copy" { "copy" } else { "overlayfs" };
                (tree, target)
            }
        };
        let step = || format!("mount at `/{}`", target.display());
        let at = place::make_place(&root.dir, &target, place::is_dir(&tree), root.owner).step(step)?;
        place::attach(&tree, &at).step(step)?;
    }
    Ok(workspace)
}
