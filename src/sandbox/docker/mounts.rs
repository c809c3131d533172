//! A task's file systems as mounts that the engine makes: binds, and overlays as volumes of its `local` driver.
//!
//! The engine must be on this machine and see our files; [`trial`](super::trial) proves it. The volumes are anonymous and
//! go with their container.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bollard::models::{
    Mount as EngineMount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, MountVolumeOptions,
    MountVolumeOptionsDriverConfig,
};
use fs_err as fs;

use super::folder::RunFolder;
use super::merged::{Merged, give};
use crate::fault;
use crate::sandbox::local::{HOME, below_root, remove_work_dir, work_dir};
use crate::sandbox::{Mount, SandboxError, Task};

/// How mounts are made here.
#[derive(Debug, Clone)]
pub struct Ways {
    /// Where run folders are made.
    pub scratch: PathBuf,
    /// Whom files must belong to so that a task can change them.
    pub owner: (u32, u32),
    /// Whether memory for what is written is mounted by us and seen by the engine.
    pub memory: bool,
    /// Files that lie in `/etc` of every container: path inside and on the host.
    pub etc: Vec<(String, PathBuf)>,
}

/// Mounts that are ready to be made.
#[derive(Debug)]
pub struct Prepared {
    /// For the container.
    pub mounts: Vec<EngineMount>,
    /// File systems in memory that the engine makes: path inside and options.
    pub tmpfs: HashMap<String, String>,
    /// Uppers on disk that are thrown away.
    pub thrown: Vec<PathBuf>,
    /// Whether there is a copy-on-write mount.
    pub has_overlay: bool,
    folder: RunFolder,
    work: Vec<PathBuf>,
}

impl Prepared {
    /// To be called when the container has started: what it has mounted is its own from then on.
    pub fn started(&mut self) {
        self.folder.release();
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        for work in &self.work {
            remove_work_dir(work);
        }
    }
}

/// Prepares a task's mounts; `labels` are for the volumes.
///
/// # Errors
///
/// [`SandboxError::Setup`] with the mount that cannot be made.
pub fn prepare(task: &Task, ways: &Ways, labels: &HashMap<String, String>) -> Result<Prepared, SandboxError> {
    let memory = ways.memory.then_some(task.limits.scratch);
    let folder = RunFolder::new(&ways.scratch, memory).map_err(setup("make the run's folder"))?;
    let mut prepared = Prepared {
        mounts: Vec::new(),
        tmpfs: HashMap::new(),
        thrown: Vec::new(),
        has_overlay: false,
        folder,
        work: Vec::new(),
    };
    prepared.written(task, ways)?;
    for (target, source) in &ways.etc {
        prepared.mounts.push(bind(source, Path::new(target), true));
    }
    let mut places: Vec<(&Path, Merged)> = Vec::new();
    for (number, mount) in task.mounts.iter().enumerate() {
        let target = mount.target();
        let step = || format!("mount at `{}`", target.display());
        below_root(target).map_err(setup(&step()))?;
        let is_directory = match mount {
            Mount::Overlay { .. } => true,
            Mount::ReadOnly { source, .. } | Mount::ReadWrite { source, .. } => {
                fs::metadata(source).map_err(setup(&format!("open `{}`", source.display())))?.is_dir()
            }
        };
        // A place inside an earlier mount that can be written is made there, and not by the engine, whose it would be.
        let outer = places.iter().rev().find(|(outer, _)| target.starts_with(outer) && target != *outer);
        if let Some((outer, merged)) = outer
            && let Ok(path) = target.strip_prefix(outer)
        {
            merged.make_place(path, is_directory, ways.owner).map_err(setup(&step()))?;
        }
        // The last mount at a place is the one that is seen.
        prepared.mounts.retain(|made| made.target.as_deref() != target.to_str());
        match mount {
            Mount::ReadOnly { source, .. } => prepared.mounts.push(bind(source, target, true)),
            Mount::ReadWrite { source, .. } => {
                prepared.mounts.push(bind(source, target, false));
                if is_directory {
                    places.push((target, Merged::new(vec![source.clone()])));
                }
            }
            Mount::Overlay { lowers, upper, remove, .. } => {
                let upper = prepared.overlay(number, lowers, target, upper.as_deref(), ways, labels)?;
                let merged = Merged::new(std::iter::once(upper).chain(lowers.iter().cloned()).collect());
                for path in remove {
                    let step = format!("remove `{}` from `{}`", path.display(), target.display());
                    merged.remove(path).map_err(setup(&step))?;
                }
                places.push((target, merged));
            }
        }
    }
    // An engine would make a missing current directory, as root's.
    if let Some((outer, merged)) = places.iter().rev().find(|(outer, _)| task.cwd.starts_with(outer))
        && let Ok(path) = task.cwd.strip_prefix(outer)
        && !task.mounts.iter().any(|mount| {
            task.cwd.starts_with(mount.target()) && mount.target().starts_with(outer) && mount.target() != *outer
        })
        && merged.find(path).map_err(setup("look for the current directory"))?.is_none()
    {
        let step = format!("enter `{}`", task.cwd.display());
        return Err(setup(&step)(io::Error::from_raw_os_error(libc::ENOENT)));
    }
    Ok(prepared)
}

