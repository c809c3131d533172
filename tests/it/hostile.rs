//! The hostile table: revisions that attack, each with the verdict that it deserves, at every level of isolation.
//!
//! One file of `tests/it/hostile/` is a table: an instance, its oracle, and rows. A row says what a revision does and
//! what must come of it. All rows of a table are scored in one run of the binary for each level. A row whose code
//! *reaches* for something returns the right value only if it got there: unsandboxed it passes (the row's control
//! shows that), in the sandbox it fails. Afterwards the host is looked at: nothing may be left, nobody may have called.
//!
//! `docs/HOSTILE.md` is made from the same tables.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may what it calls")]

mod control;
mod generate;
mod host;
mod level;
mod page;
mod score;
mod table;

use level::Level;
use score::agrees_with_its_table;

/// One test for each table and level, so that they run side by side and name what failed.
macro_rules! tables {
    ($($table:ident),* $(,)?) => {
        /// The tables, in the page's order.
        const TABLES: &[&str] = &[$(stringify!($table)),*];

        mod full {
            $(#[test] fn $table() { super::agrees_with_its_table(stringify!($table), super::Level::Full); })*
        }

        mod userns {
            $(#[test] fn $table() { super::agrees_with_its_table(stringify!($table), super::Level::Userns); })*
        }

        mod none {
            $(#[test] fn $table() { super::agrees_with_its_table(stringify!($table), super::Level::None); })*
        }

        mod controls {
            $(#[test] fn $table() { super::control::show_that_rows_can_fail(stringify!($table)); })*
        }
    };
}

/// The same in containers: the Python tables wherever an engine answers, the others where their bases may be made.
mod container {
    macro_rules! contained {
        ($($table:ident),* $(,)?) => {
            $(#[test] fn $table() { super::agrees_with_its_table(stringify!($table), super::Level::Container); })*
        };
    }
    contained!(limits, processes, exits, forgery, files, tree, network, kernel, patches);

    #[test]
    #[ignore = "makes a base with Rust: minutes"]
    fn rust() {
        super::agrees_with_its_table("rust", super::Level::Container);
    }

    #[test]
    #[ignore = "makes a base with Node: minutes"]
    fn node() {
        super::agrees_with_its_table("node", super::Level::Container);
    }
}

tables!(limits, processes, exits, forgery, files, tree, network, kernel, patches, rust, node);
