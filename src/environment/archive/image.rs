//! Reading what users have: tarballs of root file systems, archives of `docker save`, OCI layouts (as a folder or as an
//! archive); packed by gzip or not.

use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::error::ArchiveError;
use super::oci::{Config, Descriptor, DockerManifest, Index, Manifest, sha256_of};
use super::part::Part;
use super::tree::{Kind, Tree, Whiteouts};

/// The longest JSON document that is read.
const LONGEST_DOCUMENT: u64 = 16 << 20;

/// An image, opened.
#[derive(Debug)]
pub struct Image {
    /// Its file system.
    pub tree: Tree,
    /// Variables that it sets for every command, as `NAME=VALUE`.
    pub variables: Vec<String>,
    /// Its labels.
    pub labels: std::collections::BTreeMap<String, String>,
}

/// Where blobs of an image are.
pub enum Blobs {
    /// A folder.
    Folder(PathBuf),
    /// A tar archive, indexed.
    Archive {
        /// The file.
        path: PathBuf,
        /// What is in it.
        tree: Tree,
    },
}

impl Blobs {
    /// Opens a folder or an archive. `work`: an empty folder for what must be unpacked on the way.
    pub fn open(path: &Path, work: &Path, go: &dyn Fn() -> std::io::Result<()>) -> Result<Self, ArchiveError> {
        if path.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let part = plain(&Part::whole(path)?, &path.display().to_string(), work, go)?;
        let mut tree = Tree::default();
        tree.put(&part, &path.display().to_string(), Whiteouts::Apply)?;
        Ok(Self::Archive { path: path.to_owned(), tree })
    }

    /// Where they come from.
    pub fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Archive { path, .. } => path,
        }
    }

    /// One file; links are followed inside.
    pub fn file(&self, name: &str) -> Option<Part> {
        match self {
            Self::Folder(folder) => {
                let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
                let path = folder.join(name);
                (plain && path.is_file()).then(|| Part::whole(&path).ok()).flatten()
            }
            Self::Archive { tree, .. } => {
                let mut at = PathBuf::from(name);
                for _ in 0..8 {
                    match &tree.get(&at)?.kind {
                        Kind::File(part) => return Some(part.clone()),
                        // `docker save` names a layer that two images share once, and links to it.
                        Kind::Link(to) => at = joined(at.parent()?, to)?,
                        Kind::Folder => return None,
                    }
                }
                None
            }
        }
    }

    /// A JSON document.
    pub fn document<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ArchiveError> {
        let Some(part) = self.file(name) else { return Ok(None) };
        let bytes = small(part, self.path(), name)?;
        let value = serde_json::from_slice(&bytes)
            .map_err(|e| ArchiveError::malformed(self.path().display(), format!("`{name}` can't be read: {e}")))?;
        Ok(Some(value))
    }

    /// A blob of an OCI layout, its digest and length checked.
    pub fn blob(&self, descriptor: &Descriptor, go: &dyn Fn() -> std::io::Result<()>) -> Result<Part, ArchiveError> {
        let damaged = |problem: &str| ArchiveError::Damaged {
            archive: self.path().to_owned(),
            digest: descriptor.digest.clone(),
            problem: problem.to_owned(),
        };
        let hex = descriptor.digest.strip_prefix("sha256:");
        let hex = hex.filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let hex = hex.ok_or_else(|| damaged("has no digest of the kind `sha256:HEX`"))?;
        let part = self.file(&format!("blobs/sha256/{hex}")).ok_or_else(|| damaged("is not there"))?;
        if part.length() != descriptor.size {
            return Err(damaged(&format!("has {} bytes and not {}", part.length(), descriptor.size)));
        }
        if sha256_of(part.clone(), go)? != descriptor.digest {
            return Err(damaged("has another content than its digest says"));
        }
        Ok(part)
    }

    /// A JSON document that is a blob.
    pub fn blob_document<T: serde::de::DeserializeOwned>(
        &self,
        descriptor: &Descriptor,
        go: &dyn Fn() -> std::io::Result<()>,
    ) -> Result<T, ArchiveError> {
        let bytes = small(self.blob(descriptor, go)?, self.path(), &descriptor.digest)?;
        serde_json::from_slice(&bytes).map_err(|e| {
            ArchiveError::malformed(self.path().display(), format!("the blob {} can't be read: {e}", descriptor.digest))
        })
    }
}

