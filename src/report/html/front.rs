//! The front page: what was run, and what came of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::bounds::{CELL_CHARS, LISTED};
use super::chart::{Bar, bar, share};
use super::evidence::Times;
use super::health::Health;
use super::index::{Choice, IndexRow, InstanceLine};
use super::text::{grouped, line, visible};
use crate::metrics::{Agreement, ArmRow, Group};
use crate::model::Attrition;
use crate::report::tables::{interval, percent};
use crate::report::{Built, Report};

/// The front page.
#[derive(Debug, Clone, Serialize)]
pub struct Front {
    /// What was run.
    pub facts: Facts,
    /// What to know before believing a number.
    pub notes: Vec<String>,
    /// One row an arm.
    pub arms: Vec<ArmView>,
    /// How the arms' comments ended: names of outcomes.
    pub outcome_names: Vec<String>,
    /// The controls.
    pub health: Health,
    /// Overlap of the tools; absent with fewer than two.
    pub overlap: Option<Overlaps>,
    /// Passes by group.
    pub groups: Vec<GroupTable>,
    /// Agreement with recorded verdicts; absent where nothing was recorded.
    pub agreement: Option<AgreementView>,
    /// What the benchmark lost on the way.
    pub attrition: Vec<Lost>,
    /// Everything that it lost.
    pub attrition_total: usize,
    /// The instances.
    pub instances: Vec<InstanceLine>,
    /// The verdict table; empty where it is on the instances' pages.
    pub rows: Vec<IndexRow>,
    /// Filters: arms, verdicts, classes of reasons, marks.
    pub filter_arms: Vec<Choice>,
    /// See `filter_arms`.
    pub filter_verdicts: Vec<Choice>,
    /// See `filter_arms`.
    pub filter_reasons: Vec<Choice>,
    /// See `filter_arms`.
    pub filter_marks: Vec<Choice>,
    /// All verdicts.
    pub verdicts: String,
    /// Whether instances are on pages of their own.
    pub paged: bool,
    /// Whether the verdict table is here.
    pub has_rows: bool,
}

/// What was run.
#[derive(Debug, Clone, Serialize)]
pub struct Facts {
    /// The benchmark's name.
    pub benchmark: String,
    /// Its digest.
    pub digest: String,
    /// The policy.
    pub policy: String,
    /// The denominator.
    pub denominator: String,
    /// How many comments.
    pub comments: String,
    /// How many instances.
    pub instances: String,
    /// The version that made the report.
    pub tool_version: String,
    /// The version that made the run folder.
    pub run_version: String,
    /// When the run folder was made.
    pub created: String,
    /// When the first and the last run began; empty where not all records were read.
    pub ran: String,
}

/// One arm.
#[derive(Debug, Clone, Serialize)]
pub struct ArmView {
    /// The arm.
    pub arm: String,
    /// Whether it is a control.
    pub control: bool,
    /// See [`ArmRow`].
    pub passed: usize,
    /// See [`ArmRow`].
    pub failed: usize,
    /// See [`ArmRow`].
    pub invalid: usize,
    /// See [`ArmRow`].
    pub missing: usize,
    /// See [`ArmRow`].
    pub total: usize,
    /// In per cent.
    pub rate: String,
    /// In per cent.
    pub rate_interval: String,
    /// In per cent.
    pub rate_scored: String,
    /// In per cent.
    pub rate_scored_interval: String,
    /// The bar.
    pub bar: Bar,
    /// Comments by outcome, in the order of `outcome_names`.
    pub outcomes: Vec<usize>,
}

/// A name and a count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The name.
    pub name: String,
    /// The count.
    pub count: usize,
}

impl Count {
    /// Counts, the largest first.
    pub(super) fn most_first(counts: BTreeMap<String, usize>) -> Vec<Self> {
        let mut all: Vec<Self> = counts.into_iter().map(|(name, count)| Self { name, count }).collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        all
    }
}

/// Overlap of the tools' passes.
#[derive(Debug, Clone, Serialize)]
pub struct Overlaps {
    /// Comments that at least one tool passes.
    pub union: usize,
    /// All comments.
    pub comments: usize,
    /// Comments by exactly which tools pass them, the largest first; the last is `no tool`.
    pub regions: Vec<Share>,
    /// For each pair of tools, the comments that both pass.
    pub pairs: Vec<Count>,
}

