//! The public release of c-CRAB (arXiv 2603.23448): one `result.json` per instance and step, joined into a benchmark.
//!
//! Steps are test generation (`testgen`: all comments of an instance and their tests), agent resolution (a coding agent
//! given the human comments) and one evaluation per tool (the agent given the tool's findings). The release has two
//! index spaces for comments: `testgen` and the evaluations count all comments of an instance, resolution counts the
//! filtered ones. Across them only instance and exact comment text join.

mod join;
mod outcome;
mod place;
mod text_only;
mod wire;

pub use join::{Joined, join};
pub use place::{Place, place};
pub use text_only::is_text_only;

use std::collections::BTreeMap;

/// The files of one instance folder, by name.
pub type Folder = BTreeMap<String, Vec<u8>>;

/// The release's files, put in their places but not yet read.
#[derive(Debug, Clone, Default)]
pub struct Release {
    /// Test generation, by the name of the instance's folder.
    pub testgen: BTreeMap<String, Folder>,
    /// Agent resolution.
    pub resolution: BTreeMap<String, Folder>,
    /// Evaluations, by tool.
    pub evaluations: BTreeMap<String, BTreeMap<String, Folder>>,
    /// The ids of the release's own list of instances (in its image form), as they stand there.
    pub listed: Vec<String>,
}

impl Release {
    /// Puts one file in its place. Gives it back as `false` when a file is there already: the first one counts.
    pub fn add(&mut self, place: Place, bytes: Vec<u8>) -> bool {
        let folders = match place.step {
            place::Step::InstanceList => {
                self.listed.extend(
                    String::from_utf8_lossy(&bytes).lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned),
                );
                return true;
            }
            place::Step::Testgen => &mut self.testgen,
            place::Step::Resolution => &mut self.resolution,
            place::Step::Evaluation(tool) => self.evaluations.entry(tool).or_default(),
        };
        let folder = folders.entry(place.folder).or_default();
        if folder.contains_key(&place.file) {
            return false;
        }
        folder.insert(place.file, bytes);
        true
    }

    /// Whether there is anything of a release here.
    pub fn is_empty(&self) -> bool {
        self.testgen.is_empty() && self.resolution.is_empty() && self.evaluations.is_empty()
    }
}
