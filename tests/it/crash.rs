//! Death at any moment: whatever kills a run, the same command again ends in the same report, and nothing is left.

mod owners;
mod points;
mod random;
mod stand;
mod together;
mod torn;
