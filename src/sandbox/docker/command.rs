//! A task's command as a container runs it: arguments, and exactly the task's variables.
//!
//! A small shell script starts it. The first byte that the container writes to its error output is the script's: whether
//! the program is there ([`STARTS`], [`ABSENT`]). Nothing of the task has run by then, so nobody else can have said it, and
//! what comes later means nothing (an init process's word on that could be anybody's). The script also arranges what must
//! be arranged first:
//!
//! - the result channel. No descriptor can be handed to a container, so its standard input carries the token and its
//!   standard output the channel, and the command's own output goes the way of its error output;
//! - the engine has no init process: the shell waits for the command, which would not get its signals as process 1;
//! - an engine cannot give a container more open files than it has itself, and refuses to: the script takes what it finds
//!   down to the task's limit;
//! - programs are looked up without the entries of the task's `PATH` that depend on the current directory, which is the
//!   repository's, and never among what the shell itself can do.
//!
//! Variables with names that a shell cannot have (npm's are such) would get lost on the way. With those the engine starts
//! the command itself, where nothing has to be arranged.

use std::collections::BTreeMap;

use crate::sandbox::local::{HOME, RESULT_FD, candidates};
use crate::sandbox::{OPEN_FILES, RESULT_FD_VARIABLE, SandboxError, TOKEN_FD_VARIABLE, Task};

/// The shell that every base has.
pub const SHELL: &str = "/bin/sh";
/// The byte by which the script says that it starts the command (the character ACK).
pub const STARTS: u8 = 0o006;
/// The byte by which it says that the program is not there (the character NAK).
pub const ABSENT: u8 = 0o025;
/// The descriptor from which the token is read inside.
pub const TOKEN_FD: i32 = 6;
/// Variables that engines set by themselves.
const ENGINES_OWN: [&str; 3] = ["PATH", "HOSTNAME", "TERM"];
/// Variables that shells set by themselves.
const SHELLS_OWN: [&str; 3] = ["PWD", "OLDPWD", "SHLVL"];

/// A command for a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// `NAME=value`, and a bare `NAME` for those of the image or the engine that are not to be there.
    pub variables: Vec<String>,
    /// Whether a script starts it.
    pub by_script: bool,
    /// Whether the script says by the first byte of the error output what became of that.
    pub says: bool,
}

/// What decides how a command is started.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// The names of the image's own variables.
    pub image: &'a [String],
    /// Whether the engine has an init process.
    pub init: bool,
    /// Whether somebody attends, whose the streams are: nobody else reads them, or a result.
    pub attended: bool,
}

/// Puts a task's command together.
///
/// # Errors
///
/// [`SandboxError::Setup`] for a command that cannot be started anywhere.
pub fn command(task: &Task, around: Circumstances<'_>) -> Result<Command, SandboxError> {
    let program = task.argv.first().filter(|program| !program.is_empty());
    let program = program.ok_or_else(|| invalid("start an empty command"))?;
    let variables = environment(task);
    if variables.keys().any(|name| name.is_empty() || name.contains('=')) {
        return Err(invalid("set a variable with an impossible name"));
    }
    let texts = task.argv.iter().chain(variables.keys()).chain(variables.values());
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err(invalid("pass on a text with a zero byte"));
    }
    let is_clean = variables.get("PATH").is_some_and(|path| path.split(':').all(|entry| entry.starts_with('/')));
    let by_path = !program.contains('/') && !is_clean;
    let survives = variables.keys().all(|name| is_shell_name(name));
    let by_script = task.result_channel || !around.init || by_path || survives;
    let argv = if by_script {
        let script = script(task, around, by_path, &variables);
        [SHELL, "-c", &script, SHELL].map(str::to_owned).into_iter().chain(task.argv.iter().cloned()).collect()
    } else {
        task.argv.clone()
    };
    let engines = ENGINES_OWN.iter().map(|name| (*name).to_owned());
    let unwanted = around.image.iter().cloned().chain(engines).filter(|name| !variables.contains_key(name));
    let unwanted: std::collections::BTreeSet<String> = unwanted.collect();
    let variables = variables.iter().map(|(name, value)| format!("{name}={value}")).chain(unwanted).collect();
    Ok(Command { argv, variables, by_script, says: by_script && !around.attended })
}

