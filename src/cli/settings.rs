//! Settings that one would repeat: command line > environment > `redgreen.toml` > default, and where each came from.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::bounds::{PhaseTimes, Time};
use super::error::CliError;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An option.
    CommandLine,
    /// An environment variable.
    Environment(&'static str),
    /// `redgreen.toml`.
    File(PathBuf),
    /// Built in.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Environment(name) => write!(f, "environment, {name}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub source: Source,
}

/// The keys of `redgreen.toml`, all optional. Unknown keys are errors.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    /// Folders with repositories.
    pub mirrors: Option<Vec<PathBuf>>,
    /// Where to clone from, with `{owner}` and `{name}`.
    pub clone_from: Option<String>,
    /// The cache folder.
    pub cache: Option<PathBuf>,
    /// The most that the cache may hold.
    pub cache_limit: Option<String>,
    /// Folders with environment definitions that add to or override the built-in ones.
    pub definitions: Option<Vec<PathBuf>>,
    /// Environments by hand.
    pub overrides: Option<PathBuf>,
    /// Oracle runs at once.
    pub jobs: Option<usize>,
    /// Seconds for one oracle run.
    pub timeout: Option<f64>,
    /// Memory for one oracle run.
    pub memory: Option<String>,
    /// Never use the network.
    pub offline: Option<bool>,
    /// Runs of each oracle.
    pub repeat: Option<u32>,
    /// Verdict policy.
    pub policy: Option<String>,
    /// Denominator.
    pub denominator: Option<String>,
    /// Sandbox.
    pub sandbox: Option<String>,
    /// Deadlines of phases, as a table or as the option's text.
    pub phase_timeout: Option<PhaseTimes>,
    /// Time for one oracle run with all its tries.
    pub task_budget: Option<Time>,
    /// Time for the whole run.
    pub run_budget: Option<Time>,
    /// Free space below which nothing new is started.
    pub min_free: Option<String>,
    /// How long to wait for free space.
    pub disk_wait: Option<Time>,
    /// Delete unused entries of the cache when space is low.
    pub gc_when_low: Option<bool>,
    /// Failures in a row for one shared cause.
    pub max_same_infra: Option<u32>,
    /// Where a language model's answers come from.
    pub llm: Option<String>,
    /// The language model.
    pub model: Option<String>,
    /// How its server is spoken to.
    pub api: Option<String>,
    /// Its server.
    pub base_url: Option<String>,
    /// The variable with its key.
    pub key_variable: Option<String>,
    /// The file with its key.
    pub key_file: Option<PathBuf>,
    /// The certificates that are trusted.
    pub ca_bundle: Option<PathBuf>,
    /// Tables of prices.
    pub prices: Option<Vec<PathBuf>>,
    /// What a run may take of it.
    pub budget: Option<String>,
    /// Folders with prompt templates.
    pub prompts: Option<Vec<PathBuf>>,
}

/// The outer layers: what the environment and the file say.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    file: File,
    file_path: PathBuf,
}

impl Layers {
    /// Reads `redgreen.toml` of the current folder, where there is one.
    pub fn load(folder: &Path) -> Result<Self, CliError> {
        let file_path = folder.join("redgreen.toml");
        if !file_path.is_file() {
            return Ok(Self { file: File::default(), file_path });
        }
        let text = fs_err::read_to_string(&file_path).map_err(|e| CliError::usage(e.to_string()))?;
        let file = toml::from_str(&text).map_err(|e| {
            CliError::usage(format!("`{}` cannot be used: {}", file_path.display(), e.to_string().trim_end()))
        })?;
        Ok(Self { file, file_path })
    }

    /// Picks a value: the option, else the variable, else the file's, else the default.
    pub fn pick<T>(
        &self,
        option: Option<T>,
        variable: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
        of_file: impl FnOnce(&File) -> Result<Option<T>, String>,
        default: impl FnOnce() -> T,
    ) -> Result<Sourced<T>, CliError> {
        if let Some(value) = option {
            return Ok(Sourced { value, source: Source::CommandLine });
        }
        if let Some(text) = super::variables::get(variable) {
            let value = parse(&text).map_err(|e| CliError::usage(format!("the variable `{variable}`: {e}")))?;
            return Ok(Sourced { value, source: Source::Environment(variable) });
        }
        let from_file = of_file(&self.file).map_err(|e| {
            let key = variable.trim_start_matches("REDGREEN_").to_ascii_lowercase().replace('_', "-");
            CliError::usage(format!("`{key}` in `{}`: {e}", self.file_path.display()))
        })?;
        Ok(match from_file {
            Some(value) => Sourced { value, source: Source::File(self.file_path.clone()) },
            None => Sourced { value: default(), source: Source::Default },
        })
    }
}

/// Reads a size: `512M`, `2GiB`, `1000000`. Units are powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit.trim().to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(format!("`{text}` is not a size (use `512M`, `2G`)")),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is not a size (use `512M`, `2G`)"))?;
    let bytes = number * factor as f64;
    if !(1024.0 * 1024.0..1e15).contains(&bytes) {
        return Err(format!("`{text}` is no sensible amount of memory (at least 1M)"));
    }
    Ok(bytes as u64)
}

/// Reads seconds: `90`, `1.5`.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.trim().parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    seconds_to_duration(seconds)
}

/// Checks a number of seconds.
pub fn seconds_to_duration(seconds: f64) -> Result<Duration, String> {
    if !(0.01..=7.0 * 86400.0).contains(&seconds) {
        return Err(format!("{seconds} seconds is not between 0.01 s and a week"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_size("1.5g"), Ok(3 << 29));
        assert_eq!(parse_size("2097152"), Ok(2 << 20));
        for bad in ["", "M", "12Q", "-1", "1", "NaN", "1e9"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_file_is_read_and_an_unknown_key_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("redgreen.toml"), "jobs = 3\n").unwrap();
        let layers = Layers::load(dir.path()).unwrap();
        let number = |t: &str| t.parse().map_err(|_| "no".to_owned());
        let jobs = layers.pick(None, "REDGREEN_NOT_SET_IN_TESTS", number, |f| Ok(f.jobs), || 1).unwrap();
        assert_eq!(jobs.value, 3);
        assert!(matches!(jobs.source, Source::File(_)));
        let jobs = layers.pick(Some(7), "REDGREEN_NOT_SET_IN_TESTS", number, |f| Ok(f.jobs), || 1).unwrap();
        assert_eq!((jobs.value, jobs.source), (7, Source::CommandLine));
        fs_err::write(dir.path().join("redgreen.toml"), "jobs = 3\nmirors = []\n").unwrap();
        let error = Layers::load(dir.path()).unwrap_err();
        assert!(error.message.contains("mirors") && error.message.contains("line 2"), "{error:?}");
    }
}
