//! What an environment stands on: the host with its toolchain, or a base with the one in it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio_util::sync::CancellationToken;

use super::base::{Base, BaseError, Bases, find_toolchain, missing_packages};
use super::definition::Definition;
use super::error::EnvironmentError;
use super::prepare::Environments;
use super::resolved::Resolved;
use super::toolchain::{Search, Toolchain, find};
use crate::model::{EnvironmentSpec, InfraReason};
use crate::sandbox::Root;
use crate::store::Held;

/// The `base` of a spec that wants this machine's own system.
const HOST: &str = "host";

/// What is stood on: of a definition, for a version, on a base, with packages of the system.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Wish {
    language: String,
    version: String,
    base: Option<String>,
    packages: Vec<String>,
}

/// What came of looking for it.
pub(super) type Looked = Result<Standing, Arc<EnvironmentError>>;

/// A root and the toolchain that was found on it.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    root: Root,
    toolchain: Arc<Toolchain>,
    /// Keeps the base in the cache for as long as this process knows of it.
    _held: Option<Arc<Held>>,
}

/// Who is told what is being done.
pub type Told<'a> = dyn Fn(&str) + Send + Sync + 'a;

/// Whether what came of looking is so for as long as this process runs.
fn is_for_good(found: &Looked, ears: Ears<'_>) -> bool {
    let Err(error) = found else { return true };
    match error.reason() {
        // What the machine could not do a moment ago it may do now.
        InfraReason::Interrupted | InfraReason::Disk | InfraReason::Sandbox => false,
        _ if ears.cancel.is_cancelled() => false,
        // Who was not to make a base has not seen all.
        _ => ears.make || error.base_to_make().is_none(),
    }
}

/// Who is told while a base is made, and may end it; and whether one may be made at all.
#[derive(Clone, Copy)]
struct Ears<'a> {
    make: bool,
    progress: &'a (dyn Fn(&str) + Send + Sync),
    cancel: &'a CancellationToken,
}

impl Environments {
    /// Finds what a spec stands on and its toolchain there. Nothing but a missing base is made.
    ///
    /// Blocks for as long as the toolchain's program takes to answer (some tenths of a second), and a minute or more
    /// where a base is made; the answer is kept.
    ///
    /// # Errors
    /// [`EnvironmentError::UnknownLanguage`], [`EnvironmentError::ToolchainMissing`], and those of bases.
    pub fn resolve(&self, spec: &EnvironmentSpec) -> Result<Resolved, EnvironmentError> {
        self.resolve_with(spec, &|_| {}, &CancellationToken::new())
    }

