//! From what a tree says to a language, a version and strategies.

use std::path::Path;

use jiff::ToSpan as _;
use jiff::civil::Date;
use serde::Serialize;

use super::claims::{Claim, claims};
use super::range::Range;
use super::said::{Said, plain_version, said};
use super::tree::Tree;
use crate::environment::condition::{Facts, all_hold};
use crate::environment::definition::Definition;
use crate::environment::definitions::Definitions;
use crate::environment::detection::{Instead, Release, VersionDefinition, VersionKind};
use crate::environment::strategy::StrategyDefinition;
use crate::environment::version::{compare, matches_prefix};

/// What a tree is, and what it wants.
#[derive(Debug, Clone, Serialize)]
pub struct Detected {
    /// The language: a definition's name.
    pub language: String,
    /// What speaks for it, and for the others: the strongest claim first.
    pub claims: Vec<Claim>,
    /// The wanted version, as a prefix; none where any will do.
    pub version: Option<String>,
    /// Why, for people: place, what is said there, the date.
    pub version_source: String,
    /// The range that the project declares, as it stands there.
    pub constraint: Option<String>,
    /// Other versions that nothing speaks against, the best first, for where the wanted one is not to be had.
    pub alternatives: Vec<Alternative>,
    /// The ways to install it that are worth a try, in order.
    pub strategies: Vec<StrategyDefinition>,
    /// What was found and not understood, or overruled.
    pub notes: Vec<String>,
}

/// A version to take instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alternative {
    /// The version, as a prefix.
    pub version: String,
    /// What speaks for it, for people.
    pub why: String,
}

impl Detected {
    /// The wanted version and then its alternatives; empty where any will do.
    pub fn versions(&self) -> impl Iterator<Item = &str> {
        self.version.as_deref().into_iter().chain(self.alternatives.iter().map(|other| other.version.as_str()))
    }

    /// Whether there is something to install. A strategy that asks for nothing fits every tree: where only such ones do,
    /// there is not.
    pub fn is_installable(&self) -> bool {
        self.manifest().is_some() && self.strategies.iter().any(|strategy| !strategy.when.is_empty())
    }

    /// The file at the root that tells the language; none in a bare tree.
    pub fn manifest(&self) -> Option<&str> {
        self.claims.iter().find(|claim| claim.language == self.language)?.file.as_deref()
    }
}

/// Looks at a tree. `date` is the day of its commit: what came out later was not wanted then. `language` (a name or an
/// alias) is taken at its word where the caller knows it.
///
/// `None` where nothing in the tree is known. Only reads; blocks for as long as a walk over the tree takes.
pub fn detect(definitions: &Definitions, tree: &Path, date: Option<Date>, language: Option<&str>) -> Option<Detected> {
    let folder = Tree(tree);
    let claims = claims(definitions.iter(), folder);
    let named = language.and_then(|language| definitions.iter().find(|known| known.answers_to(language)));
    let definition = named.or_else(|| claims.first().map(|(definition, _)| *definition))?;
    let wanted = wanted(&definition.version, said(&definition.version, folder), date);
    Some(Detected {
        language: definition.name.clone(),
        claims: claims.into_iter().map(|(_, claim)| claim).collect(),
        version: wanted.version,
        version_source: wanted.source,
        constraint: wanted.constraint,
        alternatives: wanted.alternatives,
        strategies: strategies(definition, tree),
        notes: wanted.notes,
    })
}

fn strategies(definition: &Definition, tree: &Path) -> Vec<StrategyDefinition> {
    let worth = |strategy: &&StrategyDefinition| {
        let facts = Facts {
            packages: !strategy.packages.is_empty() || !strategy.requirements.is_empty(),
            first_packages: false,
            no_build_isolation: strategy.build_isolation == Some(false),
            project: strategy.project,
            as_of: false,
            tree,
        };
        all_hold(&strategy.when, &facts)
    };
    definition.strategies.iter().filter(worth).cloned().collect()
}

/// What came of looking for a version.
#[derive(Debug, Default)]
struct Wanted {
    version: Option<String>,
    source: String,
    constraint: Option<String>,
    alternatives: Vec<Alternative>,
    notes: Vec<String>,
}

/// A release with its day as a date.
#[derive(Clone, Copy)]
struct Dated<'a> {
    release: &'a Release,
    date: Date,
}

