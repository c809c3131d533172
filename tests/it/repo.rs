//! Repositories, snapshots and patches, on repositories made here with pinned identities and dates.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic as tests do")]

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use git2::{ObjectType, Oid, Signature, Time};
use redgreen::model::MergedKind;
use redgreen::repo::{
    BaseTree, Change, ChangeSet, EntryKind, FileContent, FileMode, PatchError, RepoError, RepoSources, Repository,
    Retries, SNAPSHOT_TIME, SnapshotNote, TreePath, apply_patch,
};

mod patches;

type Files<'a> = [(&'a str, i32, &'a [u8])];

const REGULAR: i32 = 0o100_644;
const EXECUTABLE: i32 = 0o100_755;
const LINK: i32 = 0o120_000;
const SUBMODULE: i32 = 0o160_000;

/// Files by path: mode and blob.
type Names = BTreeMap<Vec<u8>, (i32, Oid)>;

/// Writes a tree's objects, whatever the names.
fn write_tree(git: &git2::Repository, files: &Names) -> Oid {
    let mut folders: BTreeMap<Vec<u8>, Names> = BTreeMap::new();
    let mut entries: Vec<(Vec<u8>, i32, Oid)> = Vec::new();
    for (path, (mode, id)) in files {
        match path.iter().position(|b| *b == b'/') {
            Some(slash) => {
                let folder = folders.entry(path[..slash].to_vec()).or_default();
                folder.insert(path[slash + 1..].to_vec(), (*mode, *id));
            }
            None => entries.push((path.clone(), *mode, *id)),
        }
    }
    for (name, below) in folders {
        entries.push((name, 0o040_000, write_tree(git, &below)));
    }
    // git sorts folders as if their names ended in a slash.
    entries.sort_by_key(|(name, mode, _)| [name.as_slice(), if *mode == 0o040_000 { b"/" } else { b"" }].concat());
    let mut raw = Vec::new();
    for (name, mode, id) in entries {
        raw.extend(format!("{mode:o} ").bytes());
        raw.extend(name);
        raw.push(0);
        raw.extend(id.as_bytes());
    }
    git.odb().unwrap().write(ObjectType::Tree, &raw).unwrap()
}

fn tree_of_files(git: &git2::Repository, files: &Files<'_>) -> Oid {
    let blob = |mode: i32, content: &[u8]| {
        if mode == SUBMODULE { Oid::from_str(&"1".repeat(40)).unwrap() } else { git.blob(content).unwrap() }
    };
    let map = files.iter().map(|(path, mode, content)| (path.as_bytes().to_vec(), (*mode, blob(*mode, content))));
    write_tree(git, &map.collect())
}

fn commit_tree(git: &git2::Repository, tree: Oid, parents: &[Oid], message: &str) -> Oid {
    let who = Signature::new("A Person", "person@example.org", &Time::new(1_500_000_000, 0)).unwrap();
    let tree = git.find_tree(tree).unwrap();
    let parents: Vec<_> = parents.iter().map(|id| git.find_commit(*id).unwrap()).collect();
    git.commit(None, &who, &who, message, &tree, &parents.iter().collect::<Vec<_>>()).unwrap()
}

fn commit(git: &git2::Repository, files: &Files<'_>, parents: &[Oid], message: &str) -> Oid {
    commit_tree(git, tree_of_files(git, files), parents, message)
}

fn set_ref(git: &git2::Repository, name: &str, id: Oid) {
    git.reference(name, id, true, "test").unwrap();
}

/// A bare repository at `path` with one commit on `main`.
fn small_repository(path: &Path, content: &str) -> Oid {
    let git = git2::Repository::init_bare(path).unwrap();
    git.set_head("refs/heads/main").unwrap();
    let id = commit(&git, &[("file", REGULAR, content.as_bytes())], &[], "start");
    set_ref(&git, "refs/heads/main", id);
    id
}

