//! What redgreen costs beside the tests. Prints and asserts nothing.
//!
//! 1. Scoring the bundled quickstart with one job: the time inside of tests against the wall clock, with an empty cache,
//!    with a full one, and with everything on record.
//! 2. 1,000 trivial oracle runs from end to end: what is left when the tests do next to nothing.
//! 3. The same command again on 10,000 finished verdicts: everything is served from records.
//!
//! `cargo bench --bench scoring` runs all; `-- INSTANCES` takes another size for the last (100 verdicts an instance).

#![allow(clippy::print_stdout, reason = "a benchmark talks to the person who started it")]

mod common;

use std::path::Path;
use std::process::Command;

use common::measure::{Took, load, quantile, run, succeed};
use common::synthetic::{RUNS, Synthetic, benchmark};
use common::{Answer, REDGREEN, number};
use serde_json::Value;

fn main() -> Answer<()> {
    let place = tempfile::tempdir()?;
    quickstart(place.path())?;
    trivial(place.path(), 1000 / RUNS)?;
    resume(place.path(), number(10_000 / RUNS))
}

/// Scores with these arguments and gives the report beside what it took.
fn score(bench: &Path, cache: &Path, out: &Path, more: &[&str]) -> Answer<(Took, Value)> {
    let mut command = Command::new(REDGREEN);
    command.args(["score", "--json", "--offline"]).arg(bench).args(more);
    let took = run(command.arg("--cache").arg(cache).arg("--out").arg(out))?;
    match took.output.status.code() {
        // Toolchains that are not here make infra rows; these count as no time.
        Some(0 | 3) => {
            let report = serde_json::from_slice(&took.output.stdout)?;
            Ok((took, report))
        }
        _ => Err(String::from_utf8_lossy(&took.output.stderr).into_owned().into()),
    }
}

fn quickstart(place: &Path) -> Answer<()> {
    println!("scoring the quickstart with one job, times in s; {}", load());
    println!("{:<52} {:>8} {:>8} {:>8} {:>12}", "", "runs", "wall", "in tests", "in tests");
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let full = "with a full cache";
    for (name, run) in [("with an empty cache", "first"), (full, "second"), ("with everything on record", "second")] {
        let (took, report) = score(&bench, &place.join("cache"), &place.join(run), &["--jobs", "1"])?;
        // Served from records: their seconds were spent by the run before.
        let fresh = run == "first" || name == full;
        let (runs, inside) = if fresh { in_tests(&report)? } else { (0, 0.0) };
        let wall = took.wall;
        println!("{name:<52} {runs:>8} {wall:>8.2} {inside:>8.2} {:>10.0} %", 100.0 * inside / wall);
    }
    println!();
    Ok(())
}

/// Oracle runs behind a report's verdicts, and the seconds in them.
fn in_tests(report: &Value) -> Answer<(usize, f64)> {
    let verdicts = report["verdicts"].as_array().ok_or("the report has no verdicts")?;
    let runs = verdicts.iter().filter(|v| !v["key"].is_null()).count();
    Ok((runs, verdicts.iter().filter_map(|v| v["seconds"].as_f64()).sum()))
}

fn score_synthetic(made: &Synthetic, place: &Path, out: &str) -> Answer<(Took, Value)> {
    let mirrors = made.mirrors.to_str().ok_or("a path is not UTF-8")?;
    score(&made.bench, &place.join("cache"), &place.join(out), &["--mirrors", mirrors])
}

fn trivial(place: &Path, instances: usize) -> Answer<()> {
    let made = benchmark(&place.join("thousand"), instances)?;
    let (took, report) = score_synthetic(&made, place, "thousand-run")?;
    let (runs, inside) = in_tests(&report)?;
    println!("{runs} trivial oracle runs from end to end, one job a processor; {}", load());
    println!(
        "  {:.2} s wall, {:.2} s CPU; {inside:.2} s between start and end of tests; {:.1} ms wall and {:.1} ms CPU a run",
        took.wall,
        took.cpu,
        1000.0 * took.wall / runs as f64,
        1000.0 * took.cpu / runs as f64
    );
    // What the same tests cost outside of any sandbox, one after the other.
    let start = std::time::Instant::now();
    let tree = tempfile::tempdir()?;
    fs_err::write(tree.path().join("state"), "done\n")?;
    let script = "read -r state <state\ntest \"$state\" = done\n";
    for _ in 0..runs {
        succeed(Command::new("/bin/sh").args(["-c", script]).current_dir(tree.path()))?;
    }
    let bare = start.elapsed().as_secs_f64();
    println!("  the same scripts without redgreen, one after the other: {bare:.2} s\n");
    Ok(())
}

fn resume(place: &Path, instances: usize) -> Answer<()> {
    let made = benchmark(&place.join("many"), instances)?;
    let (first, report) = score_synthetic(&made, place, "many-run")?;
    let (runs, _) = in_tests(&report)?;
    println!("{runs} verdicts: {:.1} s for the first time", first.wall);
    let mut walls = Vec::new();
    let mut last = None;
    for _ in 0..5 {
        let (took, again) = score_synthetic(&made, place, "many-run")?;
        if again["arms"] != report["arms"] {
            return Err("the resumed report differs".into());
        }
        walls.push(took.wall);
        last = Some(took);
    }
    let Some(last) = last else { return Ok(()) };
    println!(
        "the same command again, 5 times: median {:.2} s, fastest {:.2} s ({:.2} s CPU, {} MiB at most); {}",
        quantile(&walls, 0.5),
        quantile(&walls, 0.0),
        last.cpu,
        last.memory >> 20,
        load()
    );
    Ok(())
}