/// Opens whatever holds a root file system.
///
/// # Errors
/// When it is none of the known kinds, holds several images, is for another machine, or damaged.
pub fn open(
    path: &Path,
    work: &Path,
    architecture: &str,
    go: &dyn Fn() -> std::io::Result<()>,
) -> Result<Image, ArchiveError> {
    let blobs = Blobs::open(path, work, go)?;
    if blobs.file("oci-layout").is_some()
        && let Some(index) = blobs.document::<Index>("index.json")?
    {
        return of_layout(&blobs, &index, work, architecture, go);
    }
    if let Some(manifests) = blobs.document::<Vec<DockerManifest>>("manifest.json")? {
        return of_docker(&blobs, &manifests, work, architecture, go);
    }
    match blobs {
        Blobs::Archive { tree, .. } => Ok(Image { tree, variables: Vec::new(), labels: Default::default() }),
        Blobs::Folder(path) => Err(ArchiveError::malformed(
            path.display(),
            "it is a folder, and not an OCI layout; pack a root file system as a tar archive",
        )),
    }
}

/// The one image manifest of a layout for a machine.
///
/// # Errors
/// When there is none or more than one.
pub fn manifest_of(
    blobs: &Blobs,
    index: &Index,
    architecture: &str,
    go: &dyn Fn() -> std::io::Result<()>,
) -> Result<Manifest, ArchiveError> {
    let mut index = index.clone();
    // An index may lead to another one, as those of registries do.
    for _ in 0..4 {
        let mut found: Vec<&Descriptor> = index.manifests.iter().filter(|m| !m.is_attestation()).collect();
        if found.len() > 1 {
            let platforms: Vec<String> = found
                .iter()
                .map(|m| m.platform.as_ref().map_or("unknown".to_owned(), |p| p.architecture.clone()))
                .collect();
            found.retain(|m| m.platform.as_ref().is_none_or(|p| p.architecture == architecture && p.os == "linux"));
            if found.is_empty() {
                return Err(ArchiveError::Platform {
                    archive: blobs.path().to_owned(),
                    wanted: format!("linux/{architecture}"),
                    found: platforms,
                });
            }
        }
        let [one] = found[..] else {
            let problem = format!("it holds {} images, and it is not said which one is meant", found.len());
            return Err(ArchiveError::malformed(blobs.path().display(), problem));
        };
        if one.media_type.contains("index") || one.media_type.contains("manifest.list") {
            index = blobs.blob_document(one, go)?;
        } else {
            return blobs.blob_document(one, go);
        }
    }
    Err(ArchiveError::malformed(blobs.path().display(), "its indexes lead to one another"))
}

fn of_layout(
    blobs: &Blobs,
    index: &Index,
    work: &Path,
    architecture: &str,
    go: &dyn Fn() -> std::io::Result<()>,
) -> Result<Image, ArchiveError> {
    let manifest = manifest_of(blobs, index, architecture, go)?;
    let config: Config = blobs.blob_document(&manifest.config, go)?;
    right_machine(blobs.path(), &config, architecture)?;
    let mut tree = Tree::default();
    for layer in &manifest.layers {
        let part = plain(&blobs.blob(layer, go)?, &layer.digest, work, go)?;
        tree.put(&part, &layer.digest, Whiteouts::Apply)?;
    }
    Ok(image(tree, config))
}

