//! Making a base of Debian packages, by `mmdebstrap`.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::error::BaseError;
use super::host;
use super::make::Told;
use crate::child;
use crate::environment::settings::HostVariables;
use crate::environment::{NetworkSettings, strip_credentials};

/// How many of its last lines are kept for an error.
const KEPT: usize = 400;
/// How many of them an error shows.
const SHOWN: usize = 15;

/// What a base does without: documentation and translations.
const LEFT_OUT: [&str; 5] =
    ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*"];

/// How to reach Debian.
pub struct Debian<'a> {
    /// `mmdebstrap`.
    pub program: PathBuf,
    /// The mirror, which may hold credentials.
    pub mirror: String,
    /// Proxies and CA bundle.
    pub network: &'a NetworkSettings,
    /// Where programs are.
    pub host: &'a HostVariables,
}

/// One base that is to be made.
pub struct Wanted<'a> {
    /// Its name.
    pub name: &'a str,
    /// The release.
    pub release: &'a str,
    /// The packages.
    pub packages: &'a [String],
    /// Those that the definition does not name.
    pub added: &'a [String],
}

impl Debian<'_> {
    /// Makes the system as a tar archive in `work`, an empty folder of ours. Gives the archive.
    ///
    /// # Errors
    /// See [`BaseError`].
    pub fn make(&self, wanted: &Wanted<'_>, work: &Path, told: &Told<'_>) -> Result<PathBuf, BaseError> {
        let archive = work.join("made.tar");
        let settings = self.settings(work)?;
        let (mirror, _) = strip_credentials(&self.mirror);
        told.say(&format!("Debian {} from {mirror}", wanted.release));
        let mut command = self.command();
        command
            .args(["--variant=minbase", "--format=tar"])
            .arg(format!("--include={}", wanted.packages.join(",")))
            .arg(format!("--aptopt={}", settings.display()))
            // What is half-made is thrown away anyway.
            .arg("--dpkgopt=force-unsafe-io")
            .args(LEFT_OUT.iter().map(|path| format!("--dpkgopt=path-exclude={path}")))
            .arg("--")
            .arg(wanted.release)
            .arg(&archive)
            .arg(&mirror)
            .env_clear()
            .envs(self.variables(work))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        child::dies_with_us(&mut command);
        let failed = |e: std::io::Error| BaseError::Failed {
            program: self.program.display().to_string(),
            end: format!("`{e}`"),
            name: wanted.name.to_owned(),
            tail: String::new(),
        };
        let mut child = command.spawn().map_err(failed)?;
        let (ended, said) = follow(&mut child, told);
        let status = ended?;
        if status.success() { Ok(archive) } else { Err(self.judged(wanted, status, &said)) }
    }

    /// The program. As root it gets process numbers of its own, so that its whole tree dies with it.
    fn command(&self) -> Command {
        let unshare = host::program("unshare", self.host).filter(|_| rustix::process::geteuid().is_root());
        match unshare {
            Some(unshare) => {
                let mut command = Command::new(unshare);
                command.args(["--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"]).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        }
    }

    /// What the maker sees of us: proxies, and nothing else.
    fn variables(&self, work: &Path) -> Vec<(String, String)> {
        let path = self.host.get("PATH").unwrap_or_default();
        let mut out = vec![
            // dpkg looks for its helpers there, and a user's path may not have them.
            ("PATH".to_owned(), format!("{path}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")),
            ("LC_ALL".to_owned(), "C.UTF-8".to_owned()),
        ];
        if is_open(work) {
            out.push(("TMPDIR".to_owned(), work.display().to_string()));
        }
        let proxies = self.network.variables.iter().filter(|(name, _)| name.to_ascii_lowercase().ends_with("_proxy"));
        out.extend(proxies.map(|(name, value)| (name.clone(), value.clone())));
        out
    }

    /// Writes apt's settings. They end up in the system as a file that never becomes part of a base.
    fn settings(&self, work: &Path) -> Result<PathBuf, BaseError> {
        let mut lines: Vec<String> = [
            "Acquire::Languages \"none\";",
            "Acquire::Retries \"3\";",
            "Acquire::http::Timeout \"30\";",
            "Acquire::https::Timeout \"30\";",
            "APT::Install-Recommends \"false\";",
        ]
        .map(str::to_owned)
        .to_vec();
        lines.extend(host::apt_proxies(self.host));
        if let Some(bundle) = &self.network.ca_bundle {
            lines.push(format!("Acquire::https::CAInfo \"{}\";", bundle.display()));
        }
        if let Some(login) = login(&self.mirror) {
            let file = work.join("netrc");
            private(&file, &login)?;
            lines.push(format!("Dir::Etc::netrc \"{}\";", file.display()));
        }
        let file = work.join("apt.conf");
        private(&file, &(lines.join("\n") + "\n"))?;
        Ok(file)
    }

    /// What went wrong, by what was said.
    fn judged(&self, wanted: &Wanted<'_>, status: ExitStatus, said: &VecDeque<String>) -> BaseError {
        let release = wanted.release.to_owned();
        match judge(said) {
            Judged::Disk(line) => BaseError::Disk(line),
            Judged::Package { package, line } => {
                let wanted_by = if wanted.added.contains(&package) { "`system_packages`" } else { "the definition" };
                BaseError::NoSuchPackage { release, package, line, wanted_by: wanted_by.to_owned() }
            }
            Judged::Keyring(line) => BaseError::Keyring { release, line },
            Judged::Mirror(line) => BaseError::Mirror { mirror: strip_credentials(&self.mirror).0, release, line },
            Judged::Other => BaseError::Failed {
                program: "mmdebstrap".to_owned(),
                end: status.to_string(),
                name: wanted.name.to_owned(),
                tail: said.iter().skip(said.len().saturating_sub(SHOWN)).cloned().collect::<Vec<_>>().join("\n"),
            },
        }
    }
}

