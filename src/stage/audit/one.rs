//! The audit of one oracle.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;

use super::card::{Card, Drops, MutantLines, Mutants, NearMisses, Rewrites, RunOf, State, share};
use super::covered::FixLines;
use super::run::Shop;
use super::shown::patch;
use super::steady;
use crate::engine::Event;
use crate::model::{CommentId, ErrorKind, Framework, Instance, Outcome, VerdictReason};
use crate::oracle::{self, AuditSetting, Controls, Executes, Policy, TestId, Trace};
use crate::repo::ChangeSet;
use crate::stage::score::{Fitted, Made, Opened, OracleRecord, ScoreError, Unavailable};
use crate::variants::{
    self, COMMENT_ONLY, Class, FIX_AS_COMMENT, Fix, Origins, Spot, Variant, WITHOUT_FILE, WITHOUT_NEAR,
};

/// Names that stand among the controls, too.
const NAMED: [&str; 4] = [COMMENT_ONLY, FIX_AS_COMMENT, WITHOUT_NEAR, WITHOUT_FILE];

/// A card of which nothing is known yet.
pub(super) fn blank(shop: &Shop, instance: &Instance, comment: &CommentId) -> Card {
    let oracle = instance.oracle(comment);
    Card {
        instance_id: instance.instance_id.clone(),
        comment: comment.clone(),
        framework: oracle.map_or(Framework::Exit, |oracle| oracle.framework),
        kind: oracle.map(|oracle| oracle.kind).unwrap_or_default(),
        frozen: shop.is_frozen(instance, comment),
        state: State::Audited,
        problem: None,
        text_only: None,
        executes: None,
        text_only_unknown: None,
        opens: None,
        controls: Default::default(),
        place: Spot::Unknown,
        near_misses: NearMisses::default(),
        drops: Drops::default(),
        rewrites: Rewrites::default(),
        mutants: Mutants::default(),
        fix_lines: Default::default(),
        flaky: None,
        flakiness: Default::default(),
        sensitivity: None,
        specificity: None,
        kill_rate: None,
        keep: false,
        reasons: Vec::new(),
        runs: Vec::new(),
    }
}

/// The card of an oracle that cannot be run here.
pub(super) fn unavailable(shop: &Shop, instance: &Instance, comment: &CommentId, why: &Unavailable) -> Card {
    let problem = Some(format!("{}: {}", why.class.as_str(), why.detail));
    finish(shop, Card { state: State::Infra, problem, ..blank(shop, instance, comment) })
}

/// Judges a card.
fn finish(shop: &Shop, mut card: Card) -> Card {
    card.reasons = shop.thresholds.reasons(&card);
    card.keep = card.reasons.is_empty();
    card
}

/// One oracle on an instance that is ready.
pub(super) struct Bench<'a> {
    pub(super) shop: &'a Shop,
    pub(super) opened: &'a Opened,
    pub(super) instance: &'a Instance,
    pub(super) comment: &'a CommentId,
    pub(super) fitted: Fitted,
}

/// A run with what is on record of it.
pub(super) struct Ran {
    pub(super) run: RunOf,
    pub(super) record: Option<Box<OracleRecord>>,
}

/// One run to make.
pub(super) struct Order<'a> {
    pub(super) fitted: &'a Fitted,
    pub(super) changes: &'a ChangeSet,
    pub(super) expected: Option<&'a [TestId]>,
    pub(super) name: &'a str,
    pub(super) about: &'a str,
    pub(super) class: Option<Class>,
    pub(super) repeat: u32,
}

impl Bench<'_> {
    pub(super) async fn run(&self, order: Order<'_>) -> Result<Ran, ScoreError> {
        let Order { fitted, changes, expected, name, about, class, repeat } = order;
        let code = self.opened.code(changes.clone());
        let made = self.opened.run(fitted, &code, expected, name, repeat).await?;
        let run = |outcome, message, key| RunOf {
            name: name.to_owned(),
            class,
            about: about.to_owned(),
            outcome,
            message,
            key,
            patch: None,
        };
        Ok(match made {
            Made::Infra(why) => Ran { run: run(Outcome::Infra(why.class), Some(why.detail), None), record: None },
            Made::Recorded(record) => {
                let run = run(record.outcome.clone(), record.message.clone(), Some(record.key.clone()));
                Ran { run, record: Some(record) }
            }
        })
    }

    fn added(&self, count: usize) {
        let reason = format!("variants for comment {}", self.comment);
        let instance_id = self.instance.instance_id.clone();
        self.shop.bench.send(Event::TasksAdded { count: count as u64, instance_id, reason });
    }
}

