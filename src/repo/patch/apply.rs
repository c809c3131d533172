//! Applies a patch to a tree in memory.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Escape, PatchError};
use super::image::Image;
use super::normalise::{read, render};
use super::parse::Parsed;
use super::plan::{Plan, Step, plan};
use super::types::{Body, FilePatch, Operation};
use super::{ApplyMethod, MAX_FILE, MAX_MADE};
use crate::repo::base::{BaseTree, EntryKind};
use crate::repo::changes::{Change, ChangeSet, FileContent, FileMode};
use crate::repo::path::TreePath;

/// A patch that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// What it changes, relative to the tree: nothing for a patch that ends where it began.
    pub changes: ChangeSet,
    /// The strictest method that fitted.
    pub method: ApplyMethod,
    /// What the stricter methods ran into, and which hunks went elsewhere than stated.
    pub log: Vec<String>,
    /// What had to be put right in the patch's form.
    pub repairs: Vec<String>,
    /// The patch in regular form, as it was applied.
    pub normalised: Vec<u8>,
}

/// Applies `patch` to `base`: all of it or nothing. An empty patch is an empty set of changes.
///
/// Renames and copies read the tree as it was; several changes of one file build on each other, as in `git apply`.
pub fn apply_patch(base: &dyn BaseTree, patch: &[u8]) -> Result<Applied, PatchError> {
    let Parsed { files, repairs } = read(patch)?;
    let mut plan = plan(base, files)?;
    let mut repairs: Vec<String> = repairs.into_iter().collect();
    repairs.append(&mut plan.repairs);
    refuse_bombs(&plan)?;
    let normalised =
        render(&Parsed { files: plan.steps.iter().map(|s| s.file.clone()).collect(), ..Parsed::default() });
    let mut attempts = Vec::new();
    for method in ApplyMethod::ALL {
        let mut run = Run::new(base, &plan, method);
        match run.steps() {
            Ok(()) => {
                let mut log: Vec<String> =
                    attempts.iter().map(|(m, e): &(ApplyMethod, _)| format!("{m}: {e}")).collect();
                log.append(&mut run.log);
                let changes = run.changes()?;
                return Ok(Applied { changes, method, log, repairs, normalised });
            }
            Err(Miss::Refused(error)) => return Err(error),
            Err(Miss::Never(message)) => {
                attempts.push((method, message));
                break;
            }
            Err(Miss::Strict(message)) => attempts.push((method, message)),
        }
    }
    Err(PatchError::DoesNotApply { attempts })
}

/// Refuses compressed content that would be too much in all, before any of it is inflated.
fn refuse_bombs(plan: &Plan) -> Result<(), PatchError> {
    let sizes = plan.steps.iter().map(|step| match &step.file.body {
        Body::Binary { forward, .. } => forward.size,
        _ => 0,
    });
    let bytes = sizes.fold(0, u64::saturating_add);
    if bytes > MAX_MADE {
        return Err(PatchError::TooLarge { what: "what the patch makes".to_owned(), bytes, limit: MAX_MADE });
    }
    Ok(())
}

/// Why one method did not fit.
enum Miss {
    /// A laxer one might.
    Strict(String),
    /// None will.
    Never(String),
    /// The patch is refused, or the tree cannot be read.
    Refused(PatchError),
}

impl<E: Into<PatchError>> From<E> for Miss {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

/// One method's run over the whole patch.
struct Run<'a> {
    base: &'a dyn BaseTree,
    plan: &'a Plan,
    method: ApplyMethod,
    gone: BTreeSet<TreePath>,
    written: BTreeMap<TreePath, FileContent>,
    /// Bytes that were made so far.
    made: u64,
    log: Vec<String>,
}

impl<'a> Run<'a> {
    fn new(base: &'a dyn BaseTree, plan: &'a Plan, method: ApplyMethod) -> Self {
        Self { base, plan, method, gone: BTreeSet::new(), written: BTreeMap::new(), made: 0, log: Vec::new() }
    }

    fn steps(&mut self) -> Result<(), Miss> {
        for step in &self.plan.steps {
            self.step(step)?;
        }
        self.check_places()
    }

    fn step(&mut self, step: &Step) -> Result<(), Miss> {
        let file = &step.file;
        match (file.operation, &step.source, &step.target) {
            (Operation::Create, _, Some(target)) => self.create(file, target),
            (Operation::Delete, Some(source), _) => self.delete(file, source),
            (Operation::Modify, _, Some(target)) => self.modify(file, target),
            (Operation::Rename | Operation::Copy, Some(source), Some(target)) => self.relocate(file, source, target),
            _ => Err(Miss::Never(format!("the patch at line {} names too few files", file.line))),
        }
    }

