//! Named fault points: places where a test may end the program as `kill -9` would.
//!
//! A point stands after each step that leaves something outside of the process: a write, an fsync, a rename, a lock, a
//! mount, a started process, a cgroup. [`point`] costs one branch in builds with `debug_assertions`, and nothing in
//! others: there it cannot be armed at all. It is armed by `src/cli` from two variables (see [`Setting::new`]), never by
//! default, and the sandbox's helper process, which has no variables, gets the setting with its job.
//!
//! Two things can be asked for: a count of every point that is reached (always, in a folder), and one act at the n-th
//! time that one point is reached, counted over all processes of the run.

mod armed;
mod points;
mod setting;

pub use armed::{arm, arm_helper, point, setting};
pub use points::{POINTS, Point, Side};
pub use setting::{Act, FaultError, Setting, What};