impl Prepared {
    /// `/tmp`, home and `/dev/shm`: one limited file system for all where we can mount it, else one of the engine's each.
    fn written(&mut self, task: &Task, ways: &Ways) -> Result<(), SandboxError> {
        if self.folder.is_memory() {
            for (name, targets, mode) in
                [("tmp", &["/tmp", "/var/tmp"][..], 0o1777), ("home", &[HOME], 0o755), ("shm", &["/dev/shm"], 0o1777)]
            {
                let source =
                    self.folder.directory(name, mode, ways.owner).map_err(setup(&format!("make `{}`", targets[0])))?;
                self.mounts.extend(targets.iter().map(|target| bind(&source, Path::new(target), false)));
            }
        } else {
            self.tmpfs = tmpfs(task.limits.scratch, ways.owner);
        }
        Ok(())
    }

    /// An overlay as a volume. Gives its upper directory.
    fn overlay(
        &mut self,
        number: usize,
        lowers: &[PathBuf],
        target: &Path,
        upper: Option<&Path>,
        ways: &Ways,
        labels: &HashMap<String, String>,
    ) -> Result<PathBuf, SandboxError> {
        let top = lowers.first().ok_or_else(|| {
            setup("mount an overlay without lower directories")(io::Error::from_raw_os_error(libc::EINVAL))
        })?;
        // The mount's own directory is the upper's, so it gets the topmost lower's mode and the command's owner.
        let data = fs::metadata(top).map_err(setup("look at a lower directory"))?;
        let mode = data.mode() & 0o7777 | 0o700;
        let (upper, work) = match upper {
            Some(upper) => {
                let work = work_dir(upper);
                // Left by a run that was killed.
                remove_work_dir(&work);
                fs::create_dir(&work).map_err(setup(&format!("make `{}`", work.display())))?;
                self.work.push(work.clone());
                fault::point("docker.workdir.made");
                fs::set_permissions(upper, std::fs::Permissions::from_mode(mode))
                    .map_err(setup("set the mode of the upper directory"))?;
                give(upper, ways.owner).map_err(setup("give the upper directory to the command"))?;
                (upper.to_owned(), work)
            }
            None => {
                let make = |name: String, mode| {
                    self.folder
                        .directory(&name, mode, ways.owner)
                        .map_err(setup(&format!("make the directory `{name}`")))
                };
                let made = (make(format!("upper{number}"), mode)?, make(format!("work{number}"), 0o700)?);
                if !self.folder.is_memory() {
                    self.thrown.push(made.0.clone());
                }
                made
            }
        };
        let alias = |name: String, path: &Path| {
            self.folder.alias(&name, path).map_err(setup(&format!("name the layer `{}`", path.display())))
        };
        let mut names = Vec::new();
        for (at, lower) in lowers.iter().enumerate() {
            if !fs::metadata(lower).map_err(setup("open a lower directory"))?.is_dir() {
                let step = format!("open the directory `{}`", lower.display());
                return Err(setup(&step)(io::Error::from_raw_os_error(libc::ENOTDIR)));
            }
            names.push(escaped(&alias(format!("l{number}-{at}"), lower)?));
        }
        let (u, w) = (alias(format!("u{number}"), &upper)?, alias(format!("w{number}"), &work)?);
        // The same marks as the embedded sandbox's, so that layers of one are layers of the other.
        let marks =
            if rustix::process::geteuid().is_root() { "redirect_dir=nofollow,metacopy=off" } else { "userxattr" };
        let options = format!(
            "nosuid,nodev,lowerdir={},upperdir={},workdir={},index=off,{marks}",
            names.join(":"),
            escaped(&u),
            escaped(&w)
        );
        let driver = HashMap::from([("type", "overlay".to_owned()), ("device", "overlay".to_owned()), ("o", options)]);
        self.mounts.push(EngineMount {
            target: Some(target.to_string_lossy().into_owned()),
            typ: Some(MountType::VOLUME),
            volume_options: Some(MountVolumeOptions {
                no_copy: Some(true),
                labels: Some(labels.clone()),
                driver_config: Some(MountVolumeOptionsDriverConfig {
                    name: Some("local".to_owned()),
                    options: Some(driver.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
                }),
                ..MountVolumeOptions::default()
            }),
            ..EngineMount::default()
        });
        self.has_overlay = true;
        Ok(upper)
    }
}

/// The writable places of every container, as file systems in memory that the engine makes.
pub fn tmpfs(size: u64, (uid, gid): (u32, u32)) -> HashMap<String, String> {
    let size = size.max(1 << 20);
    let open = format!("rw,exec,nosuid,nodev,size={size},mode=1777");
    HashMap::from([
        ("/tmp".to_owned(), open.clone()),
        ("/var/tmp".to_owned(), open),
        (HOME.to_owned(), format!("rw,exec,nosuid,nodev,size={size},mode=755,uid={uid},gid={gid}")),
    ])
}

fn bind(source: &Path, target: &Path, read_only: bool) -> EngineMount {
    EngineMount {
        source: Some(source.to_string_lossy().into_owned()),
        target: Some(target.to_string_lossy().into_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..EngineMount::default()
    }
}

/// A path in overlayfs's options: `:` parts directories there, and `,` options.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().chars().fold(String::new(), |mut text, c| {
        if matches!(c, ':' | ',' | '\\') {
            text.push('\\');
        }
        text.push(c);
        text
    })
}

