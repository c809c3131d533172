//! Where a command's program may lie: the same in every sandbox.

use std::collections::BTreeMap;

/// Where programs are looked up when a task has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The places of a program, in the order in which they are tried. A name is looked up along the task's `PATH`, of which
/// entries that depend on the current directory (empty and relative ones) do not count: that is the repository's.
pub fn candidates(program: &str, variables: &BTreeMap<String, String>) -> Vec<String> {
    if program.contains('/') {
        return vec![program.to_owned()];
    }
    let path = variables.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    path.split(':').filter(|entry| entry.starts_with('/')).map(|entry| format!("{entry}/{program}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_up_in_path_and_never_in_the_current_directory() {
        let with = |path: &str| BTreeMap::from([("PATH".to_owned(), path.to_owned())]);
        assert_eq!(candidates("sh", &with("/a:/b::")), ["/a/sh", "/b/sh"]);
        assert_eq!(candidates("sh", &with(":.:bin:/a")), ["/a/sh"]);
        assert_eq!(candidates("./sh", &with("/a")), ["./sh"]);
        assert_eq!(candidates("sh", &BTreeMap::new()), ["/usr/local/bin/sh", "/usr/bin/sh", "/bin/sh"]);
    }
}
