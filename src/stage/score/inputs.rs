//! What differs between the inputs of two records. Pure.

use serde::Serialize;
use serde_json::{Map, Value};

/// One input that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputChange {
    /// Its name for people: `patch`, `test`, `limit wall`, `isolation memory` …
    pub input: String,
    /// What it was; null where there was none.
    pub before: Value,
    /// What it is now.
    pub after: Value,
}

impl InputChange {
    /// A change of an input that is not part of a record's inputs.
    pub fn new(input: &str, before: impl Into<Value>, after: impl Into<Value>) -> Self {
        Self { input: input.to_owned(), before: before.into(), after: after.into() }
    }

    /// The change with its values where they say something: `limit wall 120 → 60`; digests and lists do not.
    pub fn text(&self) -> String {
        match (shown(&self.before), shown(&self.after)) {
            (Some(before), Some(after)) => format!("{} {before} → {after}", self.input),
            _ => self.input.clone(),
        }
    }
}

/// The inputs that differ, in the order of the first record, then those that only the second one has.
pub fn input_changes(before: &Value, after: &Value) -> Vec<InputChange> {
    let mut changes = Vec::new();
    collect(&mut Vec::new(), before, after, &mut changes);
    changes
}

fn collect(path: &mut Vec<String>, before: &Value, after: &Value, changes: &mut Vec<InputChange>) {
    if before == after {
        return;
    }
    let groups = path.len() < 2 && path.first().is_none_or(|first| GROUPS.iter().any(|(group, _)| group == first));
    if let (true, Value::Object(old), Value::Object(new)) = (groups, before, after) {
        let only_new: Map<String, Value> =
            new.iter().filter(|(name, _)| !old.contains_key(*name)).map(|(n, v)| (n.clone(), v.clone())).collect();
        for (name, value) in old.iter().chain(&only_new) {
            path.push(name.clone());
            let before = if old.contains_key(name) { value } else { &Value::Null };
            collect(path, before, new.get(name).unwrap_or(&Value::Null), changes);
            path.pop();
        }
        return;
    }
    changes.push(InputChange { input: name_of(path), before: before.clone(), after: after.clone() });
}

/// Inputs with parts of their own, and how the parts are called.
const GROUPS: [(&str, &str); 3] = [("limits", "limit"), ("isolation", "isolation"), ("plan", "command:")];

/// Names of inputs that say more than their field's.
const NAMES: [(&str, &str); 8] = [
    ("schema", "record format"),
    ("tool_version", "tool version"),
    ("head_tree", "commit to review"),
    ("changes", "patch"),
    ("expected", "expected tests"),
    ("framework", "framework definition"),
    ("isolation", "isolation"),
    ("limits", "limits"),
];

fn name_of(path: &[String]) -> String {
    match path {
        [one] => NAMES.iter().find(|(field, _)| field == one).map_or_else(|| one.replace('_', " "), |n| n.1.to_owned()),
        [group, part] => {
            let word = GROUPS.iter().find(|(field, _)| field == group).map_or(group.as_str(), |(_, word)| word);
            format!("{word} {}", part.replace('_', " "))
        }
        _ => "inputs".to_owned(),
    }
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("none".to_owned()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::String(text) if text.len() <= 24 => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_input_that_differs_is_named_with_its_values() {
        let digest = "0123456789abcdef0123456789abcdef";
        let before = json!({
            "schema": 1, "test": digest, "changes": digest, "expected": ["a"], "repeat": 1,
            "limits": {"wall": 120.0, "memory": 5}, "isolation": {"memory": "cgroup"}, "plan": {"argv": ["a"]},
        });
        let mut after = before.clone();
        assert_eq!(input_changes(&before, &after), []);
        after["limits"]["wall"] = json!(60.0);
        after["test"] = json!("f123456789abcdef0123456789abcdef");
        after["changes"] = json!("f123456789abcdef0123456789abcdef");
        after["expected"] = json!(["b"]);
        after["isolation"]["memory"] = json!("watcher");
        after["plan"]["argv"] = json!(["b"]);
        after["overlay"] = json!("x");
        let texts: Vec<String> = input_changes(&before, &after).iter().map(InputChange::text).collect();
        assert_eq!(
            texts,
            [
                "test",
                "patch",
                "expected tests",
                "limit wall 120.0 → 60.0",
                "isolation memory cgroup → watcher",
                "command: argv",
                "overlay none → x"
            ]
        );
    }
}
