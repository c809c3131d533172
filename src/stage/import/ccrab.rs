//! `import c-crab SRC`.

use super::swe_care::manifest;
use super::{ImportError, Imported, Options, Source, SourceFile, Summary, read_source};
use crate::formats::ccrab::{Joined, Release, join, place};
use crate::model::{Attrition, AttritionReason, AttritionScope, Extra};
use crate::store::bench::Content;

/// Imports a release of c-CRAB: dataset, oracles, the tools' and the resolver's revisions, recorded verdicts, and
/// attrition for everything that does not come through. Files that the source names but does not hold are attrition as
/// well, and the rest imports.
///
/// # Errors
/// When the source is not there or holds nothing of a release.
pub fn ccrab(source: &Source, options: &Options<'_>) -> Result<Imported, ImportError> {
    let mut release = Release::default();
    let mut lost = Vec::new();
    let commit = read_source(source, &|path| place(path).is_some(), &mut |path, file| {
        let (reason, detail) = match (file, place(&path)) {
            (SourceFile::Bytes(bytes), Some(place)) => {
                if release.add(place, bytes) {
                    return;
                }
                (AttritionReason::Duplicate, "the source has this file twice; the first one counts".to_owned())
            }
            (SourceFile::Bytes(_), None) => return,
            (SourceFile::Absent(detail), _) => (AttritionReason::NotInSource, detail),
            (SourceFile::LfsPointer(detail), _) => (AttritionReason::LfsPointer, detail),
            (SourceFile::Unreadable(detail), _) => (AttritionReason::Malformed, detail),
        };
        lost.push(file_row(&path, reason, &detail));
    })?;
    if release.testgen.is_empty() {
        let problem = if release.is_empty() {
            "nothing of a c-CRAB release (`testgen*`, `agent_resolution*`, `results_eval_*`, as folders or zips)"
        } else {
            "results of a c-CRAB release, but no test generation (`testgen*`), which all others refer to"
        };
        return Err(ImportError::Nothing { path: source.path().to_owned(), problem: problem.to_owned() });
    }
    let Joined { instances, tests, revisions, recorded, attrition, frozen, arms } = join(&release);
    let from = match commit {
        Some(commit) => format!("c-CRAB release, git commit {commit}"),
        None => "c-CRAB release".to_owned(),
    };
    let mut content = Content::new(manifest(options.name.unwrap_or("c-crab"), &from));
    // A release without resolution made no choice of its own.
    content.manifest.frozen = (!release.resolution.is_empty()).then_some(frozen);
    content.manifest.arms = arms;
    content.instances = instances;
    content.tests = tests;
    content.revisions = revisions;
    content.recorded = recorded;
    lost.sort_by(|a: &Attrition, b| a.detail.cmp(&b.detail));
    lost.extend(attrition);
    content.attrition = lost;
    let mut summary = Summary::default();
    options.apply(&mut content.instances, &mut summary);
    summary.count(&content);
    Ok(Imported { content, summary })
}

fn file_row(path: &str, reason: AttritionReason, detail: &str) -> Attrition {
    Attrition {
        scope: AttritionScope::File,
        instance_id: None,
        comment: None,
        arm: None,
        stage: "import".to_owned(),
        reason,
        detail: format!("`{path}`: {detail}"),
        extra: Extra::new(),
    }
}
