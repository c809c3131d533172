//! The benchmark folder: what `import`, `synth` and `freeze` write and everything else reads.
//!
//! A folder is a benchmark when it has a `bench.json`. Beside it lie `dataset.jsonl`, the tests under `oracles/`, and
//! the optional `reviews.jsonl`, `revisions.jsonl`, `recorded.jsonl`, `attrition.jsonl`, `filter.jsonl`
//! (with `llm.jsonl`, the ledger of models), `synth.jsonl`, `validate.jsonl` and `repos/*.bundle`.

mod check;
mod content;
mod digest;
mod load;
mod path;
mod problem;
mod write;

pub use check::check;
pub use content::{Benchmark, Content};
pub use digest::dataset_digest;
pub use load::{BenchError, Loaded};
pub use path::{PathProblem, check_install_as, check_relative};
pub use problem::{Problem, Severity};
pub use write::{WriteError, WriteMode, Written, write};

/// The file that makes a folder a benchmark.
pub const MANIFEST: &str = "bench.json";
/// The instances.
pub const DATASET: &str = "dataset.jsonl";
/// Reviews by tools.
pub const REVIEWS: &str = "reviews.jsonl";
/// Recorded revisions.
pub const REVISIONS: &str = "revisions.jsonl";
/// Verdicts that came with the data.
pub const RECORDED: &str = "recorded.jsonl";
/// What left the funnel, and why.
pub const ATTRITION: &str = "attrition.jsonl";
/// What the comment filter says of each comment.
pub const FILTER: &str = "filter.jsonl";
/// The attempts to turn comments into tests.
pub const SYNTH: &str = "synth.jsonl";
/// The attempts of coding agents to solve comments from their words.
pub const VALIDATE: &str = "validate.jsonl";
/// The calls of language models that went into the benchmark.
pub const LEDGER: &str = "llm.jsonl";
/// The folder of the tests.
pub const ORACLES: &str = "oracles";

#[cfg(test)]
mod tests;
