//! The ledger: one row for every call that was sent or served from a record.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::{PromptId, Usage, locked};
use crate::model::{Digest, Extra, LineError, parse_jsonl, to_jsonl};
use crate::store::{LineFile, StoreError, write_atomic};

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The stage that asked.
    pub stage: String,
    /// What for.
    pub purpose: String,
    /// About what.
    #[serde(default)]
    pub subject: String,
    /// Which of several equal questions, from 0.
    #[serde(default)]
    pub sample: u32,
    /// 0 for the question, from 1 for the turns that ask for a better answer.
    #[serde(default)]
    pub turn: u32,
    /// The prompt template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptId>,
    /// The request's key.
    pub request: Digest,
    /// The model that was asked.
    pub model: String,
    /// The model that answered, as the server calls it; empty where it does not say.
    #[serde(default)]
    pub served: String,
    /// `answered`, or the kind of failure.
    pub outcome: String,
    /// Tokens; absent where nobody counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// US dollars by the table of prices; absent where the price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Whether `cost` holds upper bounds, as the tokens of some request are not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Seconds, waits included; of a record those of then.
    pub seconds: f64,
    /// Requests that were sent for it.
    pub attempts: u32,
    /// Those among them whose tokens nobody knows.
    #[serde(default)]
    pub lost: u32,
    /// Whether the answer came from a record and cost nothing now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// The server's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What the server would not take as it was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adjusted: Vec<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Call {
    fn is_same_question(&self, other: &Self) -> bool {
        (&self.request, &self.subject, self.sample, self.turn)
            == (&other.request, &other.subject, other.sample, other.turn)
    }
}

/// Calls added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sum {
    /// How many.
    pub calls: u64,
    /// Those of them that came from a record.
    pub replayed: u64,
    /// Their tokens, as far as they are known.
    pub usage: Usage,
    /// US dollars, as far as prices are known.
    pub usd: f64,
    /// Calls whose price is not known.
    pub unpriced: u64,
    /// Seconds of waiting for answers, added up over parallel calls.
    pub seconds: f64,
}

impl Sum {
    /// Adds rows up.
    pub fn of<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Self {
        let mut sum = Self::default();
        for call in calls {
            sum.calls += 1;
            sum.replayed += u64::from(call.replayed);
            sum.usage += call.usage.unwrap_or_default();
            sum.usd += call.cost.unwrap_or(0.0);
            sum.unpriced += u64::from(call.cost.is_none());
            sum.seconds += call.seconds;
        }
        sum
    }
}

/// All calls of a run. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    calls: Arc<Mutex<Vec<Call>>>,
    file: Option<Arc<LineFile>>,
}

impl Ledger {
    /// A ledger that is also a file; rows that it holds already are part of it. Lines that are no rows are named.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(path: &Path) -> Result<(Self, Vec<LineError>), StoreError> {
        let (file, text) = LineFile::open(path)?;
        let parsed = parse_jsonl::<Call>(&text);
        let errors = parsed.errors.clone();
        Ok((Self { calls: Arc::new(Mutex::new(parsed.into_rows())), file: Some(Arc::new(file)) }, errors))
    }

    /// Adds a row. One that is served from a record, and was in the ledger before the run went on after an
    /// interruption, is not added again.
    ///
    /// # Errors
    /// What the file system says.
    pub fn add(&self, call: Call) -> Result<(), StoreError> {
        let mut calls = locked(&self.calls);
        if call.replayed && calls.iter().any(|old| old.is_same_question(&call)) {
            return Ok(());
        }
        if let Some(file) = &self.file {
            file.append(&call)?;
        }
        calls.push(call);
        Ok(())
    }

    /// Orders the rows; rows that are equal under `key` keep their order. With a file, what it holds is written anew, and
    /// nothing can be added to it afterwards but by another ledger.
    ///
    /// # Errors
    /// What the file system says.
    pub fn settle<K: Ord>(&self, key: impl Fn(&Call) -> K) -> Result<(), StoreError> {
        let mut calls = locked(&self.calls);
        calls.sort_by_key(key);
        match &self.file {
            Some(file) => write_atomic(file.path(), to_jsonl(calls.iter())?.as_bytes()),
            None => Ok(()),
        }
    }

    /// The rows, in the order in which calls ended.
    pub fn calls(&self) -> Vec<Call> {
        locked(&self.calls).clone()
    }
}
