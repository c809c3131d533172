//! Positive controls: the code of a row that reaches for something, run on the host without redgreen, gets there.
//! So the row's check can fail, and it is the sandbox that it tests and not the host's own rights.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::host::{Host, OPEN, VARIABLE, sentinel};
use super::level::Level;
use super::score::filler;
use super::table::{Control, Row, Table};
use crate::support::{Place, is_root, loudly};

/// A user for whom a signal to all of its processes hits nobody else.
const STORM_USER: u32 = 54_999;

pub fn show_that_rows_can_fail(name: &str) {
    let table = Table::read(name);
    let rows: Vec<_> = table.row.iter().filter_map(|row| Some((row, row.control?))).collect();
    if rows.is_empty() {
        return;
    }
    let place = Place::new();
    let level = Level::Userns;
    let host = Host::new(&place, level.owner());
    level.give(&place);
    let fill = filler(&table, &host);
    let mut wrong = Vec::new();
    for (number, (row, control)) in rows.into_iter().enumerate() {
        if control != Control::Bare && !is_root(&format!("the control of `{}`", row.name)) {
            continue;
        }
        let tree = place.join(format!("tree-{number}"));
        lay_out(&tree, &table, row, &fill);
        let (user, group) = if control == Control::Storm { (STORM_USER, STORM_USER) } else { level.owner() };
        give(&tree, user, group);
        let victim = (control == Control::Storm).then(|| sentinel(user, group));
        let output = command(&tree, &table, control, (user, group)).output().unwrap();
        match victim.map(is_dead) {
            Some(true) => {}
            Some(false) => wrong.push(format!("`{}` harmed nobody", row.name)),
            None if !output.status.success() => wrong.push(format!(
                "`{}` does not get through where nothing holds it: {}\n{}{}",
                row.name,
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )),
            None => {}
        }
        // What it left is what a row would have to leave for the look at the host to find it.
        let _ = fs_err::remove_file(&host.words["outside"]);
    }
    assert!(wrong.is_empty(), "controls of {name}:\n{}", wrong.join("\n"));
    let calls = table.row.iter().filter(|row| row.control.is_some()).filter_map(|row| row.attempt.as_ref());
    let doors = ["@port@", "@udp@", "@socket@", "@abstract@"];
    if calls.into_iter().any(|text| doors.iter().any(|door| text.contains(door))) {
        assert!(host.visits() > 0, "nobody came through a door");
    }
    loudly(&format!("{name}: the host's own rights let every row with a control through"));
}

/// The tree of a revision, with the oracle in it.
fn lay_out(tree: &Path, table: &Table, row: &Row, fill: &dyn Fn(&str) -> String) {
    for (path, text) in &table.head {
        let path = tree.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    row.lay_out(tree, fill);
    fs_err::write(tree.join(&table.oracle.file), &table.oracle.text).unwrap();
}

fn give(tree: &Path, user: u32, group: u32) {
    if rustix::process::geteuid().is_root() {
        for entry in walkdir::WalkDir::new(tree) {
            std::os::unix::fs::lchown(entry.unwrap().path(), Some(user), Some(group)).unwrap();
        }
    }
}

fn command(tree: &Path, table: &Table, control: Control, (user, group): (u32, u32)) -> Command {
    let module = table.oracle.file.trim_end_matches(".py");
    let mut command = Command::new("timeout");
    command.args(["60", "python3", "-m", "unittest", module]).current_dir(tree).stdin(Stdio::null());
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", "/tmp").env(VARIABLE, OPEN);
    if rustix::process::geteuid().is_root() {
        if control == Control::Root {
            // SAFETY: plain system calls between fork and exec, without memory to allocate.
            unsafe { command.pre_exec(in_namespaces_of_its_own) };
        } else {
            command.uid(user).gid(group);
        }
    }
    command
}

/// So that a mount or a host's name that root may set is gone with the control.
fn in_namespaces_of_its_own() -> std::io::Result<()> {
    // SAFETY: plain system calls; the strings are constants.
    let result = unsafe {
        libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWUTS)
            | libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            )
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Whether a process was killed; ends it otherwise.
fn is_dead(mut victim: Child) -> bool {
    let dead = victim.try_wait().unwrap().is_some();
    let _ = victim.kill();
    let _ = victim.wait();
    dead
}
