//! SWE-CARE's data set (arXiv 2509.14856): JSON Lines whose field names are the model's own.
//!
//! Read liberally: blank lines are skipped and missing nullable fields are null. The field `text` of inference files
//! (a finished prompt) is dropped, since it holds the whole instance a second time.

use crate::model::{Instance, LineError, Parsed, parse_jsonl};

/// Reads a data set. Rows with an id that came before (in any letter case) are errors, the first one counts.
pub fn parse(text: &str) -> Parsed<Instance> {
    let Parsed { rows, mut errors } = parse_jsonl::<Instance>(text);
    let mut seen = std::collections::BTreeMap::new();
    let mut kept = Vec::with_capacity(rows.len());
    for (line, mut instance) in rows {
        if let Some(first) = seen.get(&instance.instance_id) {
            let problem = format!("`{}` is already on line {first}", instance.instance_id);
            errors.push(LineError { line, field: "instance_id".to_owned(), problem });
            continue;
        }
        seen.insert(instance.instance_id.clone(), line);
        instance.extra.remove("text");
        if instance.pull_number == 0 {
            instance.pull_number = instance.instance_id.pull();
        }
        kept.push((line, instance));
    }
    errors.sort_by_key(|error| error.line);
    Parsed { rows: kept, errors }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_through_beside_broken_and_repeated_ones() {
        let row = |id: &str| {
            format!(
                r#"{{"instance_id":"{id}","repo":"o/r","commit_to_review":{{"head_commit":"0123abc"}},"text":"long"}}"#
            )
        };
        let text = format!("{}\n\n{{\n{}\n{}\n", row("o__r-1@0123abc"), row("O__R-1@0123abc"), row("o__r-2@0123abc"));
        let parsed = parse(&text);
        let ids: Vec<_> = parsed.rows.iter().map(|(n, i)| (*n, i.instance_id.to_string(), i.pull_number)).collect();
        assert_eq!(ids, [(1, "o__r-1@0123abc".to_owned(), 1), (5, "o__r-2@0123abc".to_owned(), 2)]);
        assert!(parsed.rows[0].1.extra.is_empty());
        let lines: Vec<_> = parsed.errors.iter().map(|e| e.line).collect();
        assert_eq!((lines, parsed.errors[1].field.as_str()), (vec![3, 4], "instance_id"));
    }
}
