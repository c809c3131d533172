//! `review` snapshots: what a tool sees in them, and how they come about.

use std::path::Path;

use redgreen::repo::{RepoError, Repository, SnapshotMode, SnapshotNote};

use super::{FULL, bytes, git, me};
use crate::support::{Place, example, is_root};

fn review(to: &Path) -> redgreen::repo::Snapshot {
    let mode = SnapshotMode::Review { base: FULL.base.clone() };
    FULL.repository().write_snapshot(&mode, &FULL.head, to, me()).unwrap()
}

#[test]
fn a_tool_sees_the_history_up_to_the_base_and_the_whole_change() {
    let place = Place::new();
    let dir = place.join("c");
    let made = review(&dir);
    assert_eq!((made.commit.as_str(), made.base.as_deref()), (FULL.head.as_str(), Some(FULL.base.as_str())));
    assert_eq!(made.commits, 2);
    assert_eq!(
        made.notes,
        [SnapshotNote::LfsPointer("data.bin".to_owned()), SnapshotNote::EmptySubmodule("sub".to_owned())]
    );
    assert_eq!(git(&dir, &["log", "--all", "--format=%s"]), "Second\nStart");
    assert_eq!(git(&dir, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    assert_eq!(git(&dir, &["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(git(&dir, &["remote"]), "");
    // The same by every way to ask, new files and renames too; `.gitattributes` would show more (line ends, filters).
    let change = git(&FULL.dir, &["diff", "--name-status", "--no-renames", &FULL.base, &FULL.head]);
    assert_eq!(git(&dir, &["diff", "HEAD", "--name-status", "--no-renames"]), change);
    assert_eq!(git(&dir, &["diff", "--cached", "--name-status", "--no-renames"]), change);
    assert_eq!(git(&dir, &["diff", "--name-only"]), "", "everything is staged");
    assert_eq!(git(&dir, &["write-tree"]), made.tree);
    let patch = ["--no-renames", "--binary", "--full-index"];
    assert_eq!(
        git(&dir, &[&["diff", "HEAD"][..], &patch].concat()),
        git(&FULL.dir, &[&["diff"][..], &patch, &[&FULL.base, &FULL.head]].concat())
    );
    // A tool's own work stays apart, and can be committed without the user's configuration.
    fs_err::write(dir.join("lantern/new.py"), "NEW = 2\n").unwrap();
    assert_eq!(git(&dir, &["diff", "--name-only"]), "lantern/new.py");
    git(&dir, &["fsck", "--full", "--strict"]);
    for absent in ["hooks", "logs", "info", "description", "packed-refs", "FETCH_HEAD", "ORIG_HEAD", "shallow"] {
        assert!(!dir.join(".git").join(absent).exists(), "{absent}");
    }
    assert!(!dir.join(".git/objects/info/alternates").exists());
    let config = fs_err::read_to_string(dir.join(".git/config")).unwrap();
    assert!(config.contains("[user]") && !config.contains("remote"), "{config}");
}

#[test]
fn the_files_are_the_same_in_both_modes_and_not_filtered() {
    let place = Place::new();
    review(&place.join("review"));
    FULL.snapshot("run", &place.join("run"));
    let files = |dir: &str| {
        let all = bytes(&place.join(dir));
        all.into_iter().filter(|(path, ..)| !path.starts_with(".git")).collect::<Vec<_>>()
    };
    assert_eq!(files("review"), files("run"));
    assert_eq!(fs_err::read(place.join("review/crlf.txt")).unwrap(), fs_err::read(FULL.dir.join("crlf.txt")).unwrap());
    assert_eq!(fs_err::read(place.join("review/x.id")).unwrap(), b"$Id$\n");
}

#[test]
fn the_same_bytes_each_time_and_one_is_kept() {
    let place = Place::new();
    let repository = FULL.repository();
    let make = |root: &str| repository.review_snapshot(&FULL.base, &FULL.head, &place.join(root), me()).unwrap();
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| make("a"));
        (make("a"), other.join().unwrap())
    });
    assert_eq!(one, two);
    let elsewhere = make("b");
    assert_eq!(bytes(&one.dir), bytes(&elsewhere.dir));
    // A killed process leaves a half-made folder; without the marker nothing counts.
    let beside = |end: &str| std::path::PathBuf::from(format!("{}{end}", one.dir.display()));
    fs_err::remove_file(beside(".complete")).unwrap();
    fs_err::remove_file(one.dir.join("setup.py")).unwrap();
    fs_err::create_dir(beside(".tmp")).unwrap();
    fs_err::write(beside(".tmp").join("half"), "x").unwrap();
    assert_eq!(make("a"), one);
    assert_eq!(bytes(&one.dir), bytes(&elsewhere.dir));
    assert!(!beside(".tmp").exists());
}

#[test]
fn a_base_that_went_on_is_set_back_to_where_the_change_began() {
    let place = Place::new();
    let mode = |base: &str| SnapshotMode::Review { base: base.to_owned() };
    let repository = FULL.repository();
    // The main branch's tip is no part of the history, and it holds the fix.
    let made = repository.write_snapshot(&mode(&FULL.last), &FULL.head, &place.join("a"), me()).unwrap();
    assert_eq!(made.base.as_deref(), Some(FULL.base.as_str()));
    assert!(made.notes.contains(&SnapshotNote::OtherBase(FULL.last.clone())), "{:?}", made.notes);
    let error = repository.write_snapshot(&mode(&FULL.head), &FULL.base, &place.join("b"), me()).unwrap_err();
    assert!(matches!(error, RepoError::NothingToReview { .. }), "{error}");
    let tree = git(&FULL.dir, &["rev-parse", &format!("{}^{{tree}}", FULL.head)]);
    let alone = git(&FULL.dir, &["commit-tree", "-m", "alone", &tree]);
    let error = repository.write_snapshot(&mode(&alone), &FULL.head, &place.join("c"), me()).unwrap_err();
    assert!(matches!(error, RepoError::UnrelatedBase { .. }), "{error}");
    assert!(!place.join("b").exists() && !place.join("c").exists());
}

#[test]
fn shallow_and_partial_mirrors_are_named_and_clean() {
    let place = Place::new();
    let url = format!("file://{}", FULL.dir.display());
    git(place.path(), &["clone", "-q", "--mirror", "--depth", "2", "--no-single-branch", &url, "shallow.git"]);
    let mode = SnapshotMode::Review { base: FULL.base.clone() };
    let shallow = Repository::open(&place.join("shallow.git")).unwrap();
    let made = shallow.write_snapshot(&mode, &FULL.head, &place.join("a"), me()).unwrap();
    assert!(made.notes.contains(&SnapshotNote::ShallowHistory("1".to_owned())), "{:?}", made.notes);
    assert_eq!(git(&place.join("a"), &["log", "--format=%s"]), "Second");
    git(&place.join("a"), &["fsck", "--full"]);
    // A mirror without the content of one file: of the change, and of the history.
    git(place.path(), &["clone", "-q", "--mirror", &url, "partial.git"]);
    let git_dir = place.join("partial.git");
    for pack in fs_err::read_dir(git_dir.join("objects/pack")).unwrap() {
        let pack = pack.unwrap().path();
        if pack.extension().is_some_and(|end| end == "pack") {
            let moved = place.join("moved.pack");
            fs_err::rename(&pack, &moved).unwrap();
            let unpack = format!("git unpack-objects -q < {}", moved.display());
            let done = std::process::Command::new("sh").args(["-c", &unpack]).env("GIT_DIR", &git_dir).status();
            assert!(done.unwrap().success());
        }
    }
    for file in ["lantern/new.py", "README.md", "lantern/core.py"] {
        let commit = if file == "lantern/core.py" { &FULL.first } else { &FULL.head };
        let id = git(&FULL.dir, &["rev-parse", &format!("{commit}:{file}")]);
        fs_err::remove_file(git_dir.join("objects").join(&id[..2]).join(&id[2..])).unwrap();
    }
    let partial = Repository::open(&git_dir).unwrap();
    let made = partial.write_snapshot(&mode, &FULL.head, &place.join("b"), me()).unwrap();
    assert!(made.notes.contains(&SnapshotNote::MissingContent("lantern/new.py".to_owned())), "{:?}", made.notes);
    assert!(made.notes.iter().any(|n| matches!(n, SnapshotNote::MissingHistory(_))), "{:?}", made.notes);
    assert!(!git(&place.join("b"), &["status", "--porcelain"]).contains(" D"), "a missing file is no change");
    for (dir, reference) in [("a", "shallow.git"), ("b", "partial.git")] {
        let reference = place.join(reference).display().to_string();
        let options = ["--mode", "review", "--head", &FULL.head, "--base", &FULL.base, "--reference", &reference];
        let options = options.map(str::to_owned);
        assert_eq!(super::findings(&place, &place.join(dir), &options), Default::default(), "{dir}");
    }
}

#[test]
fn what_the_mirror_is_set_to_has_no_say() {
    let place = Place::new();
    git(place.path(), &["clone", "-q", "--mirror", FULL.dir.to_str().unwrap(), "m.git"]);
    let write = |name: &str, text: &str| {
        fs_err::create_dir_all(place.join("m.git").join(name).parent().unwrap()).unwrap();
        fs_err::write(place.join("m.git").join(name), text).unwrap();
    };
    // Other parents, another commit in the base's place, other line ends.
    write("info/grafts", &format!("{} {}\n", FULL.base, FULL.last));
    write(&format!("refs/replace/{}", FULL.base), &FULL.last);
    write("info/attributes", "* text eol=crlf\n");
    let mode = SnapshotMode::Review { base: FULL.base.clone() };
    let mirror = Repository::open(&place.join("m.git")).unwrap();
    mirror.write_snapshot(&mode, &FULL.head, &place.join("a"), me()).unwrap();
    review(&place.join("b"));
    assert_eq!(git(&place.join("a"), &["rev-list", "--all"]), git(&place.join("b"), &["rev-list", "--all"]));
    let objects = |dir: &str| git(&place.join(dir), &["cat-file", "--batch-all-objects", "--batch-check"]);
    assert_eq!(objects("a"), objects("b"));
}

#[test]
fn the_verb_leaves_nothing_half_made() {
    let place = Place::new();
    let words = ["snapshot", &example(), "*rotate-8*", "--out", "deep/c"];
    fs_err::create_dir_all(place.join("deep/.c.redgreen-part/old")).unwrap();
    let ran = place.run(&words).exits(0);
    assert!(ran.stdout.contains("nothing later than"), "{}", ran.stdout);
    let left: Vec<_> = fs_err::read_dir(place.join("deep")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["c"]);
    assert_eq!(git(&place.join("deep/c"), &["status", "--porcelain"]).lines().count(), 1);
    if is_root("a folder that cannot be written") {
        return;
    }
    fs_err::set_permissions(place.join("deep"), std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
    place.run(&["snapshot", &example(), "*rotate-8*", "--out", "deep/d"]).exits(3);
    fs_err::set_permissions(place.join("deep"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}
