//! Options that bound a run as a whole: deadlines of phases, budgets, room on disks, the circuit breaker.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::error::CliError;
use super::settings::{Layers, parse_size, seconds_to_duration};
use crate::engine::{Bounds, PhaseLimits};
use crate::stage::score::DiskSettings;

/// `--phase-timeout`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct PhaseOption {
    /// Deadlines of the phases before an oracle's own run, as `fetch=20m,build=1h`; may be repeated. `repository` (all
    /// tries of a clone, checkout, patches) [default: 30m], `fetch` (packages) and `build` [default: 15m each], `proof` (one
    /// check of an environment) [default: 10m], `environment` (all attempts to find one) [default: 2h], `rebuild` (of
    /// one revision) [default: as `--timeout`].
    #[arg(long, value_name = "PHASE=TIME", value_delimiter = ',', help_heading = "Bounds", value_parser = parse_phase)]
    phase_timeout: Vec<(String, Duration)>,
}

/// What bounds a run of `score`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Bounds")]
pub(super) struct BoundsOptions {
    #[command(flatten)]
    phases: PhaseOption,
    /// Time for one oracle run with all its tries and retries, as `10m` [default: none: 3 tries, each within its limits].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    task_budget: Option<Duration>,
    /// Time for the whole run, as `2h`: after it nothing new is started, and the same command goes on [default: none].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    run_budget: Option<Duration>,
    /// Start nothing new while the cache or the run folder has less free space than this; 0 for never [default: 1G].
    #[arg(long, value_name = "SIZE", value_parser = parse_free)]
    min_free: Option<u64>,
    /// How long to wait for free space before the rest ends as infra [default: 10m].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    disk_wait: Option<Duration>,
    /// When space is low, delete from the cache what nothing used for a day.
    #[arg(long)]
    gc_when_low: bool,
    /// After so many infra failures in a row for one shared cause, start nothing more that would meet it; 0 for never
    /// [default: 5].
    #[arg(long, value_name = "N")]
    max_same_infra: Option<u32>,
}

/// `phase-timeout` of `redgreen.toml`: a table, or the option's text.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum PhaseTimes {
    Text(String),
    Table(BTreeMap<String, Time>),
}

/// A time in `redgreen.toml`: a number of seconds, or a text with a unit.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Time {
    Seconds(f64),
    Text(String),
}

impl Time {
    fn parse(&self) -> Result<Duration, String> {
        match self {
            Self::Seconds(seconds) => seconds_to_duration(*seconds),
            Self::Text(text) => parse_time(text),
        }
    }
}

impl PhaseOption {
    /// The phases' deadlines. The outermost layer that says anything is taken as a whole.
    pub(super) fn resolve(&self, layers: &Layers) -> Result<PhaseLimits, CliError> {
        let option = (!self.phase_timeout.is_empty()).then(|| limits(self.phase_timeout.iter().cloned()));
        Ok(layers
            .pick(
                option.transpose().map_err(CliError::usage)?,
                "REDGREEN_PHASE_TIMEOUT",
                parse_phases,
                |file| file.phase_timeout.as_ref().map(of_file).transpose(),
                PhaseLimits::default,
            )?
            .value)
    }
}