    /// The same; `progress` hears how a base is made, `cancel` ends that.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and [`BaseError::Cancelled`].
    pub fn resolve_with(
        &self,
        spec: &EnvironmentSpec,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Resolved, EnvironmentError> {
        self.look(spec, Ears { make: true, progress, cancel })
    }

    /// The same for callers that must not block: on a thread for such work.
    ///
    /// # Errors
    /// As [`resolve_with`](Self::resolve_with).
    pub async fn resolve_heard(
        self: &Arc<Self>,
        spec: &EnvironmentSpec,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Resolved, EnvironmentError> {
        let spec = spec.clone();
        let work = move |all: &Self, told: &Told<'_>, stop: &CancellationToken| all.resolve_with(&spec, told, stop);
        self.heard(work, progress, cancel).await
    }

    /// Does what blocks — a toolchain that answers, a base that is made — on a thread for such work, and passes on what is
    /// said of it. It is told to end when `cancel` fires, and when nobody waits for it any more.
    ///
    /// # Errors
    /// Those of the work.
    pub async fn heard<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self, &Told<'_>, &CancellationToken) -> Result<T, EnvironmentError> + Send + 'static,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<T, EnvironmentError> {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<String>();
        let (all, stop) = (self.clone(), cancel.child_token());
        let _ends = stop.clone().drop_guard();
        let work = tokio::task::spawn_blocking(move || {
            let told = move |text: &str| drop(sender.send(text.to_owned()));
            work(&all, &told, &stop)
        });
        let listen = async {
            while let Some(text) = receiver.recv().await {
                progress(&text);
            }
        };
        let broke = |error| std::io::Error::other(format!("a task of ours broke: {error}"));
        tokio::join!(work, listen).0.map_err(broke)?
    }

    /// The same as [`resolve`](Self::resolve), but a base that is not there is not made.
    ///
    /// # Errors
    /// As there; [`EnvironmentError::base_to_make`] tells whether a base is all that is missing.
    pub fn resolve_there(&self, spec: &EnvironmentSpec) -> Result<Resolved, EnvironmentError> {
        self.look(spec, Ears { make: false, progress: &|_| {}, cancel: &CancellationToken::new() })
    }

    fn look(&self, spec: &EnvironmentSpec, ears: Ears<'_>) -> Result<Resolved, EnvironmentError> {
        let definition = self.definitions.get(&spec.language)?;
        let text = |value: &Option<String>| value.as_deref().unwrap_or_default().trim().to_owned();
        let mut packages: Vec<String> = spec.system_packages.iter().map(|p| p.trim().to_owned()).collect();
        packages.retain(|package| !package.is_empty());
        packages.sort();
        packages.dedup();
        let base = Some(text(&spec.base)).filter(|base| !base.is_empty());
        let wish = Wish { language: definition.name.clone(), version: text(&spec.version), base, packages };
        let known = || self.toolchains.lock().unwrap_or_else(PoisonError::into_inner).get(&wish).cloned();
        let looked = known().unwrap_or_else(|| {
            // Of several that want the same at once one looks, and the others wait for it: a version manager's shim keeps
            // a processor busy for half a second.
            let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = looking.entry(wish.clone()).or_default().clone();
            drop(looking);
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            known().unwrap_or_else(|| {
                let found = self.stand(&definition, &wish, ears).map_err(Arc::new);
                if is_for_good(&found, ears) {
                    self.toolchains.lock().unwrap_or_else(PoisonError::into_inner).insert(wish.clone(), found.clone());
                }
                found
            })
        });
        let Standing { root, toolchain, _held } = looked.map_err(EnvironmentError::Earlier)?;
        Ok(Resolved { spec: spec.clone(), definition, toolchain, root })
    }

    /// The same on a base, whatever the sandbox takes: the one that the spec names, else the one with the version of the
    /// host's toolchain.
    ///
    /// # Errors
    /// As [`resolve_with`](Self::resolve_with), and [`EnvironmentError::NoBaseOfVersion`].
    pub fn resolve_on_base(
        &self,
        spec: &EnvironmentSpec,
        progress: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Resolved, EnvironmentError> {
        let resolved = self.resolve_with(spec, progress, cancel)?;
        if resolved.root != Root::Host {
            return Ok(resolved);
        }
        let (definition, version) = (&resolved.definition, &resolved.toolchain.version);
        let base = Bases::of_version(definition, version).ok_or_else(|| EnvironmentError::NoBaseOfVersion {
            language: definition.name.clone(),
            wanted: version.clone(),
            known: definition.bases.iter().map(|base| base.name.clone()).collect(),
        })?;
        let mut spec = spec.clone();
        // The base may have another patch release: what the spec wants still holds, what the host has does not.
        spec.base = Some(base.name.clone());
        self.resolve_with(&spec, progress, cancel)
    }

    fn stand(&self, definition: &Definition, wish: &Wish, ears: Ears<'_>) -> Result<Standing, EnvironmentError> {
        let has_host = self.sandbox.has_host_root();
        match wish.base.as_deref() {
            Some(HOST) if !has_host => {
                let sandbox = self.sandbox.isolation().sandbox;
                let why = format!("the sandbox `{sandbox}` cannot stand on this machine's own system");
                Err(BaseError::NotMade { name: HOST.to_owned(), why }.into())
            }
            Some(HOST) => match self.on_host(definition, wish) {
                Ok((standing, missing)) if missing.is_empty() => Ok(standing),
                Ok((_, packages)) => Err(EnvironmentError::SystemPackages { packages }),
                Err(missing) => Err(missing),
            },
            Some(name) => self.on_base(definition, wish, name, ears),
            None if has_host => {
                let lacks = match self.on_host(definition, wish) {
                    Ok((standing, missing)) if missing.is_empty() => return Ok(standing),
                    Ok((_, packages)) => EnvironmentError::SystemPackages { packages },
                    Err(missing) => missing,
                };
                let Some(base) = Bases::of_version(definition, &wish.version) else { return Err(lacks) };
                let ears = Ears { make: ears.make && self.settings.makes_bases, ..ears };
                self.on_base(definition, wish, &base.name, ears).map_err(|error| match error {
                    EnvironmentError::Base(source) => {
                        let language = definition.name.clone();
                        EnvironmentError::NoBase { language, host: lacks.to_string(), source }
                    }
                    other => other,
                })
            }
            None => {
                let base = Bases::of_version(definition, &wish.version);
                let base = base.ok_or_else(|| EnvironmentError::NoBaseOfVersion {
                    language: definition.name.clone(),
                    wanted: wish.version.clone(),
                    known: definition.bases.iter().map(|base| base.name.clone()).collect(),
                })?;
                self.on_base(definition, wish, &base.name, ears)
            }
        }
    }

    /// The host, with the packages of the system that it lacks; or its missing toolchain.
    fn on_host(&self, definition: &Definition, wish: &Wish) -> Result<(Standing, Vec<String>), EnvironmentError> {
        let settings = &self.settings;
        let found = find(&definition.toolchain, &wish.version, &settings.host, settings.probe_deadline);
        let toolchain = found.map_err(|search| missing_toolchain(definition, &wish.version, search))?;
        let missing = missing_packages(&wish.packages, &settings.host);
        Ok((Standing { root: Root::Host, toolchain: Arc::new(toolchain), _held: None }, missing))
    }

    fn on_base(
        &self,
        definition: &Definition,
        wish: &Wish,
        name: &str,
        ears: Ears<'_>,
    ) -> Result<Standing, EnvironmentError> {
        let mut base = self.base(name, &wish.packages, ears)?;
        let settings = &self.settings;
        let hold = |base: &Base| settings.uses.as_ref().map(|uses| uses.hold(&base.folder)).transpose();
        let mut held = hold(&base)?.flatten();
        if held.is_none() && settings.uses.is_some() {
            // It was taken out of the cache between its finding and now.
            base = self.base(name, &wish.packages, ears)?;
            held = hold(&base)?.flatten();
        }
        let (sandbox, deadline) = (self.sandbox.as_ref(), settings.probe_deadline);
        let found = find_toolchain(definition, &wish.version, &base, sandbox, deadline, ears.cancel);
        match found {
            Ok(toolchain) => {
                Ok(Standing { root: base.root(), toolchain: Arc::new(toolchain), _held: held.map(Arc::new) })
            }
            Err(_) if ears.cancel.is_cancelled() => Err(BaseError::Cancelled.into()),
            Err(error) => Err(error),
        }
    }

    /// Whether a base that is missing would be made by itself now.
    pub(super) fn would_make_bases(&self) -> bool {
        let is_offline = self.settings.offline || self.without_network.load(Ordering::Relaxed);
        !is_offline && (self.settings.makes_bases || !self.sandbox.has_host_root())
    }

    /// A base, made when it is missing and may be.
    fn base(&self, name: &str, packages: &[String], ears: Ears<'_>) -> Result<Base, EnvironmentError> {
        let why = if !ears.make {
            "it is not made by itself here"
        } else if self.without_network.load(Ordering::Relaxed) {
            "the network was given up in this run"
        } else {
            return Ok(self.bases.get(name, packages, ears.progress, ears.cancel)?);
        };
        let missing = || BaseError::NotMade { name: name.to_owned(), why: why.to_owned() };
        Ok(self.bases.find(name, packages)?.ok_or_else(missing)?)
    }
}

/// The error of a search in which nothing fits.
pub(super) fn missing_toolchain(definition: &Definition, wanted: &str, search: Search) -> EnvironmentError {
    EnvironmentError::ToolchainMissing {
        language: definition.name.clone(),
        wanted: match (&definition.toolchain.minimum, wanted.is_empty()) {
            (Some(minimum), true) => format!(">={minimum}"),
            _ => wanted.to_owned(),
        },
        looked_at: search.looked_at,
        found: search.found,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::environment::recorder::{Recorder, Room, broken};

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn work_that_blocks_is_heard_while_it_runs_and_leaves_the_runtime_free() {
        let room = Room::of(Recorder::answering(broken));
        let (hears, heard) = channel();
        let hears = Mutex::new(hears);
        let progress = move |text: &str| hears.lock().unwrap().send(text.to_owned()).unwrap();
        // The runtime has one thread: it could not pass on a word if the work was on it.
        let work = move |_: &Environments, told: &Told<'_>, _: &CancellationToken| {
            told("making a base");
            Ok(heard.recv_timeout(LONG).ok())
        };
        let heard = room.environments.heard(work, &progress, &CancellationToken::new()).await.unwrap();
        assert_eq!(heard.as_deref(), Some("making a base"));
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_told_to_end_and_work_that_breaks_is_the_machines() {
        let room = Room::of(Recorder::answering(broken));
        let (ends, ended) = channel();
        let work = move |_: &Environments, _: &Told<'_>, stop: &CancellationToken| {
            while !stop.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            ends.send(()).unwrap();
            Ok(())
        };
        let never = CancellationToken::new();
        let waits = room.environments.heard(work, &|_| {}, &never);
        assert!(tokio::time::timeout(Duration::from_millis(50), waits).await.is_err());
        assert!(ended.recv_timeout(LONG).is_ok());

        let breaks = |_: &Environments, _: &Told<'_>, _: &CancellationToken| -> Result<(), EnvironmentError> {
            panic!("on purpose")
        };
        let error = room.environments.heard(breaks, &|_| {}, &never).await.unwrap_err();
        assert_eq!(error.reason(), InfraReason::Sandbox, "{error}");
    }

    #[test]
    fn only_what_is_so_for_good_is_remembered() {
        let never = CancellationToken::new();
        let ears = |make| Ears { make, progress: &|_| {}, cancel: &never };
        let of = |error: EnvironmentError, make| is_for_good(&Err(Arc::new(error)), ears(make));
        let missing = || EnvironmentError::ToolchainMissing {
            language: "x".to_owned(),
            wanted: String::new(),
            looked_at: Vec::new(),
            found: Vec::new(),
        };
        let unmade = || BaseError::NotMade { name: "b".to_owned(), why: String::new() }.into();
        assert!(of(missing(), true) && of(missing(), false));
        assert!(of(unmade(), true) && !of(unmade(), false));
        assert!(!of(std::io::Error::other("x").into(), true));
        assert!(!of(BaseError::Disk("x".to_owned()).into(), true));
    }
}
