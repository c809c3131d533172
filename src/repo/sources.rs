//! Where repositories come from: mirrors, bundles, a clone of ours, or a clone that is made now.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::RepoError;
use super::lock::{Lock, beside, make_once};
use super::mirrors::Search;
use super::name::RepoName;
use super::program::GitProgram;
use super::repository::Repository;

/// The places where repositories are looked for, in this order: mirrors, bundles, earlier clones in the cache, a clone
/// from the template.
///
/// In a mirrors' folder `owner/name`, `owner__name` and `owner+name` are looked for, each also with `.git` after it or
/// with the repository in `repo` below it; then `name` and `name.git`, unless their remote is another repository. The
/// folder may be such a repository itself. Bundles are `owner__name.bundle`, `owner+name.bundle`, `owner/name.bundle`
/// or `name.bundle`. Letter case counts only where several fit.
#[derive(Debug, Clone)]
pub struct RepoSources {
    /// Folders with mirrors, bare or not.
    pub mirrors: Vec<PathBuf>,
    /// Folders with bundles.
    pub bundles: Vec<PathBuf>,
    /// What to clone from, with `{owner}` and `{name}` in it: an address, or a path.
    pub template: Option<String>,
    /// Whether clones are forbidden.
    pub offline: bool,
    /// Where clones and unpacked bundles are kept.
    pub cache: PathBuf,
    /// The git program.
    pub git_program: PathBuf,
    /// Variables for the git program (proxy, CA bundle); it gets no others from outside.
    pub git_variables: Vec<(String, String)>,
    /// How often and how long a clone is tried.
    pub retries: Retries,
}

/// How often and how long network commands are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Tries in all, at least 1.
    pub tries: u32,
    /// The pause before the second try; it doubles each time.
    pub pause: Duration,
    /// The deadline of all tries together.
    pub limit: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { tries: 3, pause: Duration::from_secs(2), limit: Duration::from_secs(30 * 60) }
    }
}

/// How long unpacking a bundle may take.
const BUNDLE_LIMIT: Duration = Duration::from_secs(15 * 60);

impl RepoSources {
    /// Finds and opens a repository by `owner/name`, cloning it if need be.
    pub fn open(&self, repo: &str) -> Result<Repository, RepoError> {
        let name = RepoName::parse(repo)?;
        let mut search = Search::new(&name);
        if let Some(found) = search.mirrors(&self.mirrors)? {
            return Repository::open(&found);
        }
        if let Some(bundle) = search.bundles(&self.bundles)? {
            return self.unpack(&bundle);
        }
        let clone = self.clone_path(&name);
        search.looked.push(format!("{} (earlier clones)", clone.display()));
        if clone.is_dir() {
            return Repository::open(&clone);
        }
        match &self.template {
            Some(template) if !self.offline => {
                let address = expand(template, &name)?;
                make_once(&clone, |to, lock| self.clone_into(&address, to, lock))?;
                Repository::open(&clone)
            }
            template => {
                search.looked.extend(template.iter().map(|t| format!("{t} (not asked, as the network is off)")));
                let (repo, offline) = (repo.to_owned(), self.offline && template.is_some());
                Err(RepoError::NotFound { repo, looked: search.looked, offline })
            }
        }
    }

    /// Fetches what is new into our own clone of a repository, where there is one: for a commit that [`Self::open`]'s
    /// repository lacks. Mirrors and bundles are never changed.
    pub fn refresh(&self, repo: &str) -> Result<Repository, RepoError> {
        let name = RepoName::parse(repo)?;
        let clone = self.clone_path(&name);
        if !self.offline && clone.is_dir() {
            let lock = Lock::take(&beside(&clone, ".lock"))?;
            let git = self.git()?.holding(&lock)?;
            let mut dir = OsString::from("--git-dir=");
            dir.push(&clone);
            self.retry(|limit| git.run(&[dir.as_os_str(), "fetch".as_ref(), "--prune".as_ref()], limit))?;
        }
        self.open(repo)
    }

    fn git(&self) -> Result<GitProgram, RepoError> {
        GitProgram::new(&self.git_program, &self.git_variables, &self.cache)
    }

    fn clone_path(&self, name: &RepoName) -> PathBuf {
        let folder = format!("{}__{}.git", name.owner, name.name).to_ascii_lowercase();
        self.cache.join("clones-v1").join(folder)
    }

    fn clone_into(&self, address: &str, to: &Path, lock: &Lock) -> Result<(), RepoError> {
        let git = self.git()?.holding(lock)?;
        self.retry(|limit| {
            super::lock::remove_all(to)?;
            // A mirror has every ref of the other side, the pull requests' heads among them.
            let words = ["clone", "--quiet", "--mirror", "--", address].map(OsString::from);
            git.run(&[&words[..], &[to.as_os_str().to_owned()]].concat(), limit)
        })
    }

    /// Tries a step, which is told how much time is left for all tries together.
    fn retry(&self, mut step: impl FnMut(Duration) -> Result<(), RepoError>) -> Result<(), RepoError> {
        let began = Instant::now();
        let left = || self.retries.limit.saturating_sub(began.elapsed());
        let mut step = |left| {
            step(left).map_err(|error| match error {
                // What was left of it for the last try tells nobody anything.
                RepoError::GitTimeout { command, .. } => {
                    RepoError::GitTimeout { command, seconds: self.retries.limit.as_secs() }
                }
                error => error,
            })
        };
        let mut pause = self.retries.pause;
        for _ in 1..self.retries.tries {
            match step(left()) {
                // A full disk or a missing program does not get better.
                Err(e @ (RepoError::GitProgram { code: Some(_), .. } | RepoError::GitTimeout { .. }))
                    if !e.is_disk() && left() > pause =>
                {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                done => return done,
            }
        }
        step(left())
    }

    /// Unpacks a bundle once; the copy is named by the bundle's digest, so a changed bundle is another one.
    fn unpack(&self, bundle: &Path) -> Result<Repository, RepoError> {
        let mut hasher = blake3::Hasher::new();
        std::io::copy(&mut fs_err::File::open(bundle)?, &mut hasher)?;
        let digest = hasher.finalize().to_hex();
        let to = self.cache.join("bundles-v1").join(format!("{}.git", &digest[..32]));
        let bundle = fs_err::canonicalize(bundle)?;
        make_once(&to, |to, lock| {
            let words = ["clone", "--quiet", "--mirror", "--"].map(OsString::from);
            let ends = [bundle.as_os_str().to_owned(), to.as_os_str().to_owned()];
            match self.git()?.holding(lock)?.run(&[&words[..], &ends[..]].concat(), BUNDLE_LIMIT) {
                Err(RepoError::GitProgram { message, .. }) if message.contains("prerequisite commit") => {
                    Err(RepoError::BundlePrerequisites { bundle: bundle.clone() })
                }
                done => done,
            }
        })?;
        Repository::open(&to)
    }
}

/// Fills in the template. What comes out must not be taken for an option.
fn expand(template: &str, name: &RepoName) -> Result<String, RepoError> {
    let address = template.replace("{owner}", &name.owner).replace("{name}", &name.name);
    if address.starts_with('-') {
        let problem = "the template makes an address that starts with `-`";
        return Err(RepoError::BadName { repo: name.full(), problem });
    }
    // The program runs in a folder of its own, so a path must not depend on ours.
    if !address.contains(':') && Path::new(&address).exists() {
        return Ok(std::path::absolute(&address)?.to_string_lossy().into_owned());
    }
    Ok(address)
}