fn sources(root: &Path) -> RepoSources {
    RepoSources {
        mirrors: vec![root.join("mirrors")],
        bundles: vec![root.join("bundles")],
        template: None,
        offline: false,
        cache: root.join("cache"),
        git_program: PathBuf::from("git"),
        git_variables: Vec::new(),
        retries: Retries { tries: 2, pause: Duration::ZERO, limit: Duration::from_secs(120) },
    }
    .with_git_on_path()
}

trait WithGit {
    fn with_git_on_path(self) -> Self;
}

impl WithGit for RepoSources {
    /// The commands run with a short PATH of their own, so the program is named in full.
    fn with_git_on_path(mut self) -> Self {
        let output = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
        self.git_program = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        self
    }
}

/// Runs the git program as a person with no configuration would.
fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = git_command(dir, arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn git_command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(dir).args(arguments).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
    command
}

fn me() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

#[test]
fn every_mirror_layout_is_found() {
    for folder in [
        "own/proj",
        "own/proj.git",
        "own__proj",
        "own__proj.git",
        "own+proj",
        "own+proj/repo",
        "proj",
        "proj.git",
        "Own/Proj",
        "OWN__PROJ.git",
        "oWn+pRoj/repo",
    ] {
        let root = tempfile::tempdir().unwrap();
        let id = small_repository(&root.path().join("mirrors").join(folder), "x");
        let repository = sources(root.path()).open("own/proj").unwrap_or_else(|e| panic!("{folder}: {e}"));
        assert_eq!(repository.resolve(&id.to_string()[..8]).unwrap(), id.to_string(), "{folder}");
    }
}

#[test]
fn a_mirror_with_a_work_tree_and_the_folder_itself_are_found() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("mirrors/own__proj");
    let git = git2::Repository::init(&place).unwrap();
    let id = commit(&git, &[("file", REGULAR, b"x")], &[], "start");
    assert_eq!(sources(root.path()).open("own/proj").unwrap().resolve(&id.to_string()).unwrap(), id.to_string());
    let itself = RepoSources { mirrors: vec![place], ..sources(root.path()) };
    assert!(itself.open("own/proj").is_ok());
    assert!(matches!(itself.open("own/other"), Err(RepoError::NotFound { .. })));
}

#[test]
fn a_folder_with_the_name_alone_is_taken_only_where_it_is_clear() {
    let root = tempfile::tempdir().unwrap();
    let mirrors = root.path().join("mirrors");
    small_repository(&mirrors.join("proj"), "x");
    small_repository(&mirrors.join("proj.git"), "y");
    let error = sources(root.path()).open("own/proj").unwrap_err();
    assert!(matches!(&error, RepoError::AmbiguousRepository { candidates, .. } if candidates.len() == 2), "{error}");
    let remote = |folder: &str, address: &str| {
        git2::Repository::open(mirrors.join(folder)).unwrap().remote("origin", address).unwrap();
    };
    remote("proj", "https://example.org/Own/Proj.git");
    assert!(sources(root.path()).open("own/proj").unwrap().place().ends_with("proj"));
    remote("proj.git", "https://example.org/else/proj.git");
    assert!(sources(root.path()).open("else/proj").unwrap().place().ends_with("proj.git"));
    assert!(matches!(sources(root.path()).open("third/proj"), Err(RepoError::NotFound { .. })));
}

