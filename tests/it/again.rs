//! Running again: one verdict, what is missing, two runs compared; deadlines and limits of a whole run.

mod bench;
mod bounds;
mod breaker;
mod diff;
mod disk;
mod missing;
mod rerun;
