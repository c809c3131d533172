//! Running again: one verdict, what is missing, two runs compared; deadlines and limits of a whole run.

mod bench;
mod diff;
mod rerun;