fn of_docker(
    blobs: &Blobs,
    manifests: &[DockerManifest],
    work: &Path,
    architecture: &str,
    go: &dyn Fn() -> std::io::Result<()>,
) -> Result<Image, ArchiveError> {
    let bad = |problem: String| ArchiveError::malformed(blobs.path().display(), problem);
    let [manifest] = manifests else {
        let tags: Vec<&str> = manifests.iter().flat_map(|m| m.repo_tags.iter().flatten()).map(String::as_str).collect();
        let images = manifests.len();
        return Err(bad(format!(
            "it holds {images} images ({}), and it is not said which one is meant",
            tags.join(", ")
        )));
    };
    let config: Option<Config> = blobs.document(&manifest.config)?;
    let config = config.ok_or_else(|| bad(format!("`{}` is not in it", manifest.config)))?;
    right_machine(blobs.path(), &config, architecture)?;
    let mut tree = Tree::default();
    for (number, name) in manifest.layers.iter().enumerate() {
        let part = blobs.file(name).ok_or_else(|| bad(format!("the layer `{name}` is not in it")))?;
        let part = plain(&part, name, work, go)?;
        if let Some(digest) = config.rootfs.diff_ids.get(number)
            && sha256_of(part.clone(), go)? != *digest
        {
            let problem = format!("(`{name}`) has another content than its digest says");
            return Err(ArchiveError::Damaged { archive: blobs.path().to_owned(), digest: digest.clone(), problem });
        }
        tree.put(&part, name, Whiteouts::Apply)?;
    }
    Ok(image(tree, config))
}

fn image(tree: Tree, config: Config) -> Image {
    let config = config.config.unwrap_or_default();
    Image { tree, variables: config.env.unwrap_or_default(), labels: config.labels.unwrap_or_default() }
}

fn right_machine(archive: &Path, config: &Config, architecture: &str) -> Result<(), ArchiveError> {
    if config.architecture == architecture && config.os == "linux" {
        return Ok(());
    }
    Err(ArchiveError::Platform {
        archive: archive.to_owned(),
        wanted: format!("linux/{architecture}"),
        found: vec![format!("{}/{}", config.os, config.architecture)],
    })
}

/// A part without its packing; what was packed lies in a file of `work` afterwards.
pub fn plain(part: &Part, name: &str, work: &Path, go: &dyn Fn() -> std::io::Result<()>) -> Result<Part, ArchiveError> {
    let mut magic = [0; 6];
    let read = part.clone().read(&mut magic)?;
    let magic = &magic[..read];
    let known = [(&b"\x28\xb5\x2f\xfd"[..], "zstd"), (&b"\xfd7zXZ"[..], "xz"), (&b"BZh"[..], "bzip2")];
    if let Some((_, kind)) = known.iter().find(|(sign, _)| magic.starts_with(sign)) {
        return Err(ArchiveError::malformed(
            name,
            format!("it is packed by {kind}; unpack it first, or pack it by gzip"),
        ));
    }
    if !magic.starts_with(b"\x1f\x8b") {
        return Ok(part.clone());
    }
    let mut out = tempfile::Builder::new().prefix("unpacked-").tempfile_in(work)?;
    let mut reader = flate2::read::MultiGzDecoder::new(part.clone());
    let mut buffer = vec![0; 1 << 17];
    loop {
        go()?;
        let read = reader.read(&mut buffer);
        match read.map_err(|e| ArchiveError::malformed(name, format!("its gzip stream is broken: {e}")))? {
            0 => break,
            read => out.write_all(&buffer[..read])?,
        }
    }
    // Nobody else needs its name.
    Ok(Part::whole(out.path())?)
}

/// A short file's bytes.
fn small(mut part: Part, archive: &Path, name: &str) -> Result<Vec<u8>, ArchiveError> {
    if part.length() > LONGEST_DOCUMENT {
        return Err(ArchiveError::malformed(archive.display(), format!("`{name}` is too long for a document")));
    }
    let mut bytes = Vec::new();
    part.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A link's target, as a path from the root; `None` where it leads out.
fn joined(folder: &Path, to: &Path) -> Option<PathBuf> {
    let mut out = if to.is_absolute() { PathBuf::new() } else { folder.to_owned() };
    for part in to.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(out)
}

/// The digest of some bytes, as container engines write it.
pub fn sha256(bytes: &[u8]) -> String {
    super::oci::named(Sha256::digest(bytes).as_slice())
}
