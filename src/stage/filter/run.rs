//! The comments, one after the other and several at once: rules, then the model.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::calibrate::CommentKey;
use super::question::{Asking, majority};
use super::rules::{Facts, Rules};
use crate::llm::{FailureClass, FailureKind, Llm, LlmError};
use crate::model::{
    Comment, CommentId, Digest, Extra, FilterDecision, FilterRow, Instance, InstanceId, Labels, digest_json,
};

/// What the filter stands on.
pub struct Filter<'a> {
    /// The rules before the model.
    pub rules: &'a Rules,
    /// How the model is asked.
    pub asking: &'a Asking,
    /// The model.
    pub llm: &'a Llm,
    /// Comments at once.
    pub jobs: usize,
    /// Only these comments.
    pub only: Option<&'a BTreeSet<CommentKey>>,
}

/// How the run is asked to stop.
#[derive(Debug, Clone, Default)]
pub struct Stopping {
    /// Nothing new is started.
    pub drain: CancellationToken,
    /// What runs is given up.
    pub stop: CancellationToken,
}

/// One thing that happened.
pub enum Told<'a> {
    /// A comment has its row.
    Row(&'a FilterRow),
    /// A comment has none: the next run asks again.
    Open(&'a Open),
}

/// A comment without a row.
#[derive(Debug, Clone)]
pub struct Open {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// Why; `None`: the run was interrupted.
    pub error: Option<LlmError>,
}

/// What came of it. Every comment is in `rows` or in `open`, once.
#[derive(Debug)]
pub struct Filtered {
    /// Rows in the order of the dataset.
    pub rows: Vec<FilterRow>,
    /// How many of them an earlier run had made.
    pub served: usize,
    /// What has no row.
    pub open: Vec<Open>,
    /// What every further call would have met, if anything.
    pub stopped: Option<LlmError>,
    /// Whether the run was asked to stop.
    pub interrupted: bool,
}

enum End {
    Row(Box<FilterRow>, bool),
    Open(Box<Open>),
}

struct Work<'a> {
    at: usize,
    instance: &'a Instance,
    comment: &'a Comment,
}

