//! The stage's result in numbers: counts in = counts out.

use std::collections::BTreeMap;

use serde::Serialize;

use super::run::{CommentEnd, Done};
use crate::llm::Sum;

/// Counts of one run. `comments = accepted + rejected + open + left`, the latter three by reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The format's version.
    pub schema: u32,
    /// Comments that went in.
    pub comments: usize,
    /// Those that have a test now.
    pub accepted: usize,
    /// Those for which none was accepted, by the last attempt's reason.
    pub rejected: BTreeMap<String, usize>,
    /// Those that are not decided: `budget`, `infra(REASON)`, `interrupted`, `stopped`.
    pub open: BTreeMap<String, usize>,
    /// Those that were not for this stage: `filtered`, `has-oracle`.
    pub left: BTreeMap<String, usize>,
    /// Attempts of this run and those before it.
    pub attempts: usize,
    /// Attempts that an earlier run had made.
    pub served: usize,
    /// Accepted tests by the attempt that made them.
    pub accepted_at: BTreeMap<u32, usize>,
    /// Accepted tests by kind.
    pub kinds: BTreeMap<String, usize>,
    /// Accepted tests whose model was shown the merged change.
    pub saw_merged: usize,
    /// Rejected attempts by reason, the last of a comment and others.
    pub attempt_reasons: BTreeMap<String, usize>,
    /// The calls of this stage, those of earlier runs included.
    pub calls: Sum,
}

impl Summary {
    /// Counts.
    pub fn of(done: &Done, calls: Sum) -> Self {
        let mut summary = Self { schema: 1, comments: done.comments.len(), calls, ..Self::default() };
        for (_, _, end) in &done.comments {
            let (list, why) = match end {
                CommentEnd::Accepted => {
                    summary.accepted += 1;
                    continue;
                }
                CommentEnd::Rejected(reason) => (&mut summary.rejected, reason.as_str().to_owned()),
                CommentEnd::Open(open) => (&mut summary.open, open.why.clone()),
                CommentEnd::Left(why) => (&mut summary.left, (*why).to_owned()),
            };
            *list.entry(why).or_default() += 1;
        }
        (summary.attempts, summary.served) = (done.rows.len(), done.served);
        for row in &done.rows {
            if let Some(reason) = row.reason {
                *summary.attempt_reasons.entry(reason.as_str().to_owned()).or_default() += 1;
            }
            if let Some(answer) = row.answer.as_ref().filter(|_| row.accepted) {
                *summary.accepted_at.entry(row.attempt).or_default() += 1;
                *summary.kinds.entry(answer.kind.as_str().to_owned()).or_default() += 1;
                summary.saw_merged += usize::from(row.saw_merged);
            }
        }
        summary
    }
}
