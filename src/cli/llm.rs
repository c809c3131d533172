//! Options of every verb that asks a language model.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::bounds::parse_time;
use super::error::CliError;
use super::printer::Printer;
use super::settings::Layers;
use super::{connection, variables};
use crate::llm::{
    Bounds, Budget, Cassette, Endpoint, FailureKind, Ledger, Limiter, LiveModel, Llm, LlmError, Model, PriceTable,
    Prompts, Purse, Secret, Timeouts, Wire,
};

/// Where answers come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnswersFrom {
    /// A server.
    Live,
    /// A server, and a file that keeps what it answers.
    Record(PathBuf),
    /// A file alone.
    Replay(PathBuf),
}

impl FromStr for AnswersFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "live" => Ok(Self::Live),
            Some(("record", file)) if !file.is_empty() => Ok(Self::Record(file.into())),
            Some(("replay", file)) if !file.is_empty() => Ok(Self::Replay(file.into())),
            _ => Err(format!("`{text}` is not known here (use `live`, `record:FILE` or `replay:FILE`)")),
        }
    }
}

/// The options.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Language model")]
pub(super) struct LlmOptions {
    /// Where answers come from: `live`, a server; `record:FILE`, a server whose answers are kept, and what is kept is not
    /// asked again; `replay:FILE`, what was kept, without any server.
    #[arg(long, value_name = "FROM")]
    llm: Option<AnswersFrom>,
    /// The model, as its server calls it. A replay takes the one of its file.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// How the server is spoken to: `openai` (chat completions; most servers know it) or `anthropic` (messages) [default:
    /// openai].
    #[arg(long, value_name = "WIRE")]
    api: Option<Wire>,
    /// The server, as `http://127.0.0.1:8080/v1` [default: the vendor's own].
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The variable with the key [default: OPENAI_API_KEY or ANTHROPIC_API_KEY].
    #[arg(long, value_name = "NAME")]
    key_variable: Option<String>,
    /// A file with the key and nothing else.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The certificates that are trusted [default: `SSL_CERT_FILE`, else the system's].
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// A table of prices and windows that goes before redgreen's own; may be repeated.
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// What the run may take, as `usd=5,tokens=2M,calls=1000`. A call that could exceed it is not made.
    #[arg(long, value_name = "BOUNDS")]
    budget: Option<Bounds>,
    /// What one stage of it may take, as `filter:usd=1`; may be repeated.
    #[arg(long, value_name = "STAGE:BOUNDS", value_parser = parse_stage)]
    stage_budget: Vec<(String, Bounds)>,
    /// Requests at once [default: 4].
    #[arg(long, value_name = "N")]
    llm_jobs: Option<usize>,
    /// Requests a minute at most [default: no limit of ours].
    #[arg(long, value_name = "N")]
    requests_per_minute: Option<u32>,
    /// Times of waiting, as `first-byte=20m,idle=1m`: `connect` [default: 10s], `first-byte` [10m], `idle` (between two
    /// pieces of an answer) [2m], `total` (one call with all its tries) [30m].
    #[arg(long, value_name = "NAME=TIME", value_delimiter = ',', value_parser = parse_timeout)]
    llm_timeout: Vec<(String, Duration)>,
    /// Requests for one answer, where the network or the server fails [default: 6].
    #[arg(long, value_name = "N")]
    llm_tries: Option<u32>,
    /// Ask for answers in one piece instead of as a stream.
    #[arg(long)]
    no_stream: bool,
    #[command(flatten)]
    pub(super) prompts: PromptOption,
}

/// `--prompts`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct PromptOption {
    /// Folder with prompt templates (`*.hbs`) that go before redgreen's own; may be repeated.
    #[arg(long, value_name = "DIR", help_heading = "Language model")]
    prompts: Vec<PathBuf>,
}

impl PromptOption {
    /// All templates.
    pub(super) fn load(&self, layers: &Layers) -> Result<Prompts, CliError> {
        let picked = layers.pick(
            (!self.prompts.is_empty()).then(|| self.prompts.clone()),
            "REDGREEN_PROMPTS",
            |text| Ok(std::env::split_paths(text).collect()),
            |file| Ok(file.prompts.clone()),
            Vec::new,
        )?;
        Prompts::load(&picked.value).map_err(|e| {
            CliError::usage(e.to_string()).because(&e).hint(format!("the prompts were named by: {}", picked.source))
        })
    }
}

