//! One comment: attempts, one after the other, until a test is accepted or nothing more can be done.

use std::collections::{BTreeMap, HashMap};

use serde_json::json;

use super::judge::{Judgement, Wanted, judge};
use super::kit::{Offered, TEXT, word};
use super::material::Material;
use super::run::{Open, Synth};
use crate::llm::{ChatRequest, FailureClass, FailureKind, LlmError};
use crate::model::{
    CheckHit, Comment, Digest, Extra, Framework, InfraReason, Instance, Oracle, Outcome, SideSeen, SynthAnswer,
    SynthReason, SynthRow, digest_json,
};
use crate::sandbox::End;
use crate::stage::score::{Ground, Side, TrialError, TrialRun, Unavailable};

/// How much of an output is kept and shown, in characters, and of a message.
const OUTPUT: usize = 2500;
const MESSAGE: usize = 600;

/// What a comment's loop came to, with its rows.
pub(super) struct Attempts {
    pub(super) rows: Vec<SynthRow>,
    /// How many of them an earlier run had made.
    pub(super) served: usize,
    /// Why there is no end yet.
    pub(super) open: Option<Open>,
}

/// One comment's loop.
pub(super) struct Loop<'a> {
    pub(super) synth: &'a Synth<'a>,
    pub(super) instance: &'a Instance,
    pub(super) comment: &'a Comment,
    pub(super) language: String,
    pub(super) material: Material,
    pub(super) earlier: &'a BTreeMap<Digest, SynthRow>,
    pub(super) grounds: HashMap<Framework, Ground>,
}

/// Why an attempt has no row.
enum Stuck {
    Model(LlmError),
    Trial(InfraReason, String),
    Interrupted,
    /// Another comment met what every further call would meet.
    Stopped,
}

impl From<TrialError> for Stuck {
    fn from(error: TrialError) -> Self {
        match error.class() {
            InfraReason::Interrupted => Self::Interrupted,
            class => Self::Trial(class, error.to_string()),
        }
    }
}

impl From<Unavailable> for Stuck {
    fn from(why: Unavailable) -> Self {
        TrialError::from(why).into()
    }
}