/// The script. Its arguments are the command. With `by_path` the program is started by the path at which it was found.
fn script(task: &Task, around: Circumstances<'_>, by_path: bool, variables: &BTreeMap<String, String>) -> String {
    let mut script = String::new();
    match (task.result_channel, around.attended) {
        (false, _) => {}
        (true, false) => script.push_str(&format!("exec {RESULT_FD}>&1 {TOKEN_FD}<&0 1>&2 0</dev/null; ")),
        // Any token will do, as for a reporter that a person starts by hand.
        (true, true) => script.push_str(&format!("exec {RESULT_FD}>/dev/null {TOKEN_FD}<<end\nattended\nend\n")),
    }
    // A person reads words, and there the byte would be lost among what a terminal echoes.
    let absent = match around.attended {
        false => format!("printf '\\{ABSENT:03o}' >&2"),
        true => "printf '%s: not found\\n' \"$1\" >&2".to_owned(),
    };
    let tries = candidates(&task.argv[0], variables).into_iter().map(|place| {
        let place = format!("'{}'", place.replace('\'', r"'\''"));
        let take = if by_path { format!(" && shift && set -- {place} \"$@\"") } else { String::new() };
        format!("{{ [ -f {place} ] && [ -x {place} ]{take}; }} || ")
    });
    script.extend(tries);
    script.push_str(&format!("{{ {absent}; exit 127; }}; "));
    // The soft one first, which must not be above the other.
    let (soft, hard) = OPEN_FILES;
    script.push_str(&format!("ulimit -S -n {soft} 2>/dev/null; ulimit -H -n {hard} 2>/dev/null; "));
    let own: Vec<&str> = SHELLS_OWN.into_iter().filter(|name| !variables.contains_key(*name)).collect();
    if !own.is_empty() {
        script.push_str(&format!("unset {}; ", own.join(" ")));
    }
    if !around.attended {
        script.push_str(&format!("printf '\\{STARTS:03o}' >&2; "));
    }
    // `exec` never takes what the shell itself can do for a program.
    script.push_str(if around.init { "exec \"$@\"" } else { "(exec \"$@\"); exit $?" });
    script
}

/// Whether a shell keeps a variable of this name.
fn is_shell_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// The whole environment: the task's variables and ours, ours last.
fn environment(task: &Task) -> BTreeMap<String, String> {
    let mut all = task.variables.clone();
    all.insert("HOME".to_owned(), HOME.to_owned());
    all.insert("TMPDIR".to_owned(), "/tmp".to_owned());
    for (name, number) in [(RESULT_FD_VARIABLE, RESULT_FD), (TOKEN_FD_VARIABLE, TOKEN_FD)] {
        if task.result_channel {
            all.insert(name.to_owned(), number.to_string());
        } else {
            all.remove(name);
        }
    }
    all
}

