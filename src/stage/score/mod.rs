//! The stage that scores: plan → controls → oracle runs → records. Nothing here decides what an outcome means; that is
//! the oracle room's table.

mod instance;
mod plan;
mod prepare;
mod record;
mod roster;
mod row;
mod run;
mod runner;
mod second;
mod state;
mod verdicts;

pub use plan::{InstancePlan, Plan, Selection, plan};
pub use prepare::{Unavailable, build_environment};
pub use record::{OracleRecord, RECORD_SCHEMA, STAGE};
pub use roster::{Roster, RosterComment};
pub use row::{Row, RowState};
pub use run::{InfraCause, ScoreError, Services, Settings, Summary, score};
pub use verdicts::{Scored, verdicts};
