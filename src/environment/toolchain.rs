//! Finding a toolchain on the host, behind the shims of version managers.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::ToolchainDefinition;
use super::settings::HostVariables;
use super::template::{Values, names};
use super::version::{at_least, compare, matches_prefix};
use crate::sandbox::Mount;
use crate::{child, fault};

/// Folders that every sandbox has from the host.
const SYSTEM_FOLDERS: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// A toolchain on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Toolchain {
    /// Its version.
    pub version: String,
    /// Its main program, with all links followed.
    pub executable: PathBuf,
    /// The folders that must be mounted at their own path.
    pub roots: Vec<PathBuf>,
    /// Its programs and other paths, by name.
    pub tools: BTreeMap<String, String>,
    /// What else tells builds apart.
    pub identity: Value,
}

impl Toolchain {
    /// The read-only mounts that make it visible; none for what lies in the system's folders.
    pub(super) fn mounts(&self) -> Vec<Mount> {
        let outside = |root: &&PathBuf| !is_system(root);
        self.roots
            .iter()
            .filter(outside)
            .filter(|root| !self.roots.iter().any(|other| other != *root && root.starts_with(other)))
            .map(|root| Mount::ReadOnly { source: root.clone(), target: root.clone() })
            .collect()
    }
}

/// What the search gave when no toolchain fits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Search {
    /// Where was looked.
    pub looked_at: Vec<String>,
    /// What was found and why it was not taken.
    pub found: Vec<String>,
}

/// Finds the first toolchain that fits `wanted` (a version prefix; empty: at least the definition's minimum).
pub(super) fn find(
    definition: &ToolchainDefinition,
    wanted: &str,
    host: &HostVariables,
    deadline: Duration,
) -> Result<Toolchain, Search> {
    let (candidates, mut search) = candidates(definition, wanted, host);
    for program in candidates {
        match probe(&definition.probe, &program, host, deadline).and_then(|found| usable(found, host)) {
            Ok(toolchain) if fits(definition, wanted, &toolchain.version) => return Ok(toolchain),
            Ok(toolchain) => search.found.push(format!("{} ({})", toolchain.executable.display(), toolchain.version)),
            Err(why) => search.found.push(format!("{} ({why})", program.display())),
        }
    }
    search.found.dedup();
    Err(search)
}

/// Whether a version is what is wanted; where nothing is, at least the definition's minimum.
pub(super) fn fits(definition: &ToolchainDefinition, wanted: &str, version: &str) -> bool {
    if wanted.is_empty() {
        definition.minimum.as_deref().is_none_or(|minimum| at_least(version, minimum))
    } else {
        matches_prefix(wanted, version)
    }
}

/// The programs to ask, in order: by name in `PATH`, then the definition's other places, newest first.
fn candidates(definition: &ToolchainDefinition, wanted: &str, host: &HostVariables) -> (Vec<PathBuf>, Search) {
    let mut values = Values::default();
    if !wanted.is_empty() {
        values.set("wanted", wanted);
    }
    for (name, value) in host.iter() {
        values.set(format!("host.{name}"), value.as_str());
    }
    let folders = host.path_folders();
    let on_path = |program: &str| {
        let found = folders.iter().map(|folder| folder.join(program)).filter(|path| is_program(path));
        found.collect::<Vec<_>>()
    };
    let mut search = Search::default();
    let mut out: Vec<PathBuf> = Vec::new();
    for program in definition.programs.iter().filter_map(|program| values.expand(program).ok()) {
        search.looked_at.push(format!("{program} in PATH"));
        for path in on_path(&program) {
            if !out.contains(&path) {
                out.push(path);
            }
        }
    }
    for program in &definition.requires {
        search.looked_at.push(format!("{program} in PATH"));
        if on_path(program).is_empty() {
            search.found.push(format!("no {program} in PATH"));
            return (Vec::new(), search);
        }
    }
    if out.is_empty() {
        return (out, search);
    }
    for pattern in
        definition.also.iter().filter(|pattern| names(pattern).iter().all(|name| values.single.contains_key(name)))
    {
        let Ok(pattern) = values.expand(pattern) else { continue };
        for path in glob(&pattern).into_iter().filter(|path| is_program(path)) {
            if !out.contains(&path) {
                out.push(path);
            }
        }
        search.looked_at.push(pattern);
    }
    (out, search)
}