fn invalid(step: &str) -> SandboxError {
    SandboxError::Setup { step: step.to_owned(), source: std::io::Error::from_raw_os_error(libc::EINVAL) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Limits, Network, Root};

    fn task(argv: &[&str], variables: &[(&str, &str)], result_channel: bool) -> Task {
        Task {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            cwd: "/".into(),
            variables: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            root: Root::Host,
            mounts: Vec::new(),
            limits: Limits::default(),
            network: Network::None,
            result_channel,
        }
    }

    fn made(task: &Task, init: bool) -> Command {
        let image = ["PATH".to_owned(), "GPG_KEY".to_owned()];
        command(task, Circumstances { image: &image, init, attended: false }).unwrap()
    }

    #[test]
    fn the_variables_are_the_tasks_and_ours_and_no_others() {
        let one = made(&task(&["true", "x"], &[("PATH", "/bin"), ("A", "b=c")], false), true);
        assert_eq!(one.argv[..2], ["/bin/sh", "-c"]);
        assert_eq!(one.argv[3..], ["/bin/sh", "true", "x"]);
        assert_eq!(
            one.argv[2],
            "{ [ -f '/bin/true' ] && [ -x '/bin/true' ]; } || { printf '\\025' >&2; exit 127; }; \
             ulimit -S -n 4096 2>/dev/null; ulimit -H -n 65536 2>/dev/null; unset PWD OLDPWD SHLVL; printf '\\006' >&2; exec \"$@\""
        );
        assert!(one.says && one.by_script);
        assert_eq!(
            one.variables,
            ["A=b=c", "HOME=/home/redgreen", "PATH=/bin", "TMPDIR=/tmp", "GPG_KEY", "HOSTNAME", "TERM"]
        );
        // A shell would lose this one.
        let odd = made(&task(&["true"], &[("PATH", "/bin"), ("npm_config_@a:registry", "x")], false), true);
        assert!(!odd.says && !odd.by_script && odd.argv == ["true"]);
    }

    #[test]
    fn the_channel_is_arranged_before_the_command() {
        let made = made(&task(&["/usr/bin/python3"], &[("HOME", "/x")], true), true);
        assert_eq!(made.argv[..2], ["/bin/sh", "-c"]);
        let begin = "exec 7>&1 6<&0 1>&2 0</dev/null; { [ -f '/usr/bin/python3' ]";
        assert!(made.argv[2].starts_with(begin), "{}", made.argv[2]);
        assert!(made.argv[2].ends_with("exec \"$@\""));
        assert_eq!(made.argv[3..], ["/bin/sh", "/usr/bin/python3"]);
        for variable in ["HOME=/home/redgreen", "REDGREEN_RESULT_FD=7", "REDGREEN_TOKEN_FD=6", "PATH"] {
            assert!(made.variables.iter().any(|one| one == variable), "{variable}");
        }
    }

    /// Runs a made command in a folder on this machine; its output, what it says by its first byte, and its code.
    fn run(made: &Command, folder: &std::path::Path) -> (String, Option<u8>, Option<i32>) {
        let set = made.variables.iter().filter_map(|one| one.split_once('='));
        let mut command = std::process::Command::new(&made.argv[0]);
        let output = command.args(&made.argv[1..]).env_clear().envs(set).current_dir(folder).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.stderr.first().copied(), output.status.code())
    }

    #[test]
    fn programs_are_never_looked_up_in_the_current_directory_nor_in_the_shell() {
        let place = tempfile::tempdir().unwrap();
        let (tree, tools) = (place.path().join("tree"), place.path().join("it's tools"));
        // `true` is among what every shell can do by itself, `exit` even more so.
        for (folder, word) in [(&tree, "planted"), (&tools, "found")] {
            fs_err::create_dir(folder).unwrap();
            for name in ["prog", "true", "exit", "own"] {
                let path = folder.join(name);
                fs_err::write(&path, format!("#!/bin/sh\necho {word} \"$@\"\n")).unwrap();
                let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                fs_err::set_permissions(&path, open).unwrap();
            }
        }
        fs_err::remove_file(tools.join("own")).unwrap();
        let tools = tools.to_str().unwrap();
        for init in [true, false] {
            for path in [format!(":{tools}"), format!(".:{tools}"), format!("{tools}:"), tools.to_owned()] {
                for name in ["prog", "true", "exit"] {
                    let made = made(&task(&[name, "a b"], &[("PATH", &path)], false), init);
                    let wanted = ("found a b\n".to_owned(), Some(STARTS), Some(0));
                    assert_eq!(run(&made, &tree), wanted, "{name} {path} {init}");
                }
                let made = made(&task(&["own"], &[("PATH", &path)], false), init);
                assert_eq!(run(&made, &tree), (String::new(), Some(ABSENT), Some(127)), "{path} {init}");
            }
            // Nothing to look along at all.
            let none = made(&task(&["prog"], &[("PATH", ".:")], false), init);
            assert_eq!(run(&none, &tree).1, Some(ABSENT));
            // What names a path is no lookup.
            let by_path = made(&task(&["./prog"], &[("PATH", ".:")], false), init);
            assert_eq!(run(&by_path, &tree), ("planted\n".to_owned(), Some(STARTS), Some(0)));
        }
    }

    #[test]
    fn who_attends_reads_words() {
        let around = Circumstances { image: &[], init: true, attended: true };
        let made = command(&task(&["/no/such"], &[], true), around).unwrap();
        assert!(!made.says && made.argv[2].contains("not found"), "{}", made.argv[2]);
        assert_eq!(run(&made, std::path::Path::new("/")), (String::new(), Some(b'/'), Some(127)));
    }

    #[test]
    fn impossible_commands_are_refused() {
        for bad in [
            task(&[], &[], false),
            task(&[""], &[], false),
            task(&["a\0"], &[], false),
            task(&["a"], &[("", "x")], false),
        ] {
            assert!(command(&bad, Circumstances { image: &[], init: true, attended: false }).is_err());
        }
        let own = task(&["a"], &[(RESULT_FD_VARIABLE, "1"), (TOKEN_FD_VARIABLE, "1")], false);
        assert!(!made(&own, true).variables.iter().any(|one| one.contains("_FD")));
    }
}
