//! Environments: the declarative [`EnvironmentSpec`](crate::model::EnvironmentSpec) becomes layers at fixed mount
//! paths, built in the sandbox, cached by digest and shared by equal specs.
//!
//! What a language needs is data: `environments/<language>.toml` ([`Definition`]). The code here only interprets it.
//!
//! 1. [`Environments::resolve`] finds the toolchain behind its shims, without building anything.
//! 2. [`Environments::prepare`] makes what is missing, in two phases, both in sandbox tasks:
//!    *fetch* installs dependencies into layers, with the host's network where a step says so; the repository's own
//!    code does not run. *build* runs the repository's own install, without network and without any index setting.
//!
//! ```text
//! <cache>/layers-v1/<language>-<layer>/<digest>/root/       a dependency layer, mounted at its fixed path
//! <cache>/layers-v1/<language>-build/<digest>/workspace/    untracked outputs, an overlay lower above the snapshot
//! <cache>/layers-v1/<language>-build/<digest>/over/<layer>/ what the install changed in a dependency layer
//! <cache>/layers-v1/…/layer.json                            the marker: lock and key; without it a layer is not there
//! <cache>/layers-v1/…/log.txt                               what the steps said
//! <cache>/layers-v1/locks/<digest>.lock                     held while the layer is being made
//! ```

mod accept;
pub mod archive;
mod base;
mod build;
mod change;
mod check;
mod condition;
mod deadline;
mod definition;
mod definitions;
mod detect;
mod detection;
mod dockerfile;
mod error;
mod failure;
mod fetch;
mod grounds;
mod inspect;
mod known;
mod layers;
mod made;
mod network;
mod overrides;
mod pattern;
mod plan;
mod prepare;
mod proof;
mod prove;
mod pulse;
mod record;
#[cfg(test)]
mod recorder;
mod repair;
mod repair_command;
mod requirements;
mod resolve;
mod resolved;
mod run;
mod scripts;
mod search;
mod settings;
mod strategy;
mod template;
mod toolchain;
mod tracked;
mod transfer;
mod trouble;
mod version;
mod waiting;

pub use accept::{Acceptance, Accepted, Rejected, Request};
pub use base::{
    Base, BaseDefinition, BaseError, BaseLock, BaseRecord, BaseSettings, BaseState, Bases, Listed, LockedBase, Recipe,
    Source, content_of,
};
pub use change::ChangeError;
pub use condition::{Condition, Facts};
pub use definition::{AsOfDefinition, Definition};
pub use definitions::Definitions;
pub use detect::{Alternative, Claim, Detected, detect};
pub use detection::{DetectDefinition, Grammar, Instead, Release, VersionDefinition, VersionKind, VersionSource};
pub use error::{EnvironmentError, Phase, StepEnd};
pub use failure::{Failure, Stage};
pub use inspect::{Cost, LayerState};
pub use known::Known;
pub use made::{Made, MadeLayer, Staleness, made};
pub use network::{NetworkSettings, strip_credentials};
pub use overrides::{OverrideError, Overrides};
pub use prepare::{BuildSubject, Environments, Prepared};
pub use proof::{ProofDefinition, ProofKind};
pub use prove::{ProofResult, Proven};
pub use record::{Attempt, EnvironmentRecord, Missing, SpecSource};
pub use repair::{LOG_TAIL, Proposal, ProposalFuture, Repair, RepairRequest, Repairer, RepairerError, Tried};
pub use repair_command::CommandRepairer;
pub use resolve::Told;
pub use resolved::Resolved;
pub use settings::{HostVariables, Settings};
pub use strategy::{RequirementsDefinition, StrategyDefinition};
pub use toolchain::Toolchain;
pub use transfer::{EnvironmentEntry, ExportItem, Exported, Imported, TransferError};
pub use trouble::{FailureDefinition, FailureKind, RepairDefinition, SpecChange};
pub use version::matches_prefix;
