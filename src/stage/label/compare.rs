//! Two people's labels side by side, and what becomes gold.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::CommentKey;
use super::sheet::Answer;
use crate::metrics::{Confusion, Kappa};
use crate::model::{CommentId, ConcernCategory, ExpectedOracle, InstanceId, Labels};

/// One point on which two people are compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Its name.
    pub point: &'static str,
    /// Counts: rows are the first one's classes, columns the second one's.
    #[serde(flatten)]
    pub confusion: Confusion,
    /// Agreement beyond chance.
    pub kappa: Option<Kappa>,
}

/// A comment on which two people differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// The points on which they differ.
    pub points: Vec<&'static str>,
    /// The first one's labels.
    pub first: Labels,
    /// The second one's.
    pub second: Labels,
}

/// Two people's labels. `both = agreed + conflicts`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Comments that both labelled.
    pub both: usize,
    /// Those on which they agree in every point.
    pub agreed: usize,
    /// Comments that only the first one labelled.
    pub only_first: usize,
    /// Comments that only the second one labelled.
    pub only_second: usize,
    /// Labelled comments that the benchmark does not have.
    pub unknown: usize,
    /// Agreement, point by point.
    pub points: Vec<Point>,
    /// Where they differ, in the benchmark's order.
    pub conflicts: Vec<Conflict>,
}

type Answers = BTreeMap<CommentKey, Answer>;

/// Compares two people's answers on the comments of `known`.
pub fn compare(known: &[CommentKey], first: &Answers, second: &Answers) -> Compared {
    let set: BTreeSet<&CommentKey> = known.iter().collect();
    let both: Vec<(&CommentKey, &Labels, &Labels)> =
        known.iter().filter_map(|key| Some((key, &first.get(key)?.labels, &second.get(key)?.labels))).collect();
    let only = |a: &Answers, b: &Answers| a.keys().filter(|key| set.contains(key) && !b.contains_key(*key)).count();
    let unknown: BTreeSet<&CommentKey> = first.keys().chain(second.keys()).filter(|key| !set.contains(key)).collect();
    let conflicts: Vec<Conflict> = both
        .iter()
        .filter_map(|(key, a, b)| {
            let points: Vec<&'static str> =
                POINTS.iter().filter(|(_, of)| of(a) != of(b)).map(|(name, _)| *name).collect();
            let (instance_id, comment) = (*key).clone();
            let (first, second) = ((*a).clone(), (*b).clone());
            (!points.is_empty()).then_some(Conflict { instance_id, comment, points, first, second })
        })
        .collect();
    let points = POINTS
        .iter()
        .map(|(point, of)| {
            let confusion = Confusion::of(&classes(point), both.iter().map(|(_, a, b)| (of(a), of(b))));
            Point { point, kappa: confusion.kappa(), confusion }
        })
        .collect();
    Compared {
        both: both.len(),
        agreed: both.len() - conflicts.len(),
        only_first: only(first, second),
        only_second: only(second, first),
        unknown: unknown.len(),
        points,
        conflicts,
    }
}

/// The class of a comment's labels.
type Class = fn(&Labels) -> usize;

/// The points and each label's class in them.
const POINTS: [(&str, Class); 5] = [
    ("actionable", |l| usize::from(l.actionable)),
    ("specific", |l| usize::from(l.specific)),
    ("verifiable", |l| usize::from(l.verifiable)),
    ("category", |l| ConcernCategory::ALL.iter().position(|c| *c == l.category).unwrap_or_default()),
    ("oracle", |l| ExpectedOracle::ALL.iter().position(|o| *o == l.oracle).unwrap_or_default()),
];

fn classes(point: &str) -> Vec<&'static str> {
    match point {
        "category" => ConcernCategory::ALL.iter().map(|c| c.as_str()).collect(),
        "oracle" => ExpectedOracle::ALL.iter().map(|o| o.as_str()).collect(),
        _ => vec!["no", "yes"],
    }
}

/// A gold label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gold {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// Whose word it is: `both` or `adjudicated`.
    pub by: &'static str,
    /// The labels.
    pub labels: Labels,
}

/// Gold labels in the benchmark's order: what both say, and of conflicts what the third person says. Conflicts that
/// nobody decided are not gold; neither is what only one labelled.
pub fn gold(known: &[CommentKey], first: &Answers, second: &Answers, adjudicated: &Answers) -> Vec<Gold> {
    let one = |key: &CommentKey| {
        let (a, b) = (&first.get(key)?.labels, &second.get(key)?.labels);
        let (by, mut labels) = if POINTS.iter().all(|(_, of)| of(a) == of(b)) {
            ("both", a.clone())
        } else {
            ("adjudicated", adjudicated.get(key)?.labels.clone())
        };
        if by == "both" && labels.reason.is_empty() {
            labels.reason.clone_from(&b.reason);
        }
        let (instance_id, comment) = key.clone();
        Some(Gold { instance_id, comment, by, labels })
    };
    known.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> CommentKey {
        ("o__r-1@0123abc".parse().unwrap(), CommentId::from_index(n))
    }

    fn answers(rows: &[(usize, bool, ConcernCategory)]) -> Answers {
        let answer = |(n, actionable, category): &(usize, bool, ConcernCategory)| {
            let labels = Labels {
                actionable: *actionable,
                specific: true,
                verifiable: true,
                category: *category,
                oracle: ExpectedOracle::Behavioral,
                oracle_reason: String::new(),
                reason: String::new(),
            };
            (key(*n), Answer { line: 1, labels })
        };
        rows.iter().map(answer).collect()
    }

    #[test]
    fn agreement_conflicts_and_gold_add_up() {
        use ConcernCategory::{Design, Security};
        let known: Vec<_> = (0..6).map(key).collect();
        let first = answers(&[
            (0, true, Design),
            (1, true, Design),
            (2, false, Design),
            (3, true, Security),
            (9, true, Design),
        ]);
        let second =
            answers(&[(0, true, Design), (1, false, Design), (2, false, Design), (3, true, Design), (4, true, Design)]);
        let found = compare(&known, &first, &second);
        assert_eq!((found.both, found.agreed, found.only_first, found.only_second, found.unknown), (4, 2, 0, 1, 1));
        let conflicts: Vec<_> = found.conflicts.iter().map(|c| (c.comment.as_str(), c.points.as_slice())).collect();
        assert_eq!(conflicts, [("1", ["actionable"].as_slice()), ("3", ["category"].as_slice())]);
        // Three of four agree; by chance (1/4·2/4 + 3/4·2/4) = 1/2: kappa 1/2.
        let kappa = found.points[0].kappa.unwrap();
        assert!((kappa.kappa.unwrap() - 0.5).abs() < 1e-12, "{kappa:?}");
        assert_eq!(found.points[1].kappa.unwrap().kappa, None);

        let decided = answers(&[(1, true, Security), (2, true, Security)]);
        let gold = gold(&known, &first, &second, &decided);
        let rows: Vec<_> = gold.iter().map(|g| (g.comment.as_str(), g.by, g.labels.category)).collect();
        assert_eq!(rows, [("0", "both", Design), ("1", "adjudicated", Security), ("2", "both", Design)]);
    }
}
