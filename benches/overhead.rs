//! What redgreen itself costs, side by side with what it is compared to. Prints medians and ratios; asserts nothing.
//!
//! 1. From start to exit of `/bin/true`: a plain child process, the embedded sandbox, and bubblewrap where it is
//!    installed. The three take turns, so that a busy machine slows all of them.
//! 2. Scoring the quickstart with one job: the time inside of tests against the wall clock, with an empty cache, with a
//!    full one, and with everything on record.
//!
//! `cargo bench` runs both; `cargo bench -- ROUNDS` takes another number of rounds for the first.

#![allow(clippy::print_stdout, reason = "a benchmark talks to the person who started it")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use redgreen::sandbox::local::{LocalConfig, LocalSandbox};
use redgreen::sandbox::{End, Limits, Mount, Network, Sandbox, Task, WORKSPACE};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

type Answer<T> = Result<T, Box<dyn Error>>;

/// What is measured: its name, and one go at it.
type Case<'a> = (String, Box<dyn FnMut() -> Answer<()> + 'a>);

const REDGREEN: &str = env!("CARGO_BIN_EXE_redgreen");
const ROUNDS: usize = 50;

fn main() -> Answer<()> {
    // Cargo's own arguments begin with dashes.
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    start_to_exit(rounds)?;
    println!();
    scoring()
}

/// Milliseconds that something took.
fn time(work: impl FnOnce() -> Answer<()>) -> Answer<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}

fn start_to_exit(rounds: usize) -> Answer<()> {
    let scratch = tempfile::tempdir()?;
    let tree = scratch.path().join("tree");
    fs_err::create_dir(&tree)?;
    fs_err::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let sandbox = LocalSandbox::new(LocalConfig::new(REDGREEN, scratch.path()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bubblewrap = Command::new("bwrap").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());

    let task = task(&tree);
    let mut cases: Vec<Case<'_>> = Vec::new();
    cases.push(("plain child process".to_owned(), Box::new(|| plain(&mut Command::new("/bin/true")))));
    let isolation = sandbox.isolation();
    let name = format!("embedded sandbox (level {}, {} workspace)", isolation.level, isolation.workspace);
    cases.push((name, Box::new(|| sandboxed(&runtime, &sandbox, &task))));
    if bubblewrap {
        cases.push(("bubblewrap (read-only root, no limits)".to_owned(), Box::new(|| plain(&mut bwrap()))));
    }
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
    for round in 0..=rounds {
        for ((_, work), times) in cases.iter_mut().zip(&mut times) {
            let took = time(work)?;
            // The first round warms the caches.
            if round > 0 {
                times.push(took);
            }
        }
    }
    println!("start to exit of /bin/true, {rounds} rounds, times in ms");
    println!("{:<52} {:>8} {:>8} {:>12} {:>8}", "", "median", "fastest", "over plain", "ratio");
    let base = median(&times[0]);
    for ((name, _), times) in cases.iter().zip(&times) {
        let middle = median(times);
        let fastest = times.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{name:<52} {middle:>8.2} {fastest:>8.2} {:>+12.2} {:>8.1}", middle - base, middle / base);
    }
    if !bubblewrap {
        println!("bubblewrap is not installed: nothing to compare with");
    }
    Ok(())
}

fn plain(command: &mut Command) -> Answer<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}

/// About what the embedded sandbox gives, without copy-on-write, limits and a filter.
fn bwrap() -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"]);
    for name in ["bin", "sbin", "lib", "lib64"] {
        let path = format!("/{name}");
        if Path::new(&path).exists() {
            command.args(["--ro-bind", &path, &path]);
        }
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true"]);
    command
}

fn task(tree: &Path) -> Task {
    Task {
        argv: vec!["/bin/true".to_owned()],
        cwd: WORKSPACE.into(),
        variables: BTreeMap::new(),
        mounts: vec![Mount::Overlay {
            lowers: vec![tree.to_owned()],
            target: WORKSPACE.into(),
            upper: None,
            remove: Vec::new(),
        }],
        limits: Limits::default(),
        network: Network::None,
        result_channel: true,
    }
}

fn sandboxed(runtime: &tokio::runtime::Runtime, sandbox: &LocalSandbox, task: &Task) -> Answer<()> {
    let exit = runtime.block_on(sandbox.run(task, &CancellationToken::new()))?;
    if exit.end == End::Exited(0) { Ok(()) } else { Err(format!("/bin/true ended with {:?}", exit.end).into()) }
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

fn scoring() -> Answer<()> {
    let place = tempfile::tempdir()?;
    println!("scoring the quickstart with one job, times in s");
    println!("{:<52} {:>8} {:>8} {:>8} {:>12}", "", "runs", "wall", "in tests", "in tests");
    let full = "with a full cache";
    for (name, run) in [("with an empty cache", "first"), (full, "second"), ("with everything on record", "second")] {
        let out = place.path().join(run);
        let mut report = Value::Null;
        let wall = time(|| {
            report = score(&place.path().join("cache"), &out)?;
            Ok(())
        })? / 1000.0;
        // Served from records: their seconds were spent by the run before.
        let fresh = run == "first" || name == full;
        let verdicts = report["verdicts"].as_array().ok_or("the report has no verdicts")?;
        let runs = if fresh { verdicts.iter().filter(|v| !v["key"].is_null()).count() } else { 0 };
        let inside: f64 = if fresh { verdicts.iter().filter_map(|v| v["seconds"].as_f64()).sum() } else { 0.0 };
        println!("{name:<52} {runs:>8} {wall:>8.2} {inside:>8.2} {:>10.0} %", 100.0 * inside / wall);
    }
    Ok(())
}

/// Scores the quickstart and gives its report. Toolchains that are not here make infra rows; these count as no time.
fn score(cache: &Path, out: &Path) -> Answer<Value> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let output = Command::new(REDGREEN)
        .args(["score", "--json", "--jobs", "1", "--offline"])
        .arg(bench)
        .arg("--cache")
        .arg(cache)
        .arg("--out")
        .arg(out)
        .output()?;
    match output.status.code() {
        Some(0 | 3) => Ok(serde_json::from_slice(&output.stdout)?),
        _ => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}