/// Follows a maker to its end, or ends it; gives its last lines.
fn follow(child: &mut Child, told: &Told<'_>) -> (Result<ExitStatus, BaseError>, VecDeque<String>) {
    const PAUSE: Duration = Duration::from_millis(50);
    let (sender, receiver) = mpsc::channel::<String>();
    if let Some(pipe) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut reader = BufReader::new(pipe);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    return;
                }
                line.clear();
            }
        });
    }
    let mut said = VecDeque::new();
    let mut hear = |line: String| {
        if let Some(text) = line.strip_prefix("I: ").filter(|text| !text.contains("tempdir")) {
            told.say(text.trim_end_matches("..."));
        }
        if said.len() == KEPT {
            said.pop_front();
        }
        said.push_back(line);
    };
    let ended = loop {
        match receiver.recv_timeout(PAUSE) {
            Ok(line) => hear(line),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => std::thread::sleep(PAUSE),
        }
        if let Err(ended) = told.check() {
            end(child);
            break Err(ended);
        }
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) => {}
            Err(error) => break Err(error.into()),
        }
    };
    // What it said last; a child that it left behind may hold the pipe open.
    while let Ok(line) = receiver.recv_timeout(Duration::from_millis(200)) {
        hear(line);
    }
    (ended, said)
}

/// Ends a maker: politely first, so that it takes its mounts and folders away.
fn end(child: &mut Child) {
    const GRACE: Duration = Duration::from_secs(5);
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let send = |signal| group.map(|group| rustix::process::kill_process_group(group, signal));
    send(rustix::process::Signal::TERM);
    let start = Instant::now();
    while start.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    send(rustix::process::Signal::KILL);
    let _ = child.wait();
}

enum Judged {
    Disk(String),
    Package { package: String, line: String },
    Keyring(String),
    Mirror(String),
    Other,
}