/// The paths that a pattern with `*` in some of its parts matches, newest version first.
fn glob(pattern: &str) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let Some((before, after)) = part.split_once('*') else {
            paths.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        let mut next = Vec::new();
        for path in &paths {
            let entries = fs_err::read_dir(path).into_iter().flatten().flatten();
            let mut names: Vec<String> = entries
                .filter_map(|entry| entry.file_name().into_string().ok())
                .filter(|name| {
                    name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
                })
                .collect();
            let number =
                |name: &str| name.find(|c: char| c.is_ascii_digit()).map_or(String::new(), |at| name[at..].to_owned());
            names.sort_by(|a, b| compare(&number(b), &number(a)).then_with(|| a.cmp(b)));
            next.extend(names.into_iter().map(|name| path.join(name)));
        }
        paths = next;
    }
    paths
}

fn is_program(path: &Path) -> bool {
    fs_err::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn is_system(path: &Path) -> bool {
    SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Refuses a toolchain whose folder is so wide that mounting it would show what nobody meant to show.
fn usable(toolchain: Toolchain, host: &HostVariables) -> Result<Toolchain, String> {
    let home = host.get("HOME").map(Path::new);
    let wide = |root: &&PathBuf| root.parent().is_none() || home.is_some_and(|home| home.starts_with(root));
    match toolchain.roots.iter().find(wide) {
        Some(root) => Err(format!("its folder {} holds more than a toolchain", root.display())),
        None => Ok(toolchain),
    }
}

/// Asks one program what it really is.
fn probe(argv: &[String], program: &Path, host: &HostVariables, deadline: Duration) -> Result<Toolchain, String> {
    let mut values = Values::default();
    values.set("program", program.to_str().ok_or("its path is not UTF-8")?);
    let argv = values.expand_all(argv).map_err(|name| format!("the probe asks for `{}`", name.0))?;
    answer(&run(&argv, host, deadline)?)
}

/// Reads what a probe printed.
pub(super) fn answer(text: &str) -> Result<Toolchain, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Answer {
        Error { error: String },
        Toolchain(Toolchain),
    }
    match serde_json::from_str(text.trim()).map_err(|e| format!("its answer can't be read: {e}"))? {
        Answer::Error { error } => Err(error),
        Answer::Toolchain(toolchain) => Ok(toolchain),
    }
}

/// Runs a program of the host outside the sandbox, with a clean environment and a deadline; gives what it printed.
fn run(argv: &[String], host: &HostVariables, deadline: Duration) -> Result<String, String> {
    let (program, arguments) = argv.split_first().ok_or("the probe is empty")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(host.iter())
        .envs([("LC_ALL", "C"), ("RUSTUP_AUTO_INSTALL", "0")])
        // Version managers look for files that choose a version, from the current folder upwards.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    child::dies_with_us(&mut command);
    let mut child = spawn(&mut command).map_err(|e| format!("could not be started: {e}"))?;
    fault::point("toolchain.probe.spawned");
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if start.elapsed() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => break Err(format!("did not answer within {} s", deadline.as_secs())),
            Err(e) => break Err(e.to_string()),
        }
    };
    // Also after a good end: a child left behind would keep the pipes open.
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
    let status = status?;
    let text = |receiver: mpsc::Receiver<Vec<u8>>| {
        String::from_utf8_lossy(&receiver.recv_timeout(Duration::from_secs(5)).unwrap_or_default()).into_owned()
    };
    let (stdout, stderr) = (text(stdout), text(stderr));
    if status.success() {
        return Ok(stdout);
    }
    let said = stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim();
    Err(format!("{status}: {said}"))
}