impl LlmOptions {
    /// How many requests at once.
    pub(super) fn jobs(&self) -> usize {
        self.llm_jobs.unwrap_or(4).max(1)
    }

    /// The model with its prices and bounds. Nothing is written yet but a cassette.
    pub(super) fn open(&self, layers: &Layers) -> Result<Opened, CliError> {
        let from = pick(layers, self.llm.clone(), "REDGREEN_LLM", |file| file.llm.as_deref())?.ok_or_else(|| {
            CliError::usage("no language model was named").hint(
                "`--llm live --model NAME` asks a server, `--llm record:FILE` keeps its answers, `--llm replay:FILE` needs none",
            )
        })?;
        let named = pick::<String>(layers, self.model.clone(), "REDGREEN_MODEL", |file| file.model.as_deref())?;
        let model: Arc<dyn Model> = match &from {
            AnswersFrom::Live => self.live(layers, named)?,
            AnswersFrom::Record(file) => {
                Arc::new(Cassette::record(file, self.live(layers, named)?).map_err(|e| failed(&e))?)
            }
            AnswersFrom::Replay(file) => Arc::new(Cassette::replay(file, named.as_deref()).map_err(|e| failed(&e))?),
        };
        let (prices, purse) = (self.prices(layers)?, self.purse(layers)?);
        if !matches!(from, AnswersFrom::Replay(_)) {
            purse.check_price(model.name(), &prices).map_err(|e| failed(&e))?;
        }
        Ok(Opened { model, prices, purse })
    }

    fn prices(&self, layers: &Layers) -> Result<PriceTable, CliError> {
        let files = layers.pick(
            (!self.prices.is_empty()).then(|| self.prices.clone()),
            "REDGREEN_PRICES",
            |text| Ok(std::env::split_paths(text).collect()),
            |file| Ok(file.prices.clone()),
            Vec::new,
        )?;
        PriceTable::load(&files.value).map_err(|e| CliError::usage(e.to_string()).because(&e))
    }

    fn purse(&self, layers: &Layers) -> Result<Purse, CliError> {
        let run = pick(layers, self.budget, "REDGREEN_BUDGET", |file| file.budget.as_deref())?.unwrap_or_default();
        Ok(Purse::new(Budget { run, stages: self.stage_budget.iter().cloned().collect() }))
    }

    fn live(&self, layers: &Layers, model: Option<String>) -> Result<Arc<dyn Model>, CliError> {
        let model = model.ok_or_else(|| {
            CliError::usage("no model was named").hint(
                "`--model NAME`, as its server calls it; `REDGREEN_MODEL` and `model` in `redgreen.toml` work too",
            )
        })?;
        let wire = pick(layers, self.api, "REDGREEN_API", |file| file.api.as_deref())?.unwrap_or(Wire::Openai);
        let base_url = pick(layers, self.base_url.clone(), "REDGREEN_BASE_URL", |file| file.base_url.as_deref())?;
        let own_server = base_url.is_some();
        let base_url = base_url.unwrap_or_else(|| wire.default_base_url().to_owned());
        let mut endpoint = Endpoint::new(wire, base_url, model);
        endpoint.key = self.key(layers, wire, own_server)?;
        endpoint.stream = !self.no_stream;
        endpoint.ca_bundle = connection::ca_bundle(layers, self.ca_bundle.clone())?;
        endpoint.proxies = connection::proxies();
        let mut timeouts = Timeouts::default();
        for (name, time) in &self.llm_timeout {
            timeouts.set(name, *time);
        }
        endpoint.timeouts = timeouts;
        endpoint.retries.most = self.llm_tries.unwrap_or(endpoint.retries.most).max(1);
        let limiter = Limiter::new(self.jobs(), self.requests_per_minute);
        Ok(Arc::new(LiveModel::new(endpoint, limiter).map_err(|e| failed(&e))?))
    }