/// A count with its part of the whole.
#[derive(Debug, Clone, Serialize)]
pub struct Share {
    /// What is counted.
    pub name: String,
    /// How many.
    pub count: usize,
    /// In thousandths of the whole.
    pub width: u32,
}

/// Passes by group.
#[derive(Debug, Clone, Serialize)]
pub struct GroupTable {
    /// What the groups are: `category`, `kind`, `language`.
    pub name: &'static str,
    /// The groups.
    pub rows: Vec<GroupRow>,
}

/// One group.
#[derive(Debug, Clone, Serialize)]
pub struct GroupRow {
    /// The group.
    pub name: String,
    /// Comments in it.
    pub total: usize,
    /// Passes in the order of the arms.
    pub passed: Vec<usize>,
}

/// Agreement with recorded verdicts.
#[derive(Debug, Clone, Serialize)]
pub struct AgreementView {
    /// Pairs compared.
    pub compared: usize,
    /// Pairs that agree.
    pub agree: usize,
    /// Pairs that do not.
    pub disagree: usize,
    /// The first of them.
    pub pairs: Vec<DisagreementView>,
    /// Those that are not listed.
    pub more: usize,
    /// Pairs that could not be compared, by reason.
    pub not_run: Vec<Count>,
    /// All of these.
    pub not_run_total: usize,
    /// Equal first lines.
    pub lines_equal: usize,
    /// Compared first lines.
    pub lines_compared: usize,
}

/// One pair that does not agree.
#[derive(Debug, Clone, Serialize)]
pub struct DisagreementView {
    /// The instance.
    pub instance: String,
    /// The comment.
    pub comment: String,
    /// The arm.
    pub arm: String,
    /// As recorded.
    pub recorded: String,
    /// As found here.
    pub here: String,
    /// Why.
    pub reason: String,
}

/// What the benchmark lost for one reason.
#[derive(Debug, Clone, Serialize)]
pub struct Lost {
    /// The step.
    pub stage: String,
    /// What kind of thing.
    pub scope: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub count: usize,
}

/// What follows from the report alone; rows, instances and oracles are added while sections are made.
pub(super) fn front(built: &Built) -> Front {
    let report = &built.report;
    let names: BTreeSet<&String> = report.outcomes.values().flat_map(BTreeMap::keys).collect();
    let names: Vec<String> = names.into_iter().cloned().collect();
    let (attrition, attrition_total) = (lost(&built.roster.attrition), built.roster.attrition.len());
    Front {
        facts: facts(built),
        notes: report.notes.iter().map(|note| line(note, 4 * CELL_CHARS)).collect(),
        arms: report.arms.iter().map(|row| arm(row, report, &names)).collect(),
        outcome_names: names,
        health: Health::of_verdicts(&report.verdicts),
        overlap: overlap(report),
        groups: groups(report),
        agreement: agreement(&report.agreement),
        attrition,
        attrition_total,
        instances: Vec::new(),
        rows: Vec::new(),
        filter_arms: Vec::new(),
        filter_verdicts: Vec::new(),
        filter_reasons: Vec::new(),
        filter_marks: Vec::new(),
        verdicts: grouped(report.verdicts.len()),
        paged: false,
        has_rows: true,
    }
}

/// Times to the second, in UTC.
pub(super) fn ran(times: Times) -> String {
    let at = |time: jiff::Timestamp| time.strftime("%Y-%m-%d %H:%M:%S").to_string();
    times.map_or_else(String::new, |(first, last)| format!("{} to {} UTC", at(first), at(last)))
}

fn facts(built: &Built) -> Facts {
    let report = &built.report;
    Facts {
        benchmark: line(&report.benchmark, 200),
        digest: report.benchmark_digest.clone(),
        policy: report.policy.clone(),
        denominator: report.denominator.as_str().to_owned(),
        comments: grouped(report.comments),
        instances: grouped(report.instances),
        tool_version: report.tool_version.clone(),
        run_version: line(&built.manifest.tool_version, 40),
        created: built.manifest.created.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        ran: String::new(),
    }
}

