//! The bases' place in the cache: complete or not there, made by one at a time.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::error::BaseError;
use super::make::Told;
use super::recipe::Recipe;
use crate::environment::archive::{TarWriter, Tree, unpack};
use crate::environment::layers::remove_tree;
use crate::model::Digest;
use crate::sandbox::Root;
use crate::store::cache::Bucket;

const MARKER: &str = "base.json";
const ARCHIVE: &str = "root.tar";
const FOLDER: &str = "root";
const WORK: &str = "work";
const SCHEMA: u32 = 1;

/// What the embedded sandbox shows of a base, and so what is unpacked.
const UNPACKED: [&str; 9] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "etc"];

/// What a base is, as its marker `base.json` says: the lock of what is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaseRecord {
    /// The version of this shape.
    pub schema: u32,
    /// The name under which it was made.
    pub name: String,
    /// What it was made of.
    pub recipe: Recipe,
    /// Where that came from, for people: a mirror without credentials, an image's reference, a file's name.
    pub origin: String,
    /// The digest of its archive: what it is.
    pub content: Digest,
    /// The system in it, as `os-release` names it; empty where that says nothing.
    pub system: String,
    /// The packages of the system that are in it, as `NAME=VERSION`, sorted; empty where no package manager tells.
    pub packages: Vec<String>,
    /// Variables that its image sets for every command, for finding its toolchains.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Bytes of its archive.
    pub archive_bytes: u64,
    /// Bytes of its unpacked folder.
    pub folder_bytes: u64,
    /// Seconds that making it took.
    pub seconds: f64,
}

/// A base that is there.
#[derive(Debug, Clone)]
pub struct Base {
    /// Its recipe's digest: its name in the cache.
    pub digest: Digest,
    /// Its folder in the cache.
    pub folder: PathBuf,
    /// What it is.
    pub record: BaseRecord,
}

impl Base {
    /// Its archive.
    pub fn archive(&self) -> PathBuf {
        self.folder.join(ARCHIVE)
    }

    /// Its unpacked system directories.
    pub fn root_folder(&self) -> PathBuf {
        self.folder.join(FOLDER)
    }

    /// The root that tasks stand on.
    pub fn root(&self) -> Root {
        Root::Base {
            folder: Some(self.root_folder()),
            archive: Some(self.archive()),
            image: None,
            digest: self.record.content.to_string(),
        }
    }

    /// Those of `packages` (names, without version) that are not in it.
    pub fn lacks(&self, packages: &[String]) -> Vec<String> {
        let has = |name: &str| self.record.packages.iter().any(|p| p.split('=').next() == Some(name));
        packages.iter().filter(|package| !has(package.trim())).cloned().collect()
    }
}

/// The digest of what is in the base that lies in this folder of a cache; `None` where no whole one lies there.
pub fn content_of(folder: &Path) -> Option<Digest> {
    let record: BaseRecord = serde_json::from_str(&fs_err::read_to_string(folder.join(MARKER)).ok()?).ok()?;
    (record.schema == SCHEMA).then_some(record.content)
}

/// All bases of a cache.
#[derive(Debug)]
pub struct Shelf {
    bucket: PathBuf,
}

/// What a base is, before it is written.
pub struct Content {
    /// Its file system.
    pub tree: Tree,
    /// See [`BaseRecord::origin`].
    pub origin: String,
    /// See [`BaseRecord::variables`].
    pub variables: BTreeMap<String, String>,
}

impl Shelf {
    /// Opens the cache, making its folder.
    pub fn open(cache: &Path) -> Result<Self, BaseError> {
        let bucket = Bucket::Bases.path(cache);
        fs_err::create_dir_all(&bucket)?;
        // Mounts need absolute paths, and a cache may be given relative to the current folder.
        Ok(Self { bucket: fs_err::canonicalize(bucket)? })
    }

    /// The bucket's folder.
    pub fn bucket(&self) -> &Path {
        &self.bucket
    }

    /// A complete base, if it is there.
    pub fn find(&self, digest: &Digest) -> Option<Base> {
        let folder = self.bucket.join(digest.as_str());
        let text = fs_err::read_to_string(folder.join(MARKER)).ok()?;
        let record: BaseRecord = serde_json::from_str(&text).ok()?;
        (record.schema == SCHEMA).then(|| Base { digest: digest.clone(), folder, record })
    }

    /// All complete bases, by digest.
    pub fn all(&self) -> Vec<Base> {
        let names = fs_err::read_dir(&self.bucket).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let mut digests: Vec<Digest> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
        digests.sort();
        digests.iter().filter_map(|digest| self.find(digest)).collect()
    }

