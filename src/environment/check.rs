//! What is wrong with the parts of a definition that find a spec and judge what came of it.

use std::str::FromStr as _;

use jiff::civil::Date;
use regex::Regex;

use super::definition::Definition;
use super::template::names;
use super::trouble::{FailureDefinition, RepairDefinition, SpecChange};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// What.
    pub message: String,
    /// The text that it is about, as it stands in the file.
    pub about: Option<String>,
}

impl Fault {
    /// A fault that is about what its message quotes first, if that stands in the file.
    pub fn quoted(message: String) -> Self {
        let about = message.split('`').nth(1).map(str::to_owned);
        Self { message, about }
    }

    fn at(about: &str, message: String) -> Self {
        Self { message, about: Some(about.to_owned()) }
    }

    /// The first line of `text` that holds what this is about.
    pub fn line(&self, text: &str) -> Option<usize> {
        let about = self.about.as_deref()?;
        // Whole texts first: a short name is a part of many others.
        let whole = [format!("\"{about}\""), format!("'{about}'")];
        let at = whole.iter().find_map(|quoted| text.find(quoted)).or_else(|| text.find(about))?;
        Some(text[..at].matches('\n').count() + 1)
    }
}

/// What is wrong beyond the shape, if anything.
pub(super) fn fault_of_search(definition: &Definition) -> Option<Fault> {
    version(definition)
        .or_else(|| detect(definition))
        .or_else(|| strategies(definition))
        .or_else(|| commands(definition))
        .or_else(|| fault_of_trouble(definition.failures.iter(), &definition.repairs))
}

fn version(definition: &Definition) -> Option<Fault> {
    let version = &definition.version;
    for release in &version.releases {
        if Date::from_str(&release.date).is_err() {
            let message = format!("release `{}`: `{}` is no day like `2024-05-31`", release.version, release.date);
            return Some(Fault::at(&release.date, message));
        }
        if !release.version.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(Fault::at(&release.version, format!("`{}` is no version of a release", release.version)));
        }
    }
    for source in &version.sources {
        let about = |what: &str, why: String| Some(Fault::at(what, format!("version source `{}`: {why}", source.name)));
        for pattern in source.pattern.iter().chain(&source.within) {
            match Regex::new(pattern) {
                Ok(regex) if regex.captures_len() == 2 => {}
                Ok(_) => return about(pattern, format!("`{pattern}` must have exactly one group")),
                Err(error) => return about(pattern, error.to_string()),
            }
        }
        if source.key.is_empty() && source.pattern.is_none() && source.within.is_none() {
            return about(&source.name, "it needs a `key` or a `pattern`".to_owned());
        }
        if !source.key.is_empty() && source.within.is_some() {
            return about(&source.name, "`key` and `within` exclude each other".to_owned());
        }
        if !leads_into_a_tree(&source.file) {
            return about(&source.file, format!("`{}` leaves the tree", source.file));
        }
    }
    None
}

fn leads_into_a_tree(path: &str) -> bool {
    let parts = std::path::Path::new(path).components();
    let plain = parts.clone().all(|part| matches!(part, std::path::Component::Normal(_)));
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    plain && !path.is_empty() && !folder.contains('*')
}

fn detect(definition: &Definition) -> Option<Fault> {
    let detect = &definition.detect;
    let mut files = detect.files.iter().chain(&detect.weak);
    let odd = files.find(|file| file.contains('/') || !leads_into_a_tree(file));
    let file = odd.map(|file| Fault::at(file, format!("`detect`: `{file}` is no name of a file at the root")));
    file.or_else(|| {
        let ending = detect.extensions.iter().find(|ending| ending.is_empty() || ending.contains(['.', '/']))?;
        Some(Fault::at(ending, format!("`detect.extensions`: `{ending}` must be an ending without its dot")))
    })
}

fn strategies(definition: &Definition) -> Option<Fault> {
    for (i, strategy) in definition.strategies.iter().enumerate() {
        let name = &strategy.name;
        if name.is_empty() || definition.strategies[..i].iter().any(|other| other.name == *name) {
            return Some(Fault::at(name, format!("strategy `{name}` needs a name of its own")));
        }
        let known = |wanted: &String| definition.requirements.iter().any(|known| known.name == *wanted);
        if let Some(unknown) = strategy.requirements.iter().find(|wanted| !known(wanted)) {
            return Some(Fault::at(unknown, format!("strategy `{name}`: there is no `[[requirements]]` `{unknown}`")));
        }
        let any = !strategy.packages.is_empty() || !strategy.requirements.is_empty();
        if any && definition.packages.is_none() {
            return Some(Fault::at(name, format!("strategy `{name}` has packages, but the language takes none")));
        }
    }
    None
}

/// The commands of requirements and proofs, whose texts may only hold what is there when they run.
fn commands(definition: &Definition) -> Option<Fault> {
    let requirements = definition.requirements.iter().map(|r| (&r.name, r.argv.iter().collect::<Vec<_>>()));
    let proofs = definition.proofs.iter().map(|proof| {
        (&proof.name, proof.argv.iter().chain(&proof.cwd).chain(proof.variables.values()).collect::<Vec<_>>())
    });
    for (name, texts) in requirements.chain(proofs) {
        if texts.is_empty() {
            return Some(Fault::at(name, format!("`{name}` has no command")));
        }
        let unknown = texts.into_iter().flat_map(|text| names(text)).find(|n| !definition.knows(n, &["workspace"]));
        if let Some(unknown) = unknown {
            let text = format!("{{{{{unknown}}}}}");
            return Some(Fault::at(&text, format!("`{name}`: `{text}` stands for nothing")));
        }
    }
    None
}

/// What is wrong with failures and repairs: patterns that do not compile, changes that change nothing.
pub(super) fn fault_of_trouble<'a>(
    failures: impl Iterator<Item = &'a FailureDefinition>,
    repairs: &[RepairDefinition],
) -> Option<Fault> {
    for failure in failures {
        if let Err(error) = Regex::new(&failure.pattern) {
            return Some(Fault::at(&failure.pattern, format!("failure pattern: {error}")));
        }
    }
    for repair in repairs {
        let about = |what: &str, why: String| Some(Fault::at(what, format!("repair `{}`: {why}", repair.name)));
        let groups = match Regex::new(&repair.pattern) {
            Ok(pattern) => pattern.captures_len(),
            Err(error) => return about(&repair.pattern, error.to_string()),
        };
        if repair.change == SpecChange::default() {
            return about(&repair.name, "its change changes nothing".to_owned());
        }
        let change = &repair.change;
        let texts = change.packages.iter().chain(&change.without).chain(&change.system_packages).chain(&change.version);
        let texts = texts.chain(change.variables.values()).chain(&change.steps).chain(&change.rebuild);
        for text in texts {
            if let Some(group) = group_references(text).into_iter().find(|group| *group >= groups) {
                return about(text, format!("`${group}` is no group of its pattern"));
            }
        }
    }
    None
}

/// The numbers of `$1`, `${2}` and so on.
fn group_references(text: &str) -> Vec<usize> {
    text.split('$')
        .skip(1)
        .filter_map(|rest| {
            let rest = rest.strip_prefix('{').unwrap_or(rest);
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().ok()
        })
        .collect()
}
