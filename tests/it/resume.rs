//! The same command again: what is on record is served, what depends on a change is run again, and whatever stops a run
//! in the middle loses nothing that was finished.

mod disk;
mod interrupt;
mod keys;
mod rows;
mod together;
