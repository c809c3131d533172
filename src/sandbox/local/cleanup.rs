//! What a run leaves on the host: its cgroup, and overlayfs's work directories beside kept uppers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::cgroup;
use super::protocol::Job;
use crate::sandbox::Mount;

/// The directory that overlayfs needs on the upper's file system: made before the run, removed after it.
pub fn work_dir(upper: &Path) -> PathBuf {
    let mut name = upper.file_name().unwrap_or_default().to_os_string();
    name.push(".overlay-work");
    upper.with_file_name(name)
}

/// Removes the work directories of a run that ended.
pub fn remove_work_dirs(job: &Job) {
    for mount in &job.task.mounts {
        if let Mount::Overlay { upper: Some(upper), .. } = mount {
            remove_work_dir(&work_dir(upper));
        }
    }
}

/// Removes one work directory.
pub fn remove_work_dir(work: &Path) {
    // What overlayfs makes in it is closed even to its owner.
    for entry in fs::read_dir(work).into_iter().flatten().flatten() {
        let _ = fs::set_permissions(entry.path(), std::fs::Permissions::from_mode(0o700));
        // A container engine makes it as root: not to be opened by others, but empty.
        let _ = fs::remove_dir(entry.path());
    }
    let _ = fs::remove_dir_all(work);
}

/// Does the helper's part when the helper died.
pub fn after_dead_helper(job: &Job) {
    for parent in job.cgroup.iter().flat_map(cgroup::Plan::parents) {
        cgroup::kill_and_remove(&parent.join(&job.name));
    }
    remove_work_dirs(job);
}
