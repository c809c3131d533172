//! Asking GitHub's API for pull requests, and keeping its answers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::CliError;
use super::printer::Printer;
use super::{common, connection, variables};
use crate::host::{self, Client, HostError, PullName, Token};
use crate::store::write_atomic;

/// What is asked for.
pub(super) struct Asked<'a> {
    pub(super) pulls: &'a [PullName],
    pub(super) save: &'a Path,
    pub(super) token_file: Option<&'a Path>,
    pub(super) api: Option<&'a str>,
    pub(super) patience: Option<Duration>,
}

/// Asks for pull requests one after the other; gives the folders with the answers.
pub(super) fn fetch(asked: &Asked<'_>) -> Result<Vec<PathBuf>, CliError> {
    let printer = Printer;
    let layers = common::layers()?;
    let mut settings = host::Settings {
        token: token(asked.token_file)?,
        ca_bundle: connection::ca_bundle(&layers, None)?,
        proxies: connection::proxies(),
        ..host::Settings::default()
    };
    if let Some(api) = asked.api.map(str::to_owned).or_else(|| variables::get("GITHUB_API_URL")) {
        settings.api = api;
    }
    settings.patience = asked.patience.unwrap_or(settings.patience);
    if settings.token.is_none() {
        printer.note("note: no token (GITHUB_TOKEN or `--token-file`); the API answers few questions without one");
    }
    let client = Client::new(settings).map_err(|e| CliError::usage(e.to_string()).because(&e))?;
    let runtime = super::runtime()?;
    let mut folders = Vec::new();
    for pull in asked.pulls {
        let folder = asked.save.join(pull.repo.replace('/', "__")).join(pull.number.to_string());
        let mut written = BTreeSet::new();
        let tell = |text: &str| printer.note(text);
        let mut keep = |page: host::Page| {
            let path = asked.save.join(&page.name);
            write_atomic(&path, &page.body).map_err(|e| HostError::Keep(e.to_string()))?;
            written.insert(path);
            Ok(())
        };
        runtime.block_on(host::fetch_pull(&client, pull, &tell, &mut keep)).map_err(|e| {
            let error = if e.is_infra() { CliError::infra(e.to_string()) } else { CliError::usage(e.to_string()) };
            error.because(&e).hint(format!("what came is in `{}`", folder.display()))
        })?;
        forget_older(&folder, &written)?;
        printer.note(&format!("{}#{}: {} answers in {}", pull.repo, pull.number, written.len(), folder.display()));
        folders.push(folder);
    }
    Ok(folders)
}

/// Removes pages of an earlier, longer answer: they would be read with the new ones.
fn forget_older(folder: &Path, written: &BTreeSet<PathBuf>) -> Result<(), CliError> {
    let failed = |e: std::io::Error| CliError::infra("older answers cannot be removed").because(&e);
    for entry in fs_err::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|e| e == "json") && !written.contains(&path) {
            fs_err::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(())
}

fn token(file: Option<&Path>) -> Result<Option<Token>, CliError> {
    let (text, from) = match file {
        Some(file) => {
            let text =
                fs_err::read_to_string(file).map_err(|e| CliError::usage("the token cannot be read").because(&e))?;
            (text, file.display().to_string())
        }
        None => match variables::get("GITHUB_TOKEN") {
            Some(text) => (text, "GITHUB_TOKEN".to_owned()),
            None => return Ok(None),
        },
    };
    Token::new(&text).map(Some).map_err(|e| CliError::usage(format!("{from}: {e}")))
}
