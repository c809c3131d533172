//! From what a person types to one row of a run, and one of its runs. Pure.

use super::row::Row;
use crate::model::Digest;

/// One row, and which of its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The row.
    pub row: Row,
    /// The run's place among the row's, from 0; `None`: not said.
    pub index: Option<usize>,
    /// Whether it is one of those with head's test configuration.
    pub with_head_configuration: bool,
}

/// Why no single row was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// Nothing fits.
    #[error("nothing in the run fits `{what}`{}", nearby(near))]
    Nothing {
        /// What was typed.
        what: String,
        /// Rows of the same instance.
        near: Vec<String>,
    },
    /// Several things fit.
    #[error("`{what}` fits {} rows of the run: {}", rows.len(), some(rows))]
    Several {
        /// What was typed.
        what: String,
        /// What fits.
        rows: Vec<String>,
    },
    /// It is neither a key nor a row's name.
    #[error("`{0}` is neither the key of a record nor `INSTANCE COMMENT ARM[:ATTEMPT]`")]
    Malformed(String),
}

fn nearby(rows: &[String]) -> String {
    if rows.is_empty() { String::new() } else { format!("; there are {}", some(rows)) }
}

fn some(rows: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = if rows.len() > SHOWN { "; …" } else { "" };
    format!("{}{more}", rows.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; "))
}

/// Finds a row by words: the key of a record (its first characters are enough where they are unique), or instance,
/// comment and arm, with `:ATTEMPT` after the arm where there are several attempts. An instance is found by its id's
/// first characters, too, where they are unique.
///
/// # Errors
/// See [`FindError`].
pub fn find_row(rows: &[Row], words: &[&str]) -> Result<Found, FindError> {
    match words {
        [key] => by_key(rows, &key.to_ascii_lowercase()),
        [instance, comment, arm] => by_name(rows, instance, comment, arm),
        _ => Err(FindError::Malformed(words.join(" "))),
    }
}

fn by_key(rows: &[Row], prefix: &str) -> Result<Found, FindError> {
    if prefix.len() < 4 || !prefix.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(FindError::Malformed(prefix.to_owned()));
    }
    let mut found: Vec<(&Digest, Found)> = Vec::new();
    for row in rows {
        let lists = [(row.keys(), false), (row.keys_with_head_configuration(), true)];
        for (keys, with_head_configuration) in lists {
            for (index, key) in keys.iter().enumerate().filter(|(_, key)| key.as_str().starts_with(prefix)) {
                found.push((key, Found { row: row.clone(), index: Some(index), with_head_configuration }));
            }
        }
    }
    found.sort_by_key(|(key, found)| (key.as_str().to_owned(), label(&found.row)));
    let first = found.first().map(|(key, _)| (*key).clone());
    match first {
        None => Err(FindError::Nothing { what: prefix.to_owned(), near: Vec::new() }),
        // Equal patches share a record; any row of it is as good.
        Some(first) if found.iter().all(|(key, _)| **key == first) => Ok(found.swap_remove(0).1),
        Some(_) => {
            let rows =
                found.iter().map(|(key, found)| format!("{} ({})", label(&found.row), &key.as_str()[..12])).collect();
            Err(FindError::Several { what: prefix.to_owned(), rows })
        }
    }
}

fn by_name(rows: &[Row], instance: &str, comment: &str, arm: &str) -> Result<Found, FindError> {
    let what = format!("{instance} {comment} {arm}");
    let folded = instance.to_ascii_lowercase();
    let (name, attempt): (&str, Option<u32>) = match arm.rsplit_once(':') {
        Some((name, number)) if number.parse::<u32>().is_ok() => (name, number.parse().ok()),
        _ => (arm, None),
    };
    let fits = |row: &&Row| {
        row.comment.as_str() == comment
            && (row.arm.as_str() == arm || row.arm.as_str() == name && attempt.is_none_or(|a: u32| a == row.attempt))
    };
    let exact = rows.iter().filter(|row| row.instance_id.folded() == folded).filter(fits);
    let mut found: Vec<&Row> = exact.collect();
    if found.is_empty() {
        found = rows.iter().filter(|row| row.instance_id.folded().starts_with(&folded)).filter(fits).collect();
    }
    found.sort_by_key(|row| label(row));
    match found.as_slice() {
        [] => {
            let mut near: Vec<String> =
                rows.iter().filter(|row| row.instance_id.folded().starts_with(&folded)).map(label).collect();
            near.sort();
            Err(FindError::Nothing { what, near })
        }
        [row] => Ok(Found { row: (*row).clone(), index: None, with_head_configuration: false }),
        several => Err(FindError::Several { what, rows: several.iter().map(|row| label(row)).collect() }),
    }
}

/// A row's name for people, as [`find_row`] takes it where agent and model are the same.
pub fn label(row: &Row) -> String {
    let mut out = format!("{} {} {}", row.instance_id, row.comment, row.arm);
    if !row.arm.is_state() {
        out.push_str(&format!(":{}", row.attempt));
    }
    for (name, value) in [("agent", &row.agent), ("model", &row.model)] {
        if let Some(value) = value {
            out.push_str(&format!(" {name} {value}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Arm, digest_bytes};
    use crate::stage::score::RowState;

    fn row(instance: &str, comment: &str, arm: &str, attempt: u32, runs: &[&str]) -> Row {
        Row {
            instance_id: instance.parse().unwrap(),
            comment: serde_json::from_value(comment.into()).unwrap(),
            arm: Arm::new(arm),
            agent: None,
            model: None,
            attempt,
            state: RowState::Runs {
                keys: runs.iter().map(|run| digest_bytes(run.as_bytes())).collect(),
                with_head_configuration: Vec::new(),
            },
            marks: Vec::new(),
            patch: None,
            shown: true,
            grounds: None,
        }
    }

    #[test]
    fn rows_are_found_by_key_and_by_name() {
        let rows = [
            row("o__r-1@0123abc", "1", "owl", 1, &["a", "b"]),
            row("o__r-1@0123abc", "1", "owl", 2, &["c"]),
            row("o__r-2@0123abc", "1", "owl", 1, &["d"]),
            row("o__r-2@0123abc", "1", "twin", 1, &["d"]),
        ];
        let key = digest_bytes(b"b");
        let found = find_row(&rows, &[&key.as_str()[..12]]).unwrap();
        assert_eq!((found.row.attempt, found.index), (1, Some(1)));
        // Two rows with the same record are one run.
        assert!(find_row(&rows, &[digest_bytes(b"d").as_str()]).is_ok());
        assert!(matches!(find_row(&rows, &["abc"]), Err(FindError::Malformed(_))));
        assert!(matches!(find_row(&rows, &["00000000"]), Err(FindError::Nothing { .. })));
        assert_eq!(find_row(&rows, &["O__R-1", "1", "owl:2"]).unwrap().row.attempt, 2);
        let several = find_row(&rows, &["o__r-1@0123abc", "1", "owl"]).unwrap_err();
        assert!(several.to_string().ends_with("o__r-1@0123abc 1 owl:1; o__r-1@0123abc 1 owl:2"), "{several}");
        assert!(matches!(find_row(&rows, &["o__r", "1", "owl:1"]), Err(FindError::Several { .. })));
        assert!(matches!(find_row(&rows, &["o__r-1", "2", "owl"]), Err(FindError::Nothing { .. })));
        assert!(matches!(find_row(&rows, &["a", "b"]), Err(FindError::Malformed(_))));
    }
}