fn wanted(definition: &VersionDefinition, said: Vec<Said>, date: Option<Date>) -> Wanted {
    let mut out = Wanted::default();
    let mut releases: Vec<Dated<'_>> = definition
        .releases
        .iter()
        .filter_map(|release| Some(Dated { release, date: release.date.parse().ok()? }))
        .collect();
    releases.sort_by(|a, b| compare(&a.release.version, &b.release.version));
    let range = range_of(definition, &said, &mut out);
    let allowed = |release: &Release| range.as_ref().is_none_or(|range| range.takes(&release.version));
    let exact = exact_of(&said, &releases, range.as_ref(), &mut out);
    if releases.is_empty() {
        out.version = exact.map(|(version, source)| {
            out.source = source;
            version
        });
        if out.source.is_empty() {
            out.source = "any version: none is declared, or none can be told apart".to_owned();
        }
        return out;
    }
    let is_out = |dated: &Dated<'_>| date.is_none_or(|date| dated.date <= date);
    let settled_by = date.and_then(|date| date.checked_sub(i64::from(definition.settled_after_days).days()).ok());
    let settled = |dated: &Dated<'_>| match (date, settled_by) {
        (Some(_), Some(by)) => dated.date <= by,
        _ => true,
    };
    let day = date.map_or_else(|| "no date is known".to_owned(), |date| format!("at {date}"));
    let (listed, list_place) = list_of(&said, &releases);
    let named: Vec<&Dated<'_>> = listed.iter().copied().filter(|dated| allowed(dated.release)).collect();

    let kept_up = date.and_then(|date| date.checked_sub(i64::from(definition.stale_after_days).days()).ok());
    let kept_up = kept_up.filter(|_| definition.stale_after_days > 0);
    let stale = |dated: &Dated<'_>| {
        let newer = releases.iter().any(|other| other.date > dated.date && allowed(other.release) && is_out(other));
        kept_up.is_some_and(|by| dated.date < by) && newer
    };
    let is_stale = exact.is_none() && named.iter().rev().find(|dated| is_out(dated)).is_some_and(|dated| stale(dated));
    if is_stale {
        out.notes.push(format!("{list_place} names nothing that was still new {day}, so it does not count"));
    }

    let pick = if let Some((version, source)) = exact {
        out.source = source;
        Some(version)
    } else if let Some(newest) = named.iter().rev().find(|dated| is_out(dated)).filter(|dated| !stale(dated)) {
        let all: Vec<&str> = named.iter().map(|dated| dated.release.version.as_str()).collect();
        out.source = format!("{list_place}: the newest of {} that was out {day}", all.join(", "));
        Some(newest.release.version.clone())
    } else {
        let choice: Vec<&Dated<'_>> =
            releases.iter().filter(|dated| allowed(dated.release) && !dated.release.short).collect();
        let said_where = match (&out.constraint, said.iter().find(|said| said.kind == VersionKind::Range)) {
            (Some(constraint), Some(said)) => format!("{}: {} `{constraint}`", said.place, said.name),
            _ => "nothing is declared".to_owned(),
        };
        let (found, how) = match choice.iter().rev().find(|dated| is_out(dated) && settled(dated)) {
            Some(found) if definition.settled_after_days > 0 && date.is_some() => {
                (Some(found), format!("the newest that had been out for {} days {day}", definition.settled_after_days))
            }
            Some(found) => (Some(found), format!("the newest that was out {day}")),
            None => match choice.iter().find(|dated| is_out(dated)) {
                Some(found) => (Some(found), format!("the oldest that was out {day}")),
                None => (choice.first(), format!("the oldest that fits; none was out {day}")),
            },
        };
        out.source = format!("{said_where}: {how}");
        found.map(|found| found.release.version.clone())
    };
    if pick.is_none() {
        out.source = format!("{}, which no known release fits", out.constraint.as_deref().unwrap_or("nothing"));
    }
    out.alternatives = alternatives(definition, &releases, pick.as_deref(), &named, &allowed, &is_out);
    out.version = pick;
    out
}

/// The first range that can be read.
fn range_of(definition: &VersionDefinition, said: &[Said], out: &mut Wanted) -> Option<Range> {
    for said in said.iter().filter(|said| said.kind == VersionKind::Range) {
        let text = said.values.first()?;
        match Range::parse(definition.grammar, text) {
            Ok(range) => {
                out.constraint = Some(text.clone());
                return Some(range);
            }
            Err(why) => out.notes.push(format!("{}: {} `{text}` is not understood: {why}", said.place, said.name)),
        }
    }
    None
}

