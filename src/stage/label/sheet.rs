//! The sheet: a row a comment, as CSV or JSON Lines, empty or filled in.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::CommentKey;
use crate::model::{CommentId, ConcernCategory, ExpectedOracle, Instance, InstanceId, Labels, from_value, parse_jsonl};

/// The columns that a person fills in, in the sheet's order.
pub const COLUMNS: [&str; 6] = ["actionable", "specific", "verifiable", "category", "oracle", "note"];

/// What a person needs to see of a comment, and nothing else: neither names nor the category that the data gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The instance.
    pub instance_id: String,
    /// The comment.
    pub comment: String,
    /// The commented file.
    pub path: String,
    /// The commented line, or first and last as `3-5`.
    pub lines: String,
    /// The thread's words.
    pub text: String,
    /// The hunk.
    pub hunk: String,
    /// The pull request's title.
    pub title: String,
}

/// The sheet of these instances, in the dataset's order.
pub fn rows<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> Vec<Row> {
    let of = |instance: &'a Instance| {
        instance.reference_review_comments.iter().map(|comment| Row {
            instance_id: instance.instance_id.to_string(),
            comment: comment.id.to_string(),
            path: comment.path.clone(),
            lines: match (comment.original_start_line, comment.original_line.or(comment.line)) {
                (Some(first), Some(last)) if first < last => format!("{first}-{last}"),
                (_, Some(last)) => last.to_string(),
                _ => String::new(),
            },
            text: comment.text.clone(),
            hunk: comment.diff_hunk.clone().unwrap_or_default(),
            title: instance.title.clone(),
        })
    };
    instances.into_iter().flat_map(of).collect()
}

/// One person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The line in the person's file.
    pub line: usize,
    /// The labels; the note is their `reason`.
    pub labels: Labels,
}

/// A sheet that cannot be read, or one row of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {problem}", if field.is_empty() { String::new() } else { format!(", column `{field}`") })]
pub struct SheetError {
    /// The line, from 1.
    pub line: usize,
    /// The column.
    pub field: String,
    /// What is wrong.
    pub problem: String,
}

/// A person's answers, how many rows were left empty, and what cannot be read.
pub type Read = (BTreeMap<CommentKey, Answer>, usize, Vec<SheetError>);