    fn create(&mut self, file: &FilePatch, target: &TreePath) -> Result<(), Miss> {
        self.must_be_free(target)?;
        let mode = file.new_mode.map_or(Some(FileMode::Regular), FileMode::from_git);
        let mode = mode.ok_or_else(|| Miss::Never(format!("`{target}` would get a mode that git does not know")))?;
        let content = self.body(file, target, Vec::new())?;
        self.put(target, FileContent { mode, content })?;
        Ok(())
    }

    fn delete(&mut self, file: &FilePatch, source: &TreePath) -> Result<(), Miss> {
        let old = self.current(source)?.ok_or_else(|| missing(source))?;
        check_type(file, source, old.mode)?;
        let bare = matches!(file.body, Body::None) && self.method < ApplyMethod::ReducedContext;
        let rest = match &file.body {
            Body::None if !bare => Vec::new(),
            Body::BinaryWithoutData => Vec::new(),
            _ => self.body(file, source, old.content)?,
        };
        if !rest.is_empty() {
            return Err(Miss::Strict(format!(
                "`{source}` would be deleted but has more content than the patch removes"
            )));
        }
        self.written.remove(source);
        self.gone.insert(source.clone());
        Ok(())
    }

    fn modify(&mut self, file: &FilePatch, target: &TreePath) -> Result<(), Miss> {
        let Some(old) = self.current(target)? else {
            // A plain diff of an empty or absent file looks the same.
            let adds_only = matches!(&file.body, Body::Text(hunks) if hunks.iter().all(|h| h.old_start == Some(0)));
            return if adds_only && !file.git && !self.gone.contains(target) {
                self.create(file, target)
            } else {
                Err(missing(target))
            };
        };
        check_type(file, target, old.mode)?;
        let mode = new_mode(file, target, old.mode)?;
        let content = self.body(file, target, old.content)?;
        self.put(target, FileContent { mode, content })?;
        Ok(())
    }

    fn relocate(&mut self, file: &FilePatch, source: &TreePath, target: &TreePath) -> Result<(), Miss> {
        let old = self.base.read(source)?.ok_or_else(|| missing(source))?;
        if source != target {
            self.must_be_free(target)?;
        }
        check_type(file, source, old.mode)?;
        let mode = new_mode(file, target, old.mode)?;
        let content = self.body(file, source, old.content)?;
        if file.operation == Operation::Rename {
            self.gone.insert(source.clone());
        }
        self.put(target, FileContent { mode, content })?;
        Ok(())
    }

    /// The file as the patch has left it so far.
    fn current(&self, path: &TreePath) -> Result<Option<FileContent>, Miss> {
        if let Some(file) = self.written.get(path) {
            return Ok(Some(file.clone()));
        }
        if self.gone.contains(path) {
            return Ok(None);
        }
        Ok(self.base.read(path)?)
    }

    fn must_be_free(&self, path: &TreePath) -> Result<(), Miss> {
        let taken = self.written.contains_key(path)
            || (!self.plan.leaving.contains(path) && matches!(self.base.kind(path)?, Some(EntryKind::File(_))));
        if taken { Err(Miss::Never(format!("`{path}` is there already"))) } else { Ok(()) }
    }

    fn put(&mut self, path: &TreePath, file: FileContent) -> Result<(), PatchError> {
        // Also what a later part of the patch writes over: that is work as well.
        self.made += file.content.len() as u64;
        if self.made > MAX_MADE {
            return Err(PatchError::TooLarge {
                what: "what the patch makes".to_owned(),
                bytes: self.made,
                limit: MAX_MADE,
            });
        }
        self.written.insert(path.clone(), file);
        Ok(())
    }

    fn body(&mut self, file: &FilePatch, path: &TreePath, old: Vec<u8>) -> Result<Vec<u8>, Miss> {
        match &file.body {
            Body::None => Ok(old),
            Body::BinaryWithoutData => Err(PatchError::UnsupportedBinary { path: path.to_string() }.into()),
            Body::Binary { forward, .. } => {
                if let Some((id, _)) = &file.index {
                    check_object(path, &old, id)?;
                }
                if forward.size > MAX_FILE {
                    let what = format!("the binary content of `{path}`");
                    return Err(PatchError::TooLarge { what, bytes: forward.size, limit: MAX_FILE }.into());
                }
                forward.apply(&old).map_err(|e| Miss::Never(format!("`{path}`: {e}")))
            }
            Body::Text(hunks) => {
                let mut image = Image::new(&old);
                for hunk in hunks {
                    let (method, moved) =
                        image.apply(hunk, self.method).map_err(|e| Miss::Strict(format!("`{path}`: {e}")))?;
                    if let (Some(at), Some(stated)) = (moved, hunk.old_start.filter(|s| *s > 0)) {
                        self.log.push(format!("`{path}`: the hunk for line {stated} went to line {at}"));
                    }
                    if method == self.method && method > ApplyMethod::Recount {
                        self.log.push(format!("`{path}`: the hunk at line {} of the patch needed it", hunk.line));
                    }
                }
                Ok(image.into_content())
            }
        }
    }

