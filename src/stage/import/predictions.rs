//! `import predictions FILE`, and `--revisions FILE` of the verbs that take revisions.

use std::path::Path;

use super::ImportError;
use crate::formats;
use crate::formats::predictions::RowPlace;
use crate::model::Revision;
use crate::store::bench::Problem;

/// Revisions of a file and the rows that are none.
#[derive(Debug, Clone)]
pub struct Predictions {
    /// The revisions, in the file's order.
    pub revisions: Vec<Revision>,
    /// Rows that could not be read or repeat a key that came before (the first one counts).
    pub problems: Vec<Problem>,
}

/// Reads SWE-bench predictions (JSON Lines, list or map) or revision rows.
///
/// # Errors
/// When the file is not there, cannot be read, or holds no revision.
pub fn predictions(path: &Path) -> Result<Predictions, ImportError> {
    if !path.is_file() {
        return Err(ImportError::NotThere(path.to_owned()));
    }
    let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let parsed = formats::predictions::parse(&String::from_utf8_lossy(&fs_err::read(path)?));
    let mut problems: Vec<Problem> = parsed
        .errors
        .into_iter()
        .map(|error| {
            let line = if let RowPlace::Line(line) = error.place { Some(line) } else { None };
            let place = if line.is_some() { String::new() } else { format!("{}: ", error.place) };
            Problem::error(&file, line, &error.field, format!("{place}{}; the row is left out", error.problem))
        })
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    let mut revisions = Vec::with_capacity(parsed.revisions.len());
    for row in parsed.revisions {
        let key = (row.instance_id.clone(), row.arm.clone(), row.agent.clone(), row.model.clone(), row.attempt);
        if seen.insert(key) {
            revisions.push(row);
        } else {
            let text = format!(
                "`{}` has attempt {} of arm `{}` twice; the first one counts, number the attempts",
                row.instance_id, row.attempt, row.arm
            );
            problems.push(Problem::error(&file, None, "attempt", text));
        }
    }
    if revisions.is_empty() {
        let problem = match problems.first() {
            Some(first) => format!("no revision that can be read (first problem: {first})"),
            None => "no revisions".to_owned(),
        };
        return Err(ImportError::Nothing { path: path.to_owned(), problem });
    }
    Ok(Predictions { revisions, problems })
}
