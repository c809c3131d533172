//! The field's words as plain types: instances, comments, oracles, environments, revisions, reviews, outcomes, verdicts.
//!
//! Every closed set has one string form, tested in both directions. Nothing here does I/O beyond parsing text that it
//! is handed, and unknown JSON fields survive a round trip (`extra`).

mod attrition;
mod bench;
mod digest;
mod environment;
mod ids;
mod instance;
mod jsonl;
mod label;
mod oracle;
mod outcome;
mod recorded;
mod review;
mod revision;
mod verdict;

pub use attrition::{Attrition, AttritionReason, AttritionScope};
pub use bench::{BENCH_SCHEMA, BenchManifest, FrozenRow};
pub use digest::{Digest, DigestError, canonical_json, digest_bytes, digest_json};
pub use environment::{EnvironmentSpec, ProjectMode};
pub use ids::{Arm, CommentId, IdError, InstanceId};
pub use instance::{Comment, CommitToReview, Instance, MergedKind};
pub use jsonl::{LineError, Parsed, from_value, parse_jsonl, to_jsonl};
pub use label::{ConcernCategory, DropReason, ExpectedOracle, FilterDecision, FilterRow, Labels};
pub use oracle::{Framework, Oracle, OracleKind};
pub use outcome::{ErrorKind, InfraReason, Outcome, OutcomeParseError};
pub use recorded::RecordedVerdict;
pub use review::{Finding, Review};
pub use revision::{Revision, RevisionStatus, WirePrediction};
pub use verdict::{Verdict, VerdictKind, VerdictReason};

/// Fields of a JSON object that this version does not know; kept so that they survive a round trip.
pub type Extra = serde_json::Map<String, serde_json::Value>;