#[test]
fn a_repository_that_is_nowhere_says_where_was_looked() {
    let root = tempfile::tempdir().unwrap();
    fs_err::create_dir_all(root.path().join("mirrors")).unwrap();
    let template = Some("https://example.invalid/{owner}/{name}.git".to_owned());
    let offline = RepoSources { offline: true, template, ..sources(root.path()) };
    let error = offline.open("own/proj").unwrap_err().to_string();
    for part in ["own/proj", "the network is off", "mirrors (no such mirror)", "bundles", "example.invalid"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    for bad in ["proj", "../x/y", "-o/x", "o/--upload-pack=x"] {
        assert!(matches!(offline.open(bad), Err(RepoError::BadName { .. })), "{bad}");
    }
}

#[test]
fn a_clone_is_made_once_and_then_found_offline() {
    let root = tempfile::tempdir().unwrap();
    let far = root.path().join("far/own/proj.git");
    let id = small_repository(&far, "x");
    let far_git = git2::Repository::open(&far).unwrap();
    let pull = commit(&far_git, &[("file", REGULAR, b"pull")], &[id], "pull");
    set_ref(&far_git, "refs/pull/3/head", pull);
    // A hook of the repository must not run here.
    let template = format!("{}/far/{{owner}}/{{name}}.git", root.path().display());
    let online = RepoSources { template: Some(template), ..sources(root.path()) };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(online.open("own/proj").unwrap().resolve(&pull.to_string()).unwrap().len(), 40));
        }
    });
    let later = commit(&far_git, &[("file", REGULAR, b"later")], &[id], "later");
    set_ref(&far_git, "refs/heads/main", later);
    let short = &later.to_string()[..10];
    assert!(matches!(online.open("own/proj").unwrap().resolve(short), Err(RepoError::NoSuchCommit { .. })));
    assert!(online.refresh("own/proj").unwrap().resolve(short).is_ok());
    fs_err::remove_dir_all(root.path().join("far")).unwrap();
    let offline = RepoSources { offline: true, ..online };
    assert!(offline.open("OWN/proj").unwrap().resolve(short).is_ok());
}

#[test]
fn a_clone_that_fails_says_why_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let template = Some(format!("{}/none/{{owner}}/{{name}}", root.path().display()));
    let online = RepoSources { template, ..sources(root.path()) };
    let error = online.open("own/proj").unwrap_err();
    assert!(matches!(error, RepoError::GitProgram { code: Some(_), .. }), "{error}");
    assert!(error.to_string().contains("does not exist"), "{error}");
    let left: Vec<_> = fs_err::read_dir(root.path().join("cache/clones-v1")).unwrap().flatten().collect();
    assert!(left.iter().all(|e| e.file_name().to_string_lossy().ends_with(".lock")), "{left:?}");
    for template in ["--upload-pack=touch {owner}", "ext::sh -c touch% {owner}"] {
        let hostile = RepoSources { template: Some(template.to_owned()), ..online.clone() };
        assert!(hostile.open("own/proj").is_err(), "{template}");
    }
}

#[test]
fn bundles_travel_with_a_benchmark() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("made.git");
    let first = small_repository(&place, "x");
    let git2 = git2::Repository::open(&place).unwrap();
    let second = commit(&git2, &[("file", REGULAR, b"y")], &[first], "more");
    set_ref(&git2, "refs/heads/main", second);
    set_ref(&git2, "refs/heads/early", first);
    set_ref(&git2, "refs/pull/1/head", second);
    let bundles = root.path().join("bundles");
    fs_err::create_dir_all(&bundles).unwrap();
    let bundle = |name: &str| bundles.join(name).to_str().unwrap().to_owned();
    git(&place, &["bundle", "create", "-q", &bundle("own__proj.bundle"), "--all"]);
    git(&place, &["bundle", "create", "-q", &bundle("short.bundle"), "--all"]);
    git(&place, &["bundle", "create", "-q", &bundle("own__part.bundle"), "early..main"]);
    let sources = sources(root.path());
    for name in ["own/proj", "own/short"] {
        let repository = sources.open(name).unwrap();
        assert_eq!(repository.resolve(&first.to_string()[..7]).unwrap(), first.to_string());
        let reader = repository.tree_of(&second.to_string()).unwrap();
        assert_eq!(reader.read(&TreePath::new("file").unwrap()).unwrap().unwrap().content, b"y");
    }
    let error = sources.open("own/part").unwrap_err();
    assert!(matches!(error, RepoError::BundlePrerequisites { .. }), "{error}");
}

