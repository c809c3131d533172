//! Finding a toolchain inside a base, by commands that run there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::shelf::Base;
use crate::environment::definition::Definition;
use crate::environment::error::EnvironmentError;
use crate::environment::resolve::missing_toolchain;
use crate::environment::template::{UnknownName, Values, names};
use crate::environment::toolchain::{Search, Toolchain, answer, fits};
use crate::environment::waiting::wait;
use crate::sandbox::{End, Exit, Limits, Network, Sandbox, SandboxError, Task};

/// Where commands are looked up where an image says nothing.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Lists programs: by name along `PATH`, those that must be there too (`!` in front), and by pattern (`*` in a path).
const LIST: &str = r#"
for word in "$@"; do
  case $word in
    !*) command -v "${word#!}" > /dev/null || echo "!${word#!}" ;;
    /*) for path in $word; do [ -f "$path" ] && [ -x "$path" ] && echo "$path"; done ;;
    *) command -v "$word" ;;
  esac
done
true
"#;

/// Finds the first toolchain in a base that fits `wanted`; blocks for as long as its programs take to answer.
///
/// # Errors
/// [`EnvironmentError::ToolchainMissing`], where all that could fit has answered; else what kept it from answering, which
/// says nothing of the base.
pub fn find(
    definition: &Definition,
    wanted: &str,
    base: &Base,
    sandbox: &dyn Sandbox,
    deadline: Duration,
    cancel: &CancellationToken,
) -> Result<Toolchain, EnvironmentError> {
    let (language, definition) = (definition, &definition.toolchain);
    let place = format!("the base {}", base.record.name);
    let mut values = Values::default();
    if !wanted.is_empty() {
        values.set("wanted", wanted);
    }
    let known = |text: &&String| names(text).iter().all(|name| values.single.contains_key(name));
    let expand = |text: &String| values.expand(text).ok();
    let programs: Vec<String> = definition.programs.iter().filter(known).filter_map(expand).collect();
    let patterns: Vec<String> = definition.also.iter().filter(known).filter_map(expand).collect();
    let mut search = Search {
        looked_at: programs.iter().map(|program| format!("{program} in PATH of {place}")).collect(),
        found: Vec::new(),
    };
    let asker = Asker { base, sandbox, deadline, cancel };
    let mut argv = vec!["/bin/sh".to_owned(), "-c".to_owned(), LIST.to_owned(), "sh".to_owned()];
    argv.extend(definition.requires.iter().map(|program| format!("!{program}")));
    argv.extend(programs.into_iter().chain(patterns));
    let listed = match asker.ask(argv) {
        Ok(text) => text,
        Err(Unanswered::Useless(why)) => {
            search.found.push(format!("{place}: {why}"));
            return Err(missing_toolchain(language, wanted, search));
        }
        Err(Unanswered::Slow) => return Err(asker.slow("/bin/sh")),
        Err(Unanswered::Broken(error)) => return Err(error),
    };
    let missing: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix('!')).collect();
    if !missing.is_empty() {
        search.found.extend(missing.iter().map(|program| format!("no {program} in PATH of {place}")));
        return Err(missing_toolchain(language, wanted, search));
    }
    let mut slow: Option<&str> = None;
    let mut seen: Vec<&str> = Vec::new();
    for program in listed.lines().filter(|line| line.starts_with('/')) {
        if seen.contains(&program) {
            continue;
        }
        seen.push(program);
        match asker.probe(&definition.probe, program) {
            Ok(toolchain) if fits(definition, wanted, &toolchain.version) => return Ok(toolchain),
            Ok(toolchain) => search.found.push(format!("{} ({})", toolchain.executable.display(), toolchain.version)),
            Err(Unanswered::Useless(why)) => search.found.push(format!("{program} ({why})")),
            // Another one may fit; where none does, this one may have been it.
            Err(Unanswered::Slow) => slow = slow.or(Some(program)),
            Err(Unanswered::Broken(error)) => return Err(error),
        }
    }
    if let Some(program) = slow {
        return Err(asker.slow(program));
    }
    search.found.dedup();
    Err(missing_toolchain(language, wanted, search))
}

/// Why a program said nothing that helps.
enum Unanswered {
    /// It is no toolchain, and why.
    Useless(String),
    /// It did not answer in time: nothing is known of it.
    Slow,
    /// It was not asked, as something of this machine's failed.
    Broken(EnvironmentError),
}

struct Asker<'a> {
    base: &'a Base,
    sandbox: &'a dyn Sandbox,
    deadline: Duration,
    cancel: &'a CancellationToken,
}

impl Asker<'_> {
    fn probe(&self, argv: &[String], program: &str) -> Result<Toolchain, Unanswered> {
        let mut values = Values::default();
        values.set("program", program);
        let unknown = |name: UnknownName| Unanswered::Useless(format!("the probe asks for `{}`", name.0));
        let argv = values.expand_all(argv).map_err(unknown)?;
        answer(&self.ask(argv)?).map_err(Unanswered::Useless)
    }

    fn slow(&self, program: &str) -> EnvironmentError {
        let (base, program) = (self.base.record.name.clone(), program.to_owned());
        EnvironmentError::Probe { base, program, seconds: self.deadline.as_secs().max(1) }
    }

    /// Runs a command in the base and gives what it printed.
    fn ask(&self, argv: Vec<String>) -> Result<String, Unanswered> {
        let mut variables: BTreeMap<String, String> = [("PATH", PATH), ("LC_ALL", "C"), ("RUSTUP_AUTO_INSTALL", "0")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        variables.extend(self.base.record.variables.clone());
        let task = Task {
            argv,
            cwd: PathBuf::from("/"),
            variables,
            root: self.base.root(),
            mounts: Vec::new(),
            limits: Limits { wall: self.deadline, ..Limits::default() },
            network: Network::None,
            result_channel: false,
        };
        match wait(self.sandbox.run(&task, self.cancel)) {
            Ok(Ok(exit)) => of(&exit),
            Ok(Err(error)) if is_no_program(&error) => Err(Unanswered::Useless(error.to_string())),
            Ok(Err(source)) => {
                let step = "find the toolchain".to_owned();
                Err(Unanswered::Broken(EnvironmentError::Sandbox { step, source }))
            }
            Err(error) => Err(Unanswered::Broken(error.into())),
        }
    }
}

/// Whether the base itself is why a program could not be started: it is not there, or no program of this machine's.
fn is_no_program(error: &SandboxError) -> bool {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    let SandboxError::Spawn { source, .. } = error else { return false };
    matches!(source.kind(), NotFound | PermissionDenied)
        || source.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error())
}

fn of(exit: &Exit) -> Result<String, Unanswered> {
    if exit.cancelled {
        return Err(Unanswered::Broken(EnvironmentError::Cancelled));
    }
    if exit.timed_out {
        return Err(Unanswered::Slow);
    }
    match exit.end {
        End::Exited(0) => Ok(exit.stdout.text()),
        end => {
            let stderr = exit.stderr.text();
            let said =
                stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned();
            Err(Unanswered::Useless(format!("{end:?}: {said}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::base::recipe::{Recipe, Source};
    use crate::environment::base::shelf::BaseRecord;
    use crate::environment::recorder::{Answer, Recorder, broken, exit};
    use crate::environment::{Definitions, Failure, Stage};
    use crate::model::{InfraReason, digest_bytes};

    fn base() -> Base {
        let digest = digest_bytes(b"base");
        let record = BaseRecord {
            schema: 1,
            name: "python-3.11".to_owned(),
            recipe: Recipe::new(Source::Archive { digest: digest.clone() }),
            origin: String::new(),
            content: digest.clone(),
            system: String::new(),
            packages: Vec::new(),
            variables: BTreeMap::new(),
            archive_bytes: 0,
            folder_bytes: 0,
            seconds: 0.0,
        };
        Base { digest, folder: "/base".into(), record }
    }

    /// Looks for Python 3.11 in a base whose one candidate answers so.
    fn found(answer: Answer) -> Result<Toolchain, EnvironmentError> {
        let definition = Definitions::load(&[]).unwrap().get("python").unwrap();
        let (recorder, never) = (Recorder::answering(answer), CancellationToken::new());
        find(&definition, "3.11", &base(), &*recorder, Duration::from_secs(30), &never)
    }

    fn is_list(task: &Task) -> bool {
        task.argv[0] == "/bin/sh"
    }

    fn answers(task: &Task, version: &str) -> Result<Exit, SandboxError> {
        if is_list(task) {
            return Ok(exit(0, "/usr/bin/python3\n"));
        }
        let answer = serde_json::json!(
            {"version": version, "executable": "/usr/bin/python3", "roots": ["/usr"], "tools": {}, "identity": {}}
        );
        Ok(exit(0, &answer.to_string()))
    }

    #[test]
    fn only_what_the_base_says_of_itself_makes_a_toolchain_missing() {
        assert_eq!(found(|task| answers(task, "3.11.2")).unwrap().version, "3.11.2");
        let no_program = |task: &Task| match is_list(task) {
            true => answers(task, ""),
            false => {
                Err(SandboxError::Spawn { program: "python3".to_owned(), source: std::io::ErrorKind::NotFound.into() })
            }
        };
        let missing: [Answer; 4] =
            [|task| answers(task, "3.13.1"), |_| Ok(exit(0, "")), |_| Ok(exit(1, "")), no_program];
        for answer in missing {
            let error = found(answer).unwrap_err();
            assert!(matches!(error, EnvironmentError::ToolchainMissing { .. }), "{error}");
        }
    }

    #[test]
    fn a_sandbox_that_fails_and_a_program_that_is_slow_say_nothing_of_the_base() {
        let slow = |task: &Task| match is_list(task) {
            true => answers(task, ""),
            false => Ok(Exit { timed_out: true, ..exit(1, "") }),
        };
        for (answer, reason) in [
            (broken as Answer, InfraReason::Sandbox),
            (slow, InfraReason::Deadline),
            (|_| Ok(Exit { timed_out: true, ..exit(1, "") }), InfraReason::Deadline),
        ] {
            let error = found(answer).unwrap_err();
            assert_eq!(error.reason(), reason, "{error}");
            let failure = Failure::of_error(&error, None);
            assert!(failure.is_of_the_machine() && failure.stage <= Stage::Toolchain, "{failure:?}");
        }
    }
}