impl BoundsOptions {
    /// The bounds, each with the layers' precedence.
    pub(super) fn resolve(&self, layers: &Layers) -> Result<(Bounds, DiskSettings), CliError> {
        let default = DiskSettings::default();
        let some = |text: &str| parse_time(text).map(Some);
        let time = |time: &Option<Time>| time.as_ref().map(|time| time.parse().map(Some)).transpose();
        let bounds = Bounds {
            phases: self.phases.resolve(layers)?,
            task_budget: layers
                .pick(self.task_budget.map(Some), "REDGREEN_TASK_BUDGET", some, |f| time(&f.task_budget), || None)?
                .value,
            run_budget: layers
                .pick(self.run_budget.map(Some), "REDGREEN_RUN_BUDGET", some, |f| time(&f.run_budget), || None)?
                .value,
            same_infra: layers
                .pick(
                    self.max_same_infra,
                    "REDGREEN_MAX_SAME_INFRA",
                    |t| t.trim().parse().map_err(|_| format!("`{t}` is no number of failures")),
                    |f| Ok(f.max_same_infra),
                    || Bounds::default().same_infra,
                )?
                .value,
        };
        let disk = DiskSettings {
            min_free: layers
                .pick(
                    self.min_free,
                    "REDGREEN_MIN_FREE",
                    parse_free,
                    |f| f.min_free.as_deref().map(parse_free).transpose(),
                    || default.min_free,
                )?
                .value,
            patience: layers
                .pick(
                    self.disk_wait,
                    "REDGREEN_DISK_WAIT",
                    parse_time,
                    |f| f.disk_wait.as_ref().map(Time::parse).transpose(),
                    || default.patience,
                )?
                .value,
            clean: layers
                .pick(
                    self.gc_when_low.then_some(true),
                    "REDGREEN_GC_WHEN_LOW",
                    super::common::parse_bool,
                    |f| Ok(f.gc_when_low),
                    || default.clean,
                )?
                .value,
        };
        Ok((bounds, disk))
    }
}

fn of_file(times: &PhaseTimes) -> Result<PhaseLimits, String> {
    match times {
        PhaseTimes::Text(text) => parse_phases(text),
        PhaseTimes::Table(table) => {
            let pairs = table.iter().map(|(phase, time)| Ok((phase.clone(), time.parse()?)));
            limits(pairs.collect::<Result<Vec<_>, String>>()?)
        }
    }
}

fn parse_phases(text: &str) -> Result<PhaseLimits, String> {
    limits(text.split(',').map(parse_phase).collect::<Result<Vec<_>, _>>()?)
}

fn limits(pairs: impl IntoIterator<Item = (String, Duration)>) -> Result<PhaseLimits, String> {
    let mut limits = PhaseLimits::default();
    for (phase, limit) in pairs {
        if !limits.set(&phase, limit) {
            let hint = if phase == "oracle" { "; the oracle's own is `--timeout`" } else { "" };
            return Err(format!("there is no phase `{phase}` (use {}){hint}", PhaseLimits::NAMES.join(", ")));
        }
    }
    Ok(limits)
}

fn parse_phase(text: &str) -> Result<(String, Duration), String> {
    let (phase, time) = text.split_once('=').ok_or_else(|| format!("`{text}` is not as in `fetch=20m`"))?;
    let phase = phase.trim().to_owned();
    limits([(phase.clone(), Duration::from_secs(1))])?;
    Ok((phase, parse_time(time)?))
}

fn parse_free(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { parse_size(text) }
}

/// Reads a time: seconds as a number, or with units: `90`, `1.5s`, `20m`, `1h30m`.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is no time (use `90s`, `20m`, `2h`)");
    let mut rest = text.trim();
    if rest.parse::<f64>().is_ok() {
        return seconds_to_duration(rest.parse().map_err(|_| bad())?);
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
        let after = &rest[digits..];
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        seconds += number
            * match after[..unit].trim() {
                "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86400.0,
                _ => return Err(bad()),
            };
        rest = &after[unit..];
    }
    if seconds == 0.0 {
        return Err(bad());
    }
    seconds_to_duration(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, seconds) in
            [("90", 90.0), ("1.5s", 1.5), ("20m", 1200.0), ("2h", 7200.0), ("1h30m", 5400.0), ("5 min", 300.0)]
        {
            assert_eq!(parse_time(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "m", "1x", "h1", "1h30", "-5", "1..2s", "inf", "NaN", "0s", "99d"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn phases() {
        let limits = parse_phases("fetch=20m, rebuild=5").unwrap();
        assert_eq!((limits.fetch, limits.rebuild), (Duration::from_secs(1200), Some(Duration::from_secs(5))));
        assert_eq!(limits.build, PhaseLimits::default().build);
        assert!(parse_phase("oracle=5").unwrap_err().ends_with("the oracle's own is `--timeout`"));
        assert!(parse_phase("fetch").is_err() && parse_phase("fetch=soon").is_err());
    }
}
