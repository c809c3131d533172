//! One digest over what is scored: the instances and their tests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::model::{Digest, Instance, digest_bytes, digest_json};

/// The digest over dataset rows and the bytes of the tests that they name. Neither the order of the rows, nor the order
/// of JSON keys, nor revisions, reviews and recorded verdicts count. A test that `read` cannot give counts as absent.
pub fn dataset_digest<'a>(
    instances: impl IntoIterator<Item = &'a Instance>,
    mut read: impl FnMut(&str) -> Option<Vec<u8>>,
) -> Digest {
    // A set: the order of rows is not part of the benchmark.
    let mut rows = BTreeSet::new();
    let mut tests = BTreeMap::new();
    for instance in instances {
        // Instances hold only JSON values and maps with text keys, so this cannot fail; were it to, the row counts
        // by its id.
        let row = serde_json::to_value(instance).unwrap_or_else(|_| json!(instance.instance_id.as_str()));
        rows.insert((instance.instance_id.folded().to_owned(), digest_json(&row).to_string()));
        for oracle in &instance.oracles {
            tests
                .entry(oracle.test.clone())
                .or_insert_with(|| read(&oracle.test).map(|bytes| digest_bytes(&bytes).to_string()));
        }
    }
    digest_json(&json!({ "format": "redgreen-dataset-1", "instances": rows, "tests": tests }))
}
