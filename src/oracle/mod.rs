//! Oracles: place a test, run it, read its structured result, classify, decide.
//!
//! [`plan`] settles how an oracle is run, [`run_once`] runs it in a sandbox and gives evidence, [`classify`] turns
//! evidence into an outcome, [`decide`] turns outcomes into a verdict. The last two are pure.

mod alive;
mod canary;
mod channel;
mod classify;
mod decide;
mod error;
mod framework;
mod junit;
mod libtest;
mod plan;
mod policy;
mod report;
mod reporters;
mod run;
mod seal;
mod tap;
mod trace;

pub use canary::CanaryRun;
pub use classify::{Channel, Classified, classify};
pub use decide::{Attempt, Controls, Decision, PART_OF_THE_FIX, TEST_CONFIGURATION, UNCONTROLLED, check, decide};
pub use error::{OracleError, RunError};
pub use framework::{ExitRule, Frameworks, ResultKind, TestConfiguration};
pub use plan::{JUNIT_VARIABLE, OUTSIDE, Placement, Plan, plan};
pub use policy::{Policy, PolicyParseError};
pub use report::{TestId, TestResult, TestStatus};
pub use reporters::{REPORTERS, Reporters};
pub use run::{Rebuilt, RunEvidence, Subject, is_oracle_run, rebuild, run_once, run_rebuilt};
pub use trace::{AUDIT_VARIABLE, AuditSetting, Executes, Trace};

#[cfg(test)]
mod tests;
