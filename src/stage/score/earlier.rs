//! What earlier runs into the same folder had, so that it can be said why something is run again.

use std::collections::HashMap;

use serde_json::Value;

use super::causes::STOPPED;
use super::inputs::{InputChange, input_changes};
use super::record::{OracleRecord, STAGE};
use super::row::{Row, RowState};
use super::run::Shared;
use crate::engine::TaskId;
use crate::model::{Digest, InfraReason};

/// The earlier records and failures of oracle runs.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    keys: HashMap<TaskId, Digest>,
    infra: HashMap<TaskId, InfraReason>,
}

impl Earlier {
    pub(super) fn new(rows: &[Row]) -> Self {
        let mut earlier = Self::default();
        for row in rows {
            for (keys, with_head_configuration) in [(row.keys(), false), (row.keys_with_head_configuration(), true)] {
                for (repeat, key) in (1..).zip(keys) {
                    earlier.keys.insert(task(row, repeat, with_head_configuration), key.clone());
                }
            }
            if let RowState::Infra { class, .. } = &row.state
                && was_tried(row)
            {
                earlier.infra.insert(task(row, 1, false), *class);
            }
        }
        earlier
    }
}

fn task(row: &Row, repeat: u32, with_head_configuration: bool) -> TaskId {
    TaskId {
        instance_id: row.instance_id.clone(),
        comment: row.comment.clone(),
        arm: row.arm.clone(),
        attempt: row.attempt,
        repeat,
        with_head_configuration,
    }
}

/// Whether a row says that something was tried and ended as infra. What was interrupted, or never started, was not.
pub(super) fn was_tried(row: &Row) -> bool {
    matches!(&row.state, RowState::Infra { class, detail, .. }
        if *class != InfraReason::Interrupted && !detail.starts_with(STOPPED))
}

impl Shared {
    /// Takes down why a run is made that had been made before; nothing of one that is new.
    pub(super) fn why_again(&self, task: &TaskId, key: &Digest, inputs: &Value) {
        let record = |key: &Digest| self.run.record::<OracleRecord>(STAGE, key).ok().flatten();
        if let Some(record) = record(key) {
            let asked =
                if self.settings.redo { "--redo".to_owned() } else { format!("--retry {}", record.outcome.class()) };
            return self.counters.again(asked);
        }
        if let Some(old) = self.earlier.keys.get(task) {
            let reason = match record(old) {
                _ if old == key => "its record is gone".to_owned(),
                None => "its earlier record is gone".to_owned(),
                Some(old) => {
                    let changes: Vec<String> =
                        input_changes(&old.inputs, inputs).iter().map(InputChange::text).collect();
                    format!("another input: {}", changes.join(", "))
                }
            };
            return self.counters.again(reason);
        }
        if let Some(class) = self.earlier.infra.get(task) {
            self.counters.again(format!("infra before: {}", class.as_str()));
        }
    }
}
