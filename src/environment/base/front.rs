//! The room's front: finds bases by name, and makes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::clean::{clean, is_root, settle_times};
use super::debian::{Debian, Wanted};
use super::definition::BaseDefinition;
use super::error::BaseError;
use super::host;
use super::lock::{BaseLock, LockedBase};
use super::make::Told;
use super::recipe::{Named, Recipe, Source, architecture, named};
use super::shelf::{Base, Content, Shelf};
use super::{engine, recipe};
use crate::environment::archive::{self, ArchiveError, Part, Tree, Whiteouts};
use crate::environment::layers::remove_tree;
use crate::environment::settings::HostVariables;
use crate::environment::version::{at_least, matches_prefix};
use crate::environment::{Definition, Definitions, NetworkSettings, strip_credentials};
use crate::model::Digest;
use crate::store::cache;

/// The lock file's name in the cache's bucket.
const LOCK: &str = "bases.lock";
/// Held while it is changed.
const LOCK_DOOR: &str = "names.lock";

/// What making bases needs to know.
#[derive(Debug, Clone)]
pub struct BaseSettings {
    /// The cache folder.
    pub cache: PathBuf,
    /// Whether the network is refused.
    pub offline: bool,
    /// The Debian mirror; absent: the host's, else the common one. It may hold credentials, which end up nowhere.
    pub mirror: Option<String>,
    /// Where the container engine listens (`unix://…`, `tcp://…`); absent: the usual socket.
    pub engine: Option<String>,
    /// Proxies and CA bundle.
    pub network: NetworkSettings,
    /// Where programs are.
    pub host: HostVariables,
    /// How long making one may take.
    pub deadline: Duration,
    /// A lock file that bases must agree with.
    pub lock: Option<PathBuf>,
}

/// All bases: those that definitions name, and the user's own.
#[derive(Debug)]
pub struct Bases {
    settings: BaseSettings,
    definitions: Definitions,
    shelf: Shelf,
}

/// One base in a list.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The language whose definition names it; empty for the user's own.
    pub language: String,
    /// What it is made of, for people.
    pub made_of: String,
    /// What it is, when it is in the cache.
    pub base: Option<super::shelf::BaseRecord>,
    /// Its digest in the cache, when it is there.
    pub digest: Option<Digest>,
    /// Why what is there is not what is meant, where that is so.
    pub stale: Option<String>,
}

impl Bases {
    /// Opens the cache.
    ///
    /// # Errors
    /// When its folder can't be made.
    pub fn new(settings: BaseSettings, definitions: Definitions) -> Result<Self, BaseError> {
        let shelf = Shelf::open(&settings.cache)?;
        Ok(Self { settings, definitions, shelf })
    }

