//! Checkouts that hold the future, and those that do not.
