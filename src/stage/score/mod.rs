//! The stage that scores: plan → controls → oracle runs → records. Nothing here decides what an outcome means; that is
//! the oracle room's table.

mod again;
mod causes;
mod earlier;
mod environment;
mod environments;
mod find;
mod grounds;
mod held;
mod inputs;
mod instance;
mod met;
mod plan;
mod prepare;
mod record;
mod room;
mod roster;
mod row;
mod run;
mod runner;
mod second;
mod sit;
mod state;
mod survey;
mod trial;
mod verdicts;
mod workbench;

pub use again::{Again, AgainError, Ended, Means, ORACLE_VARIABLE, OpenSeat, Which, again, shell_line};
pub use environment::{BuiltEnvironment, NotBuilt, build_environment, build_on_base};
pub use environments::{EnvironmentEnd, EnvironmentEvent, TellEnvironments, build_environments};
pub use find::{FindError, Found, find_row, label};
pub use inputs::{InputChange, input_changes};
pub use plan::{InstancePlan, Plan, Selection, plan};
pub use prepare::Unavailable;
pub use record::{OracleRecord, RECORD_SCHEMA, RecordView, STAGE};
pub use room::{cache_limit, free_up};
pub use roster::{Roster, RosterComment, RosterInstance, RosterTest};
pub use row::{Row, RowState};
pub use run::{DiskSettings, InfraCause, ScoreError, Services, Settings, Summary, score};
pub use sit::{SitError, sit};
pub use survey::{Look, Standing, Survey, TreeState, dockerfile, survey};
pub use trial::{Ground, Side, TrialError, TrialRun, Trials};
pub use verdicts::{Scored, verdicts};
pub use workbench::{Code, Fitted, Made, Opened, Workbench};