impl Filter<'_> {
    /// Filters all comments of these instances. Rows of `earlier` whose key is the same are taken over. `save` is given
    /// each new row before it counts.
    ///
    /// # Errors
    /// What `save` says.
    pub async fn run<E>(
        &self,
        instances: &[&Instance],
        earlier: &[FilterRow],
        stopping: &Stopping,
        mut save: impl FnMut(&FilterRow) -> Result<(), E>,
        mut tell: impl FnMut(Told<'_>),
    ) -> Result<Filtered, E> {
        let earlier: BTreeMap<&Digest, &FilterRow> = earlier.iter().map(|row| (&row.key, row)).collect();
        let comments = instances
            .iter()
            .flat_map(|instance| instance.reference_review_comments.iter().map(move |comment| (*instance, comment)))
            .filter(|(instance, comment)| {
                self.only.is_none_or(|only| only.contains(&(instance.instance_id.clone(), comment.id.clone())))
            });
        let work: Vec<Work<'_>> =
            comments.enumerate().map(|(at, (instance, comment))| Work { at, instance, comment }).collect();
        let closing = CancellationToken::new();
        let mut ends = stream::iter(&work)
            .map(|work| {
                let (earlier, closing) = (&earlier, &closing);
                async move { (work.at, self.one(work, earlier, stopping, closing).await) }
            })
            .buffer_unordered(self.jobs.max(1));
        let mut rows: Vec<Option<FilterRow>> = vec![None; work.len()];
        let (mut served, mut open, mut stopped) = (0, Vec::new(), None);
        while let Some((at, end)) = ends.next().await {
            match end {
                End::Row(row, old) => {
                    if old {
                        served += 1;
                    } else {
                        save(&row)?;
                        tell(Told::Row(&row));
                    }
                    rows[at] = Some(*row);
                }
                End::Open(one) => {
                    if let Some(error) = one.error.as_ref().filter(|error| error.class() == FailureClass::Stop) {
                        // The first one says why; the others were only under way with it.
                        stopped.get_or_insert_with(|| error.clone());
                        closing.cancel();
                    }
                    tell(Told::Open(&one));
                    open.push((at, *one));
                }
            }
        }
        drop(ends);
        open.sort_by_key(|(at, _)| *at);
        Ok(Filtered {
            rows: rows.into_iter().flatten().collect(),
            served,
            open: open.into_iter().map(|(_, one)| one).collect(),
            stopped,
            interrupted: stopping.drain.is_cancelled() || stopping.stop.is_cancelled(),
        })
    }

    async fn one(
        &self,
        work: &Work<'_>,
        earlier: &BTreeMap<&Digest, &FilterRow>,
        stopping: &Stopping,
        closing: &CancellationToken,
    ) -> End {
        let (instance, comment) = (work.instance, work.comment);
        let facts = Facts::of(instance, comment);
        if let Some((reason, detail)) = self.rules.apply(&facts, comment) {
            let key = of_comment(
                work,
                &json!({
                    "rules": self.rules.digest(), "text": comment.text, "path": comment.path, "saw": [reason.as_str(), &detail],
                }),
            );
            let row = FilterRow { reason: Some(reason), detail, ..blank(work, key, FilterDecision::Dropped) };
            let old = earlier.contains_key(&row.key);
            return End::Row(Box::new(row), old);
        }
        let key = self.key(work);
        if let Some(row) = earlier.get(&key) {
            return End::Row(Box::new((*row).clone()), true);
        }
        let open = |error| {
            let (instance_id, comment) = (instance.instance_id.clone(), comment.id.clone());
            End::Open(Box::new(Open { instance_id, comment, error }))
        };
        if stopping.drain.is_cancelled() || closing.is_cancelled() {
            return open(None);
        }
        let asked = tokio::select! {
            biased;
            () = stopping.stop.cancelled() => return open(None),
            asked = self.ask(work, key) => asked,
        };
        match asked {
            Ok(row) => End::Row(Box::new(row), false),
            Err(error) => open(Some(error)),
        }
    }

    /// Asks for all votes. What the model itself got wrong is a row; what says nothing of the comment is an error.
    async fn ask(&self, work: &Work<'_>, key: Digest) -> Result<FilterRow, LlmError> {
        let requests = self
            .asking
            .requests(work.instance, work.comment)
            .map_err(|error| LlmError::new(FailureKind::Setup, error.to_string()))?;
        let wanted = requests.len();
        let mut votes = Vec::new();
        let mut failure: Option<LlmError> = None;
        for request in &requests {
            match self.llm.ask(request).await {
                Ok(answer) => match serde_json::from_value::<Labels>(answer.json().cloned().unwrap_or_default()) {
                    Ok(labels) => votes.push(labels),
                    // The schema and the type are one shape; should they ever differ, it is the schema's fault.
                    Err(error) => return Err(LlmError::new(FailureKind::Setup, error.to_string())),
                },
                // What the model got wrong, or will never fit. A request that the server refuses for another reason is
                // more likely the settings' fault, and asked again.
                Err(error) if error.class() == FailureClass::Model || error.kind == FailureKind::ContextTooLong => {
                    failure = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        let row = FilterRow {
            model: self.llm.name().to_owned(),
            prompt: Some(self.asking.prompt.id.digest.clone()),
            ..blank(work, key, FilterDecision::Failed)
        };
        if let Some(error) = failure.filter(|_| 2 * votes.len() <= wanted) {
            let detail = match error.invalid.last() {
                Some(invalid) => format!("{}; it said: {}", error.message, excerpt(&invalid.text)),
                None => error.message.clone(),
            };
            return Ok(FilterRow { failure: Some(error.kind.as_str().to_owned()), detail, votes, ..row });
        }
        let labels = majority(&votes);
        let reason = labels.as_ref().and_then(Labels::drop_reason);
        let decision = if reason.is_some() { FilterDecision::Dropped } else { FilterDecision::Kept };
        let votes = if wanted > 1 { votes } else { Vec::new() };
        Ok(FilterRow { decision, reason, labels, votes, ..row })
    }

    fn key(&self, work: &Work<'_>) -> Digest {
        of_comment(
            work,
            &json!({
                "values": super::question::Values::of(work.instance, work.comment),
                "asking": self.asking.key(),
                "model": self.llm.name(),
                "repairs": self.llm.repairs(),
            }),
        )
    }
}

/// Two comments with the same words are two rows.
fn of_comment(work: &Work<'_>, what: &serde_json::Value) -> Digest {
    digest_json(&json!(["redgreen-filter-1", work.instance.instance_id.folded(), work.comment.id, what]))
}

fn blank(work: &Work<'_>, key: Digest, decision: FilterDecision) -> FilterRow {
    FilterRow {
        instance_id: work.instance.instance_id.clone(),
        comment: work.comment.id.clone(),
        decision,
        reason: None,
        failure: None,
        detail: String::new(),
        labels: None,
        votes: Vec::new(),
        model: String::new(),
        prompt: None,
        key,
        extra: Extra::new(),
    }
}

fn excerpt(text: &str) -> String {
    const SHOWN: usize = 300;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SHOWN { line } else { format!("{}…", line.chars().take(SHOWN).collect::<String>()) }
}