/// The first exact version that is a known release and that the range does not exclude.
fn exact_of(
    said: &[Said],
    releases: &[Dated<'_>],
    range: Option<&Range>,
    out: &mut Wanted,
) -> Option<(String, String)> {
    for said in said.iter().filter(|said| said.kind == VersionKind::Exact) {
        let Some(text) = said.values.first() else { continue };
        let shown = text.lines().next().unwrap_or_default();
        let by_name = |dated: &&Dated<'_>| dated.release.names.iter().any(|name| name.eq_ignore_ascii_case(shown));
        let release = match releases.iter().find(by_name) {
            Some(dated) => Some(dated.release.version.clone()),
            None => plain_version(text).and_then(|version| release_of(&version, releases)),
        };
        let Some(release) = release else {
            out.notes.push(format!("{}: {} `{shown}` names no known release", said.place, said.name));
            continue;
        };
        if range.is_some_and(|range| !range.takes(&release)) {
            let constraint = out.constraint.as_deref().unwrap_or_default();
            out.notes.push(format!("{}: {} `{shown}` is outside `{constraint}`", said.place, said.name));
            continue;
        }
        return Some((release, format!("{}: {} `{shown}`", said.place, said.name)));
    }
    None
}

/// The known release that a version is of; where no releases are known, the version itself.
fn release_of(version: &str, releases: &[Dated<'_>]) -> Option<String> {
    if releases.is_empty() {
        return Some(version.to_owned());
    }
    let of = |dated: &&Dated<'_>| matches_prefix(&dated.release.version, version);
    releases.iter().rev().find(of).map(|dated| dated.release.version.clone())
}

/// The known releases that the first list with any names, oldest first.
fn list_of<'a>(said: &[Said], releases: &'a [Dated<'a>]) -> (Vec<&'a Dated<'a>>, String) {
    for said in said.iter().filter(|said| said.kind == VersionKind::List) {
        let of: Vec<String> = said.values.iter().filter_map(|value| plain_version(value)).collect();
        let named: Vec<&Dated<'_>> = releases
            .iter()
            .filter(|dated| of.iter().any(|version| matches_prefix(&dated.release.version, version)))
            .collect();
        if !named.is_empty() {
            return (named, format!("{}: {}", said.place, said.name));
        }
    }
    (Vec::new(), String::new())
}

/// What to take instead, the best first: what the project lists, then what was out, then what fits its range.
fn alternatives(
    definition: &VersionDefinition,
    releases: &[Dated<'_>],
    pick: Option<&str>,
    named: &[&Dated<'_>],
    allowed: &dyn Fn(&Release) -> bool,
    is_out: &dyn Fn(&Dated<'_>) -> bool,
) -> Vec<Alternative> {
    let rank = |dated: &Dated<'_>| {
        let listed = named.iter().any(|named| named.release.version == dated.release.version);
        match (listed, is_out(dated)) {
            (true, true) => (0, "listed by the project"),
            (false, true) => (1, "was out at the commit's date"),
            (true, false) => (2, "listed by the project, out later"),
            (false, false) => (3, "out later; nothing speaks against it"),
        }
    };
    let Some(place) = pick.and_then(|pick| releases.iter().position(|dated| dated.release.version == pick)) else {
        return Vec::new();
    };
    let mut out: Vec<(usize, bool, usize, Alternative)> = releases
        .iter()
        .enumerate()
        .filter(|(position, dated)| *position != place && allowed(dated.release) && !dated.release.short)
        .map(|(position, dated)| {
            let (rank, why) = rank(dated);
            let older = position < place;
            let away = older != (definition.instead == Instead::Older);
            // Where newer ones go on working, when they came out does not matter: the nearest is the best.
            let rank = if definition.instead == Instead::Newer && !away { 0 } else { rank };
            (
                rank,
                away,
                position.abs_diff(place),
                Alternative { version: dated.release.version.clone(), why: why.into() },
            )
        })
        .collect();
    out.sort_by_key(|(rank, away, distance, _)| (*rank, *away, *distance));
    out.into_iter().map(|(.., alternative)| alternative).collect()
}
