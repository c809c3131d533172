//! Settles which paths a patch is about, and refuses what would leave the tree.

use std::collections::BTreeSet;

use super::error::{Escape, PatchError};
use super::types::{Body, FilePatch, Operation};
use crate::repo::base::{BaseTree, EntryKind};
use crate::repo::changes::FileMode;
use crate::repo::path::{PathProblem, TreePath};

/// One file's patch with its paths checked.
#[derive(Debug)]
pub(super) struct Step {
    pub file: FilePatch,
    /// Where the old content is; none for a new file.
    pub source: Option<TreePath>,
    /// Where the new content goes; none for a deletion.
    pub target: Option<TreePath>,
}

/// The steps of a patch in its own order.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub steps: Vec<Step>,
    /// The paths that are deleted or renamed away somewhere in the patch: new files may take their places.
    pub leaving: BTreeSet<TreePath>,
    pub repairs: Vec<String>,
}

/// Checks all paths of a patch against the tree.
pub(super) fn plan(base: &dyn BaseTree, files: Vec<FilePatch>) -> Result<Plan, PatchError> {
    let mut plan = Plan::default();
    let mut made: BTreeSet<TreePath> = BTreeSet::new();
    for mut file in files {
        for name in [&file.old, &file.new].into_iter().flatten() {
            checked(name, file.line)?;
        }
        if file.is_submodule() {
            plan.repairs.push(format!("left out the submodule `{}`: submodules are empty here", file.shown()));
            continue;
        }
        if file.body == Body::BinaryWithoutData && file.operation != Operation::Delete {
            return Err(PatchError::UnsupportedBinary { path: file.shown() });
        }
        if matches!(file.operation, Operation::Modify | Operation::Delete) {
            choose_reading(base, &mut file, &made, &mut plan.repairs)?;
        }
        let path = |name: &Option<Vec<u8>>| name.as_deref().map(|n| checked(n, file.line)).transpose();
        let (source, target) = (path(&file.old)?, path(&file.new)?);
        if matches!(file.operation, Operation::Delete | Operation::Rename) {
            plan.leaving.extend(source.clone());
        }
        made.extend(target.clone());
        plan.steps.push(Step { file, source, target });
    }
    let makes_link = |step: &&Step| step.file.new_mode.is_some_and(|m| m & 0o170_000 == 0o120_000);
    let links = plan.steps.iter().filter(makes_link).filter_map(|step| step.target.clone()).collect();
    let mut links = Links { base, leaving: &plan.leaving, made: links, harmless: BTreeSet::new() };
    for step in &plan.steps {
        // What is taken away lies where the tree has it: a link may take the place of a folder that is emptied.
        step.source.iter().try_for_each(|path| links.refuse(path, false))?;
        step.target.iter().try_for_each(|path| links.refuse(path, true))?;
    }
    Ok(plan)
}

/// Takes the reading of a file's name that is in the tree, where the first one is not.
fn choose_reading(
    base: &dyn BaseTree,
    file: &mut FilePatch,
    made: &BTreeSet<TreePath>,
    repairs: &mut Vec<String>,
) -> Result<(), PatchError> {
    let exists = |name: &[u8]| match TreePath::new(name) {
        Ok(path) => Ok::<_, PatchError>(made.contains(&path) || base.kind(&path)?.is_some()),
        Err(_) => Ok(false),
    };
    let Some(first) = file.old.clone() else { return Ok(()) };
    if exists(&first)? {
        return Ok(());
    }
    for other in &file.alternates {
        if exists(other)? {
            let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            repairs.push(format!("read the file name `{}` as `{}`", text(&first), text(other)));
            let other = other.clone();
            file.new = file.new.take().map(|_| other.clone());
            file.old = Some(other);
            return Ok(());
        }
    }
    Ok(())
}

fn checked(name: &[u8], line: usize) -> Result<TreePath, PatchError> {
    let escapes = |how| PatchError::Escapes { path: String::from_utf8_lossy(name).into_owned(), how };
    TreePath::new(name).map_err(|problem| match problem {
        PathProblem::Absolute => escapes(Escape::Absolute),
        PathProblem::Parent => escapes(Escape::Parent),
        PathProblem::GitFolder => escapes(Escape::GitFolder),
        PathProblem::Malformed => {
            PatchError::Malformed { line, problem: format!("`{}` is not a file name", String::from_utf8_lossy(name)) }
        }
    })
}

/// What paths must not lie behind.
struct Links<'a> {
    base: &'a dyn BaseTree,
    leaving: &'a BTreeSet<TreePath>,
    /// The symlinks that the patch makes.
    made: BTreeSet<TreePath>,
    /// Folders that were looked at: most files of a patch lie in few of them.
    harmless: BTreeSet<TreePath>,
}

impl Links<'_> {
    /// Refuses a path that lies behind a symlink: one of the tree that stays or, where something is `written`, one that
    /// the patch makes.
    fn refuse(&mut self, path: &TreePath, written: bool) -> Result<(), PatchError> {
        for up in path.ancestors() {
            let makes = written && self.made.contains(&up);
            if !makes && self.harmless.contains(&up) {
                continue;
            }
            let stays = !self.leaving.contains(&up);
            if makes || (stays && self.base.kind(&up)? == Some(EntryKind::File(FileMode::Symlink))) {
                return Err(PatchError::Escapes { path: path.to_string(), how: Escape::Symlink(up.to_string()) });
            }
            self.harmless.insert(up);
        }
        Ok(())
    }
}