#[test]
fn commits_are_found_by_short_ids_in_packs_and_loose() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("r.git");
    let packed = small_repository(&place, "x");
    git(&place, &["repack", "-adq"]);
    let git2 = git2::Repository::open(&place).unwrap();
    // No ref leads to this one.
    let loose = commit(&git2, &[("file", REGULAR, b"y")], &[], "loose");
    let who = Signature::new("A Person", "person@example.org", &Time::new(1_500_000_000, 0)).unwrap();
    let tag = git2.tag("v1", git2.find_commit(packed).unwrap().as_object(), &who, "one", false).unwrap();
    let blob = git2.blob(b"y").unwrap();
    let repository = Repository::open(&place).unwrap();
    for id in [packed, loose] {
        assert_eq!(repository.resolve(&id.to_string()).unwrap(), id.to_string());
        assert_eq!(repository.resolve(&id.to_string().to_uppercase()[..7]).unwrap(), id.to_string());
    }
    assert_eq!(repository.resolve(&tag.to_string()).unwrap(), packed.to_string(), "an annotated tag is peeled");
    let error = repository.resolve(&blob.to_string()).unwrap_err();
    assert!(matches!(&error, RepoError::NotACommit { kind, .. } if kind == "blob"), "{error}");
    assert!(matches!(repository.resolve(&"0".repeat(40)), Err(RepoError::NoSuchCommit { .. })));
    assert!(matches!(repository.resolve("0000000"), Err(RepoError::NoSuchCommit { .. })));
    for bad in ["abc", "main", "HEAD~1", "--all", "", &"0".repeat(41)] {
        assert!(matches!(repository.resolve(bad), Err(RepoError::BadCommitId { .. })), "{bad}");
    }
}

#[test]
fn an_ambiguous_id_names_its_commits_and_other_objects_do_not_count() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("r.git");
    let git2 = git2::Repository::init_bare(&place).unwrap();
    let tree = tree_of_files(&git2, &[]);
    let body = |n: u32| {
        let who = "A Person <person@example.org> 1500000000 +0000";
        format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nnumber {n}\n")
    };
    let id = |kind, data: &str| Oid::hash_object(kind, data.as_bytes()).unwrap().to_string();
    // Two commits, and a blob and a commit, that share four digits.
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let (first, second) =
        (0..).find_map(|n| Some((seen.insert(id(ObjectType::Commit, &body(n))[..4].to_owned(), n)?, n))).unwrap();
    let alone = 1_000_000;
    let prefix = id(ObjectType::Commit, &body(alone))[..4].to_owned();
    let text = (0..).map(|n| format!("blob {n}")).find(|t| id(ObjectType::Blob, t)[..4] == prefix).unwrap();
    let odb = git2.odb().unwrap();
    let write = |n| odb.write(ObjectType::Commit, body(n).as_bytes()).unwrap().to_string();
    let mut both = vec![write(first), write(second)];
    let single = write(alone);
    odb.write(ObjectType::Blob, text.as_bytes()).unwrap();
    both.sort();
    let repository = Repository::open(&place).unwrap();
    match repository.resolve(&both[0][..4]) {
        Err(RepoError::AmbiguousCommit { candidates, .. }) => assert_eq!(candidates, both),
        other => panic!("{other:?}"),
    }
    assert_eq!(repository.resolve(&prefix).unwrap(), single);
}

/// A repository with everything that a snapshot must bear.
fn varied(place: &Path) -> Oid {
    let git = git2::Repository::init_bare(place).unwrap();
    let old = commit(&git, &[("gone", REGULAR, b"secret of the past")], &[], "old");
    let files: &Files<'_> = &[
        (".gitattributes", REGULAR, b"* text=auto\n*.bin filter=lfs\n*.id ident\n"),
        ("README", REGULAR, b"hello\n"),
        ("bin/run", EXECUTABLE, b"#!/bin/sh\n"),
        ("bin/deep/er/x", REGULAR, b""),
        ("crlf.txt", REGULAR, b"a\r\nb\r\n"),
        ("x.id", REGULAR, b"$Id$\n"),
        ("link", LINK, b"bin/run"),
        ("dangling", LINK, b"/nowhere/at all"),
        ("sub", SUBMODULE, b""),
        ("big.bin", REGULAR, b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        ("né \"q\"", REGULAR, b"name\n"),
    ];
    let id = commit(&git, files, &[old], "head");
    set_ref(&git, "refs/heads/main", id);
    let later = commit(&git, &[("later", REGULAR, b"secret of the future")], &[id], "later");
    set_ref(&git, "refs/heads/next", later);
    id
}

