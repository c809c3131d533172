//! The verdict table, its filters, and the table of instances.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bounds::CELL_CHARS;
use super::detail::Detail;
use super::text::line;
use crate::metrics::Group;
use crate::stage::score::RosterComment;

/// One row of the verdict table.
#[derive(Debug, Clone, Serialize)]
pub struct IndexRow {
    /// The instance.
    pub instance: String,
    /// The comment's id.
    pub comment: String,
    /// The comment's text in one line.
    pub text: String,
    /// The anchor of the comment, where its whole text is.
    pub comment_id: String,
    /// The arm.
    pub arm: String,
    /// Agent, model and attempt.
    pub by: String,
    /// The verdict.
    pub verdict: &'static str,
    /// Why, without detail.
    pub class: String,
    /// Why, in one line.
    pub reason: String,
    /// Marks.
    pub marks: Vec<String>,
    /// Seconds as a number, for sorting; empty where nothing ran.
    pub seconds_number: String,
    /// Seconds for people.
    pub seconds: String,
    /// Where the verdict's detail is.
    pub href: String,
}

/// One choice of a filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The value.
    pub value: String,
    /// How many rows have it.
    pub count: usize,
}

/// One row of the table of instances.
#[derive(Debug, Clone, Serialize)]
pub struct InstanceLine {
    /// The instance.
    pub instance: String,
    /// The pull request's title.
    pub title: String,
    /// Where it is.
    pub href: String,
    /// Comments that count.
    pub total: usize,
    /// How many of them each arm passes, in the order of the arms.
    pub passed: Vec<usize>,
}

/// The class of a reason: its words before the first detail; with `infra` its class too.
pub(super) fn class_of(reason: &str) -> String {
    let words = if reason.starts_with("infra: ") { 2 } else { 1 };
    let kind: Vec<&str> = reason.split(": ").take(words).collect();
    let kind = kind.join(": ");
    // How many of how many repeats passed is a detail too.
    if kind.starts_with("flaky ") { "flaky".to_owned() } else { line(&kind, CELL_CHARS) }
}

/// The rows of one comment.
pub(super) fn rows(comment: &RosterComment, comment_id: &str, details: &[Detail], seconds: &[f64]) -> Vec<IndexRow> {
    let text = line(&comment.text, CELL_CHARS);
    details
        .iter()
        .zip(seconds)
        .map(|(detail, seconds)| IndexRow {
            instance: comment.instance_id.to_string(),
            comment: comment.comment.to_string(),
            text: text.clone(),
            comment_id: comment_id.to_owned(),
            arm: detail.arm.clone(),
            by: detail.by.clone(),
            verdict: detail.verdict,
            class: class_of(&detail.reason),
            reason: line(&detail.reason, CELL_CHARS),
            marks: detail.marks.clone(),
            seconds_number: if detail.seconds.is_empty() { String::new() } else { format!("{seconds:.3}") },
            seconds: detail.seconds.clone(),
            href: format!("#{}", detail.id),
        })
        .collect()
}

/// The choices of a filter over rows, most frequent first.
pub(super) fn choices<'a>(values: impl Iterator<Item = &'a str>) -> Vec<Choice> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for value in values.filter(|value| !value.is_empty()) {
        *counts.entry(value).or_insert(0) += 1;
    }
    let mut choices: Vec<Choice> =
        counts.into_iter().map(|(value, count)| Choice { value: value.to_owned(), count }).collect();
    choices.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.value.cmp(&b.value)));
    choices
}

/// The passes of an instance in the order of the arms.
pub(super) fn passed(group: Option<&Group>, arms: &[&str]) -> Vec<usize> {
    arms.iter().map(|arm| group.and_then(|g| g.passed.get(*arm)).copied().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_classes() {
        for (reason, class) in [
            ("failed", "failed"),
            ("errored(import)", "errored(import)"),
            ("patch: hunk 2: does not fit", "patch"),
            ("infra: toolchain: no cargo: here", "infra: toolchain"),
            ("flaky 1/3", "flaky"),
            ("", ""),
        ] {
            assert_eq!(class_of(reason), class);
        }
    }

    #[test]
    fn choices_are_counted_and_ordered() {
        let found = choices(["b", "a", "", "c", "c"].into_iter());
        let found: Vec<_> = found.iter().map(|c| (c.value.as_str(), c.count)).collect();
        assert_eq!(found, [("c", 2), ("a", 1), ("b", 1)]);
    }
}