/// Audits one oracle.
pub(super) async fn audit_one(
    shop: &Shop,
    opened: &Arc<Opened>,
    instance: &Instance,
    comment: &CommentId,
) -> Result<Card, ScoreError> {
    let fitted = match opened.oracle(comment, shop.policy) {
        Ok(fitted) => fitted,
        Err(why) => {
            shop.bench.note_infra(&why);
            return Ok(unavailable(shop, instance, comment, &why));
        }
    };
    let mut card = blank(shop, instance, comment);
    let Some(merged) = opened.merged() else {
        card.state = State::NoFix;
        card.problem = Some("no merged commit is known".to_owned());
        return Ok(finish(shop, card));
    };
    let bench = Bench { shop, opened, instance, comment, fitted };
    let origins = opened.before.clone().map(|before| Origins { base: opened.base_files(), before });
    let fix = Fix::new(merged.clone(), &opened.files, origins.as_ref());
    let lines = tokio::task::block_in_place(|| FixLines::new(&fix, &shop.languages));

    let none = ChangeSet::default();
    let control = |name, about, changes, expected| Order {
        fitted: &bench.fitted,
        changes,
        expected,
        name,
        about,
        class: None,
        repeat: 1,
    };
    let after = bench.run(control("merged", "the merged state", merged, None)).await?;
    let passed = after.record.as_ref().filter(|record| record.outcome == Outcome::Passed);
    let expected: Option<Vec<TestId>> = passed.map(|record| record.passed.clone());
    let before = bench.run(control("head", "the commit to review", &none, expected.as_deref())).await?;
    let controls = Controls {
        head: std::slice::from_ref(&before.run.outcome),
        merged: Some(std::slice::from_ref(&after.run.outcome)),
        before: bench.fitted.before(),
    };
    let bad = oracle::check(&controls).map(|reason| match reason {
        VerdictReason::Control(detail) => detail,
        reason => reason.to_string(),
    });
    for ran in [&after, &before] {
        card.controls.insert(ran.run.name.clone(), ran.run.outcome.clone());
    }
    card.runs.extend([after.run.clone(), before.run]);

    let trace = traced(&bench, merged, lines.paths(), &mut card).await?;
    card.fix_lines = lines.coverage(trace.as_ref());
    if let Some(problem) = bad {
        card.state = State::BadControl;
        card.problem = Some(problem);
        return Ok(finish(shop, ended(card)));
    }

    let variants = tokio::task::block_in_place(|| variants_of(&bench, &fix, &lines, trace.as_ref(), &mut card));
    bench.added(variants.len() + steady::RUNS);
    let mut orders: Vec<Order<'_>> = variants
        .iter()
        .map(|variant| Order {
            fitted: &bench.fitted,
            changes: &variant.changes,
            expected: expected.as_deref(),
            name: &variant.name,
            about: &variant.about,
            class: Some(variant.class),
            repeat: 1,
        })
        .collect();
    if let Some(base) = &opened.base {
        orders.push(control("base", "the commit where the pull request began", base, expected.as_deref()));
    }
    let mut runs: Vec<BoxFuture<'_, Result<Ran, ScoreError>>> = Vec::new();
    for order in orders {
        runs.push(Box::pin(bench.run(order)));
    }
    let mut runs = futures_util::stream::iter(runs).buffered(shop.jobs);
    let mut ran = Vec::new();
    while let Some(result) = runs.next().await {
        ran.push(result?.run);
    }
    drop(runs);
    for run in &mut ran {
        let variant = variants.iter().find(|variant| variant.name == run.name);
        if let Some(variant) = variant.filter(|variant| is_telling(variant.class, &run.outcome)) {
            let from = if [COMMENT_ONLY, FIX_AS_COMMENT].contains(&variant.name.as_str()) { &none } else { merged };
            let text = patch(&opened.files, from, &variant.changes);
            run.patch = Some(shop.bench.run_folder().put_blob(text.as_bytes())?);
        }
        if run.name == "base" || NAMED.contains(&run.name.as_str()) {
            card.controls.insert(run.name.clone(), run.outcome.clone());
        }
    }
    tally(&mut card, &ran);
    card.runs.extend(ran);
    steady::check(&bench, merged, expected.as_deref(), &after, &mut card).await?;
    Ok(finish(shop, ended(card)))
}

/// A run that says nothing makes the whole card one to make again.
fn ended(mut card: Card) -> Card {
    let stuck: Vec<&RunOf> = card.runs.iter().filter(|run| run.outcome.is_infra()).collect();
    if let Some(first) = stuck.first() {
        let detail = first.message.as_deref().unwrap_or_default();
        card.problem = Some(format!("{} of {} runs: {} {detail}", stuck.len(), card.runs.len(), first.outcome));
        card.state = State::Infra;
    }
    card
}