#[test]
fn a_snapshot_is_the_exact_tree_with_one_commit_and_no_more() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("r.git");
    let id = varied(&place).to_string();
    let repository = Repository::open(&place).unwrap();
    let snapshot = repository.snapshot(&id[..9], &root.path().join("snapshots"), me()).unwrap();
    assert_eq!((snapshot.commit.as_str(), snapshot.files), (id.as_str(), 10));
    assert_eq!(snapshot.tree, repository.tree_id(&id).unwrap());
    assert_eq!(
        snapshot.notes,
        [SnapshotNote::LfsPointer("big.bin".to_owned()), SnapshotNote::EmptySubmodule("sub".to_owned())]
    );
    let dir = &snapshot.dir;
    assert_eq!(fs_err::read(dir.join("crlf.txt")).unwrap(), b"a\r\nb\r\n");
    assert_eq!(fs_err::read(dir.join("x.id")).unwrap(), b"$Id$\n");
    assert_eq!(fs_err::read_link(dir.join("link")).unwrap(), Path::new("bin/run"));
    assert_eq!(fs_err::read_dir(dir.join("sub")).unwrap().count(), 0);
    // Everything has its mode, owner and time, before any command could change them.
    for entry in walkdir::WalkDir::new(dir) {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        let late = if entry.path().ends_with(".git/index") { 10 } else { 0 };
        assert_eq!(meta.mtime(), SNAPSHOT_TIME + late, "{:?}", entry.path());
        assert_eq!((meta.uid(), meta.gid()), me());
        let want = match entry.path().strip_prefix(dir).unwrap().to_str() {
            Some("bin/run") => 0o755,
            _ if meta.is_dir() => 0o755,
            _ => 0o644,
        };
        assert!(meta.is_symlink() || meta.permissions().mode() & 0o7777 == want, "{:?}", entry.path());
    }
    assert_eq!(git(dir, &["status", "--porcelain"]), "");
    assert_eq!(git(dir, &["symbolic-ref", "HEAD"]), "refs/heads/main\n");
    assert_eq!(git(dir, &["rev-list", "--all", "--count"]), "1\n");
    assert_eq!(git(dir, &["rev-parse", "HEAD^{tree}"]).trim(), snapshot.tree);
    assert_eq!(git(dir, &["remote"]), "");
    assert_eq!(git(dir, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main\n");
    let objects = git(dir, &["cat-file", "--batch-all-objects", "--batch-check"]);
    // 1 commit, 4 trees, 10 blobs.
    assert_eq!(objects.lines().count(), 15, "{objects}");
    assert!(!git(dir, &["cat-file", "--batch-all-objects", "--batch"]).contains("secret"));
    git(dir, &["fsck", "--full", "--strict"]);
    for absent in ["hooks", "logs", "info", "description", "objects/info/alternates"] {
        assert!(!dir.join(".git").join(absent).exists(), "{absent}");
    }
    // Work on it is seen as such.
    fs_err::write(dir.join("README"), "HELLO\n").unwrap();
    assert_eq!(git(dir, &["status", "--porcelain"]), " M README\n");
}

#[test]
fn two_snapshots_of_one_tree_are_the_same_and_one_is_reused() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("r.git");
    let id = varied(&place).to_string();
    let repository = Repository::open(&place).unwrap();
    let make = |to: &str| repository.snapshot(&id, &root.path().join(to), me()).unwrap();
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| make("a"));
        (make("a"), other.join().unwrap())
    });
    assert_eq!(one, two);
    let elsewhere = make("b");
    let commit = |dir: &Path| git(dir, &["rev-parse", "HEAD"]);
    assert_eq!(commit(&one.dir), commit(&elsewhere.dir));
    let inode = |dir: &Path| fs_err::metadata(dir).unwrap().ino();
    let before = inode(&one.dir);
    assert_eq!((make("a"), inode(&one.dir)), (one.clone(), before));
    // Without the mark that it is whole, it is made again.
    let mut marker = one.dir.clone().into_os_string();
    marker.push(".complete");
    fs_err::remove_file(PathBuf::from(marker)).unwrap();
    fs_err::remove_file(one.dir.join("README")).unwrap();
    assert!(make("a").dir.join("README").exists());
}

