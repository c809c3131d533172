//! An audit for people: a card for each oracle, and a table over all of them.

use comfy_table::{CellAlignment, Table, presets};

use super::{counted, one_line};
use crate::model::Outcome;
use crate::stage::audit::{Card, Row, State, Summary};

/// The card of one oracle.
pub fn card(card: &Card) -> String {
    let verdict = if card.keep { "keep".to_owned() } else { format!("drop: {}", card.reasons.join("; ")) };
    let mut out = format!("{} {}  {}\n", card.instance_id, card.comment, one_line(&verdict));
    let mut line = |name: &str, text: String| out.push_str(&format!("  {name:<12} {text}\n"));
    let executes = match (card.text_only, card.executes) {
        (Some(true), _) => "nothing of the project: text-only".to_owned(),
        (_, Some(executes)) => format!("{} of the project", executes.as_str()),
        _ => format!("not known: {}", one_line(card.text_only_unknown.as_deref().unwrap_or("not run"))),
    };
    line("runs", executes);
    if let Some(opens) = card.opens.as_ref().filter(|opens| !opens.is_empty()) {
        line("opens", some(opens, 4));
    }
    let controls: Vec<String> = card.controls.iter().map(|(name, outcome)| format!("{name} {outcome}")).collect();
    line("controls", if controls.is_empty() { "none".to_owned() } else { controls.join(", ") });
    if card.state != State::Audited {
        return out;
    }
    let coverage = match card.fix_lines.executed {
        Some(executed) => format!("{executed} of {} ran", card.fix_lines.changed),
        None => format!("{}, not known which ran", card.fix_lines.changed),
    };
    line("fix lines", coverage);
    let list = |text: String, names: &[String], word: &str| {
        if names.is_empty() { text } else { format!("{text}; {word} {}", some(names, 4)) }
    };
    let near = format!("{} of {} failed", card.near_misses.failed, card.near_misses.total);
    line("near-misses", list(near, &card.near_misses.accepted, "passes on"));
    if card.drops.total > 0 {
        line("other drops", format!("{} of {} failed (not rated)", card.drops.failed, card.drops.total));
    }
    let rewrites = format!("{} of {} passed", card.rewrites.passed, card.rewrites.total);
    line("rewrites", list(rewrites, &card.rewrites.rejected, "does not pass on"));
    let mutants = format!("{} of {} killed", card.mutants.killed, card.mutants.total);
    line("mutants", list(mutants, &card.mutants.survivors, "misses"));
    let differing = card.flakiness.iter().filter(|(_, outcomes)| outcomes.windows(2).any(|pair| pair[0] != pair[1]));
    let differing: Vec<String> = differing.map(|(name, outcomes)| format!("{name} ({})", words(outcomes))).collect();
    line(
        "flaky",
        match card.flaky {
            Some(true) => format!("yes: {}", differing.join(", ")),
            Some(false) => format!("no, by {}", counted(card.flakiness.len() as u64, "comparison")),
            None => "not known".to_owned(),
        },
    );
    out
}

fn words(outcomes: &[Outcome]) -> String {
    outcomes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" → ")
}

fn some(names: &[String], most: usize) -> String {
    let more = if names.len() > most { format!(" and {} more", names.len() - most) } else { String::new() };
    let shown: Vec<String> = names.iter().take(most).map(|name| one_line(name)).collect();
    format!("{}{more}", shown.join(", "))
}

/// The table of a benchmark.
pub fn table(summary: &Summary) -> String {
    type Cell = fn(&Row) -> String;
    let rows: [(&str, Cell); 15] = [
        ("oracles", |row| row.oracles.to_string()),
        ("audited to the end", |row| row.audited.to_string()),
        ("bad controls", |row| row.bad_control.to_string()),
        ("no fix known", |row| row.no_fix.to_string()),
        ("infra", |row| row.infra.to_string()),
        ("text-only", |row| row.text_only.to_string()),
        ("only import the project", |row| row.only_import.to_string()),
        ("pass on a near-miss", |row| part(row.accept_near_miss, row.with_near_misses)),
        ("pass on the fix as a comment", |row| part(row.accept_fix_as_comment, row.with_near_misses)),
        ("do not pass on a rewrite", |row| part(row.reject_rewrite, row.with_rewrites)),
        ("miss every mutant", |row| part(row.miss_all_mutants, row.with_mutants)),
        ("mutants killed", |row| part(row.mutants_killed, row.mutants)),
        ("pass on base", |row| row.pass_on_base.to_string()),
        ("flaky", |row| row.flaky.to_string()),
        ("kept by the thresholds", |row| row.keep.to_string()),
    ];
    let columns = [
        ("all", &summary.all),
        ("text-only", &summary.text_only),
        ("running", &summary.running),
        ("unknown", &summary.unknown),
    ];
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(std::iter::once("").chain(columns.iter().map(|(name, _)| *name)));
    for index in 1..=columns.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (name, cell) in rows {
        table.add_row(std::iter::once(name.to_owned()).chain(columns.iter().map(|(_, row)| cell(row))));
    }
    let mut out = String::new();
    for line in table.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn part(part: u64, total: u64) -> String {
    if total == 0 { "–".to_owned() } else { format!("{part} of {total}") }
}
