//! The filter beside people's labels: on a half of them that nobody looks at while a prompt is made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::metrics::{ClassScore, Confusion, Kappa};
use crate::model::{
    CommentId, ConcernCategory, ExpectedOracle, FilterDecision, FilterRow, InstanceId, Labels, LineError, digest_json,
    from_value, parse_jsonl,
};

/// Names a comment.
pub type CommentKey = (InstanceId, CommentId);

/// Which half of the gold labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Half {
    /// The one to look at while a prompt is made.
    Tune,
    /// The other one.
    HeldOut,
}

impl Half {
    /// The one string form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tune => "tune",
            Self::HeldOut => "held-out",
        }
    }

    /// The half that a comment is in, by its name alone: it is the same for every set of labels and every run. All
    /// comments of one pull request are in one half, as they are seldom independent.
    pub fn of(instance: &InstanceId) -> Self {
        let digest = digest_json(&serde_json::json!(["redgreen-halves-1", instance.folded()]));
        if digest.as_str().as_bytes()[0] < b'8' { Self::Tune } else { Self::HeldOut }
    }
}

impl std::str::FromStr for Half {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tune" => Ok(Self::Tune),
            "held-out" => Ok(Self::HeldOut),
            _ => Err(format!("`{text}` is no half (use `held-out` or `tune`)")),
        }
    }
}

/// One line of a gold file.
#[derive(Debug, Deserialize)]
struct Row {
    instance_id: InstanceId,
    comment: CommentId,
    #[serde(default)]
    labels: Option<Value>,
    #[serde(flatten)]
    flat: serde_json::Map<String, Value>,
}

/// Reads people's labels: JSON Lines of `instance_id`, `comment` and the labels, beside them or in `labels`. A second row
/// of a comment, and a row without labels, is an error that names its line.
pub fn read_gold(text: &str) -> (BTreeMap<CommentKey, Labels>, Vec<LineError>) {
    let parsed = parse_jsonl::<Row>(text);
    let (mut gold, mut errors) = (BTreeMap::new(), parsed.errors);
    for (line, row) in parsed.rows {
        match from_value::<Labels>(row.labels.unwrap_or(Value::Object(row.flat))) {
            Err((field, problem)) => errors.push(LineError { line, field, problem }),
            Ok(labels) => {
                if gold.insert((row.instance_id, row.comment), labels).is_some() {
                    let problem = "another line is of the same comment; keep one".to_owned();
                    errors.push(LineError { line, field: "comment".to_owned(), problem });
                }
            }
        }
    }
    errors.sort_by_key(|error| error.line);
    (gold, errors)
}

/// One point on which the filter and people are compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Its name.
    pub point: &'static str,
    /// Counts: rows are what people said, columns what the filter said.
    #[serde(flatten)]
    pub confusion: Confusion,
    /// Agreement beyond chance.
    pub kappa: Option<Kappa>,
    /// Precision and recall of each class, people being right.
    pub per_class: Vec<ClassScore>,
}

/// The filter beside people's labels. `gold = compared + by_rule + failed + open` for the labels; `kept` is compared on
/// what rules decided too.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// Which half.
    pub half: Half,
    /// How many comments of this half have gold labels and are in the benchmark.
    pub gold: usize,
    /// Gold labels of comments that the benchmark does not have, in either half.
    pub unknown: usize,
    /// Of how many there are labels of the model to compare.
    pub compared: usize,
    /// How many a rule dropped before the model.
    pub by_rule: usize,
    /// Of how many the model gave no usable answer.
    pub failed: usize,
    /// How many are not decided.
    pub open: usize,
    /// The points.
    pub points: Vec<Point>,
}

/// Compares the rows of one half with its gold labels.
pub fn calibrate(half: Half, gold: &BTreeMap<CommentKey, Labels>, unknown: usize, rows: &[FilterRow]) -> Calibration {
    let rows: BTreeMap<(&InstanceId, &CommentId), &FilterRow> =
        rows.iter().map(|row| ((&row.instance_id, &row.comment), row)).collect();
    let mut out =
        Calibration { half, gold: 0, unknown, compared: 0, by_rule: 0, failed: 0, open: 0, points: Vec::new() };
    let mut labelled: Vec<(&Labels, &Labels)> = Vec::new();
    let mut kept: Vec<(usize, usize)> = Vec::new();
    for ((instance, comment), labels) in gold.iter().filter(|((instance, _), _)| Half::of(instance) == half) {
        out.gold += 1;
        let Some(row) = rows.get(&(instance, comment)) else {
            out.open += 1;
            continue;
        };
        match (&row.labels, row.decision) {
            (Some(ours), _) => labelled.push((labels, ours)),
            (None, FilterDecision::Failed) => out.failed += 1,
            (None, _) => out.by_rule += 1,
        }
        if row.decision != FilterDecision::Failed {
            let ours = row.decision == FilterDecision::Kept;
            kept.push((usize::from(labels.drop_reason().is_none()), usize::from(ours)));
        }
    }
    out.compared = labelled.len();
    let mut add = |point: &'static str, classes: &[&str], pairs: Vec<(usize, usize)>| {
        let confusion = Confusion::of(classes, pairs);
        let (kappa, per_class) = (confusion.kappa(), confusion.scores());
        out.points.push(Point { point, confusion, kappa, per_class });
    };
    let on = |of: fn(&Labels) -> usize| labelled.iter().map(|(gold, ours)| (of(gold), of(ours))).collect::<Vec<_>>();
    add("kept", &["no", "yes"], kept);
    add("actionable", &["no", "yes"], on(|labels| usize::from(labels.actionable)));
    add("specific", &["no", "yes"], on(|labels| usize::from(labels.specific)));
    add("verifiable", &["no", "yes"], on(|labels| usize::from(labels.verifiable)));
    let categories: Vec<&str> = ConcernCategory::ALL.iter().map(|one| one.as_str()).collect();
    let category = |labels: &Labels| ConcernCategory::ALL.iter().position(|one| *one == labels.category);
    add("category", &categories, on_some(&labelled, category));
    let oracles: Vec<&str> = ExpectedOracle::ALL.iter().map(|one| one.as_str()).collect();
    let oracle = |labels: &Labels| ExpectedOracle::ALL.iter().position(|one| *one == labels.oracle);
    add("oracle", &oracles, on_some(&labelled, oracle));
    out
}

