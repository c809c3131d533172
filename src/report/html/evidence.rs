//! What lies in the run folder behind a verdict, read as far as the pages' bounds allow.

use std::collections::HashMap;

use super::bounds::{CELL_CHARS, EVIDENCE_BYTES, EVIDENCE_VERDICTS, OUTPUT_BYTES, PAGE_BYTES};
use super::detail::Output;
use super::text::{cut, line, size, visible, without_colours};
use crate::model::{Arm, Digest, Verdict, VerdictKind};
use crate::stage::score::{OracleRecord, Row, STAGE};
use crate::store::RunFolder;

/// What makes a row of the index another one.
type RowKey<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, Option<&'a str>, u32);

/// Reads evidence, and counts how much of it is embedded.
pub(super) struct Evidence<'a> {
    run: &'a RunFolder,
    rows: HashMap<RowKey<'a>, &'a Row>,
    verdicts_left: usize,
    passes_too: bool,
    bytes_left: usize,
    page_left: usize,
    left_out: bool,
    times: Times,
}

/// The first and the last time at which a run began.
pub(super) type Times = Option<(jiff::Timestamp, jiff::Timestamp)>;

impl<'a> Evidence<'a> {
    /// The evidence of a run with so many verdicts.
    pub(super) fn new(run: &'a RunFolder, rows: &'a [Row], verdicts: usize) -> Self {
        let key = |row: &'a Row| {
            let (agent, model) = (row.agent.as_deref(), row.model.as_deref());
            (row.instance_id.folded(), row.comment.as_str(), row.arm.as_str(), agent, model, row.attempt)
        };
        Self {
            run,
            rows: rows.iter().map(|row| (key(row), row)).collect(),
            verdicts_left: EVIDENCE_VERDICTS,
            passes_too: verdicts <= EVIDENCE_VERDICTS,
            bytes_left: EVIDENCE_BYTES,
            page_left: PAGE_BYTES,
            left_out: false,
            times: None,
        }
    }

    /// The next instance: it has its own share of bytes.
    pub(super) fn next_instance(&mut self) {
        self.page_left = PAGE_BYTES;
    }

    /// Whether the evidence of a verdict is to be embedded; if so it is counted.
    pub(super) fn admits(&mut self, verdict: &Verdict) -> bool {
        let wanted = self.passes_too || verdict.verdict != VerdictKind::Pass;
        let admitted = wanted && self.verdicts_left > 0 && self.bytes_left > 0 && self.page_left > 0;
        self.verdicts_left -= usize::from(admitted);
        self.left_out |= !admitted;
        admitted
    }

    /// Counts embedded bytes.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.page_left = self.page_left.saturating_sub(bytes);
    }

    /// The row behind a verdict.
    pub(super) fn row(&self, verdict: &Verdict) -> Option<&'a Row> {
        let (agent, model) = (verdict.agent.as_deref(), verdict.model.as_deref());
        let (instance, comment, arm) = (verdict.instance_id.folded(), verdict.comment.as_str(), verdict.arm.as_str());
        self.rows.get(&(instance, comment, arm, agent, model, verdict.attempt)).copied()
    }

    /// The row of a control, which the report may not show.
    pub(super) fn control(&self, instance: &str, comment: &str, arm: &Arm) -> Option<&'a Row> {
        self.rows.get(&(instance, comment, arm.as_str(), None, None, 1)).copied()
    }

    /// A record; `None` when it is gone or cannot be read.
    pub(super) fn record(&mut self, key: &Digest) -> Option<OracleRecord> {
        let record: OracleRecord = self.run.record(STAGE, key).ok().flatten()?;
        let (first, last) = self.times.unwrap_or((record.started, record.started));
        self.times = Some((first.min(record.started), last.max(record.started)));
        Some(record)
    }

    /// When the runs were made; `None` when not all records were read.
    pub(super) fn times(&self) -> Times {
        self.times.filter(|_| !self.left_out)
    }

    /// A blob.
    pub(super) fn blob(&self, digest: &Digest) -> Result<Vec<u8>, String> {
        self.run.blob(digest).map_err(|e| e.to_string())
    }

    /// Where a blob lies in the run folder.
    pub(super) fn blob_path(digest: &Digest) -> String {
        format!("blobs/{}/{digest}", digest.shard())
    }

    /// Where a record lies in the run folder.
    pub(super) fn record_path(key: &Digest) -> String {
        format!("records/{STAGE}/{}/{key}.json", key.shard())
    }

    /// An output, or its beginning and end.
    pub(super) fn output(&mut self, name: &str, digest: &Digest) -> Output {
        let path = Self::blob_path(digest);
        let mut output = Output { name: line(name, CELL_CHARS), path, ..Output::default() };
        match self.blob(digest) {
            Ok(bytes) => {
                output.size = size(bytes.len() as u64);
                let shown = cut(&bytes, OUTPUT_BYTES, OUTPUT_BYTES / 3);
                output.head = visible(&without_colours(&shown.head)).into_owned();
                output.tail = visible(&without_colours(&shown.tail)).into_owned();
                output.left_out = shown.left_out;
            }
            Err(problem) => output.problem = Some(visible(&problem).into_owned()),
        }
        self.spend(output.head.len() + output.tail.len());
        output
    }
}
