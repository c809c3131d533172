//! User and group maps of a new user namespace.

use std::io::Write;

use fs_err as fs;

use super::super::failure::{Failure, Step};
use super::super::protocol::INSIDE_ID;

/// Maps the one user and group inside to the host's `owner`, for the namespace of process `pid`.
pub fn map_ids(pid: i32, (uid, gid): (u32, u32)) -> Result<(), Failure> {
    write_id_file(&format!("/proc/{pid}/uid_map"), &format!("{INSIDE_ID} {uid} 1\n"))?;
    write_id_file(&format!("/proc/{pid}/gid_map"), &format!("{INSIDE_ID} {gid} 1\n"))
}

/// Writes a file that must be written in one call, and not be created or truncated.
pub fn write_id_file(path: &str, text: &str) -> Result<(), Failure> {
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .step(|| format!("write `{path}`"))
}