    /// Waits for the turn to make a base. Look again with [`find`](Self::find) afterwards: another may have made it.
    pub fn turn(&self, digest: &Digest, told: &Told<'_>) -> Result<std::fs::File, BaseError> {
        const PAUSE: Duration = Duration::from_millis(50);
        let path = self.bucket.join(format!("{digest}.lock"));
        let file = fs_err::OpenOptions::new().create(true).truncate(false).write(true).open(&path)?.into_parts().0;
        let mut said = false;
        loop {
            match file.try_lock() {
                Ok(()) => {
                    return Ok(file);
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    if !said {
                        told.say("waiting for another process that makes the same base");
                        said = true;
                    }
                    told.check()?;
                    std::thread::sleep(PAUSE);
                }
                // On a file system without locks nobody waits for anybody.
                Err(std::fs::TryLockError::Error(e)) if e.kind() == std::io::ErrorKind::Unsupported => return Ok(file),
                Err(std::fs::TryLockError::Error(error)) => return Err(error.into()),
            }
        }
    }

    /// Begins a base. The caller has the turn.
    pub fn start(&self, digest: &Digest) -> Result<Draft, BaseError> {
        Draft::new(&self.bucket, digest)
    }

    /// Writes a base: the marker last, all on the disk before the base gets its name.
    pub fn put(
        &self,
        draft: Draft,
        name: &str,
        recipe: &Recipe,
        content: Content,
        began: Instant,
        told: &Told<'_>,
    ) -> Result<Base, BaseError> {
        let digest = recipe.digest();
        let target = self.bucket.join(digest.as_str());
        if target.symlink_metadata().is_ok() {
            // Without a readable marker it is not a base.
            remove_tree(&target)?;
        }
        told.say("writing the archive");
        let archive = draft.folder.join(ARCHIVE);
        let (content_digest, archive_bytes) = write_archive(&content.tree, &archive, told)?;
        told.check()?;
        told.say("unpacking it");
        let folder = draft.folder.join(FOLDER);
        fs_err::create_dir(&folder)?;
        let (system, packages) =
            (super::contents::system_of(&content.tree), super::contents::packages_of(&content.tree));
        let mut shown = content.tree;
        shown.retain(|path, _| UNPACKED.iter().any(|name| path.starts_with(name)));
        unpack(&shown, &folder, &|| told.go()).map_err(|e| told.error(e))?;
        for folder in [&draft.folder, &folder] {
            fs_err::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        let folder_bytes = super::contents::bytes_of(&shown);
        let record = BaseRecord {
            schema: SCHEMA,
            name: name.to_owned(),
            recipe: recipe.clone(),
            origin: content.origin,
            content: content_digest,
            system,
            packages,
            variables: content.variables,
            archive_bytes,
            folder_bytes,
            seconds: (began.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
        };
        remove_tree(&draft.folder.join(WORK))?;
        let mut file = fs_err::File::create(draft.folder.join(MARKER))?;
        file.write_all(&serde_json::to_vec_pretty(&record).map_err(std::io::Error::from)?)?;
        told.check()?;
        rustix::fs::syncfs(file.file()).map_err(std::io::Error::from)?;
        fs_err::rename(&draft.folder, &target)?;
        fs_err::File::open(&self.bucket)?.sync_all()?;
        Ok(Base { digest, folder: target, record })
    }
}

/// A base that is being made. It goes when it was not renamed.
pub struct Draft {
    folder: PathBuf,
}

impl Draft {
    fn new(bucket: &Path, digest: &Digest) -> Result<Self, BaseError> {
        let prefix = format!(".{digest}.");
        for entry in fs_err::read_dir(bucket)? {
            let entry = entry?;
            // Of dead makers: the turn says that nobody else is at it.
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
                remove_tree(&entry.path())?;
            }
        }
        let folder = bucket.join(format!("{prefix}{}", std::process::id()));
        fs_err::create_dir(&folder)?;
        fs_err::create_dir(folder.join(WORK))?;
        Ok(Self { folder })
    }

    /// A folder for what is needed on the way.
    pub fn work(&self) -> PathBuf {
        self.folder.join(WORK)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.folder.exists() {
            // The next maker tries again, and an unfinished base is never used.
            let _ = remove_tree(&self.folder);
        }
    }
}

/// Writes the archive and gives its digest and length.
fn write_archive(tree: &Tree, path: &Path, told: &Told<'_>) -> Result<(Digest, u64), BaseError> {
    struct Hashing<W> {
        to: W,
        hasher: blake3::Hasher,
        bytes: u64,
    }
    impl<W: Write> Write for Hashing<W> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let written = self.to.write(bytes)?;
            self.hasher.update(&bytes[..written]);
            self.bytes += written as u64;
            Ok(written)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            self.to.flush()
        }
    }
    let file = fs_err::File::create(path)?;
    let hashing = Hashing { to: file, hasher: blake3::Hasher::new(), bytes: 0 };
    let mut writer = TarWriter::new(BufWriter::with_capacity(1 << 17, hashing));
    writer.add_tree(tree, &|| told.go()).map_err(|e| told.error(e))?;
    let hashing = writer.finish().and_then(|b| b.into_inner().map_err(std::io::IntoInnerError::into_error))?;
    let digest = hashing.hasher.finalize().to_hex().to_string();
    let digest = digest.parse().map_err(|_| std::io::Error::other("a digest that is none"))?;
    Ok((digest, hashing.bytes))
}
