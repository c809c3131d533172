//! What is in a base: its system and the packages of it, read without running anything.

use std::path::Path;

use crate::environment::archive::{Kind, Tree};

const MOST: u64 = 64 << 20;

/// The system's name, from `os-release`; empty where there is none.
pub fn system_of(tree: &Tree) -> String {
    let files = ["usr/lib/os-release", "etc/os-release"];
    let text = files.iter().find_map(|path| tree.read(Path::new(path), MOST));
    let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or(String::new(), |name| name.trim().trim_matches(['"', '\'']).to_owned())
}

/// The installed packages as `NAME=VERSION`, sorted: Debian's, or Alpine's.
pub fn packages_of(tree: &Tree) -> Vec<String> {
    let read = |path: &str| tree.read(Path::new(path), MOST).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut out = match (read("var/lib/dpkg/status"), read("lib/apk/db/installed")) {
        (Some(status), _) => debian(&status),
        (None, Some(installed)) => alpine(&installed),
        (None, None) => Vec::new(),
    };
    // Images without a shell of their own keep one file for each package.
    let folder = Path::new("var/lib/dpkg/status.d");
    for (path, node) in tree.iter().filter(|(path, _)| path.parent() == Some(folder)) {
        if matches!(node.kind, Kind::File(_)) && path.extension().is_none_or(|ending| ending != "md5sums") {
            let text = tree.read(path, MOST).unwrap_or_default();
            out.extend(debian(&format!(
                "{}\nStatus: install ok installed\n",
                String::from_utf8_lossy(&text).trim_end()
            )));
        }
    }
    out.sort();
    out.dedup();
    out
}

/// Bytes of a tree's files, each name of a file counted.
pub fn bytes_of(tree: &Tree) -> u64 {
    let length = |kind: &Kind| if let Kind::File(part) = kind { part.length() } else { 0 };
    tree.iter().map(|(_, node)| length(&node.kind)).sum()
}

fn debian(status: &str) -> Vec<String> {
    let field = |stanza: &str, name: &str| {
        stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim().to_owned())
    };
    let stanzas = status.split("\n\n").filter(|stanza| {
        field(stanza, "Status").is_some_and(|status| status.split_whitespace().eq(["install", "ok", "installed"]))
            || field(stanza, "Status").is_some_and(|status| status.split_whitespace().eq(["hold", "ok", "installed"]))
    });
    stanzas.filter_map(|stanza| Some(format!("{}={}", field(stanza, "Package")?, field(stanza, "Version")?))).collect()
}

fn alpine(installed: &str) -> Vec<String> {
    let field = |stanza: &str, name: &str| stanza.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let stanzas = installed.split("\n\n");
    stanzas.filter_map(|stanza| Some(format!("{}={}", field(stanza, "P:")?, field(stanza, "V:")?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_packages_are_listed() {
        let status = "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9+deb12u10\n\n\
                      Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n\
                      Package: bash\nEssential: yes\nStatus: install ok installed\nVersion: 5.2.15-2+b8\nDescription: x\n Version: no\n";
        assert_eq!(debian(status), ["libc6=2.36-9+deb12u10", "bash=5.2.15-2+b8"]);
        assert_eq!(
            alpine("C:Q1\nP:musl\nV:1.2.4-r2\nA:x86_64\n\nP:busybox\nV:1.36.1-r5\n"),
            ["musl=1.2.4-r2", "busybox=1.36.1-r5"]
        );
    }
}