/// Traces the oracle on the merged state, and notes what that says.
async fn traced(
    bench: &Bench<'_>,
    merged: &ChangeSet,
    paths: Vec<String>,
    card: &mut Card,
) -> Result<Option<Trace>, ScoreError> {
    // Under the release's own rule there is no reporter.
    let strict = match bench.opened.oracle(bench.comment, Policy::Strict) {
        Ok(strict) => strict,
        Err(why) => {
            card.text_only_unknown = Some(why.detail);
            return Ok(None);
        }
    };
    if !strict.plan().can_be_audited() {
        card.text_only_unknown = Some(format!("nothing traces `{}`", card.framework.as_str()));
        return Ok(None);
    }
    let setting = AuditSetting { trace: Some(paths), ..AuditSetting::default() };
    let fitted = strict.with_plan(strict.plan().audited(&setting));
    let order = Order {
        fitted: &fitted,
        changes: merged,
        expected: None,
        name: "merged, traced",
        about: "the merged state under a tracer",
        class: None,
        repeat: 1,
    };
    let Ran { run, record } = bench.run(order).await?;
    let outcome = run.outcome.clone();
    card.runs.push(run);
    let Some(trace) = record.and_then(|record| record.trace) else {
        card.text_only_unknown = Some(format!("the traced run is {outcome}, and says nothing"));
        return Ok(None);
    };
    card.opens.clone_from(&trace.opened);
    match trace.executes() {
        // A test that did not come to its end could have gone on to call something.
        Ok(executes) if executes != Executes::Calls && outcome != Outcome::Passed => {
            card.text_only_unknown = Some(format!("the traced run is {outcome}"));
        }
        Ok(executes) => {
            card.executes = Some(executes);
            card.text_only = Some(executes == Executes::Nothing);
        }
        Err(problem) => card.text_only_unknown = Some(problem),
    }
    // What ran in other processes, or after the tracer was gone, is not in it.
    Ok(Some(trace).filter(|trace| trace.problem.is_none() && trace.children.is_empty()))
}

/// All variants of a fix for one oracle, within the budget.
fn variants_of(bench: &Bench<'_>, fix: &Fix, lines: &FixLines, trace: Option<&Trace>, card: &mut Card) -> Vec<Variant> {
    let shop = bench.shop;
    let place = bench.instance.comment(bench.comment).and_then(|comment| variants::place(comment, &bench.opened.files));
    let file = place.as_ref().and_then(|place| bench.opened.files.get(&place.path));
    let budget = shop.budgets.per_oracle;
    let (mut all, spot) = variants::controls(fix, place.as_ref(), file, &shop.languages, (budget / 3).max(1));
    card.place = spot;
    let drops = all.iter().filter(|variant| !NAMED.contains(&variant.name.as_str())).count();
    all.extend(variants::rewrites(fix, &shop.languages));

    // What the test does not run, it cannot notice; where it reads the text or nobody knows, every line counts.
    let executed = trace.filter(|_| card.text_only == Some(false));
    card.mutants.lines = if executed.is_some() { MutantLines::Executed } else { MutantLines::Changed };
    let takes = |path: &crate::repo::TreePath, line: usize| match executed {
        Some(trace) => lines.ran(trace, path, line),
        None => lines.has(path, line),
    };
    let most = budget.saturating_sub(drops);
    let (mutants, candidates) = variants::mutants(fix, &shop.languages, &takes, shop.budgets.seed, most);
    card.mutants.candidates = candidates as u64;
    all.extend(mutants);
    all
}

/// Whether a person would want to see the patch behind an outcome.
fn is_telling(class: Class, outcome: &Outcome) -> bool {
    match class {
        Class::Rewrite => *outcome != Outcome::Passed,
        Class::NearMiss | Class::Mutant => *outcome == Outcome::Passed,
        Class::Drop => *outcome != Outcome::Passed,
    }
}

/// Counts what the runs of variants showed.
pub(super) fn tally(card: &mut Card, runs: &[RunOf]) {
    for run in runs.iter().filter(|run| !run.outcome.is_infra()) {
        let passed = run.outcome == Outcome::Passed;
        let name = || run.name.clone();
        match run.class {
            None => {}
            Some(Class::NearMiss) => {
                card.near_misses.total += 1;
                card.near_misses.failed += u64::from(!passed);
                card.near_misses.accepted.extend(passed.then(name));
            }
            Some(Class::Drop) => {
                card.drops.total += 1;
                card.drops.failed += u64::from(!passed);
                card.drops.rejected.extend((!passed).then(name));
            }
            Some(Class::Rewrite) => {
                card.rewrites.total += 1;
                card.rewrites.passed += u64::from(passed);
                card.rewrites.rejected.extend((!passed).then(name));
            }
            Some(Class::Mutant) => match run.outcome {
                Outcome::Errored(ErrorKind::Compile | ErrorKind::Syntax) => card.mutants.unviable += 1,
                _ => {
                    card.mutants.total += 1;
                    card.mutants.killed += u64::from(!passed);
                    card.mutants.survivors.extend(passed.then(|| run.about.clone()));
                }
            },
        }
    }
    // Head and merged are among them: with bad controls nothing is tallied.
    card.sensitivity = share(card.near_misses.failed + 1, card.near_misses.total + 1);
    card.specificity = share(card.rewrites.passed + 1, card.rewrites.total + 1);
    card.kill_rate = share(card.mutants.killed, card.mutants.total);
}