    /// The base of a definition that fits a wanted version (a prefix; empty: any), the first one in its order.
    pub fn of_version<'d>(definition: &'d Definition, wanted: &str) -> Option<&'d BaseDefinition> {
        let minimum = definition.toolchain.minimum.as_deref();
        definition.bases.iter().find(|base| {
            if wanted.is_empty() {
                minimum.is_none_or(|minimum| at_least(&base.version, minimum))
            } else {
                matches_prefix(wanted, &base.version) || matches_prefix(&base.version, wanted)
            }
        })
    }

    /// A base that is in the cache, by its name, an image's reference, or an archive's path, with `packages` of the
    /// system in it. Nothing is made.
    ///
    /// # Errors
    /// [`BaseError::Unknown`]; [`BaseError::NotAdded`] when what is there lacks packages and cannot get them;
    /// [`BaseError::Locked`].
    pub fn find(&self, name: &str, packages: &[String]) -> Result<Option<Base>, BaseError> {
        let meant = self.meant(name, packages)?;
        let Some(recipe) = meant.recipe else { return Ok(None) };
        let found = self.shelf.find(&recipe.digest());
        found.map(|base| self.accepted(name, packages, base)).transpose()
    }

    /// The same, made when it is not there.
    ///
    /// Several calls at once, also from several processes, make it once. Blocks, for a minute or more; `progress` hears
    /// what happens.
    ///
    /// # Errors
    /// See [`BaseError`].
    pub fn get(
        &self,
        name: &str,
        packages: &[String],
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Base, BaseError> {
        if let Some(base) = self.find(name, packages)? {
            return Ok(base);
        }
        let told = Told::new(name, progress, cancel, self.settings.deadline);
        let mut meant = self.meant(name, packages)?;
        if let (None, Some(reference)) = (&meant.recipe, &meant.reference) {
            let engine = self.settings.engine.as_deref();
            let pin = engine::pin(engine, reference, self.settings.offline, &told)?;
            meant.recipe = Some(Recipe::new(Source::Image { pin }));
        }
        let recipe = meant.recipe.ok_or_else(|| BaseError::NotMade {
            name: name.to_owned(),
            why: "neither Debian packages nor an image are named for it".to_owned(),
        })?;
        self.made(name, packages, &recipe, meant.file.as_deref(), meant.reference.as_deref(), &told)
    }

    /// Makes a base of an archive or image, and gives it a name.
    ///
    /// # Errors
    /// See [`BaseError`].
    pub fn take(
        &self,
        from: &str,
        name: &str,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Base, BaseError> {
        let told = Told::new(name, progress, cancel, self.settings.deadline);
        let unknown = || BaseError::Unknown { name: from.to_owned(), known: self.known() };
        let (recipe, file, reference) = match named(from).ok_or_else(unknown)? {
            Named::Path(path) => {
                let digest = digest_of(&path, &told)?;
                (Recipe::new(Source::Archive { digest }), Some(path), None)
            }
            Named::Image(reference) => {
                let engine = self.settings.engine.as_deref();
                let pin = engine::pin(engine, &reference, self.settings.offline, &told)?;
                (Recipe::new(Source::Image { pin }), None, Some(reference))
            }
        };
        let base = self.made(name, &[], &recipe, file.as_deref(), reference.as_deref(), &told)?;
        self.name_it(name, &base)?;
        Ok(base)
    }

    /// Finds a base by its recipe, or makes it.
    fn made(
        &self,
        name: &str,
        packages: &[String],
        recipe: &Recipe,
        file: Option<&Path>,
        reference: Option<&str>,
        told: &Told<'_>,
    ) -> Result<Base, BaseError> {
        let digest = recipe.digest();
        if let Some(base) = self.shelf.find(&digest) {
            return self.accepted(name, packages, base);
        }
        let debian = match &recipe.from {
            Source::Debian { .. } => Some(self.debian(name)?),
            _ => None,
        };
        let turn = self.shelf.turn(&digest, told)?;
        if let Some(base) = self.shelf.find(&digest) {
            return self.accepted(name, packages, base);
        }
        let began = Instant::now();
        let draft = self.shelf.start(&digest)?;
        let work = draft.work();
        let content = match (&recipe.from, debian) {
            (Source::Debian { release, packages: all }, Some(debian)) => {
                let wanted = Wanted { name, release, packages: all, added: packages };
                of_debian(&debian, &wanted, &work, told)?
            }
            (Source::Image { pin }, _) => {
                let engine = self.settings.engine.as_deref();
                let taken = engine::take(engine, pin, self.settings.offline, &work, told)?;
                of_archive(&taken.archive, reference.unwrap_or(&taken.pin), &work, told)?
            }
            (Source::Archive { .. } | Source::Debian { .. }, _) => {
                let file = file.ok_or_else(|| BaseError::NotMade {
                    name: name.to_owned(),
                    why: "the archive that it was made of is not named".to_owned(),
                })?;
                let shown = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                of_archive(file, &shown, &work, told)?
            }
        };
        let base = self.shelf.put(draft, name, recipe, content, began, told)?;
        drop(turn);
        self.name_it(&BaseLock::name(reference.unwrap_or(name), packages), &base)?;
        self.accepted(name, packages, base)
    }

    /// What is needed to make a base of Debian packages, or why it cannot be made here.
    fn debian(&self, name: &str) -> Result<Debian<'_>, BaseError> {
        let settings = &self.settings;
        if settings.offline {
            let why = "the network that it is made with is refused (`--offline`)".to_owned();
            return Err(BaseError::NotMade { name: name.to_owned(), why });
        }
        let program =
            host::program("mmdebstrap", &settings.host).ok_or_else(|| BaseError::NoMaker { name: name.to_owned() })?;
        let mirror = settings.mirror.clone().unwrap_or_else(host::mirror);
        Ok(Debian { program, mirror, network: &settings.network, host: &settings.host })
    }

    /// All bases that have a name.
    ///
    /// # Errors
    /// When the cache's lock file can't be read.
    pub fn list(&self) -> Result<Vec<Listed>, BaseError> {
        let lock = self.lock()?;
        let mut out = Vec::new();
        for definition in self.definitions.iter() {
            for base in &definition.bases {
                let meant = self.meant(&base.name, &[])?;
                out.push(self.listed(&base.name, &definition.name, meant.recipe.as_ref(), lock.bases.get(&base.name)));
            }
        }
        for (name, locked) in &lock.bases {
            if !out.iter().any(|listed| listed.name == *name) {
                out.push(self.listed(name, "", Some(&locked.recipe), Some(locked)));
            }
        }
        Ok(out)
    }

    fn listed(&self, name: &str, language: &str, recipe: Option<&Recipe>, locked: Option<&LockedBase>) -> Listed {
        let found = recipe.and_then(|recipe| self.shelf.find(&recipe.digest()));
        let stale = match (&found, locked, recipe) {
            (None, Some(locked), Some(recipe)) if locked.recipe != *recipe => {
                Some("its definition has changed since it was made".to_owned())
            }
            (Some(base), Some(locked), _) if locked.content != base.record.content => {
                Some("it was made anew since the lock was written".to_owned())
            }
            _ => None,
        };
        Listed {
            name: name.to_owned(),
            language: language.to_owned(),
            made_of: recipe.map_or_else(|| "nothing that is known here".to_owned(), Recipe::words),
            digest: found.as_ref().map(|base| base.digest.clone()),
            base: found.map(|base| base.record),
            stale,
        }
    }

    /// Which of these bases (names with the packages of the system that they must have) are missing, or other ones than
    /// `lock` says. Nothing is made, run or fetched.
    ///
    /// # Errors
    /// When a lock file can't be read.
    pub fn check(&self, wanted: &[(String, Vec<String>)], lock: Option<&Path>) -> Result<Vec<BaseState>, BaseError> {
        let own = self.lock()?;
        let lock = lock.or(self.settings.lock.as_deref()).map(BaseLock::read).transpose()?;
        let mut out: BTreeMap<String, BaseState> = BTreeMap::new();
        for (name, packages) in wanted {
            let key = BaseLock::name(name, packages);
            let found = self.find(name, packages);
            let there = match &found {
                Ok(base) => base.as_ref(),
                Err(_) => None,
            };
            let whole = there.is_none_or(|base| {
                fs_err::metadata(base.archive()).is_ok_and(|meta| meta.len() == base.record.archive_bytes)
                    && base.root_folder().is_dir()
            });
            let other = |lock: &BaseLock| {
                let locked = lock.bases.get(&key);
                there.zip(locked).is_some_and(|(base, locked)| base.record.content != locked.content)
            };
            let changed = |lock: &BaseLock| {
                let recipe = self.meant(name, packages).ok().and_then(|meant| meant.recipe);
                recipe.zip(lock.bases.get(&key)).is_some_and(|(recipe, locked)| recipe != locked.recipe)
            };
            let (state, why) = match (&found, there) {
                (Err(error), _) => ("missing", error.to_string()),
                (Ok(_), Some(_)) if !whole => ("stale", "files of it are gone from the cache".to_owned()),
                (Ok(_), Some(_)) if lock.as_ref().is_some_and(other) => {
                    ("stale", "it is another one than the lock file says".to_owned())
                }
                (Ok(_), Some(_)) => ("there", String::new()),
                (Ok(_), None) if lock.iter().chain([&own]).any(changed) => {
                    ("stale", "its definition has changed since it was made".to_owned())
                }
                (Ok(_), None) => ("missing", format!("make it: `redgreen env base {name}`")),
            };
            let digest = there.map(|base| base.record.content.clone());
            out.insert(key.clone(), BaseState { name: key, state: state.to_owned(), why, content: digest });
        }
        Ok(out.into_values().collect())
    }

    /// The digests of all bases in the cache.
    pub fn digests(&self) -> Vec<Digest> {
        self.shelf.all().into_iter().map(|base| base.digest).collect()
    }

    /// The base with this content, if it is in the cache.
    pub fn with_content(&self, content: &str) -> Option<Base> {
        self.shelf.all().into_iter().find(|base| base.record.content.as_str() == content)
    }

    /// The cache's lock file.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn lock(&self) -> Result<BaseLock, BaseError> {
        BaseLock::read(&self.shelf.bucket().join(LOCK))
    }

    /// Puts bases under their names into another lock file, which need not be there; what else is in it stays.
    ///
    /// # Errors
    /// When it can't be read or written.
    pub fn write_lock(&self, file: &Path, bases: &[(String, Base)]) -> Result<(), BaseError> {
        let mut lock = BaseLock::read(file)?;
        lock.bases.extend(bases.iter().map(|(name, base)| (name.clone(), LockedBase::of(base))));
        lock.write(file)
    }

    /// Puts a base that another machine made into the cache: its archive, under the recipe it was made by.
    ///
    /// # Errors
    /// When the archive is not the one that `record` says.
    pub(in crate::environment) fn adopt(
        &self,
        record: &super::shelf::BaseRecord,
        part: &Part,
        name: &str,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Base, BaseError> {
        let told = Told::new(&record.name, progress, cancel, self.settings.deadline);
        let digest = record.recipe.digest();
        let turn = self.shelf.turn(&digest, &told)?;
        let other = |found: &Digest| {
            ArchiveError::malformed(name, format!("the base in it has the digest {found} and not {}", record.content))
        };
        if let Some(base) = self.shelf.find(&digest) {
            return if base.record.content == record.content {
                self.name_it(&record.name, &base)?;
                Ok(base)
            } else {
                Err(BaseError::Other {
                    name: record.name.clone(),
                    wanted: record.content.to_string(),
                    found: base.record.content.to_string(),
                    folder: base.folder,
                })
            };
        }
        let draft = self.shelf.start(&digest)?;
        let mut tree = Tree::default();
        tree.put(part, name, Whiteouts::Apply)?;
        let content = Content { tree, origin: record.origin.clone(), variables: record.variables.clone() };
        let base = self.shelf.put(draft, &record.name, &record.recipe, content, Instant::now(), &told)?;
        if base.record.content != record.content {
            remove_tree(&base.folder)?;
            return Err(other(&base.record.content).into());
        }
        drop(turn);
        self.name_it(&record.name, &base)?;
        Ok(base)
    }

    /// Notes in the cache's lock file what a name stands for.
    fn name_it(&self, name: &str, base: &Base) -> Result<(), BaseError> {
        let door = self.shelf.bucket().join(LOCK_DOOR);
        let door = fs_err::OpenOptions::new().create(true).truncate(false).write(true).open(door)?.into_parts().0;
        match door.lock() {
            Err(error) if error.kind() != std::io::ErrorKind::Unsupported => return Err(error.into()),
            _ => {}
        }
        let file = self.shelf.bucket().join(LOCK);
        let mut lock = BaseLock::read(&file)?;
        let locked = LockedBase::of(base);
        if lock.bases.get(name) != Some(&locked) {
            lock.bases.insert(name.to_owned(), locked);
            lock.write(&file)?;
        }
        Ok(())
    }

    /// A base that was found, or why it cannot be used.
    fn accepted(&self, name: &str, packages: &[String], base: Base) -> Result<Base, BaseError> {
        let lacks =
            if matches!(base.record.recipe.from, Source::Debian { .. }) { Vec::new() } else { base.lacks(packages) };
        if !lacks.is_empty() {
            return Err(BaseError::NotAdded { base: name.to_owned(), packages: lacks });
        }
        if let Some(file) = &self.settings.lock
            && let Some(locked) = BaseLock::read(file)?.bases.get(&BaseLock::name(name, packages))
            && locked.content != base.record.content
        {
            return Err(BaseError::Locked {
                name: name.to_owned(),
                file: file.clone(),
                wanted: locked.content.short().to_owned(),
                found: base.record.content.short().to_owned(),
            });
        }
        cache::used(&self.settings.cache, &base.folder);
        Ok(base)
    }

    /// What a name means.
    fn meant(&self, name: &str, packages: &[String]) -> Result<Meant, BaseError> {
        let lock = self.lock()?;
        let pinned = self.settings.lock.as_deref().map(BaseLock::read).transpose()?;
        let pinned = pinned.as_ref().and_then(|lock| lock.bases.get(name));
        let of = |recipe| Meant { recipe, file: None, reference: None };
        let locked = pinned.or_else(|| lock.bases.get(name));
        // A name that the user gave goes before a definition's.
        if let Some(locked) = locked.filter(|locked| !matches!(locked.recipe.from, Source::Debian { .. })) {
            let reference = match named(name) {
                Some(Named::Image(reference)) => Some(reference),
                _ => None,
            };
            let file = match named(name) {
                Some(Named::Path(path)) => Some(path),
                _ => None,
            };
            // A file may have changed since; an image's pin is kept until it is asked for anew.
            if file.is_none() {
                return Ok(Meant { recipe: Some(locked.recipe.clone()), file, reference });
            }
        }
        if let Some(base) = self.definition(name) {
            return Ok(match (Recipe::of_debian(base, packages), &base.image) {
                (Some(recipe), None) => of(Some(recipe)),
                (None, image) => Meant { recipe: None, file: None, reference: image.clone() },
                (Some(recipe), Some(image)) => {
                    // Where Debian's packages cannot be had, the image stands in.
                    let pinned = lock.bases.get(image).map(|locked| locked.recipe.clone());
                    let stands_in = packages.is_empty()
                        && !self.settings.offline
                        && self.shelf.find(&recipe.digest()).is_none()
                        && host::program("mmdebstrap", &self.settings.host).is_none()
                        && self.has_engine();
                    match pinned.filter(|pin| {
                        packages.is_empty()
                            && self.shelf.find(&recipe.digest()).is_none()
                            && self.shelf.find(&pin.digest()).is_some()
                    }) {
                        Some(pin) => of(Some(pin)),
                        None if stands_in => Meant { recipe: None, file: None, reference: Some(image.clone()) },
                        None => of(Some(recipe)),
                    }
                }
            });
        }
        if let Some(locked) = locked {
            return Ok(of(Some(locked.recipe.clone())));
        }
        match named(name) {
            Some(Named::Path(path)) => {
                let cancel = CancellationToken::new();
                let told = Told::new(name, &|_| {}, &cancel, self.settings.deadline);
                let digest = digest_of(&path, &told)?;
                Ok(Meant { recipe: Some(Recipe::new(Source::Archive { digest })), file: Some(path), reference: None })
            }
            Some(Named::Image(reference)) => Ok(Meant { recipe: None, file: None, reference: Some(reference) }),
            None => Err(BaseError::Unknown { name: name.to_owned(), known: self.known() }),
        }
    }

    fn has_engine(&self) -> bool {
        match &self.settings.engine {
            Some(_) => true,
            None => Path::new("/var/run/docker.sock").exists(),
        }
    }

    fn definition(&self, name: &str) -> Option<&BaseDefinition> {
        self.definitions.iter().flat_map(|definition| &definition.bases).find(|base| base.name == name)
    }

    fn known(&self) -> Vec<String> {
        let definitions = self.definitions.iter().flat_map(|d| &d.bases).map(|base| base.name.clone());
        let lock = self.lock().unwrap_or_default();
        let mut all: Vec<String> = definitions.chain(lock.bases.into_keys()).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// What a name means: its recipe where that is known before anything is fetched.
struct Meant {
    recipe: Option<Recipe>,
    file: Option<PathBuf>,
    reference: Option<String>,
}

/// Whether a base is as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BaseState {
    /// Its name, with its further packages (`python-3.11+libxml2-dev`).
    pub name: String,
    /// `there`, `missing` or `stale`.
    pub state: String,
    /// Why, and what to do.
    pub why: String,
    /// The digest of what is there.
    pub content: Option<Digest>,
}

fn of_debian(debian: &Debian<'_>, wanted: &Wanted<'_>, work: &Path, told: &Told<'_>) -> Result<Content, BaseError> {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let archive = debian.make(wanted, work, told)?;
    let mut tree = Tree::default();
    tree.put(&Part::whole(&archive)?, "the archive of mmdebstrap", Whiteouts::Apply)?;
    clean(&mut tree, true);
    settle_times(&mut tree, began);
    let origin = format!("Debian {} from {}", wanted.release, strip_credentials(&debian.mirror).0);
    Ok(Content { tree, origin, variables: BTreeMap::new() })
}

fn of_archive(file: &Path, origin: &str, work: &Path, told: &Told<'_>) -> Result<Content, BaseError> {
    told.say(&format!("reading {origin}"));
    let image = archive::open(file, work, architecture(), &|| told.go());
    let image = image.map_err(|error| match error {
        ArchiveError::Io(error) => told.error(error),
        other => other.into(),
    })?;
    let mut tree = image.tree;
    clean(&mut tree, false);
    if !is_root(&tree) {
        return Err(ArchiveError::malformed(file.display(), "it is no root file system: it has no `/bin/sh`").into());
    }
    let variables = image.variables.iter().filter_map(|variable| variable.split_once('='));
    let variables = variables.filter(|(name, _)| finds_toolchains(name));
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(Content { tree, origin: origin.to_owned(), variables })
}

/// Whether a variable of an image says where its toolchain is; others (proxies, keys, settings of indexes) are not kept.
fn finds_toolchains(name: &str) -> bool {
    name == "PATH" || name == "LD_LIBRARY_PATH" || name == "GOROOT" || (name.ends_with("_HOME") && name != "HOME")
}

/// The digest of an archive; of an OCI layout that is a folder, that of its index, which names all the rest.
fn digest_of(path: &Path, told: &Told<'_>) -> Result<Digest, BaseError> {
    let file = if path.is_dir() { path.join("index.json") } else { path.to_owned() };
    let mut part = Part::whole(&file)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        told.check()?;
        match std::io::Read::read(&mut part, &mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        };
    }
    let hex = hasher.finalize().to_hex().to_string();
    Ok(hex.parse().map_err(|_| std::io::Error::other("a digest that is none"))?)
}

/// The name of this machine, as container engines write it.
pub(in crate::environment) fn machine() -> &'static str {
    recipe::architecture()
}