/// Names the step of a failed system call.
pub fn setup(step: &str) -> impl FnOnce(io::Error) -> SandboxError + use<> {
    let step = step.to_owned();
    move |source| SandboxError::Setup { step, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Limits, Network, Root};

    fn ways(scratch: &Path) -> Ways {
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        Ways { scratch: scratch.to_owned(), owner, memory: false, etc: Vec::new() }
    }

    fn task(mounts: Vec<Mount>) -> Task {
        Task {
            argv: vec!["true".to_owned()],
            cwd: "/".into(),
            variables: Default::default(),
            root: Root::Host,
            mounts,
            limits: Limits::default(),
            network: Network::None,
            result_channel: false,
        }
    }

    #[test]
    fn layers_with_odd_names_become_plain_options() {
        let place = tempfile::tempdir().unwrap();
        let lower = place.path().join("low:er, odd");
        fs::create_dir(&lower).unwrap();
        let kept = place.path().join("kept");
        fs::create_dir(&kept).unwrap();
        let scratch = place.path().join("scratch");
        let overlay =
            |upper| Mount::Overlay { lowers: vec![lower.clone()], target: "/workspace".into(), upper, remove: vec![] };
        let task = task(vec![
            overlay(Some(kept.clone())),
            Mount::ReadOnly { source: lower.clone(), target: "/workspace/deps/x".into() },
        ]);
        let prepared = prepare(&task, &ways(&scratch), &HashMap::new()).unwrap();
        let volume = prepared.mounts.iter().find(|mount| mount.typ == Some(MountType::VOLUME)).unwrap();
        let options = volume.volume_options.as_ref().unwrap().driver_config.as_ref().unwrap().options.as_ref().unwrap();
        let o = &options["o"];
        assert_eq!((options["type"].as_str(), o.contains("odd")), ("overlay", false));
        let lower_name = o.split(',').find_map(|option| option.strip_prefix("lowerdir=")).unwrap();
        assert_eq!(fs::canonicalize(lower_name).unwrap(), fs::canonicalize(&lower).unwrap());
        // The place of the inner mount is the command's, in the upper.
        assert!(kept.join("deps/x").is_dir() && work_dir(&kept).is_dir());
        drop(prepared);
        assert!(!work_dir(&kept).exists() && fs::read_dir(&scratch).unwrap().next().is_none());
    }

    #[test]
    fn what_cannot_be_mounted_is_named() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("low")).unwrap();
        std::os::unix::fs::symlink("/etc", place.path().join("low/deps")).unwrap();
        let lower = place.path().join("low");
        let overlay = Mount::Overlay { lowers: vec![lower.clone()], target: "/w".into(), upper: None, remove: vec![] };
        let bad = [
            (vec![Mount::ReadOnly { source: "/nowhere/at/all".into(), target: "/x".into() }], "/nowhere"),
            (vec![Mount::ReadOnly { source: lower.clone(), target: "x".into() }], "`x`"),
            (vec![Mount::ReadOnly { source: lower.clone(), target: "/a/../b".into() }], "/a/../b"),
            (
                vec![Mount::Overlay { lowers: vec![], target: "/w".into(), upper: None, remove: vec![] }],
                "without lower",
            ),
            (vec![overlay.clone(), Mount::ReadOnly { source: lower.clone(), target: "/w/deps/x".into() }], "/w/deps/x"),
        ];
        for (mounts, part) in bad {
            let error = prepare(&task(mounts), &ways(place.path()), &HashMap::new()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