/// Starts a program; one that somebody still has open for writing is tried again for a moment.
fn spawn(command: &mut Command) -> std::io::Result<std::process::Child> {
    const TRIES: u32 = 20;
    for _ in 1..TRIES {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
    command.spawn()
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    const MOST: u64 = 1024 * 1024;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(MOST).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that answers a probe as version `version`.
    fn fake(path: &Path, version: &str) {
        let root = path.parent().unwrap().parent().unwrap();
        let answer =
            serde_json::json!({"version": version, "executable": path, "roots": [root], "tools": {}, "identity": {}});
        program(path, &format!("printf '%s' '{answer}'"));
    }

    fn program(path: &Path, body: &str) {
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn definition() -> ToolchainDefinition {
        ToolchainDefinition {
            programs: vec!["tool{{wanted}}".to_owned(), "tool".to_owned()],
            requires: vec!["helper".to_owned()],
            also: vec!["{{host.PYENV_ROOT}}/versions/*/bin/tool".to_owned(), "{{host.NVM_DIR}}/x".to_owned()],
            minimum: Some("3.8".to_owned()),
            probe: vec!["{{program}}".to_owned(), "--probe".to_owned()],
        }
    }

    struct Host {
        folder: tempfile::TempDir,
        variables: HostVariables,
    }

    fn host() -> Host {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        program(&at("shims/helper"), "true");
        program(&at("shims/tool"), "echo 'no such version' >&2; exit 127");
        fake(&at("system/bin/tool"), "3.7.16");
        for version in ["3.9.18", "3.10.13", "3.11.7"] {
            fake(&at(&format!("manager/versions/{version}/bin/tool")), version);
        }
        let path = format!("relative:{}:{}", at("shims").display(), at("system/bin").display());
        let variables = [("PATH".to_owned(), path), ("PYENV_ROOT".to_owned(), at("manager").display().to_string())];
        Host { folder, variables: HostVariables::pick(variables) }
    }

    const DEADLINE: Duration = Duration::from_secs(60);

    #[test]
    fn candidates_are_the_path_then_other_places_newest_first() {
        let host = host();
        fake(&host.folder.path().join("system/bin/tool3.9"), "3.9.1");
        let (found, search) = candidates(&definition(), "3.9", &host.variables);
        let at = |name: &str| host.folder.path().join(name);
        assert_eq!(
            found,
            [
                at("system/bin/tool3.9"),
                at("shims/tool"),
                at("system/bin/tool"),
                at("manager/versions/3.11.7/bin/tool"),
                at("manager/versions/3.10.13/bin/tool"),
                at("manager/versions/3.9.18/bin/tool"),
            ]
        );
        assert_eq!(search.looked_at[0], "tool3.9 in PATH");
    }

    #[test]
    fn a_broken_shim_and_an_old_version_are_passed_over() {
        let host = host();
        let newest = find(&definition(), "", &host.variables, DEADLINE).unwrap();
        assert_eq!(newest.version, "3.11.7");
        assert_eq!(find(&definition(), "3.9", &host.variables, DEADLINE).unwrap().version, "3.9.18");
        let root = host.folder.path().join("manager/versions/3.11.7");
        assert_eq!(newest.roots, std::slice::from_ref(&root));
        assert!(
            matches!(&newest.mounts()[..], [Mount::ReadOnly { source, target }] if *source == root && *target == root)
        );
    }

    #[test]
    fn what_was_looked_at_and_found_is_said() {
        let host = host();
        let search = find(&definition(), "3.12", &host.variables, DEADLINE).unwrap_err();
        let found = search.found.join("\n");
        assert!(found.contains("no such version") && found.contains("3.7.16") && found.contains("3.11.7"), "{found}");
        assert!(search.looked_at.iter().any(|place| place.ends_with("versions/*/bin/tool")));
    }

    #[test]
    fn a_program_hidden_from_the_path_hides_the_toolchain() {
        let host = host();
        fs_err::remove_file(host.folder.path().join("shims/helper")).unwrap();
        assert_eq!(find(&definition(), "", &host.variables, DEADLINE).unwrap_err().found, ["no helper in PATH"]);
        program(&host.folder.path().join("shims/helper"), "true");
        fs_err::remove_file(host.folder.path().join("shims/tool")).unwrap();
        fs_err::remove_file(host.folder.path().join("system/bin/tool")).unwrap();
        assert!(find(&definition(), "3.11", &host.variables, DEADLINE).unwrap_err().found.is_empty());
    }

    #[test]
    fn a_probe_that_hangs_is_stopped_and_system_folders_need_no_mount() {
        let host = host();
        program(&host.folder.path().join("shims/tool"), "/bin/sleep 1000 & /bin/sleep 1000");
        let found = probe(
            &definition().probe,
            &host.folder.path().join("shims/tool"),
            &host.variables,
            Duration::from_millis(200),
        );
        assert!(found.unwrap_err().contains("did not answer"));
        let system = Toolchain {
            version: "1".to_owned(),
            executable: "/usr/bin/x".into(),
            roots: vec!["/usr".into(), "/opt/x".into(), "/opt/x/lib".into()],
            tools: BTreeMap::new(),
            identity: Value::Null,
        };
        assert_eq!(system.mounts().len(), 1);
    }

    #[test]
    fn a_home_folder_is_no_toolchain() {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("bin/tool");
        fake(&program, "3.9.0");
        let variables = [("HOME".to_owned(), home.path().display().to_string())];
        let found = probe(&definition().probe, &program, &HostVariables::default(), DEADLINE).unwrap();
        assert!(usable(found, &HostVariables::pick(variables)).is_err());
    }
}
