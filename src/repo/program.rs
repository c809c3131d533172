//! The `git` program: used for the network and for bundles only, in an environment of its own.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::error::RepoError;
use super::lock::Lock;
use crate::{child, fault};

/// Runs git commands. Nothing of the caller's environment or of the user's configuration reaches them: no hooks, no
/// prompts, no credential helpers, only the protocols that clones need.
#[derive(Debug)]
pub(super) struct GitProgram {
    program: PathBuf,
    variables: Vec<(String, String)>,
    /// An empty folder of ours, which is the commands' home.
    home: PathBuf,
    /// A lock that commands hold, too.
    lock: Option<OwnedFd>,
}

/// How much of what git wrote is kept in an error.
const MESSAGE: usize = 2000;

impl GitProgram {
    pub(super) fn new(program: &Path, variables: &[(String, String)], cache: &Path) -> Result<Self, RepoError> {
        let home = cache.join("git-home");
        fs_err::create_dir_all(&home)?;
        Ok(Self { program: program.to_path_buf(), variables: variables.to_vec(), home, lock: None })
    }

    /// Commands hold this lock, too, and with them everything that they start. When redgreen is killed, git dies, but
    /// what git started may write on for a while: until then nobody else begins in its place.
    pub(super) fn holding(mut self, lock: &Lock) -> Result<Self, RepoError> {
        self.lock = Some(lock.file().try_clone()?.into());
        Ok(self)
    }

    /// Runs one command to its end, or kills it and what it started after `limit`.
    pub(super) fn run<S: AsRef<OsStr>>(&self, arguments: &[S], limit: Duration) -> Result<(), RepoError> {
        let words = arguments.iter().map(|a| a.as_ref().to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
        let command = format!("git {}", without_password(&words));
        let failed = |code, message| RepoError::GitProgram { command: command.clone(), code, message };
        let mut child = self
            .command(arguments)
            .spawn()
            .map_err(|e| failed(None, format!("`{}` did not start: {e}", self.program.display())))?;
        fault::point("repo.git.spawned");
        let stderr = child.stderr.take();
        let reader = std::thread::spawn(move || {
            let mut tail = Vec::new();
            let mut buffer = [0; 4096];
            if let Some(mut stderr) = stderr {
                while let Ok(n @ 1..) = stderr.read(&mut buffer) {
                    tail.extend_from_slice(&buffer[..n]);
                    let surplus = tail.len().saturating_sub(MESSAGE);
                    tail.drain(..surplus);
                }
            }
            tail
        });
        let started = Instant::now();
        let mut pause = Duration::from_millis(2);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if started.elapsed() > limit {
                if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
                    // It can only have ended meanwhile, which is as good.
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
                child.wait()?;
                break None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        };
        let tail = reader.join().unwrap_or_default();
        let text = without_password(String::from_utf8_lossy(&tail).trim());
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(failed(status.code(), text)),
            None => Err(RepoError::GitTimeout { command, seconds: limit.as_secs() }),
        }
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear();
        // git finds its own parts by itself; a transport may need `ssh` or `sh`.
        let mut path = OsString::from("/usr/local/bin:/usr/bin:/bin");
        if let Some(folder) = self.program.parent().filter(|p| p.is_absolute()) {
            path = [folder.as_os_str(), OsStr::new(":"), &path].into_iter().collect();
        }
        command.env("PATH", path).env("HOME", &self.home).env("LC_ALL", "C");
        command.envs(self.variables.iter().map(|(k, v)| (k, v)));
        for (name, value) in [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "true"),
            ("SSH_ASKPASS", "true"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh"),
            ("GIT_OPTIONAL_LOCKS", "0"),
        ] {
            command.env(name, value);
        }
        // Mirrors often belong to somebody else. Given as environment, so that git's own child processes see it too.
        let settings =
            [("safe.directory", "*"), ("core.hooksPath", "/dev/null"), ("credential.helper", ""), ("gc.auto", "0")];
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (i, (key, value)) in settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{i}"), key).env(format!("GIT_CONFIG_VALUE_{i}"), value);
        }
        command.args(arguments).current_dir(&self.home).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        child::dies_with_us(&mut command);
        if let Some(lock) = &self.lock {
            child::inherits(&mut command, lock);
        }
        command
    }
}

/// Hides `user:password@` of addresses.
fn without_password(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(sign) => {
                out.push_str("***");
                &after[sign..]
            }
            None => after,
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_hidden() {
        assert_eq!(without_password("clone https://u:p@h.example/x y"), "clone https://***@h.example/x y");
        assert_eq!(without_password("'https://t@h/x' ssh://git@h/x"), "'https://***@h/x' ssh://***@h/x");
        assert_eq!(without_password("https://h.example/a@b"), "https://h.example/a@b");
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_what_it_started() {
        let cache = tempfile::tempdir().unwrap();
        let git = GitProgram::new(Path::new("/bin/sh"), &[], cache.path()).unwrap();
        let error = git.run(&["-c", "sleep 600 & wait"], Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, RepoError::GitTimeout { .. }), "{error}");
    }

    #[test]
    fn a_failing_command_says_what_it_wrote() {
        let cache = tempfile::tempdir().unwrap();
        let git = GitProgram::new(Path::new("/bin/sh"), &[], cache.path()).unwrap();
        let error = git.run(&["-c", "echo https://a:b@c/ >&2; exit 7"], Duration::from_secs(60)).unwrap_err();
        assert!(matches!(&error, RepoError::GitProgram { code: Some(7), message, .. } if message == "https://***@c/"));
        let error = GitProgram::new(Path::new("/nowhere/git"), &[], cache.path()).unwrap();
        let error = error.run(&["version"], Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("did not start"), "{error}");
    }
}