/// Writes the empty sheet as CSV.
///
/// # Errors
/// When the text cannot be made.
pub fn write_csv(rows: &[Row]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["instance_id", "comment", "path", "lines", "text"].iter().chain(&COLUMNS))?;
    for row in rows {
        let known = [&row.instance_id, &row.comment, &row.path, &row.lines, &row.text].map(|text| guarded(text));
        writer.write_record(known.iter().map(String::as_str).chain(COLUMNS.map(|_| "")))?;
    }
    let bytes = writer.into_inner().map_err(|e| csv::Error::from(e.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A spreadsheet takes a text that begins with these for a formula; an apostrophe keeps it a text.
fn guarded(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() }
}

/// A row as it comes back: whatever else stands in it is not looked at.
#[derive(Deserialize)]
struct Named {
    instance_id: String,
    comment: Value,
    #[serde(default)]
    labels: Option<Map<String, Value>>,
    #[serde(flatten)]
    flat: Map<String, Value>,
}

/// Reads a filled CSV sheet. The columns are found by their names.
pub fn read_csv(text: &str) -> Read {
    // The reader counts lines by one kind of line end only.
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let mut read = Read::default();
    let at = |line: usize, field: &str, problem: String| SheetError { line, field: field.to_owned(), problem };
    let names = match reader.headers() {
        Ok(names) => names.clone(),
        Err(error) => {
            read.2.push(at(1, "", format!("this is no CSV: {error}")));
            return read;
        }
    };
    for name in ["instance_id", "comment"].iter().chain(&COLUMNS[..5]) {
        if !names.iter().any(|n| n.trim() == *name) {
            read.2.push(at(1, name, "the column is missing".to_owned()));
            return read;
        }
    }
    for record in reader.records() {
        match record {
            Ok(record) => {
                let line = record.position().map_or(0, |p| p.line() as usize);
                let cell = |name: &str| {
                    let index = names.iter().position(|n| n.trim() == name);
                    index.and_then(|i| record.get(i)).unwrap_or_default().trim().to_owned()
                };
                let fields: Map<String, Value> =
                    COLUMNS.iter().map(|name| ((*name).to_owned(), Value::from(cell(name)))).collect();
                take(&mut read, line, &cell("instance_id"), &cell("comment"), &fields);
            }
            Err(error) => {
                let line = error.position().map_or(0, |p| p.line() as usize);
                read.2.push(at(line, "", format!("this is no CSV: {error}")));
            }
        }
    }
    read
}

/// Reads a filled JSON Lines sheet: the labels beside the comment's name, or in `labels`.
pub fn read_jsonl(text: &str) -> Read {
    let mut read = Read::default();
    let parsed = parse_jsonl::<Named>(text);
    for error in parsed.errors {
        read.2.push(SheetError { line: error.line, field: error.field, problem: error.problem });
    }
    for (line, row) in parsed.rows {
        let comment = match &row.comment {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let fields = row.labels.as_ref().unwrap_or(&row.flat);
        take(&mut read, line, &row.instance_id, &comment, fields);
    }
    read.2.sort_by_key(|error| error.line);
    read
}

fn take(read: &mut Read, line: usize, instance: &str, comment: &str, fields: &Map<String, Value>) {
    let at = |field: &str, problem: String| SheetError { line, field: field.to_owned(), problem };
    let key = match (instance.parse::<InstanceId>(), comment.parse::<CommentId>()) {
        (Ok(instance), Ok(comment)) => (instance, comment),
        (Err(error), _) => return read.2.push(at("instance_id", error.to_string())),
        (_, Err(error)) => return read.2.push(at("comment", error.to_string())),
    };
    match labels(fields) {
        Ok(None) => read.1 += 1,
        Ok(Some(labels)) => {
            if let Entry::Vacant(free) = read.0.entry(key) {
                free.insert(Answer { line, labels });
            } else {
                let problem = format!("`{instance}` {comment} has an answer on an earlier line, which counts");
                read.2.push(at("comment", problem));
            }
        }
        Err((field, problem)) => read.2.push(at(&field, problem)),
    }
}

/// The labels of a row; `None` where it was left empty.
fn labels(fields: &Map<String, Value>) -> Result<Option<Labels>, (String, String)> {
    let given =
        |name: &str| fields.get(name).filter(|v| !v.is_null() && v.as_str().is_none_or(|t| !t.trim().is_empty()));
    if COLUMNS[..5].iter().all(|name| given(name).is_none()) {
        return Ok(None);
    }
    let mut row = Map::new();
    for name in &COLUMNS[..3] {
        let word = given(name).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_lowercase));
        let yes = match word.as_deref().map(str::trim) {
            Some("yes" | "y" | "true" | "1") => true,
            Some("no" | "n" | "false" | "0") => false,
            Some(other) => return Err(((*name).to_owned(), format!("`{other}` is neither yes nor no"))),
            None => return Err(((*name).to_owned(), "it is empty, and others of the row are not".to_owned())),
        };
        row.insert((*name).to_owned(), yes.into());
    }
    let words: [(&str, Vec<&str>); 2] = [
        ("category", ConcernCategory::ALL.iter().map(|c| c.as_str()).collect()),
        ("oracle", ExpectedOracle::ALL.iter().map(|o| o.as_str()).collect()),
    ];
    for (name, known) in words {
        let word = given(name).and_then(Value::as_str).map(|t| t.trim().to_lowercase()).unwrap_or_default();
        if !known.contains(&word.as_str()) {
            return Err((name.to_owned(), format!("`{word}` is none of {}", known.join(", "))));
        }
        row.insert(name.to_owned(), word.into());
    }
    let note = given("note").or_else(|| given("reason")).and_then(Value::as_str).unwrap_or_default();
    row.insert("reason".to_owned(), note.into());
    from_value(Value::Object(row)).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "comment,instance_id,text,actionable,specific,verifiable,category,oracle,note";

    #[test]
    fn both_forms_say_the_same() {
        let csv = format!(
            "\u{feff}{HEAD}\r\n7,o__r-1@0123abc,\"a\nb\",Yes,no,TRUE,security,behavioral,why\r\n8,o__r-1@0123abc,t,,,,,,\r\n"
        );
        let json = "{\"instance_id\":\"o__r-1@0123abc\",\"comment\":7,\"labels\":{\"actionable\":true,\"specific\":false,\
                    \"verifiable\":true,\"category\":\"security\",\"oracle\":\"behavioral\",\"reason\":\"why\"}}\n\
                    {\"instance_id\":\"o__r-1@0123abc\",\"comment\":\"8\"}\n";
        let (one, two) = (read_csv(&csv), read_jsonl(json));
        assert_eq!((one.1, two.1, one.2.len(), two.2.len()), (1, 1, 0, 0), "{:?} {:?}", one.2, two.2);
        let labels = |read: &Read| read.0.values().map(|a| a.labels.clone()).collect::<Vec<_>>();
        assert_eq!(labels(&one), labels(&two));
        assert_eq!(
            (one.0.values().next().unwrap().line, one.0.values().next().unwrap().labels.reason.as_str()),
            (2, "why")
        );
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_column() {
        let rows = [
            "1,o__r-1@0123abc,t,maybe,no,no,design,none,",
            "2,o__r-1@0123abc,t,yes,,no,design,none,",
            "3,o__r-1@0123abc,t,yes,no,no,colour,none,",
            "4,o__r-1@0123abc,t,yes,no,no,design,none,",
            "4,o__r-1@0123abc,t,no,no,no,design,none,",
            "5,nonsense,t,no,no,no,design,none,",
        ];
        let (answers, _, errors) = read_csv(&format!("{HEAD}\n{}\n", rows.join("\n")));
        assert_eq!(answers.len(), 1);
        let places: Vec<_> = errors.iter().map(|e| (e.line, e.field.as_str())).collect();
        assert_eq!(places, [(2, "actionable"), (3, "specific"), (4, "category"), (6, "comment"), (7, "instance_id")]);
        assert_eq!(read_csv("instance_id,comment\n").2[0].field, "actionable");
        assert_eq!(read_jsonl("{\n").2.len(), 1);
    }

    #[test]
    fn the_empty_sheet_is_safe_in_a_spreadsheet_and_comes_back_empty() {
        let row = Row {
            instance_id: "o__r-1@0123abc".to_owned(),
            comment: "7".to_owned(),
            path: "a.py".to_owned(),
            lines: "3-5".to_owned(),
            text: "@user1:\n=1+1, \"x\"".to_owned(),
            hunk: String::new(),
            title: String::new(),
        };
        let text = write_csv(&[row]).unwrap();
        assert!(text.contains("\"'@user1:\n=1+1, \"\"x\"\"\""), "{text}");
        let (answers, empty, errors) = read_csv(&text);
        assert_eq!((answers.len(), empty, errors.len()), (0, 1, 0));
    }
}
