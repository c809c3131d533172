//! What a report over many verdicts costs, in time and in memory. Prints and asserts nothing.
//!
//! Run folders of two sizes are made from one real record; the report of each is made three times. The memory of one
//! verdict is the difference of the two peaks over the difference of the sizes.
//!
//! `cargo bench --bench report` takes 20,000 and 100,000 verdicts; `-- INSTANCES` another larger size (100 verdicts an
//! instance).

#![allow(clippy::print_stdout, reason = "a benchmark talks to the person who started it")]

mod common;

use std::process::Command;

use common::measure::{load, quantile, succeed};
use common::synthetic::{RUNS, benchmark, run_folder};
use common::{Answer, REDGREEN, number};

fn main() -> Answer<()> {
    let large = number(100_000 / RUNS);
    let place = tempfile::tempdir()?;
    let made = benchmark(&place.path().join("one"), 1)?;
    let like = place.path().join("like");
    let mut score = Command::new(REDGREEN);
    score.arg("score").arg(&made.bench).arg("--mirrors").arg(&made.mirrors);
    succeed(score.arg("--cache").arg(place.path().join("cache")).arg("--out").arg(&like))?;

    println!("the report of a run folder, three times, files in the page cache; {}", load());
    println!("{:>10} {:>12} {:>12} {:>10} {:>12}", "verdicts", "fastest s", "median s", "CPU s", "peak MiB");
    let mut peaks = Vec::new();
    for instances in [large.div_ceil(5), large] {
        let run = place.path().join(format!("run-{instances}"));
        run_folder(&run, &like, instances)?;
        let mut report = Command::new(REDGREEN);
        report.arg("report").arg(&run);
        let took = (0..3).map(|_| succeed(&mut report)).collect::<Answer<Vec<_>>>()?;
        let walls: Vec<f64> = took.iter().map(|t| t.wall).collect();
        let cpu = took.iter().map(|t| t.cpu).fold(f64::INFINITY, f64::min);
        let peak = took.iter().map(|t| t.memory).max().unwrap_or_default();
        let verdicts = instances * RUNS;
        println!(
            "{verdicts:>10} {:>12.2} {:>12.2} {cpu:>10.2} {:>12}",
            quantile(&walls, 0.0),
            quantile(&walls, 0.5),
            peak >> 20
        );
        peaks.push((verdicts as f64, peak as f64));
    }
    if let [(few, low), (many, high)] = peaks[..] {
        println!("{:.0} bytes of memory a verdict; {}", (high - low) / (many - few), load());
    }
    Ok(())
}