#[test]
fn hostile_trees_are_refused_and_incomplete_ones_are_named() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("r.git");
    let git = git2::Repository::init_bare(&place).unwrap();
    let snapshots = root.path().join("snapshots");
    let repository = Repository::open(&place).unwrap();
    for path in [".git/hooks/x", "a/.GIT/x", "../x", "a/../../x"] {
        let id = commit(&git, &[(path, REGULAR, b"x")], &[], "hostile").to_string();
        let error = repository.snapshot(&id, &snapshots, me()).unwrap_err();
        assert!(matches!(error, RepoError::UnsafeTree { .. }), "{path}: {error}");
    }
    assert!(fs_err::read_dir(&snapshots).unwrap().all(|e| e.unwrap().path().extension().is_some_and(|x| x == "lock")));
    let long = "n".repeat(300);
    let files: &Files<'_> = &[("a", REGULAR, b"here"), ("b", REGULAR, b"lost"), (&long, REGULAR, b"long")];
    let id = commit(&git, files, &[], "partial").to_string();
    let lost = git.blob(b"lost").unwrap().to_string();
    fs_err::remove_file(place.join("objects").join(&lost[..2]).join(&lost[2..])).unwrap();
    let snapshot = repository.snapshot(&id, &snapshots, me()).unwrap();
    assert_eq!(snapshot.notes, [SnapshotNote::MissingContent("b".to_owned()), SnapshotNote::Unwritable(long)]);
    assert_eq!(self::git(&snapshot.dir, &["status", "--porcelain"]), "");
    let reader = repository.tree_of(&id).unwrap();
    assert!(matches!(reader.read(&TreePath::new("b").unwrap()), Err(RepoError::MissingObject { .. })));
}

#[test]
fn the_way_between_two_commits_is_a_change_set() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("r.git");
    let git = git2::Repository::init_bare(&place).unwrap();
    let from: &Files<'_> = &[
        ("same", REGULAR, b"1"),
        ("mode", REGULAR, b"1"),
        ("gone", REGULAR, b"1"),
        ("type", REGULAR, b"1"),
        ("dir/x", REGULAR, b"1"),
        ("sub", SUBMODULE, b""),
    ];
    let to: &Files<'_> = &[
        ("same", REGULAR, b"1"),
        ("mode", EXECUTABLE, b"1"),
        ("type", LINK, b"same"),
        ("dir", REGULAR, b"2"),
        ("new", REGULAR, b"3"),
    ];
    let (from, to) = (commit(&git, from, &[], "from").to_string(), commit(&git, to, &[], "to").to_string());
    let repository = Repository::open(&place).unwrap();
    let set = repository.changes_between(&from, &to).unwrap();
    let write = |mode, content: &[u8]| Change::Write(FileContent { mode, content: content.to_vec() });
    let want = [
        ("mode", write(FileMode::Executable, b"1")),
        ("gone", Change::Remove),
        ("type", write(FileMode::Symlink, b"same")),
        ("dir/x", Change::Remove),
        ("dir", write(FileMode::Regular, b"2")),
        ("new", write(FileMode::Regular, b"3")),
    ];
    let want: BTreeMap<TreePath, Change> = want.into_iter().map(|(p, c)| (TreePath::new(p).unwrap(), c)).collect();
    assert_eq!(set, ChangeSet { changes: want });
    assert!(repository.changes_between(&to, &to).unwrap().is_empty());
    let layer = tempfile::tempdir().unwrap();
    assert_eq!(set.materialise(layer.path(), me()).unwrap(), [PathBuf::from("gone")]);
    let reader = repository.tree_of(&from).unwrap();
    assert_eq!(reader.kind(&TreePath::new("sub").unwrap()).unwrap(), Some(EntryKind::Submodule));
    assert_eq!(reader.kind(&TreePath::new("same/below").unwrap()).unwrap(), None);
    assert_eq!(reader.files_below(&TreePath::new("dir").unwrap()).unwrap(), [TreePath::new("dir/x").unwrap()]);
}

