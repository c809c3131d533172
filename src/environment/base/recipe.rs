//! What a base is made of.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::definition::BaseDefinition;
use crate::model::{Digest, digest_json};

/// How we make bases; another number makes all of them anew.
const FORMAT: u32 = 1;

/// What a base is made of. Its digest is the base's place in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// Where its content comes from.
    pub from: Source,
    /// The machine it is for, as container engines name it: `amd64`, `arm64`.
    pub architecture: String,
    /// The version of our own part in it.
    pub format: u32,
}

/// Where a base's content comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Debian packages beside the minimal system.
    Debian {
        /// The release: `bookworm`.
        release: String,
        /// Their names, sorted, each once.
        packages: Vec<String>,
    },
    /// An image of a container engine.
    Image {
        /// What pins it: its digest in a registry (`python@sha256:…`), or its id (`sha256:…`) where it is in none.
        pin: String,
    },
    /// An archive.
    Archive {
        /// The digest of the file.
        digest: Digest,
    },
}

impl Recipe {
    /// A recipe for this machine.
    pub fn new(from: Source) -> Self {
        Self { from, architecture: architecture().to_owned(), format: FORMAT }
    }

    /// A definition's, with more packages of the system; `None` where the definition has no Debian release.
    pub fn of_debian(definition: &BaseDefinition, more: &[String]) -> Option<Self> {
        let release = definition.debian.clone()?;
        let mut packages: Vec<String> = definition.packages.iter().chain(more).map(|p| p.trim().to_owned()).collect();
        packages.retain(|package| !package.is_empty());
        packages.sort();
        packages.dedup();
        Some(Self::new(Source::Debian { release, packages }))
    }

    /// Its digest.
    pub fn digest(&self) -> Digest {
        digest_json(&json!(self))
    }

    /// For people: where it comes from, in a few words.
    pub fn words(&self) -> String {
        match &self.from {
            Source::Debian { release, packages } => format!("Debian {release} with {}", packages.join(", ")),
            Source::Image { pin } => format!("image {pin}"),
            Source::Archive { digest } => format!("archive {}", digest.short()),
        }
    }
}

/// This machine, as container engines name it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

/// What a word that is no base's name can mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A file or folder that is there.
    Path(PathBuf),
    /// An image's reference.
    Image(String),
}

/// Tells a file from an image. What begins like a path is one, whether or not it is there.
pub fn named(word: &str) -> Option<Named> {
    let path = Path::new(word);
    if path.is_absolute() || word.starts_with("./") || word.starts_with("../") || path.exists() {
        return Some(Named::Path(path.to_owned()));
    }
    // A name alone could be a mistyped base: an image needs a tag, a digest or a registry's folder.
    let image =
        regex::Regex::new(r"^[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$");
    let is_one = image.is_ok_and(|pattern| pattern.is_match(word)) && word.contains([':', '/', '@']);
    is_one.then(|| Named::Image(word.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> BaseDefinition {
        BaseDefinition {
            name: "tool-1".to_owned(),
            version: "1".to_owned(),
            image: None,
            debian: Some("bookworm".to_owned()),
            packages: vec!["b".to_owned(), "a".to_owned()],
        }
    }

    #[test]
    fn the_digest_follows_release_and_packages_and_not_their_order() {
        let of = |more: &[&str]| {
            let more: Vec<String> = more.iter().map(|p| (*p).to_owned()).collect();
            Recipe::of_debian(&definition(), &more).unwrap().digest()
        };
        assert_eq!(of(&[]), of(&["a", " b "]));
        assert_eq!(of(&["libxml2-dev", "c"]), of(&["c", "libxml2-dev"]));
        assert_ne!(of(&[]), of(&["c"]));
        let other = BaseDefinition { debian: Some("trixie".to_owned()), ..definition() };
        assert_ne!(of(&[]), Recipe::of_debian(&other, &[]).unwrap().digest());
        assert!(Recipe::of_debian(&BaseDefinition { debian: None, ..definition() }, &[]).is_none());
    }

    #[test]
    fn files_images_and_mistakes_are_told_apart() {
        let image = |word: &str| Some(Named::Image(word.to_owned()));
        for word in ["python:3.11-slim", "base:latest", "ghcr.io/a/b", "localhost:5000/x", "a/b:1.0"] {
            assert_eq!(named(word), image(word), "{word}");
        }
        let pinned = format!("python@sha256:{}", "0".repeat(64));
        assert_eq!(named(&pinned), image(&pinned));
        for word in ["/nowhere/x.tar", "./x", "../y.tar"] {
            assert_eq!(named(word), Some(Named::Path(word.into())));
        }
        for word in ["python-3.77", "Python 3", "", "a b:c", "x@sha256:12"] {
            assert_eq!(named(word), None, "{word}");
        }
    }
}
