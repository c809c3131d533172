//! All fault points, in the order of a run.

/// One fault point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Its name, as it stands in the code.
    pub name: &'static str,
    /// The step that is done when it is reached.
    pub after: &'static str,
    /// Which process reaches it.
    pub side: Side,
}

/// Which process reaches a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// redgreen itself.
    Main,
    /// redgreen itself while it looks for a level that works, and later the sandbox's helper.
    Either,
    /// The sandbox's helper: the supervisor outside, PID 1 inside, or the command before it is one.
    Helper,
}

const fn main(name: &'static str, after: &'static str) -> Point {
    Point { name, after, side: Side::Main }
}

const fn either(name: &'static str, after: &'static str) -> Point {
    Point { name, after, side: Side::Either }
}

const fn helper(name: &'static str, after: &'static str) -> Point {
    Point { name, after, side: Side::Helper }
}

/// The closed set of fault points. A test holds it against the code and against what a run reaches.
pub const POINTS: &[Point] = &[
    // Files and locks.
    main("store.file.made", "a temporary file was made beside the one that is to be written"),
    main("store.file.written", "its bytes were written"),
    main("store.file.synced", "they were flushed to the disk"),
    main("store.file.renamed", "the file got its name"),
    main("store.folder.synced", "the name was flushed to the disk"),
    main("store.lock.taken", "a lock of the scratch folders was taken"),
    main("scratch.folder.made", "this process's scratch folder was made, and has no owner yet"),
    main("scratch.owner.locked", "the scratch folder has its owner"),
    // The run folder.
    main("run.door.open", "the run folder's lock is shared, and the mark of a writer is set"),
    main("run.door.locked", "the run folder's lock is this process's own"),
    main("run.door.shared", "other processes may come in"),
    main("run.manifest.put", "the manifest was written"),
    main("run.blob.put", "a blob was written"),
    main("run.record.put", "a record was written"),
    main("run.row.made", "a temporary file for a row was made"),
    main("run.row.written", "the row's bytes were written"),
    main("run.row.renamed", "the row got its name"),
    main("run.row.removed", "a row that is no longer in the benchmark was removed"),
    main("run.event.appended", "an event was appended"),
    main("report.files.written", "the report's files were written"),
    // Repositories and trees.
    main("repo.lock.taken", "the lock of a clone, an unpacked bundle or a tree was taken"),
    main("repo.git.spawned", "the git program was started"),
    main("repo.clone.made", "a clone was made under its temporary name"),
    main("repo.clone.synced", "it was flushed to the disk"),
    main("repo.clone.renamed", "it got its name"),
    main("repo.tree.file", "one file of a tree or of a change was written"),
    main("repo.snapshot.written", "a tree was written under its temporary name"),
    main("repo.snapshot.renamed", "the tree got its name"),
    main("repo.marker.written", "its marker was written under a temporary name"),
    main("repo.snapshot.synced", "tree and marker were flushed to the disk"),
    main("repo.marker.renamed", "the marker got its name"),
    // Environments.
    main("toolchain.probe.spawned", "the program that says where a toolchain is was started"),
    main("layer.turn.taken", "the lock of an environment layer was taken"),
    main("layer.draft.made", "the layer's temporary folder was made"),
    main("layer.folder.made", "a folder in it was made"),
    main("layer.log.written", "the layer's log was written"),
    main("layer.marker.written", "its marker was written"),
    main("layer.synced", "all of it was flushed to the disk"),
    main("layer.renamed", "the layer got its name"),
    // An instance and its runs.
    main("score.instance.made", "the instance's scratch folder was made"),
    main("score.change.made", "the folder of a change was made"),
    main("score.change.written", "the change was written into it"),
    main("oracle.folder.made", "the folder of a rebuild or of a test was made"),
    main("oracle.rebuild.ended", "a rebuild ended"),
    main("oracle.test.staged", "the test was laid ready"),
    main("oracle.run.ended", "an oracle's run ended"),
    // The sandbox, from outside.
    main("sandbox.helper.spawned", "the sandbox's helper was started"),
    main("sandbox.job.sent", "the helper got its job"),
    main("sandbox.answer.read", "its answer was read"),
    either("sandbox.cgroup.made", "the run's cgroup was made"),
    either("sandbox.cgroup.limited", "its limits were set"),
    // The Docker sandbox.
    main("docker.image.imported", "a base was imported as an image"),
    main("docker.memory.mounted", "memory for what a container writes was mounted"),
    main("docker.workdir.made", "an overlay's work directory was made beside an upper that is kept"),
    main("docker.container.made", "the container was made"),
    main("docker.workspace.uploaded", "the workspace was copied into the container"),
    main("docker.container.attached", "its output is being read"),
    main("docker.container.started", "the container was started"),
    main("docker.container.ended", "its command ended"),
    main("docker.container.removed", "the container was removed"),
    // The helper's supervisor.
    helper("helper.job.received", "the supervisor read its job"),
    helper("helper.init.cloned", "PID 1 was made, in its namespaces"),
    helper("helper.init.released", "PID 1 may go on"),
    helper("helper.command.started", "the supervisor knows that the command runs"),
    helper("helper.tree.buried", "nothing of the sandbox runs any more"),
    helper("helper.cgroup.removed", "the run's cgroup was removed"),
    helper("helper.workdirs.removed", "the overlays' work directories were removed"),
    helper("helper.report.sent", "the answer was given"),
    // PID 1 inside, and the command before it is one.
    helper("init.cgroup.joined", "PID 1 may go on, and is in its cgroup"),
    helper("init.mounts.private", "the mounts are this namespace's own"),
    helper("init.workdir.made", "an overlay's work directory was made"),
    helper("init.sources.opened", "the host's side of all mounts is open"),
    helper("init.memory.mounted", "a file system in memory was mounted"),
    helper("init.proc.mounted", "`/proc` was mounted"),
    helper("init.overlay.mounted", "an overlay was mounted"),
    helper("init.mount.attached", "a mount was attached at its place"),
    helper("init.root.changed", "the private root is the root"),
    helper("init.root.ready", "the sandbox is set up"),
    helper("init.command.cloned", "the command's process was made"),
    helper("init.command.released", "the command's process may go on"),
    helper("init.command.waits", "the command's process goes on, and will become the command"),
    helper("init.tree.reaped", "all processes inside ended and were waited for"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_can_be_file_names() {
        let mut names: Vec<&str> = POINTS.iter().map(|point| point.name).collect();
        assert!(
            names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'.')),
            "{names:?}"
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), POINTS.len());
    }
}