#[test]
fn merged_commits_are_found_by_every_trace() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("r.git");
    let git = git2::Repository::init_bare(&place).unwrap();
    git.set_head("refs/heads/main").unwrap();
    let next = |parents: &[Oid], message: &str| commit(&git, &[("f", REGULAR, message.as_bytes())], parents, message);
    let start = next(&[], "start (#1)");
    // 10: a merge that says so; its branch went on after the review. 11: a squash. 12: a merge with another subject,
    // known by the pull request's ref. 13: the same without the ref. 14: pushed as it is. 15: never merged.
    let (head10, head11, head12) = (next(&[start], "ten"), next(&[start], "eleven"), next(&[start], "twelve"));
    let last10 = next(&[head10], "ten, more");
    let main = next(&[start, last10], "Merge pull request #10 from a/b\n\ntext (#99)");
    let squash11 = next(&[main], "Eleven (#11)");
    let backport = next(&[squash11], "Eleven again (#11)");
    let last12 = next(&[head12], "twelve, more");
    set_ref(&git, "refs/pull/12/head", last12);
    let merge12 = next(&[backport, last12], "Merge branch 'twelve'");
    let head13 = next(&[start], "thirteen");
    let last13 = next(&[head13], "thirteen, more");
    let merge13 = next(&[merge12, last13], "Merge it");
    let head14 = next(&[merge13], "fourteen");
    let end = next(&[head14], "end, see (#15) there");
    let head15 = next(&[end], "fifteen (#15)");
    set_ref(&git, "refs/heads/main", end);
    let repository = Repository::open(&place).unwrap();
    for (pull, head, want) in [
        (10, head10, Some((main, MergedKind::Merge))),
        (11, head11, Some((squash11, MergedKind::Squash))),
        (12, head12, Some((merge12, MergedKind::Merge))),
        (13, head13, Some((merge13, MergedKind::Merge))),
        (14, head14, Some((head14, MergedKind::BranchHead))),
        (15, head15, None),
        // Named by a commit that the head already has: some other pull request's number in this history.
        (1, head15, None),
    ] {
        let want = want.map(|(id, kind)| (id.to_string(), kind));
        assert_eq!(repository.find_merged(pull, &head.to_string()).unwrap(), want, "{pull}");
    }
}

#[test]
fn a_patch_applies_to_a_commit() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("r.git");
    let git = git2::Repository::init_bare(&place).unwrap();
    let files: &Files<'_> = &[("d/x", REGULAR, b"a\nb\n"), ("l", LINK, b"d"), ("sub", SUBMODULE, b"")];
    let id = commit(&git, files, &[], "x").to_string();
    let reader = Repository::open(&place).unwrap().tree_of(&id).unwrap();
    let patch = b"--- a/d/x\n+++ b/d/x\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n";
    let result = apply_patch(&reader, patch).unwrap();
    assert_eq!(result.changes.paths().map(ToString::to_string).collect::<Vec<_>>(), ["d/x"]);
    let through = b"--- a/l/x\n+++ b/l/x\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n";
    assert!(matches!(apply_patch(&reader, through), Err(PatchError::Escapes { .. })));
    let into = b"--- /dev/null\n+++ b/sub/x\n@@ -0,0 +1 @@\n+a\n";
    assert!(matches!(apply_patch(&reader, into), Err(PatchError::DoesNotApply { .. })));
}
