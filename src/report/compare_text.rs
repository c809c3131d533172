//! A comparison of two runs as text.

use super::compare::{Cause, Change, Comparison, Movement, Seen};
use super::tables::{lines, percent, table};
use super::{counted, one_line};

/// How many changes are listed one by one, unless all are asked for.
const SHOWN: usize = 200;

/// The comparison for people; with `all`, every change is listed.
pub fn text(comparison: &Comparison, all: bool) -> String {
    let [first, second] = &comparison.runs;
    let mut out = format!(
        "{} → {}\n{}, {}\n",
        first.path.display(),
        second.path.display(),
        counted(first.verdicts as u64, "verdict"),
        counted(second.verdicts as u64, "verdict")
    );
    for change in &comparison.settings {
        out.push_str(&format!("differs: {}\n", change.text()));
    }
    let counts = &comparison.counts;
    out.push_str(&format!(
        "\n{} same, {} changed, {} only in the first, {} only in the second\n",
        counts.same, counts.changed, counts.only_first, counts.only_second
    ));
    if counts.same_with_other_inputs > 0 {
        out.push_str(&format!("  of the same ones, {} stand on other inputs\n", counts.same_with_other_inputs));
    }
    for (cause, count) in &counts.by_cause {
        out.push_str(&format!("  changed, {}: {count}\n", words(cause)));
    }
    for (input, count) in &counts.inputs {
        out.push_str(&format!("  other input, {input}: {}\n", counted(*count as u64, "verdict")));
    }
    out.push('\n');
    out.push_str(&arms(&comparison.arms));
    if !comparison.changes.is_empty() {
        out.push('\n');
    }
    let shown = if all { comparison.changes.len() } else { SHOWN };
    for change in comparison.changes.iter().take(shown) {
        out.push_str(&line(change));
    }
    if comparison.changes.len() > shown {
        out.push_str(&format!("… and {} more: `--all` lists them\n", comparison.changes.len() - shown));
    }
    out
}

fn words(cause: &str) -> &str {
    match cause {
        "inputs" => "as inputs differ",
        "flaky" => "flaky (same inputs, another outcome)",
        "control" => "as a control differs",
        "policy" => "as the policies differ",
        "unknown" => "for a reason that the folders do not hold",
        other => other,
    }
}

fn arms(rows: &[Movement]) -> String {
    let mut table = table(&["arm", "passed", "now", "total", "now", "rate", "now", "gained", "lost"]);
    for row in rows {
        let side = |row: &Option<crate::metrics::ArmRow>| match row {
            Some(row) => [row.passed.to_string(), row.total.to_string(), percent(row.rate)],
            None => ["–".to_owned(), "–".to_owned(), "–".to_owned()],
        };
        let ([passed, total, rate], [passed_now, total_now, rate_now]) = (side(&row.before), side(&row.after));
        let (gained, lost) = (row.gained.to_string(), row.lost.to_string());
        table.add_row([row.arm.clone(), passed, passed_now, total, total_now, rate, rate_now, gained, lost]);
    }
    lines(&table)
}

fn line(change: &Change) -> String {
    let mut name = format!("{} {} {}", change.instance_id, change.comment, change.arm);
    if change.attempt > 1 {
        name.push_str(&format!(":{}", change.attempt));
    }
    for (word, value) in [("agent", &change.agent), ("model", &change.model)] {
        if let Some(value) = value {
            name.push_str(&format!(" {word} {value}"));
        }
    }
    let inputs = change.inputs.iter().map(|c| c.text()).collect::<Vec<_>>().join(", ");
    let of_control = change.control.as_ref().map(|arm| format!(", control {arm}")).unwrap_or_default();
    let why = match change.cause {
        Cause::OnlyFirst => "only in the first".to_owned(),
        Cause::OnlySecond => "only in the second".to_owned(),
        Cause::Inputs => format!("inputs: {inputs}{of_control}"),
        Cause::Flaky => format!("flaky: same inputs, another outcome{of_control}"),
        Cause::Infra if !inputs.is_empty() => format!("infra{of_control}; inputs: {inputs}"),
        cause => format!("{}{of_control}", cause.as_str()),
    };
    format!("{name}: {} → {}; {why}\n", seen(change.before.as_ref()), seen(change.after.as_ref()))
}

fn seen(seen: Option<&Seen>) -> String {
    let Some(seen) = seen else { return "nothing".to_owned() };
    match &seen.reason {
        Some(reason) => format!("{} ({})", seen.verdict.as_str(), one_line(reason)),
        None => seen.verdict.as_str().to_owned(),
    }
}
