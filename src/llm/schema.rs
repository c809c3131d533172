//! Whether an answer fits its schema.

use boon::{Compiler, Schemas};
use serde_json::Value;

use super::{AnswerSchema, FailureKind};

/// Where a schema stands for the compiler; nothing is ever fetched from there.
const PLACE: &str = "http://redgreen.invalid/answer";

/// How many misfits are named.
const NAMED: usize = 8;

/// An answer that is not as asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfit {
    pub kind: FailureKind,
    pub problem: String,
}

/// The JSON in a text: the whole of it, or of its one fenced block.
pub(super) fn parse(text: &str) -> Result<Value, Unfit> {
    let text = text.trim();
    let inside = fenced(text).unwrap_or(text);
    serde_json::from_str(inside).map_err(|error| Unfit {
        kind: FailureKind::NotJson,
        problem: if text.is_empty() { "the answer is empty".to_owned() } else { format!("it is no JSON: {error}") },
    })
}

/// What stands in a fence that is all of the text.
fn fenced(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("```")?.strip_suffix("```")?;
    let (language, inside) = rest.split_once('\n')?;
    (language.trim().chars().all(char::is_alphanumeric) && !inside.contains("```")).then_some(inside)
}

/// Holds a value against the schema; the problem names places and what is wrong there.
pub(super) fn check(schema: &AnswerSchema, value: &Value) -> Result<(), Unfit> {
    let setup = |problem: String| Unfit { kind: FailureKind::Setup, problem };
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.add_resource(PLACE, schema.schema.clone()).map_err(|error| setup(error.to_string()))?;
    let index = compiler
        .compile(PLACE, &mut schemas)
        .map_err(|error| setup(format!("the schema `{}` cannot be used: {error:#}", schema.name)))?;
    schemas.validate(value, index).map_err(|error| {
        let text = error.to_string();
        // The first line only names the schema.
        let lines: Vec<&str> = text.lines().skip(1).map(str::trim).take(NAMED).collect();
        let problem = if lines.is_empty() { text.clone() } else { lines.join("; ") };
        Unfit { kind: FailureKind::Misfit, problem }
    })
}

/// Whether servers can hold to the schema strictly: every object lists all its properties as required and takes no other.
pub(super) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let object = match map.get("properties").and_then(Value::as_object) {
                None => map.get("type").and_then(Value::as_str) != Some("object"),
                Some(properties) => {
                    let required = map.get("required").and_then(Value::as_array);
                    let has = |name: &String| required.is_some_and(|list| list.iter().any(|one| one == name.as_str()));
                    map.get("additionalProperties") == Some(&Value::Bool(false)) && properties.keys().all(has)
                }
            };
            object && map.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> AnswerSchema {
        let schema = json!({
            "type": "object",
            "properties": {"ok": {"type": "boolean"}, "kind": {"enum": ["a", "b"]}},
            "required": ["ok", "kind"],
            "additionalProperties": false,
        });
        AnswerSchema { name: "test".to_owned(), schema }
    }

    #[test]
    fn answers_are_taken_out_of_fences_and_nothing_else() {
        for text in ["{\"a\": 1}", "  {\"a\":1}\n", "```json\n{\"a\": 1}\n```", "```\n{\"a\":1}```"] {
            assert_eq!(parse(text).unwrap(), json!({"a": 1}), "{text}");
        }
        for text in ["", "Sure! {\"a\": 1}", "{\"a\": 1", "```json\n{}\n``` and ```\n{}\n```", "{} {}"] {
            assert_eq!(parse(text).unwrap_err().kind, FailureKind::NotJson, "{text}");
        }
    }

    #[test]
    fn misfits_are_named_and_never_filled_in() {
        assert_eq!(check(&schema(), &json!({"ok": true, "kind": "a"})), Ok(()));
        for (value, said) in [
            (json!({"ok": true, "kind": "a", "more": 1}), "more"),
            (json!({"ok": true}), "kind"),
            (json!({"ok": "yes", "kind": "a"}), "/ok"),
            (json!({"ok": true, "kind": "c"}), "/kind"),
            (json!([]), "object"),
        ] {
            let unfit = check(&schema(), &value).unwrap_err();
            assert_eq!(unfit.kind, FailureKind::Misfit);
            assert!(unfit.problem.contains(said), "{said}: {}", unfit.problem);
        }
        let broken = AnswerSchema { name: "x".to_owned(), schema: json!({"type": "thing"}) };
        assert_eq!(check(&broken, &json!(1)).unwrap_err().kind, FailureKind::Setup);
    }

    #[test]
    fn only_closed_schemas_are_strict() {
        assert!(is_strict(&schema().schema));
        let mut open = schema().schema;
        open["additionalProperties"] = json!(true);
        assert!(!is_strict(&open));
        let mut optional = schema().schema;
        optional["required"] = json!(["ok"]);
        assert!(!is_strict(&json!({"type": "array", "items": optional})));
    }
}
