//! Whether a run shows that its framework has started at all.
//!
//! `python -m pytest` without pytest leaves with 1, as a failing test does. What the output says is no proof, since the
//! revision can print the same; so a run without a sign of life is followed by a probe of the environment alone.

use regex::Regex;

use crate::sandbox::{End, Exit};

use super::framework::ResultKind;
use super::plan::Plan;
use super::{channel, libtest};

pub(super) fn shows_life(plan: &Plan, exit: &Exit) -> bool {
    match plan.result {
        ResultKind::Reporter => channel::started(&exit.result.bytes),
        ResultKind::Libtest => libtest::started(&exit.stdout.bytes),
        ResultKind::Tap | ResultKind::Junit => true,
        ResultKind::Exit => {
            let wanted = [&plan.rule.alive, &plan.rule.must_print].into_iter().flatten();
            exit.end == End::Exited(0) || wanted.map(String::as_str).all(|pattern| printed(pattern, exit))
        }
    }
}

/// Whether a stream has a match of `pattern`. A pattern that is none (definitions are checked) matches nothing.
pub(super) fn printed(pattern: &str, exit: &Exit) -> bool {
    Regex::new(pattern)
        .is_ok_and(|pattern| [&exit.stdout, &exit.stderr].iter().any(|stream| pattern.is_match(&stream.text())))
}