    /// The key. A server of one's own may need none; the vendors' do.
    fn key(&self, layers: &Layers, wire: Wire, own_server: bool) -> Result<Option<Secret>, CliError> {
        let file = layers.pick(
            self.key_file.clone().map(Some),
            "REDGREEN_KEY_FILE",
            |text| Ok(Some(PathBuf::from(text))),
            |file| Ok(file.key_file.clone().map(Some)),
            || None,
        )?;
        let named = pick::<String>(layers, self.key_variable.clone(), "REDGREEN_KEY_VARIABLE", |file| {
            file.key_variable.as_deref()
        })?;
        if let Some(file) = file.value.filter(|_| self.key_variable.is_none()) {
            let text = fs_err::read_to_string(&file)
                .map_err(|e| CliError::usage(format!("the key's file cannot be read: {e}")))?;
            let key = Secret::new(&text);
            if key.is_empty() {
                return Err(CliError::usage(format!("the key's file `{}` is empty", file.display())));
            }
            return Ok(Some(key));
        }
        let variable = named.clone().unwrap_or_else(|| wire.default_key_variable().to_owned());
        match variables::get(&variable) {
            // The vendor's key is for the vendor: no other server gets it unless it is named.
            Some(_) if named.is_none() && own_server => Ok(None),
            Some(key) => Ok(Some(Secret::new(&key))),
            None if named.is_none() && own_server => Ok(None),
            None => Err(CliError::usage(format!("the variable `{variable}` with the key is not set"))
                .hint("set it, or name another with `--key-variable NAME`, or a file with `--key-file FILE`")),
        }
    }
}

/// A model that lacks only its ledger.
pub(super) struct Opened {
    model: Arc<dyn Model>,
    prices: PriceTable,
    purse: Purse,
}

impl Opened {
    /// With the ledger at this place, whose rows count against the budget.
    pub(super) fn with_ledger(self, ledger: &Path, printer: &Printer) -> Result<Llm, CliError> {
        let (ledger, problems) = Ledger::open(ledger)?;
        for problem in problems.iter().take(5) {
            printer.note(&format!("the ledger's {problem}; it counts for nothing"));
        }
        Ok(Llm::new(self.model).with_prices(self.prices).with_ledger(ledger).with_budget(self.purse))
    }
}

fn pick<T: FromStr<Err: std::fmt::Display>>(
    layers: &Layers,
    option: Option<T>,
    variable: &'static str,
    of_file: impl Fn(&super::settings::File) -> Option<&str>,
) -> Result<Option<T>, CliError> {
    let read = |text: &str| text.parse::<T>().map(Some).map_err(|e| e.to_string());
    Ok(layers.pick(option.map(Some), variable, read, |file| of_file(file).map(read).transpose(), || None)?.value)
}

/// What a person is told of a failure that ends the work.
pub(super) fn failed(error: &LlmError) -> CliError {
    let text = error.message.clone();
    match error.kind {
        FailureKind::Budget | FailureKind::Quota => CliError::infra(text)
            .hint("what was finished is kept: the same command with a larger budget goes on from there"),
        FailureKind::Auth => CliError::usage(text).hint("look at the key: `--key-variable NAME` or `--key-file FILE`"),
        FailureKind::CassetteMiss => CliError::usage(text).hint(
            "the request is made of benchmark, prompt, model and options; `--llm record:FILE` asks for what is missing",
        ),
        _ if error.kind.is_retryable() => CliError::infra(text),
        _ => CliError::usage(text),
    }
}

fn parse_stage(text: &str) -> Result<(String, Bounds), String> {
    let (stage, bounds) = text.split_once(':').ok_or_else(|| format!("`{text}` is not as in `filter:usd=1`"))?;
    Ok((stage.trim().to_owned(), bounds.parse()?))
}

fn parse_timeout(text: &str) -> Result<(String, Duration), String> {
    let (name, time) = text.split_once('=').ok_or_else(|| format!("`{text}` is not as in `idle=1m`"))?;
    let time = parse_time(time)?;
    if Timeouts::default().set(name.trim(), time) {
        Ok((name.trim().to_owned(), time))
    } else {
        Err(format!("there is no time `{name}` (use {})", Timeouts::NAMES.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        assert_eq!("live".parse(), Ok(AnswersFrom::Live));
        assert_eq!("record:a:b.jsonl".parse(), Ok(AnswersFrom::Record("a:b.jsonl".into())));
        for text in ["", "replay", "replay:", "live:x", "tape:x"] {
            assert!(text.parse::<AnswersFrom>().is_err(), "{text}");
        }
        assert_eq!(parse_timeout("idle=1m"), Ok(("idle".to_owned(), Duration::from_secs(60))));
        assert!(parse_timeout("sleep=1m").unwrap_err().contains("first-byte"));
        assert_eq!(parse_stage("filter:calls=3").unwrap().1.calls, Some(3));
    }
}
