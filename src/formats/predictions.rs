//! SWE-bench predictions (`instance_id`, `model_name_or_path`, `model_patch`) as JSON Lines, a JSON list, or a JSON map
//! from instance id to prediction; and our own revision rows, which may stand among them.

use std::fmt;

use serde_json::Value;

use crate::model::{Parsed, Revision, WirePrediction, from_value, parse_jsonl};

/// Where a row stands in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowPlace {
    /// A line of JSON Lines, from 1.
    Line(usize),
    /// An entry of a JSON list, from 1.
    Entry(usize),
    /// A key of a JSON map.
    Key(String),
    /// The whole file.
    File,
}

impl fmt::Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Entry(n) => write!(f, "entry {n}"),
            Self::Key(key) => write!(f, "key `{key}`"),
            Self::File => f.write_str("the file"),
        }
    }
}

/// A row that is no revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RowError {
    /// Where it stands.
    pub place: RowPlace,
    /// The field to blame; empty for the whole row.
    pub field: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if !matches!(self.field.as_str(), "" | "." | "?") {
            write!(f, ", field `{}`", self.field)?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// The revisions of a file and what could not be read of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Revisions {
    /// The revisions, in the file's order.
    pub revisions: Vec<Revision>,
    /// Rows that are none.
    pub errors: Vec<RowError>,
}

/// Reads a file of predictions or revisions, whatever its shape.
pub fn parse(text: &str) -> Revisions {
    let trimmed = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
    let mut out = Revisions::default();
    // One JSON text that is a list or a map of rows; a single row is also one line of JSON Lines.
    match serde_json::from_str::<Value>(trimmed) {
        Ok(Value::Array(items)) => {
            for (index, item) in items.into_iter().enumerate() {
                out.add(RowPlace::Entry(index + 1), item);
            }
        }
        Ok(Value::Object(map)) if !map.contains_key("instance_id") => {
            for (key, mut item) in map {
                if let Some(fields) = item.as_object_mut() {
                    fields.entry("instance_id").or_insert_with(|| Value::from(key.as_str()));
                }
                out.add(RowPlace::Key(key), item);
            }
        }
        Ok(Value::Object(map)) => out.add(RowPlace::Line(1), Value::Object(map)),
        Ok(_) => {
            let problem = "it holds neither rows nor a list or map of rows".to_owned();
            out.errors.push(RowError { place: RowPlace::File, field: String::new(), problem });
        }
        Err(error) if is_one_text(trimmed, &error) => {
            let place = RowPlace::File;
            out.errors.push(RowError { place, field: String::new(), problem: error.to_string() });
        }
        Err(_) => {
            let Parsed { rows, errors } = parse_jsonl::<Value>(text);
            let broken = errors.into_iter().map(|e| RowError {
                place: RowPlace::Line(e.line),
                field: if e.field == "?" { String::new() } else { e.field },
                problem: e.problem,
            });
            out.errors.extend(broken);
            for (line, value) in rows {
                out.add(RowPlace::Line(line), value);
            }
            out.errors.sort_by_key(|e| if let RowPlace::Line(n) = e.place { n } else { 0 });
        }
    }
    out
}

/// Whether broken JSON was meant as one text (a list, or a map over several lines) rather than as lines of objects.
fn is_one_text(text: &str, error: &serde_json::Error) -> bool {
    text.starts_with('[') || (text.starts_with("{\n") && error.line() > 1) || text.starts_with("{\r\n")
}

impl Revisions {
    fn add(&mut self, place: RowPlace, value: Value) {
        if !value.is_object() {
            let problem = "a row must be an object".to_owned();
            self.errors.push(RowError { place, field: String::new(), problem });
            return;
        }
        // Our own rows name an arm; a prediction is known by its model, which is the arm.
        let row = if value.get("arm").is_some() {
            from_value::<Revision>(value)
        } else {
            from_value::<WirePrediction>(value).map(Revision::from)
        };
        match row {
            Ok(row) => self.revisions.push(row),
            Err((field, problem)) => self.errors.push(RowError { place, field, problem }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows() -> Vec<Value> {
        vec![
            json!({"instance_id": "o__r-1@0123abc", "model_name_or_path": "m", "model_patch": "diff", "cost": 3}),
            json!({"instance_id": "nonsense", "model_name_or_path": "m", "model_patch": null}),
            json!({"instance_id": "o__r-2@0123abc", "model_name_or_path": "m", "model_patch": null}),
            json!({"instance_id": "o__r-3@0123abc", "arm": "a", "patch": "p", "attempt": 2}),
        ]
    }

    type Good = Vec<(String, u32, String)>;
    type Bad = Vec<(RowPlace, String)>;

    fn summary(revisions: &Revisions) -> (Good, Bad) {
        let good = revisions.revisions.iter().map(|r| (r.arm.to_string(), r.attempt, r.patch.clone())).collect();
        let bad = revisions.errors.iter().map(|e| (e.place.clone(), e.field.clone())).collect();
        (good, bad)
    }

    #[test]
    fn lines_list_and_map_give_the_same_rows_and_name_the_bad_one() {
        let want: Vec<_> =
            [("m", 1, "diff"), ("m", 1, ""), ("a", 2, "p")].map(|(a, n, p)| (a.into(), n, p.into())).into();
        let field = || "instance_id".to_owned();
        let lines = rows().iter().map(Value::to_string).collect::<Vec<_>>().join("\r\n");
        assert_eq!(summary(&parse(&lines)), (want.clone(), vec![(RowPlace::Line(2), field())]));
        let list = serde_json::to_string_pretty(&rows()).unwrap();
        assert_eq!(summary(&parse(&list)), (want.clone(), vec![(RowPlace::Entry(2), field())]));
        let mut map = serde_json::Map::new();
        for mut row in rows() {
            let id = row["instance_id"].as_str().unwrap().to_owned();
            row.as_object_mut().unwrap().remove("instance_id");
            map.insert(id, row);
        }
        let text = Value::Object(map).to_string();
        assert_eq!(summary(&parse(&text)), (want, vec![(RowPlace::Key("nonsense".into()), field())]));
        assert_eq!(parse(&lines).revisions[0].extra["cost"], 3);
    }

    #[test]
    fn a_single_line_a_broken_line_and_a_broken_list_are_told_apart() {
        assert_eq!(parse(&rows()[0].to_string()).revisions.len(), 1);
        let text = format!("{}\n{{\"instance_id\": \n{}\n[]\n", rows()[0], rows()[2]);
        let parsed = parse(&text);
        assert_eq!(parsed.revisions.len(), 2);
        let places: Vec<_> = parsed.errors.iter().map(|e| e.place.to_string()).collect();
        assert_eq!(places, ["line 2", "line 4"]);
        let broken = parse("[{\"instance_id\": 1},\n");
        assert_eq!((broken.revisions.len(), broken.errors[0].place.clone()), (0, RowPlace::File));
        assert!(parse("").errors.is_empty(), "an empty file has no rows");
        assert_eq!(parse("3").errors[0].place, RowPlace::File);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_named(text in "\\PC*", cut in 0_usize..200) {
            let _ = parse(&text);
            let rows = serde_json::to_string_pretty(&rows()).unwrap();
            let end = rows.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(rows.len());
            proptest::prop_assert!(end == rows.len() || end == 0 || !parse(&rows[..end]).errors.is_empty());
        }
    }
}
