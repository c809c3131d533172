//! A task's command as a container runs it: arguments, and exactly the task's variables.
//!
//! A small shell script starts it, which says so where the program is not there (an init process's word on that could be
//! anybody's), and arranges what must be arranged first:
//!
//! - the result channel. No descriptor can be handed to a container, so its standard input carries the token and its
//!   standard output the channel, and the command's own output goes the way of its error output;
//! - the engine has no init process: the shell waits for the command, which would not get its signals as process 1;
//! - programs are looked up without the entries of the task's `PATH` that depend on the current directory, which is the
//!   repository's.
//!
//! Variables with names that a shell cannot have (npm's are such) would get lost on the way. With those the engine starts
//! the command itself, where nothing has to be arranged.

use std::collections::BTreeMap;

use crate::sandbox::local::{HOME, RESULT_FD};
use crate::sandbox::{RESULT_FD_VARIABLE, SandboxError, TOKEN_FD_VARIABLE, Task};

/// Where programs are looked up when a task has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The shell that every base has.
const SHELL: &str = "/bin/sh";
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
    /// Whether a script starts it, which prints the run's marker where the program is not there.
    pub by_script: bool,
}

/// What decides how a command is started.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// The names of the image's own variables.
    pub image: &'a [String],
    /// Whether the engine has an init process.
    pub init: bool,
    /// A text that nobody can foresee.
    pub marker: &'a str,
    /// Whether somebody attends, whose the streams are: nobody reads a result then.
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
    let path = variables.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let is_looked_up = !program.contains('/');
    let is_clean = variables.contains_key("PATH") && path.split(':').all(|entry| entry.starts_with('/'));
    let survives = variables.keys().all(|name| is_shell_name(name));
    let by_script = task.result_channel || !around.init || (is_looked_up && !is_clean) || survives;
    let argv = if by_script {
        let unclean = (is_looked_up && !is_clean).then_some(path);
        let channel = task.result_channel.then_some(around.attended);
        let script = script(channel, around.init, unclean, &variables);
        [SHELL, "-c", &script, around.marker].map(str::to_owned).into_iter().chain(task.argv.iter().cloned()).collect()
    } else {
        task.argv.clone()
    };
    let engines = ENGINES_OWN.iter().map(|name| (*name).to_owned());
    let unwanted = around.image.iter().cloned().chain(engines).filter(|name| !variables.contains_key(name));
    let unwanted: std::collections::BTreeSet<String> = unwanted.collect();
    let variables = variables.iter().map(|(name, value)| format!("{name}={value}")).chain(unwanted).collect();
    Ok(Command { argv, variables, by_script })
}

/// The script. Its `$0` is the marker, its arguments are the command.
fn script(channel: Option<bool>, init: bool, looked_up: Option<&str>, variables: &BTreeMap<String, String>) -> String {
    let mut script = String::new();
    match channel {
        None => {}
        Some(false) => script.push_str(&format!("exec {RESULT_FD}>&1 {TOKEN_FD}<&0 1>&2 0</dev/null; ")),
        // Any token will do, as for a reporter that a person starts by hand.
        Some(true) => script.push_str(&format!("exec {RESULT_FD}>/dev/null {TOKEN_FD}<<end\nattended\nend\n")),
    }
    const ABSENT: &str = "{ printf %s \"$0\" >&2; exit 127; }; ";
    match looked_up {
        None => script.push_str("command -v \"$1\" >/dev/null 2>&1 || "),
        Some(path) => {
            let clean: Vec<&str> = path.split(':').filter(|entry| entry.starts_with('/')).collect();
            let quoted = clean.join(":").replace('\'', r"'\''");
            script.push_str(&format!("found=$(PATH='{quoted}'; command -v \"$1\" 2>/dev/null) || "));
        }
    }
    script.push_str(ABSENT);
    if looked_up.is_some() {
        // What the shell itself can do has no path; the file of that name is found as any other.
        script.push_str("case $found in /*) shift; set -- \"$found\" \"$@\";; esac; unset found; ");
    }
    let own: Vec<&str> = SHELLS_OWN.into_iter().filter(|name| !variables.contains_key(*name)).collect();
    if !own.is_empty() {
        script.push_str(&format!("unset {}; ", own.join(" ")));
    }
    script.push_str(if init { "exec \"$@\"" } else { "\"$@\"; exit $?" });
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
        command(task, Circumstances { image: &image, init, marker: "marker", attended: false }).unwrap()
    }

    #[test]
    fn the_variables_are_the_tasks_and_ours_and_no_others() {
        let one = made(&task(&["true", "x"], &[("PATH", "/bin"), ("A", "b=c")], false), true);
        assert_eq!(one.argv[..2], ["/bin/sh", "-c"]);
        assert_eq!(one.argv[3..], ["marker", "true", "x"]);
        assert!(one.by_script && one.argv[2].contains("unset PWD OLDPWD SHLVL; exec \"$@\""), "{}", one.argv[2]);
        assert_eq!(
            one.variables,
            ["A=b=c", "HOME=/home/redgreen", "PATH=/bin", "TMPDIR=/tmp", "GPG_KEY", "HOSTNAME", "TERM"]
        );
        // A shell would lose this one.
        let odd = made(&task(&["true"], &[("PATH", "/bin"), ("npm_config_@a:registry", "x")], false), true);
        assert!(!odd.by_script && odd.argv == ["true"]);
    }

    #[test]
    fn the_channel_is_arranged_before_the_command() {
        let made = made(&task(&["/usr/bin/python3"], &[("HOME", "/x")], true), true);
        assert_eq!(made.argv[..2], ["/bin/sh", "-c"]);
        assert!(made.argv[2].starts_with("exec 7>&1 6<&0 1>&2 0</dev/null; command -v \"$1\""), "{}", made.argv[2]);
        assert!(made.argv[2].ends_with("exec \"$@\""));
        assert_eq!(made.argv[3..], ["marker", "/usr/bin/python3"]);
        for variable in ["HOME=/home/redgreen", "REDGREEN_RESULT_FD=7", "REDGREEN_TOKEN_FD=6", "PATH"] {
            assert!(made.variables.iter().any(|one| one == variable), "{variable}");
        }
    }

    #[test]
    fn programs_are_never_looked_up_in_the_current_directory() {
        for path in ["/bin::/usr/bin", ":/bin:/usr/bin", "bin:/bin:/usr/bin", "/bin:/usr/bin:"] {
            let made = made(&task(&["prog"], &[("PATH", path)], false), true);
            assert!(made.by_script && made.argv[2].contains("PATH='/bin:/usr/bin'"), "{}", made.argv[2]);
        }
        assert!(made(&task(&["prog"], &[], false), true).by_script);
        assert!(!made(&task(&["./prog"], &[], false), true).argv[2].contains("found"));
    }

    #[test]
    fn impossible_commands_are_refused() {
        for bad in [
            task(&[], &[], false),
            task(&[""], &[], false),
            task(&["a\0"], &[], false),
            task(&["a"], &[("", "x")], false),
        ] {
            assert!(command(&bad, Circumstances { image: &[], init: true, marker: "", attended: false }).is_err());
        }
        let own = task(&["a"], &[(RESULT_FD_VARIABLE, "1"), (TOKEN_FD_VARIABLE, "1")], false);
        assert!(!made(&own, true).variables.iter().any(|one| one.contains("_FD")));
    }
}