/// What the lines of a failed maker tell.
fn judge(said: &VecDeque<String>) -> Judged {
    const DISK: [&str; 3] = ["No space left on device", "enough free space", "Disk quota exceeded"];
    const KEYRING: [&str; 4] =
        ["NO_PUBKEY", "is not signed", "signatures couldn't be verified", "unable to find keyring"];
    const MIRROR: [&str; 14] = [
        "Temporary failure resolving",
        "Could not resolve",
        "Could not connect",
        "Unable to connect",
        "Cannot initiate the connection",
        "Connection failed",
        "Connection refused",
        "Connection timed out",
        "Certificate verification failed",
        "does not have a Release file",
        "404  Not Found",
        "403  Forbidden",
        "401  Unauthorized",
        "Failed to fetch",
    ];
    let line = |signs: &[&str]| said.iter().find(|line| signs.iter().any(|sign| line.contains(sign))).cloned();
    if let Some(line) = line(&DISK) {
        return Judged::Disk(line);
    }
    let package =
        regex::Regex::new(r"(?:Unable to locate package |Package '|Couldn't find any package by [a-z]+ ')([^\s']+)");
    if let Some((package, line)) = package.ok().and_then(|pattern| {
        let lines = said.iter().filter(|line| line.starts_with("E: "));
        lines.filter_map(|line| Some((pattern.captures(line)?.get(1)?.as_str().to_owned(), line.clone()))).next()
    }) {
        return Judged::Package { package, line };
    }
    match (line(&KEYRING), line(&MIRROR)) {
        (Some(line), _) => Judged::Keyring(line),
        (None, Some(line)) => Judged::Mirror(line),
        (None, None) => Judged::Other,
    }
}

/// The line of apt's netrc for a mirror with credentials.
fn login(mirror: &str) -> Option<String> {
    let (scheme, rest) = mirror.split_once("://")?;
    let (login, place) = rest.split('/').next()?.rsplit_once('@')?;
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    Some(format!("machine {scheme}://{place} login {user} password {password}\n"))
}

fn private(file: &Path, text: &str) -> Result<(), BaseError> {
    let mut open = fs_err::OpenOptions::new();
    std::io::Write::write_all(
        &mut fs_err::os::unix::fs::OpenOptionsExt::mode(open.write(true).create(true).truncate(true), 0o600)
            .open(file)?,
        text.as_bytes(),
    )?;
    Ok(())
}

/// Whether every user can reach a folder: as a plain user the maker works with numbers that are not ours.
fn is_open(folder: &Path) -> bool {
    rustix::process::geteuid().is_root()
        || folder.ancestors().all(|at| fs_err::metadata(at).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> String {
        match judge(&text.lines().map(str::to_owned).collect()) {
            Judged::Disk(_) => "disk".to_owned(),
            Judged::Package { package, .. } => format!("package {package}"),
            Judged::Keyring(_) => "keyring".to_owned(),
            Judged::Mirror(line) => format!("mirror {line}"),
            Judged::Other => "other".to_owned(),
        }
    }

    #[test]
    fn failures_are_told_by_their_lines() {
        for (text, expected) in [
            (
                "I: running apt-get update...\nE: Unable to locate package libfoo-dev\nE: apt-get failed",
                "package libfoo-dev",
            ),
            ("E: Package 'python2' has no installation candidate", "package python2"),
            (
                "W: x\nE: The repository 'http://x/debian bookworn Release' does not have a Release file.",
                "mirror E: The repository 'http://x/debian bookworn Release' does not have a Release file.",
            ),
            ("W: GPG error: http://x bookworm InRelease: NO_PUBKEY 0E98\nE: The repository is not signed.", "keyring"),
            ("dpkg: error: cannot copy: No space left on device\nE: Unable to locate package x", "disk"),
            ("E: something else", "other"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn credentials_of_a_mirror_go_to_a_file_of_their_own() {
        assert_eq!(
            login("https://me:p%40ss@near.example:8080/debian").as_deref(),
            Some("machine https://near.example:8080 login me password p%40ss\n")
        );
        assert_eq!(login("http://deb.example/debian"), None);
        assert_eq!(login("http://deb.example/x@y"), None);
    }
}
