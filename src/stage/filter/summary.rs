//! The filter's result in numbers: counts in = counts out.

use std::collections::BTreeMap;

use serde::Serialize;

use super::run::Filtered;
use crate::llm::Sum;
use crate::model::{FilterDecision, FilterRow};

/// Counts of one run. `comments = kept + dropped + failed + open`, the latter three by reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The format's version.
    pub schema: u32,
    /// Comments that went in.
    pub comments: usize,
    /// Those that go on.
    pub kept: usize,
    /// Those that leave, by reason.
    pub dropped: BTreeMap<String, usize>,
    /// Those of which the model gave no usable answer, by kind.
    pub failed: BTreeMap<String, usize>,
    /// Those that are not decided: `interrupted`, `stopped`, or the kind of infrastructure failure.
    pub open: BTreeMap<String, usize>,
    /// Rows that an earlier run had made.
    pub served: usize,
    /// Labelled comments by category.
    pub categories: BTreeMap<String, usize>,
    /// Kept comments by the kind of oracle that is expected.
    pub oracles: BTreeMap<String, usize>,
    /// The calls of this stage, those of earlier runs included.
    pub calls: Sum,
}

impl Summary {
    /// Counts.
    pub fn of(filtered: &Filtered, calls: Sum) -> Self {
        let mut summary = Self { schema: 1, comments: filtered.rows.len() + filtered.open.len(), ..Self::default() };
        for row in &filtered.rows {
            summary.add(row);
        }
        for open in &filtered.open {
            let why = match &open.error {
                Some(error) => error.kind.as_str(),
                None if filtered.interrupted => "interrupted",
                None => "stopped",
            };
            *summary.open.entry(why.to_owned()).or_default() += 1;
        }
        (summary.served, summary.calls) = (filtered.served, calls);
        summary
    }

    fn add(&mut self, row: &FilterRow) {
        match row.decision {
            FilterDecision::Kept => self.kept += 1,
            FilterDecision::Dropped => {
                let reason = row.reason.map_or("unknown", |reason| reason.as_str());
                *self.dropped.entry(reason.to_owned()).or_default() += 1;
            }
            FilterDecision::Failed => {
                let kind = row.failure.as_deref().unwrap_or("unknown");
                *self.failed.entry(kind.to_owned()).or_default() += 1;
            }
        }
        let Some(labels) = &row.labels else { return };
        *self.categories.entry(labels.category.as_str().to_owned()).or_default() += 1;
        if row.decision == FilterDecision::Kept {
            *self.oracles.entry(labels.oracle.as_str().to_owned()).or_default() += 1;
        }
    }
}
