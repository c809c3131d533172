//! The stage that scores: plan → controls → oracle runs → records. Nothing here decides what an outcome means; that is
//! the oracle room's table.

mod again;
mod causes;
mod earlier;
mod find;
mod grounds;
mod inputs;
mod instance;
mod met;
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

pub use again::{Again, AgainError, Ended, Means, ORACLE_VARIABLE, OpenSeat, Which, again, shell_line};
pub use find::{FindError, Found, find_row, label};
pub use inputs::{InputChange, input_changes};
pub use plan::{InstancePlan, Plan, Selection, plan};
pub use prepare::{Ground, Unavailable, build_environment, build_on};
pub use record::{OracleRecord, RECORD_SCHEMA, RecordView, STAGE};
pub use roster::{Roster, RosterComment, RosterInstance, RosterTest};
pub use row::{Row, RowState};
pub use run::{DiskSettings, InfraCause, ScoreError, Services, Settings, Summary, score};
pub use verdicts::{Scored, verdicts};