fn on_some(labelled: &[(&Labels, &Labels)], of: impl Fn(&Labels) -> Option<usize>) -> Vec<(usize, usize)> {
    labelled.iter().filter_map(|(gold, ours)| Some((of(gold)?, of(ours)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn gold_line(number: usize, yes: bool) -> String {
        json!({"instance_id": format!("o__r-{number}@0123abc"), "comment": "0", "actionable": yes, "specific": true,
               "verifiable": true, "category": "design", "oracle": "behavioral", "annotator": "ada"})
        .to_string()
    }

    #[test]
    fn halves_are_about_equal_and_hang_on_the_instance_alone() {
        let ids = (0..400).map(|n| format!("o__r-{n}@0123abc").parse::<InstanceId>().unwrap());
        let tune = ids.filter(|id| Half::of(id) == Half::Tune).count();
        assert!((160..240).contains(&tune), "{tune}");
        let (a, b): (InstanceId, InstanceId) = ("A__b-1@0123ABC".parse().unwrap(), "a__B-1@0123abc".parse().unwrap());
        assert_eq!(Half::of(&a), Half::of(&b));
    }

    #[test]
    fn gold_is_read_in_both_forms_and_faults_are_named() {
        let nested = json!({"instance_id": "o__r-9@0123abc", "comment": 3, "labels":
            {"actionable": true, "specific": true, "verifiable": true, "category": "design", "oracle": "none"}});
        let text = format!(
            "{}\n{nested}\n{}\n{{\"instance_id\": \"o__r-8@0123abc\", \"comment\": \"1\"}}\n",
            gold_line(1, true),
            gold_line(1, false)
        );
        let (gold, errors) = read_gold(&text);
        assert_eq!(gold.len(), 2);
        let lines: Vec<usize> = errors.iter().map(|error| error.line).collect();
        assert_eq!(lines, [3, 4], "{errors:?}");
        assert!(errors[1].to_string().contains("actionable"), "{errors:?}");
    }

    #[test]
    fn every_gold_label_of_the_half_is_accounted_for() {
        let text: String = (0..40).map(|n| gold_line(n, n % 2 == 0) + "\n").collect();
        let (gold, _) = read_gold(&text);
        let row = |key: &CommentKey, decision, labels: Option<Labels>| FilterRow {
            instance_id: key.0.clone(),
            comment: key.1.clone(),
            decision,
            reason: None,
            failure: None,
            detail: String::new(),
            labels,
            votes: Vec::new(),
            model: String::new(),
            prompt: None,
            key: digest_json(&Value::Null),
            extra: serde_json::Map::new(),
        };
        let mut rows = Vec::new();
        let of_half = gold.iter().filter(|((instance, _), _)| Half::of(instance) == Half::HeldOut);
        for (at, (key, labels)) in of_half.enumerate() {
            match at {
                0 => {}
                1 => rows.push(row(key, FilterDecision::Failed, None)),
                2 => rows.push(row(key, FilterDecision::Dropped, None)),
                // The model calls everything actionable.
                _ => rows.push(row(key, FilterDecision::Kept, Some(Labels { actionable: true, ..labels.clone() }))),
            }
        }
        let found = calibrate(Half::HeldOut, &gold, 0, &rows);
        assert_eq!((found.open, found.failed, found.by_rule), (1, 1, 1));
        assert_eq!(found.gold, found.compared + 3);
        let actionable = found.points.iter().find(|point| point.point == "actionable").unwrap();
        assert_eq!(actionable.confusion.matrix[0][0] + actionable.confusion.matrix[1][0], 0);
        assert_eq!(actionable.per_class[1].recall, Some(1.0));
        assert_eq!(actionable.kappa.unwrap().kappa, Some(0.0));
        let category = found.points.iter().find(|point| point.point == "category").unwrap();
        assert_eq!(category.kappa.unwrap().observed, 1.0);
    }
}
