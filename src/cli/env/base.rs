//! `redgreen env base`.

use std::path::PathBuf;
use std::time::Duration;

use comfy_table::Table;
use serde_json::json;

use super::stop::stoppable;
use crate::cli::common::{self, CacheOption};
use crate::cli::error::{CliError, Status};
use crate::cli::printer::Printer;
use crate::cli::settings::parse_seconds;
use crate::cli::{Outcome, runtime, variables};
use crate::environment::{Base, BaseError, BaseSettings, Bases, Definitions, HostVariables, Listed, NetworkSettings};
use crate::model::InfraReason;

/// Make the root file systems that environments stand on, or list them.
///
/// A base is made of Debian packages by `mmdebstrap`, or taken from an image of the container engine, or from an archive:
/// a tarball of a root file system, an archive of `docker save`, or an OCI layout. What is in the cache is not made again.
///
/// Example: redgreen env base python-3.11 node-20
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Names of bases; with none, all are listed.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the bases and what is in the cache.
    #[arg(long, conflicts_with_all = ["from", "packages"])]
    list: bool,
    /// Take this image or archive, and give it the name.
    #[arg(long, value_name = "IMAGE|FILE", conflicts_with = "packages")]
    from: Option<String>,
    /// Packages of the system (Debian's names) that it must have, too; may be repeated.
    #[arg(long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,
    /// The Debian mirror [default: the one of this machine's apt, else http://deb.debian.org/debian].
    #[arg(long, value_name = "URL")]
    debian_mirror: Option<String>,
    /// Write the digests of the named bases into this lock file, too.
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Never use the network: what is not in the cache is an error.
    #[arg(long)]
    offline: bool,
    /// Seconds for making one base.
    #[arg(long, value_name = "SECONDS", default_value = "1800", value_parser = parse_seconds)]
    timeout: Duration,
    /// Folder with environment definitions that add to or override the built-in ones; may be repeated.
    #[arg(long, value_name = "DIR", help_heading = "Where things are")]
    definitions: Vec<PathBuf>,
    #[command(flatten)]
    cache: CacheOption,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let printer = Printer;
    let bases = bases(&args)?;
    if args.list || (args.names.is_empty() && args.from.is_none()) {
        return list(&args, &bases, &printer);
    }
    if args.from.is_some() && args.names.len() != 1 {
        return Err(CliError::usage("`--from` takes exactly one name for what it makes")
            .hint("`redgreen env base --from python:3.12-slim my-python`")
            .into());
    }
    let runtime = runtime()?;
    let (cancel, interrupt) = stoppable(&runtime);
    let _context = runtime.enter();
    let mut made: Vec<(String, Base, bool)> = Vec::new();
    for name in &args.names {
        let say = |text: &str| printer.note(text);
        let before = bases.digests();
        let base = match &args.from {
            Some(from) => bases.take(from, name, &say, &cancel),
            None => bases.get(name, &args.packages, &say, &cancel),
        };
        match base {
            Ok(base) => {
                let is_new = !before.contains(&base.digest);
                made.push((name.clone(), base, is_new));
            }
            Err(BaseError::Cancelled) => {
                printer.note("interrupted: what was finished is kept, the same command goes on");
                return Ok(Status::Interrupted);
            }
            Err(error) => return Err(failed(&error).into()),
        }
    }
    interrupt.abort();
    if let Some(file) = &args.lock {
        let rows: Vec<(String, Base)> = made
            .iter()
            .map(|(name, base, _)| (crate::environment::BaseLock::name(name, &args.packages), base.clone()))
            .collect();
        bases.write_lock(&common::absolute(file)?, &rows).map_err(|e| failed(&e))?;
    }
    if args.json {
        let rows: Vec<_> = made.iter().map(|(name, base, made)| row(name, base, *made)).collect();
        printer.value(&rows)?;
    } else {
        for (name, base, made) in &made {
            printer.data(&line(name, base, *made))?;
        }
    }
    Ok(Status::Done)
}

fn bases(args: &Args) -> Result<Bases, CliError> {
    let layers = common::layers()?;
    let all = variables::all();
    let folders = common::definitions(&layers, &args.definitions)?;
    let definitions = Definitions::load(&folders).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    let settings = BaseSettings {
        cache: args.cache.resolve(&layers)?.value,
        offline: args.offline,
        mirror: args.debian_mirror.clone().or_else(|| variables::get("REDGREEN_DEBIAN_MIRROR")),
        engine: variables::get("DOCKER_HOST"),
        network: NetworkSettings::gather(&all),
        host: HostVariables::pick(all),
        deadline: args.timeout,
        lock: None,
    };
    Bases::new(settings, definitions).map_err(|e| failed(&e))
}

fn list(args: &Args, bases: &Bases, printer: &Printer) -> Outcome {
    let rows = bases.list().map_err(|e| failed(&e))?;
    if args.json {
        printer.value(&rows)?;
        return Ok(Status::Done);
    }
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["base", "language", "in the cache", "made of"]);
    for row in &rows {
        table.add_row([row.name.as_str(), &row.language, &state(row), &row.made_of]);
    }
    let text: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    printer.data(&text)?;
    Ok(Status::Done)
}

fn state(row: &Listed) -> String {
    match (&row.stale, &row.base) {
        (Some(_), _) => "stale".to_owned(),
        (None, Some(base)) => size(base.archive_bytes + base.folder_bytes),
        (None, None) => "no".to_owned(),
    }
}

fn row(name: &str, base: &Base, made: bool) -> serde_json::Value {
    json!({
        "name": name,
        "made": made,
        "digest": base.digest,
        "folder": base.folder,
        "record": base.record,
    })
}

fn line(name: &str, base: &Base, made: bool) -> String {
    let record = &base.record;
    let (archive, folder) = (size(record.archive_bytes), size(record.folder_bytes));
    let how = if made { format!("made in {:.0} s", record.seconds) } else { "in the cache".to_owned() };
    format!(
        "{name}: {how}; {}, {} packages, {archive} as archive, {folder} unpacked\n",
        record.origin,
        record.packages.len()
    )
}

fn size(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}

/// An error of bases for people: bad names and archives are usage, the rest is the machine's or the network's.
pub(super) fn failed(error: &BaseError) -> CliError {
    let usage = matches!(
        error,
        BaseError::Unknown { .. }
            | BaseError::NoSuchPackage { .. }
            | BaseError::NotAdded { .. }
            | BaseError::BadLock { .. }
            | BaseError::Archive(_)
    );
    let made = if usage { CliError::usage(error.to_string()) } else { CliError::infra(error.to_string()) };
    match error.reason() {
        InfraReason::Disk => made.hint("free some room; nothing half-made stays, the same command tries again"),
        _ => made,
    }
}
