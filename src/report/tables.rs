//! Tables for a terminal.

use comfy_table::{CellAlignment, Table, presets};

use super::{Report, counted};
use crate::metrics::{Agreement, ArmRow, Group, Interval, Scores};

/// The whole report as text.
pub fn report(report: &Report) -> String {
    let mut out = format!(
        "{}: {} of {}, denominator `{}`, policy `{}`\n\n",
        report.benchmark,
        counted(report.comments as u64, "comment"),
        counted(report.instances as u64, "instance"),
        report.denominator,
        report.policy
    );
    out.push_str(&arms(&report.arms));
    out.push_str(&overlap(report.overlap.union, report.comments, &report.overlap.exclusive, &report.overlap.pairs));
    if report.breakdown.category.len() > 1 {
        out.push_str(&groups("category", &report.breakdown.category, &report.arms));
    }
    if report.breakdown.language.len() > 1 {
        out.push_str(&groups("language", &report.breakdown.language, &report.arms));
    }
    out.push_str(&agreement(&report.agreement));
    if !report.notes.is_empty() {
        out.push('\n');
        for note in &report.notes {
            out.push_str(&format!("note: {note}\n"));
        }
    }
    out
}

/// Scores from recorded verdicts as text.
pub fn recorded(name: &str, scores: &Scores) -> String {
    let total = scores.arms.first().map_or(0, |a| a.total);
    let mut out = format!("{name}: recorded verdicts, {total} comments, denominator `{}`\n\n", scores.denominator);
    out.push_str(&arms(&scores.arms));
    out.push_str(&overlap(scores.overlap.union, total, &scores.overlap.exclusive, &scores.overlap.pairs));
    out
}

/// Rows below a header as text, the first column to the left, the others to the right.
pub fn plain(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = table(header);
    for row in rows {
        table.add_row(row);
    }
    format!("{table}\n")
}

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    for index in 1..header.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn arms(rows: &[ArmRow]) -> String {
    let header = ["arm", "passed", "failed", "invalid", "missing", "total", "rate", "95 %", "rate_scored", "95 %"];
    let mut table = table(&header);
    for row in rows {
        table.add_row([
            format!("{}{}", row.arm, if row.control { " (control)" } else { "" }),
            row.passed.to_string(),
            row.failed.to_string(),
            row.invalid.to_string(),
            row.missing.to_string(),
            row.total.to_string(),
            percent(row.rate),
            interval(row.rate_interval),
            percent(row.rate_scored),
            interval(row.rate_scored_interval),
        ]);
    }
    lines(&table)
}

fn overlap(
    union: usize,
    total: usize,
    exclusive: &std::collections::BTreeMap<String, usize>,
    pairs: &[(String, String, usize)],
) -> String {
    if exclusive.len() < 2 {
        return String::new();
    }
    let mut out = format!("\ntools together pass {union} of {total}\n");
    for (arm, count) in exclusive {
        out.push_str(&format!("  only {arm}: {count}\n"));
    }
    for (a, b, count) in pairs {
        out.push_str(&format!("  {a} and {b}: {count}\n"));
    }
    out
}

fn groups(name: &str, groups: &std::collections::BTreeMap<String, Group>, arms: &[ArmRow]) -> String {
    let header: Vec<&str> = [name, "total"].into_iter().chain(arms.iter().map(|a| a.arm.as_str())).collect();
    let mut table = table(&header);
    for (group, counts) in groups {
        let passed = arms.iter().map(|a| counts.passed.get(&a.arm).copied().unwrap_or(0).to_string());
        table.add_row([group.clone(), counts.total.to_string()].into_iter().chain(passed));
    }
    format!("\npassed by {name}\n{}", lines(&table))
}

fn agreement(agreement: &Agreement) -> String {
    let not_run: usize = agreement.not_run.values().sum();
    if agreement.compared + not_run == 0 {
        return String::new();
    }
    let mut out = format!("\nrecorded verdicts: {} compared, {} agree", agreement.compared, agreement.agree);
    if not_run > 0 {
        let reasons: Vec<_> = agreement.not_run.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        out.push_str(&format!(", {not_run} not run ({})", reasons.join(", ")));
    }
    let lines = &agreement.first_line;
    if lines.compared > 0 {
        out.push_str(&format!("; first failing line equal in {} of {}", lines.equal, lines.compared));
    }
    out.push('\n');
    for d in agreement.disagree.iter().take(10) {
        let reason = d.reason.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
        out.push_str(&format!(
            "  {} {} {}: recorded {}, here {}{reason}\n",
            d.instance_id, d.comment, d.arm, d.recorded, d.here
        ));
    }
    if agreement.disagree.len() > 10 {
        out.push_str(&format!("  … and {} more\n", agreement.disagree.len() - 10));
    }
    out
}

pub(super) fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

pub(super) fn percent(rate: Option<f64>) -> String {
    rate.map_or_else(|| "–".to_owned(), |r| format!("{:.1} %", r * 100.0))
}

pub(super) fn interval(interval: Option<Interval>) -> String {
    interval.map_or_else(|| "–".to_owned(), |Interval(low, high)| format!("{:.1}–{:.1}", low * 100.0, high * 100.0))
}