    /// Refuses results in which a file lies where the tree has a folder, or below another file.
    fn check_places(&self) -> Result<(), Miss> {
        for (path, file) in &self.written {
            if let Some(problem) = file.unwritable(path) {
                return Err(Miss::Never(format!("`{path}` cannot be written: {problem}")));
            }
            for up in path.ancestors() {
                let above = match self.written.get(&up) {
                    Some(file) => Some(EntryKind::File(file.mode)),
                    None if self.gone.contains(&up) => None,
                    None => self.base.kind(&up)?,
                };
                match above {
                    None | Some(EntryKind::Folder) => {}
                    Some(EntryKind::File(FileMode::Symlink)) => {
                        let how = Escape::Symlink(up.to_string());
                        return Err(PatchError::Escapes { path: path.to_string(), how }.into());
                    }
                    Some(EntryKind::File(_)) => {
                        return Err(Miss::Never(format!("`{path}` cannot be written: `{up}` is a file")));
                    }
                    Some(EntryKind::Submodule) => {
                        return Err(Miss::Never(format!("`{path}` cannot be written: `{up}` is a submodule")));
                    }
                }
            }
            match self.base.kind(path)? {
                Some(EntryKind::Folder) => {
                    let stays = |p: &TreePath| !self.gone.contains(p);
                    if self.base.files_below(path)?.iter().any(stays) {
                        return Err(Miss::Never(format!("`{path}` cannot be written: it is a folder")));
                    }
                }
                Some(EntryKind::Submodule) => {
                    return Err(Miss::Never(format!("`{path}` cannot be written: it is a submodule")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The difference to the tree.
    fn changes(self) -> Result<ChangeSet, PatchError> {
        let mut changes = BTreeMap::new();
        for path in self.gone {
            if !self.written.contains_key(&path) && self.base.read(&path)?.is_some() {
                changes.insert(path, Change::Remove);
            }
        }
        for (path, file) in self.written {
            let bytes = file.content.len() as u64;
            if bytes > MAX_FILE {
                return Err(PatchError::TooLarge { what: format!("`{path}`"), bytes, limit: MAX_FILE });
            }
            if self.base.read(&path)?.as_ref() != Some(&file) {
                changes.insert(path, Change::Write(file));
            }
        }
        Ok(ChangeSet { changes })
    }
}

fn missing(path: &TreePath) -> Miss {
    Miss::Never(format!("`{path}` is not there"))
}

fn is_link(mode: FileMode) -> bool {
    mode == FileMode::Symlink
}

/// A patch for a symlink must not change a file, nor the other way round.
fn check_type(file: &FilePatch, path: &TreePath, have: FileMode) -> Result<(), Miss> {
    match file.old_mode.map(FileMode::from_git) {
        Some(Some(said)) if is_link(said) == is_link(have) => Ok(()),
        None => Ok(()),
        _ => Err(Miss::Never(format!("`{path}` is of another type than the patch says"))),
    }
}

fn new_mode(file: &FilePatch, path: &TreePath, have: FileMode) -> Result<FileMode, Miss> {
    match file.new_mode.map(FileMode::from_git) {
        None => Ok(have),
        // An `index` line repeats the old mode, which the tree may have changed since; only a real change counts.
        Some(Some(new)) if is_link(new) == is_link(have) => Ok(if file.new_mode == file.old_mode { have } else { new }),
        _ => Err(Miss::Never(format!("`{path}` would change its type"))),
    }
}

/// Checks that a binary patch is for this content: the `index` line has the id of the blob that it is for.
fn check_object(path: &TreePath, old: &[u8], id: &str) -> Result<(), Miss> {
    if id.bytes().all(|b| b == b'0') {
        return if old.is_empty() { Ok(()) } else { Err(Miss::Never(format!("`{path}` is not empty"))) };
    }
    match git2::Oid::hash_object(git2::ObjectType::Blob, old) {
        Ok(have) if have.to_string().starts_with(id) => Ok(()),
        _ => Err(Miss::Never(format!("`{path}` is not the binary file that the patch was made from ({id})"))),
    }
}
