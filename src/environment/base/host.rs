//! What the host says of packages: its Debian mirror, apt's proxies, which packages of the system it has.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::environment::settings::HostVariables;
use crate::environment::strip_credentials;

/// The mirror of everybody.
pub const DEFAULT_MIRROR: &str = "http://deb.debian.org/debian";

/// Debian's releases by the names that stand for them in `sources.list`; what comes later is in none of them yet.
const RELEASES: [&str; 11] = [
    "buster",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
];

/// The Debian mirror that the host's apt uses; the common one where it uses none.
pub fn mirror() -> String {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let parts = fs_err::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path());
    files.extend(parts);
    files.sort();
    let found = files.iter().find_map(|file| mirror_in(&fs_err::read_to_string(file).ok()?));
    found.unwrap_or_else(|| DEFAULT_MIRROR.to_owned())
}

/// The first Debian mirror of a `sources.list`, in either of its two forms.
fn mirror_in(text: &str) -> Option<String> {
    let is_one = |uri: &str, suites: &[&str], components: &[&str]| {
        let web = uri.starts_with("http://") || uri.starts_with("https://");
        web && components.contains(&"main") && suites.iter().any(|suite| RELEASES.contains(suite))
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    for line in lines.clone() {
        let Some(rest) = line.strip_prefix("deb ") else { continue };
        let rest = rest.trim();
        let rest = if rest.starts_with('[') { rest.split_once(']').map_or("", |(_, rest)| rest) } else { rest };
        let words: Vec<&str> = rest.split_whitespace().collect();
        if let [uri, suite, components @ ..] = &words[..]
            && is_one(uri, &[suite], components)
        {
            return Some((*uri).to_owned());
        }
    }
    let kept: Vec<&str> = lines.collect();
    kept.split(|line| line.is_empty()).find_map(|stanza| {
        let words = |name: &str| -> Vec<&str> {
            let of = |line: &&str| line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case(name));
            let line = stanza.iter().find(|line| of(line));
            line.and_then(|line| line.split_once(':'))
                .map_or(Vec::new(), |(_, value)| value.split_whitespace().collect())
        };
        let (suites, components) = (words("Suites"), words("Components"));
        words("URIs").into_iter().find(|uri| is_one(uri, &suites, &components)).map(str::to_owned)
    })
}

/// apt's own settings of proxies, as lines of an `apt.conf`, free of credentials.
pub fn apt_proxies(host: &HostVariables) -> Vec<String> {
    let Some(program) = program("apt-config", host) else { return Vec::new() };
    let answer = Command::new(program).arg("dump").env_clear().stdin(Stdio::null()).stderr(Stdio::null()).output();
    answer.map_or(Vec::new(), |answer| proxies_in(&String::from_utf8_lossy(&answer.stdout)))
}

fn proxies_in(dump: &str) -> Vec<String> {
    let pattern = regex::Regex::new(r#"^(Acquire::https?::Proxy(?:::[^ ]+)?) "([^"]+)";$"#);
    let Ok(pattern) = pattern else { return Vec::new() };
    let of = |line: &str| {
        let found = pattern.captures(line.trim())?;
        Some(format!("{} \"{}\";", &found[1], strip_credentials(&found[2]).0))
    };
    dump.lines().filter_map(of).collect()
}

/// A program in the host's `PATH`.
pub fn program(name: &str, host: &HostVariables) -> Option<PathBuf> {
    host.path_folders().into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Those of `packages` that the host does not have, asked of its package manager; all are taken to be there where it
/// has none that we know.
pub fn missing_packages(packages: &[String], host: &HostVariables) -> Vec<String> {
    /// How to ask whether one package is there: the program, its arguments, and a sign of presence where the exit code
    /// says too little.
    const MANAGERS: [(&str, &[&str], Option<&str>); 3] = [
        ("dpkg-query", &["-W", "-f=${db:Status-Status}\n"], Some("installed")),
        ("rpm", &["-q", "--whatprovides"], None),
        ("apk", &["info", "-e"], None),
    ];
    let manager = MANAGERS.iter().find_map(|(name, arguments, sign)| Some((program(name, host)?, arguments, sign)));
    let Some((program, arguments, sign)) = manager else { return Vec::new() };
    let is_there = |package: &String| {
        let mut command = Command::new(&program);
        command.args(*arguments).arg("--").arg(package.trim()).env_clear().stdin(Stdio::null());
        let answer = command.output();
        answer.is_ok_and(|answer| {
            let text = String::from_utf8_lossy(&answer.stdout).into_owned();
            answer.status.success() && sign.is_none_or(|sign| text.lines().any(|line| line == sign))
        })
    };
    packages.iter().filter(|package| !is_there(package)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_found_in_both_forms_and_others_are_passed_over() {
        let one_line = "# deb http://old.example/debian bookworm main\n\
                        deb [signed-by=/x] https://packages.example cloud-sdk-bookworm main\n\
                        deb http://security.example/debian-security bookworm-security main\n\
                        deb [arch=amd64 trusted=yes] http://near.example/debian bookworm main contrib\n";
        assert_eq!(mirror_in(one_line).as_deref(), Some("http://near.example/debian"));
        let stanzas = "Types: deb\n# URIs: http://no.example\nURIs: http://security.example/x\nSuites: bookworm-security\n\
                       Components: main\n\nTypes: deb\nURIs: http://a.example/debian\nSuites: trixie trixie-updates\n\
                       Components: main\n";
        assert_eq!(mirror_in(stanzas).as_deref(), Some("http://a.example/debian"));
        let ubuntu = "deb http://archive.ubuntu.com/ubuntu noble main universe\ndeb cdrom:[x] bookworm main\n";
        assert_eq!(mirror_in(ubuntu), None);
    }

    #[test]
    fn proxies_are_taken_without_credentials() {
        let dump = "APT \"\";\nAcquire::http::Proxy \"http://me:hunter2@proxy.example:3128/\";\n\
                    Acquire::http::Proxy::near.example \"DIRECT\";\nAcquire::https::Verify-Peer \"false\";\n";
        assert_eq!(
            proxies_in(dump),
            ["Acquire::http::Proxy \"http://proxy.example:3128/\";", "Acquire::http::Proxy::near.example \"DIRECT\";"]
        );
    }
}
