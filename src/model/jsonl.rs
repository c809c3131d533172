//! JSON Lines: one object a line. A line that does not parse is an error that names line and field, and the others
//! still come through.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct LineError {
    /// The line's number, from 1.
    pub line: usize,
    /// The path of the field inside the object (`a.b[0].c`); empty when the line is no JSON at all.
    pub field: String,
    /// What is wrong.
    pub problem: String,
}

impl std::fmt::Display for LineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}", self.line)?;
        if !matches!(self.field.as_str(), "" | "." | "?") {
            write!(f, ", field `{}`", self.field)?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// The rows of a file and what could not be read of it.
#[derive(Debug, Clone)]
pub struct Parsed<T> {
    /// Each row with its line number, from 1.
    pub rows: Vec<(usize, T)>,
    /// Lines that are not rows.
    pub errors: Vec<LineError>,
}

impl<T> Parsed<T> {
    /// The rows without their line numbers.
    pub fn into_rows(self) -> Vec<T> {
        self.rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// Reads JSON Lines. Blank lines, a byte-order mark and CRLF line ends are accepted.
pub fn parse_jsonl<T: DeserializeOwned>(text: &str) -> Parsed<T> {
    let mut parsed = Parsed { rows: Vec::new(), errors: Vec::new() };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.trim().is_empty() {
            continue;
        }
        let mut deserializer = serde_json::Deserializer::from_str(line);
        let result = serde_path_to_error::deserialize(&mut deserializer);
        match result {
            Ok(row) => match deserializer.end() {
                Ok(()) => parsed.rows.push((index + 1, row)),
                Err(error) => parsed.errors.push(LineError {
                    line: index + 1,
                    field: String::new(),
                    problem: strip_position(&error.to_string()),
                }),
            },
            Err(error) => parsed.errors.push(LineError {
                line: index + 1,
                field: error.path().to_string(),
                problem: strip_position(&error.inner().to_string()),
            }),
        }
    }
    parsed
}

/// Reads one already parsed value as a `T`; the error names the field.
pub fn from_value<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, (String, String)> {
    serde_path_to_error::deserialize(value).map_err(|e| (e.path().to_string(), e.inner().to_string()))
}

/// serde_json counts lines inside one JSON text: always 1 here, and misleading beside the file's own line number.
fn strip_position(message: &str) -> String {
    match message.rfind(" at line 1 column ") {
        Some(at) => format!("{} (column {})", &message[..at], &message[at + " at line 1 column ".len()..]),
        None => message.to_owned(),
    }
}

/// Writes rows as JSON Lines with a newline after each.
///
/// # Errors
/// When a row cannot be expressed in JSON (a map with keys that are no text).
pub fn to_jsonl<T: Serialize>(rows: impl IntoIterator<Item = T>) -> Result<String, serde_json::Error> {
    let mut out = String::new();
    for row in rows {
        out.push_str(&serde_json::to_string(&row)?);
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Row {
        id: String,
        at: Place,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Place {
        line: u32,
    }

    #[test]
    fn a_broken_line_is_named_and_the_others_come_through() {
        let text = "\u{feff}{\"id\":\"a\",\"at\":{\"line\":1}}\r\n\n{\"id\":\"b\",\"at\":{\"line\":\"x\"}}\n{oops\n{\"id\":\"c\",\"at\":{\"line\":3}} x\n{\"id\":\"d\",\"at\":{\"line\":4}}";
        let parsed = parse_jsonl::<Row>(text);
        let ids: Vec<_> = parsed.rows.iter().map(|(n, r)| (*n, r.id.as_str())).collect();
        assert_eq!(ids, [(1, "a"), (6, "d")]);
        let errors: Vec<_> = parsed.errors.iter().map(ToString::to_string).collect();
        assert!(errors[0].starts_with("line 3, field `at.line`: invalid type: string \"x\""), "{errors:?}");
        assert!(errors[1].starts_with("line 4: key must be a string"), "{errors:?}");
        assert!(errors[2].starts_with("line 5: trailing characters"), "{errors:?}");
        assert_eq!(errors.len(), 3);
    }
}