impl Loop<'_> {
    /// Goes on from the rows that are there. `save` is given each new row before it counts.
    pub(super) async fn run<E>(mut self, save: &(impl Fn(&SynthRow) -> Result<(), E> + Sync)) -> Result<Attempts, E> {
        let mut attempts = Attempts { rows: Vec::new(), served: 0, open: None };
        for attempt in 1..=self.synth.asking.attempts.max(1) {
            let made = self.one(attempt, attempts.rows.last()).await;
            match made {
                Ok((row, old)) => {
                    if old {
                        attempts.served += 1;
                    } else {
                        save(&row)?;
                    }
                    let goes_on = row.again;
                    attempts.rows.push(row);
                    if !goes_on {
                        break;
                    }
                }
                Err(stuck) => {
                    attempts.open = Some(self.open(stuck));
                    break;
                }
            }
        }
        Ok(attempts)
    }

    fn open(&self, stuck: Stuck) -> Open {
        let (why, detail, error) = match stuck {
            Stuck::Interrupted => ("interrupted".to_owned(), String::new(), None),
            Stuck::Stopped => ("stopped".to_owned(), String::new(), None),
            Stuck::Trial(class, detail) => (format!("infra({})", class.as_str()), detail, None),
            Stuck::Model(error) => {
                let why = match error.kind {
                    FailureKind::Budget => SynthReason::Budget.as_str().to_owned(),
                    kind => format!("infra({})", kind.as_str()),
                };
                (why, error.message.clone(), Some(error))
            }
        };
        Open { instance_id: self.instance.instance_id.clone(), comment: self.comment.id.clone(), why, detail, error }
    }

    /// One attempt: its row, and whether an earlier run had made it.
    async fn one(&mut self, attempt: u32, last: Option<&SynthRow>) -> Result<(SynthRow, bool), Stuck> {
        let asking = self.synth.asking;
        let request = asking
            .request(self.instance, self.comment, &self.material, attempt, last)
            .map_err(|error| Stuck::Model(LlmError::new(FailureKind::Setup, error.to_string())))?;
        let key = self.key(attempt, &request);
        if let Some(row) = self.earlier.get(&key) {
            return Ok((row.clone(), true));
        }
        let scheduler = self.synth.scheduler;
        if scheduler.is_stopping() {
            return Err(Stuck::Interrupted);
        }
        if self.synth.closing.is_cancelled() {
            return Err(Stuck::Stopped);
        }
        let saw_merged = asking.see.at(attempt) && !self.material.merged().is_empty();
        let row = SynthRow {
            attempt,
            saw_merged,
            model: self.synth.llm.name().to_owned(),
            prompts: asking.prompts(),
            ..blank(self.instance, self.comment, key)
        };
        let asked = tokio::select! {
            biased;
            () = scheduler.stop.cancelled() => return Err(Stuck::Interrupted),
            asked = self.synth.llm.ask(&request) => asked,
        };
        let answer = match asked {
            Ok(answer) => answer.json().cloned().unwrap_or_default(),
            Err(error) if matches!(error.class(), FailureClass::Model | FailureClass::Request) => {
                let detail = format!("{}: {}", error.kind, error.message);
                return Ok((SynthRow { reason: Some(SynthReason::Model), detail, ..row }, false));
            }
            Err(error) => return Err(Stuck::Model(error)),
        };
        // The schema and the type are one shape; should they ever differ, it is the schema's fault.
        let answer: SynthAnswer = serde_json::from_value(answer)
            .map_err(|error| Stuck::Model(LlmError::new(FailureKind::Setup, error.to_string())))?;
        Ok((self.judged(row, answer).await?, false))
    }

    fn key(&self, attempt: u32, request: &ChatRequest) -> Digest {
        let synth = self.synth;
        digest_json(&json!([
            "redgreen-synth-1",
            self.instance.instance_id.folded(),
            self.comment.id,
            attempt,
            request.key(synth.llm.name()),
            synth.asking.key(),
            synth.llm.repairs(),
            synth.kit.digest(),
            synth.repeat,
            synth.trials.grounds(self.instance),
        ]))
    }

    /// The row with what became of the answer.
    async fn judged(&mut self, row: SynthRow, answer: SynthAnswer) -> Result<SynthRow, Stuck> {
        let row = SynthRow { answer: Some(answer.clone()), ..row };
        let reject =
            |row: SynthRow, reason, detail: String, again| Ok(SynthRow { reason: Some(reason), detail, again, ..row });
        if !answer.testable {
            return reject(row, SynthReason::NotTestable, answer.why.clone(), false);
        }
        let offered = self.material.offered().into_iter().find(|one| one.name == answer.framework).cloned();
        let Some(offered) = offered else {
            let detail = format!("`{}` is not offered", answer.framework.as_str());
            return reject(row, SynthReason::NotTestable, detail, true);
        };
        if answer.test.trim().is_empty() {
            return reject(row, SynthReason::NoTests, "the test is empty".to_owned(), true);
        }
        let checks = self.synth.kit.check(&self.language, answer.kind, &answer.test);
        if let Some(first) = checks.iter().find(|hit| hit.rule != TEXT).or(checks.first()) {
            let (reason, detail) = match first.rule.as_str() {
                TEXT => (SynthReason::NeedsTextInspection, first.text.clone()),
                rule => (SynthReason::NotTestable, format!("{rule}: {}", first.text)),
            };
            return reject(SynthRow { checks, ..row }, reason, detail, true);
        }
        let oracle = self.propose(&offered, row.attempt, &answer)?;
        self.ready(&oracle).await?;
        let Some(ground) = self.grounds.get(&oracle.framework) else {
            return Err(Stuck::Trial(InfraReason::Environment, "the environment is gone".to_owned()));
        };
        if let Some(hit) = self.parse(ground, &offered, &oracle).await? {
            let detail = format!("errored(syntax): {}", hit.text);
            return reject(SynthRow { checks: vec![hit], ..row }, SynthReason::ErroredBefore, detail, true);
        }
        let (before, after, judgement) = self.runs(ground, &oracle, &answer).await?;
        let row = SynthRow { before: Some(before), after: Some(after), ..row };
        match judgement {
            Judgement::Accepted { .. } => Ok(SynthRow { accepted: true, ..row }),
            Judgement::Rejected { reason, detail } => reject(row, reason, detail, true),
        }
    }

    /// Writes the test where trials look for it.
    fn propose(&self, offered: &Offered, attempt: u32, answer: &SynthAnswer) -> Result<Oracle, Stuck> {
        let (instance, comment) = (word(self.instance.instance_id.folded()), word(self.comment.id.as_str()));
        let test = format!("{instance}/{comment}/{attempt}/{}", offered.file_name(&self.comment.id));
        let place = self.synth.trials.tests().join(&test);
        let disk = |e: std::io::Error| Stuck::Trial(InfraReason::Disk, e.to_string());
        if let Some(folder) = place.parent() {
            fs_err::create_dir_all(folder).map_err(disk)?;
        }
        fs_err::write(&place, &answer.test).map_err(disk)?;
        // It is seen by other users inside.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs_err::set_permissions(&place, open).map_err(disk)?;
        Ok(super::compose::oracle(self.comment, answer, test))
    }

    async fn ready(&mut self, oracle: &Oracle) -> Result<(), Stuck> {
        if !self.grounds.contains_key(&oracle.framework) {
            let ground = self.synth.trials.prepare(self.instance, oracle).await?;
            self.grounds.insert(oracle.framework, ground);
        }
        Ok(())
    }

    /// What the language's own parser says against the test.
    async fn parse(&self, ground: &Ground, offered: &Offered, oracle: &Oracle) -> Result<Option<CheckHit>, Stuck> {
        if offered.parse.is_empty() {
            return Ok(None);
        }
        let Some(exit) = ground.look_at(oracle, &offered.parse).await? else { return Ok(None) };
        if exit.end == End::Exited(0) && !exit.timed_out {
            return Ok(None);
        }
        let said = exit.stderr.text();
        let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it does not parse");
        // The innermost place is the test's; those before it are the parser's own.
        let line = said.lines().rev().find_map(|line| {
            let (_, rest) = line.split_once(", line ").or_else(|| line.split_once(".mjs:"))?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        });
        let text = format!("the test does not parse: {}", self.synth.kit.scrub(last, MESSAGE));
        Ok(Some(CheckHit { rule: "parse".to_owned(), line, text }))
    }

    /// Runs the test on both commits: once each, and where that is as it must be, as often as is wanted.
    async fn runs(
        &self,
        ground: &Ground,
        oracle: &Oracle,
        answer: &SynthAnswer,
    ) -> Result<(SideSeen, SideSeen, Judgement), Stuck> {
        let (mut before, mut after): (Vec<TrialRun>, Vec<TrialRun>) = (Vec::new(), Vec::new());
        let mut expected = None;
        let mut judged = None;
        for repeat in 1..=self.synth.repeat.max(1) {
            let now = ground.run(oracle, Side::Merged, repeat, expected.as_deref()).await?;
            // The tests that the fixed code shows are those that every other run must show.
            if expected.is_none() && now.outcome == Outcome::Passed {
                expected = Some(now.passed.clone());
            }
            after.push(now);
            before.push(ground.run(oracle, Side::Head, repeat, expected.as_deref()).await?);
            let (before, after) = (self.seen(&before), self.seen(&after));
            let judgement = judge(&before, &after, answer.kind, self.wanted(answer, &before));
            let is_good = matches!(judgement, Judgement::Accepted { .. });
            judged = Some((before, after, judgement));
            if !is_good {
                break;
            }
        }
        judged.ok_or_else(|| Stuck::Trial(InfraReason::Sandbox, "nothing was run".to_owned()))
    }

    fn wanted(&self, answer: &SynthAnswer, before: &SideSeen) -> Wanted {
        let symbol = answer.missing.trim();
        let said = format!("{}\n{}", before.message.as_deref().unwrap_or_default(), before.output);
        Wanted {
            is_asked_for: self.material.asks_for(symbol),
            is_missing: !symbol.is_empty() && self.synth.kit.says_missing(symbol, &said),
        }
    }

    /// Runs on one commit, as they are kept and shown.
    fn seen(&self, runs: &[TrialRun]) -> SideSeen {
        // What the last run wrote: the first that was not as it must be ends them.
        let telling = runs.iter().find(|run| run.outcome != Outcome::Passed).or(runs.last());
        let kit = self.synth.kit;
        SideSeen {
            outcomes: runs.iter().map(|run| run.outcome.clone()).collect(),
            message: telling.and_then(|run| run.message.as_deref()).map(|message| kit.scrub(message, MESSAGE)),
            output: telling
                .filter(|run| run.outcome != Outcome::Passed)
                .map(|run| kit.scrub(&run.output, OUTPUT))
                .unwrap_or_default(),
            text_only: runs.first().and_then(|run| run.text_only),
        }
    }
}

/// A row of which nothing is known yet.
pub(super) fn blank(instance: &Instance, comment: &Comment, key: Digest) -> SynthRow {
    SynthRow {
        instance_id: instance.instance_id.clone(),
        comment: comment.id.clone(),
        attempt: 0,
        accepted: false,
        reason: None,
        detail: String::new(),
        again: false,
        saw_merged: false,
        answer: None,
        checks: Vec::new(),
        before: None,
        after: None,
        model: String::new(),
        prompts: Vec::new(),
        key,
        extra: Extra::new(),
    }
}