fn arm(row: &ArmRow, report: &Report, names: &[String]) -> ArmView {
    let outcomes = report.outcomes.get(&row.arm);
    ArmView {
        arm: visible(&row.arm).into_owned(),
        control: row.control,
        passed: row.passed,
        failed: row.failed,
        invalid: row.invalid,
        missing: row.missing,
        total: row.total,
        rate: percent(row.rate),
        rate_interval: interval(row.rate_interval),
        rate_scored: percent(row.rate_scored),
        rate_scored_interval: interval(row.rate_scored_interval),
        bar: bar(row),
        outcomes: names.iter().map(|name| outcomes.and_then(|o| o.get(name)).copied().unwrap_or(0)).collect(),
    }
}

fn overlap(report: &Report) -> Option<Overlaps> {
    let tools = report.overlap.exclusive.len();
    if tools < 2 {
        return None;
    }
    let named = |arms: &[String]| match arms {
        [one] => format!("only {}", visible(one)),
        all if all.len() == tools => "all tools".to_owned(),
        some => some.iter().map(|arm| visible(arm)).collect::<Vec<_>>().join(" + "),
    };
    let share_of = |name: String, count| Share { name, count, width: share(count, report.comments) };
    let mut regions: Vec<Share> =
        report.overlap.regions.iter().map(|region| share_of(named(&region.arms), region.comments)).collect();
    regions.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    regions.push(share_of("no tool".to_owned(), report.comments - report.overlap.union));
    let pairs = &report.overlap.pairs;
    Some(Overlaps {
        union: report.overlap.union,
        comments: report.comments,
        regions,
        pairs: pairs
            .iter()
            .map(|(a, b, count)| Count { name: format!("{} and {}", visible(a), visible(b)), count: *count })
            .collect(),
    })
}

fn groups(report: &Report) -> Vec<GroupTable> {
    let arms: Vec<&str> = report.arms.iter().map(|row| row.arm.as_str()).collect();
    let table = |name, groups: &BTreeMap<String, Group>| {
        let rows = groups
            .iter()
            .map(|(name, group)| GroupRow {
                name: line(name, CELL_CHARS),
                total: group.total,
                passed: super::index::passed(Some(group), &arms),
            })
            .collect();
        GroupTable { name, rows }
    };
    let breakdown = &report.breakdown;
    [("category", &breakdown.category), ("kind", &breakdown.kind), ("language", &breakdown.language)]
        .into_iter()
        // One group says what the table of arms says.
        .filter(|(_, groups)| groups.len() > 1)
        .map(|(name, groups)| table(name, groups))
        .collect()
}

fn agreement(agreement: &Agreement) -> Option<AgreementView> {
    let not_run_total: usize = agreement.not_run.values().sum();
    if agreement.compared + not_run_total == 0 {
        return None;
    }
    let not_run = agreement.not_run.iter().map(|(reason, n)| (line(reason, CELL_CHARS), *n)).collect();
    let pairs = agreement.disagree.iter().take(LISTED).map(|d| DisagreementView {
        instance: d.instance_id.clone(),
        comment: d.comment.clone(),
        arm: visible(&d.arm).into_owned(),
        recorded: d.recorded.clone(),
        here: d.here.clone(),
        reason: line(d.reason.as_deref().unwrap_or_default(), CELL_CHARS),
    });
    Some(AgreementView {
        compared: agreement.compared,
        agree: agreement.agree,
        disagree: agreement.disagree.len(),
        pairs: pairs.collect(),
        more: agreement.disagree.len().saturating_sub(LISTED),
        not_run: Count::most_first(not_run),
        not_run_total,
        lines_equal: agreement.first_line.equal,
        lines_compared: agreement.first_line.compared,
    })
}

fn lost(attrition: &[Attrition]) -> Vec<Lost> {
    /// The one string form of a closed set.
    fn word(value: &impl Serialize) -> String {
        serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    }
    let mut counts: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    for row in attrition {
        let key = (line(&row.stage, 60), word(&row.scope), word(&row.reason));
        *counts.entry(key).or_insert(0) += 1;
    }
    counts.into_iter().map(|((stage, scope, reason), count)| Lost { stage, scope, reason, count }).collect()
}
