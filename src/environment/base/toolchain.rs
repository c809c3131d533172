//! Finding a toolchain inside a base, by commands that run there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::shelf::Base;
use crate::environment::definition::ToolchainDefinition;
use crate::environment::template::{Values, names};
use crate::environment::toolchain::{Search, Toolchain, answer, fits};
use crate::environment::waiting::wait;
use crate::sandbox::{End, Exit, Limits, Network, Sandbox, Task};

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
pub fn find(
    definition: &ToolchainDefinition,
    wanted: &str,
    base: &Base,
    sandbox: &dyn Sandbox,
    deadline: Duration,
    cancel: &CancellationToken,
) -> Result<Toolchain, Search> {
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
        Err(why) => {
            search.found.push(format!("{place}: {why}"));
            return Err(search);
        }
    };
    let missing: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix('!')).collect();
    if !missing.is_empty() {
        search.found.extend(missing.iter().map(|program| format!("no {program} in PATH of {place}")));
        return Err(search);
    }
    let mut seen: Vec<&str> = Vec::new();
    for program in listed.lines().filter(|line| line.starts_with('/')) {
        if seen.contains(&program) {
            continue;
        }
        seen.push(program);
        match asker.probe(&definition.probe, program) {
            Ok(toolchain) if fits(definition, wanted, &toolchain.version) => return Ok(toolchain),
            Ok(toolchain) => search.found.push(format!("{} ({})", toolchain.executable.display(), toolchain.version)),
            Err(why) => search.found.push(format!("{program} ({why})")),
        }
    }
    search.found.dedup();
    Err(search)
}

struct Asker<'a> {
    base: &'a Base,
    sandbox: &'a dyn Sandbox,
    deadline: Duration,
    cancel: &'a CancellationToken,
}

impl Asker<'_> {
    fn probe(&self, argv: &[String], program: &str) -> Result<Toolchain, String> {
        let mut values = Values::default();
        values.set("program", program);
        let argv = values.expand_all(argv).map_err(|name| format!("the probe asks for `{}`", name.0))?;
        answer(&self.ask(argv)?)
    }

    /// Runs a command in the base and gives what it printed.
    fn ask(&self, argv: Vec<String>) -> Result<String, String> {
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
        let exit = wait(self.sandbox.run(&task, self.cancel)).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        of(&exit, self.deadline)
    }
}

fn of(exit: &Exit, deadline: Duration) -> Result<String, String> {
    if exit.timed_out {
        return Err(format!("did not answer within {} s", deadline.as_secs()));
    }
    match exit.end {
        End::Exited(0) => Ok(exit.stdout.text()),
        end => {
            let stderr = exit.stderr.text();
            let said =
                stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned();
            Err(format!("{end:?}: {said}"))
        }
    }
}
