//! Checkouts that want to harm whoever looks at them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use git2::ObjectType;
use proptest::prelude::*;

use super::plants::Garden;
use super::{FULL, check, findings, git};
use crate::support::Place;

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn nothing_that_a_checkout_names_is_run() {
    let place = Place::new();
    let checkout = place.join("c");
    FULL.snapshot("review", &checkout);
    let garden = Garden { dir: &checkout };
    let canary = place.join("canary");
    let script = place.join("script");
    fs_err::write(&script, format!("#!/bin/sh\ntouch {}\ncat\n", canary.display())).unwrap();
    fs_err::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let script = script.display();
    garden.write(
        ".git/config",
        format!(
            "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {script}\n\thooksPath = {script}\n\tpager = {script}\n\
             \tsshCommand = {script}\n[alias]\n\tstatus = !{script}\n[filter \"x\"]\n\tclean = {script}\n\tsmudge = {script}\n\
             \trequired = true\n[diff \"x\"]\n\ttextconv = {script}\n"
        ),
    );
    garden.write(".git/info/attributes", "* filter=x diff=x\n");
    garden.write(".git/hooks/post-index-change", format!("#!/bin/sh\ntouch {}\n", canary.display()));
    let ran = check(&place, &checkout, &FULL.options("review")).exits(1);
    assert!(!canary.exists(), "something was run");
    assert!(ran.stderr.contains("git would run a program for `core.fsmonitor`"), "{}", ran.stderr);
    // The trap works: git itself walks into it.
    let _ = Command::new("git").args(["-c", "safe.directory=*", "status"]).current_dir(&checkout).output().unwrap();
    assert!(canary.exists(), "the trap would not have shown anything");
}

#[test]
fn a_git_that_leads_nowhere_or_in_circles_is_named() {
    let place = Place::new();
    for (name, make) in [
        ("self-file", (|p: &Path| fs_err::write(p.join(".git"), "gitdir: .git\n").unwrap()) as fn(&Path)),
        ("self-link", |p| symlink(".git", p.join(".git")).unwrap()),
        ("two", |p| {
            symlink("other", p.join(".git")).unwrap();
            symlink(".git", p.join("other")).unwrap();
        }),
        ("pipe", |p| pipe(&p.join(".git"))),
        ("root", |p| fs_err::write(p.join(".git"), "gitdir: /\n").unwrap()),
        ("bytes", |p| fs_err::write(p.join(".git"), b"gitdir: \xff\xfe\n").unwrap()),
        ("empty", |p| fs_err::create_dir(p.join(".git")).unwrap()),
        ("proc", |p| fs_err::write(p.join(".git"), "gitdir: /proc/self/fd\n").unwrap()),
    ] {
        let checkout = place.join(name);
        fs_err::create_dir(&checkout).unwrap();
        make(&checkout);
        let ran = check(&place, &checkout, &["--mode", "run"].map(str::to_owned));
        assert!(matches!(ran.code, Some(0 | 1)), "{name}: {}\n{}", ran.stdout, ran.stderr);
        assert_eq!(ran.code, Some(i32::from(!ran.stdout.starts_with("nothing later"))), "{name}: {}", ran.stdout);
        assert!(name == "empty" || ran.code == Some(1), "{name}: {}", ran.stdout);
    }
}

#[test]
fn pipes_links_and_huge_files_in_a_git_are_not_read() {
    let place = Place::new();
    let checkout = place.join("c");
    FULL.snapshot("review", &checkout);
    let dot = checkout.join(".git");
    fs_err::create_dir_all(dot.join("objects/ab")).unwrap();
    fs_err::create_dir_all(dot.join("objects/info")).unwrap();
    fs_err::create_dir_all(dot.join("logs")).unwrap();
    for name in
        ["FETCH_HEAD", "packed-refs", "refs/heads/pipe", "logs/HEAD", "objects/pack/x.idx", "objects/pack/x.pack"]
    {
        pipe(&dot.join(name));
    }
    pipe(&dot.join(format!("objects/ab/{}", "c".repeat(38))));
    pipe(&checkout.join("named"));
    symlink("/dev/zero", dot.join("ORIG_HEAD")).unwrap();
    symlink("/", dot.join("refs/heads/all")).unwrap();
    symlink("..", dot.join("objects/ac")).unwrap();
    fs_err::File::create(dot.join("shallow")).unwrap().set_len(1 << 40).unwrap();
    fs_err::write(dot.join("objects/info/alternates"), "/proc/self\n.\n../objects\n/nowhere\n").unwrap();
    let found = findings(&place, &checkout, &FULL.options("review"));
    for (kind, at) in [
        ("damaged", ".git/FETCH_HEAD"),
        ("damaged", ".git/packed-refs"),
        ("damaged", ".git/refs/heads/pipe"),
        ("damaged", ".git/refs/heads/all"),
        ("damaged", ".git/logs/HEAD"),
        ("damaged", ".git/ORIG_HEAD"),
        ("damaged", ".git/shallow"),
        ("unknown-file", ".git/objects/pack/x.idx"),
        ("unknown-file", ".git/objects/ac"),
        ("alternates", ".git/objects/info/alternates"),
        ("untracked", "named"),
    ] {
        assert!(found.iter().any(|(k, p, _)| k == kind && p == at), "{kind} {at}: {found:#?}");
    }
}

#[test]
fn ten_thousand_loose_objects_are_counted() {
    let place = Place::new();
    let checkout = place.join("c");
    FULL.snapshot("run", &checkout);
    let repository = git2::Repository::open(&checkout).unwrap();
    let odb = repository.odb().unwrap();
    for n in 0..10_000 {
        odb.write(ObjectType::Blob, format!("content {n}").as_bytes()).unwrap();
    }
    let report = check(&place, &checkout, &[FULL.options("run"), vec!["--json".to_owned()]].concat()).exits(1).json();
    let all = report["findings"].as_array().unwrap();
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!((all[0]["kind"].as_str(), all[0]["count"].as_u64()), (Some("blob"), Some(10_000)));
}

#[test]
fn names_that_are_no_text_are_escaped() {
    let place = Place::new();
    let checkout = place.join("c");
    FULL.snapshot("run", &checkout);
    let name = OsStr::from_bytes(b"\xff\xfe\nx\x1b[31m");
    fs_err::write(checkout.join(name), "x").unwrap();
    fs_err::create_dir_all(checkout.join(".git/refs/tags")).unwrap();
    fs_err::write(checkout.join(".git/refs/tags").join(name), &FULL.merged).unwrap();
    fs_err::write(checkout.join(".git").join(name), "x").unwrap();
    let found = findings(&place, &checkout, &FULL.options("run"));
    let shown = r"\xff\xfe\nx\x1b[31m";
    for (kind, at) in [("untracked", ""), ("tag", ".git/refs/tags/"), ("unknown-file", ".git/")] {
        assert!(found.iter().any(|(k, p, _)| k == kind && *p == format!("{at}{shown}")), "{kind}: {found:#?}");
    }
    let ran = check(&place, &checkout, &FULL.options("run"));
    assert!(!ran.stdout.contains('\x1b'), "{}", ran.stdout);
}

#[test]
fn content_under_another_contents_name_is_no_hiding_place() {
    let place = Place::new();
    let checkout = place.join("c");
    FULL.snapshot("run", &checkout);
    // The fixed file, under the name of the one that is allowed.
    git2::Repository::open(&checkout).unwrap().blob(super::FIXED.as_bytes()).unwrap();
    let [wrong, right] = [&FULL.merged, &FULL.head]
        .map(|commit| git(&FULL.dir, &["rev-parse", &format!("{commit}:lantern/core.py")]))
        .map(|id| checkout.join(".git/objects").join(&id[..2]).join(&id[2..]));
    fs_err::create_dir_all(right.parent().unwrap()).unwrap();
    fs_err::rename(wrong, &right).unwrap();
    let found = findings(&place, &checkout, &FULL.options("run"));
    assert_eq!(found.iter().map(|(kind, ..)| kind.as_str()).collect::<Vec<_>>(), ["damaged"], "{found:?}");
}

/// What cannot be looked into is no clean bill: a link in the place of a folder of git's, to where git would follow it.
#[test]
fn a_folder_that_is_a_link_is_not_taken_for_an_empty_one() {
    let place = Place::new();
    let elsewhere = place.join("elsewhere");
    let ids = "1".repeat(40);
    fs_err::create_dir_all(elsewhere.join("one")).unwrap();
    for (name, text) in [("grafts", format!("{ids}\n")), ("one/HEAD", format!("{ids}\n")), ("origin", ids)] {
        fs_err::write(elsewhere.join(name), text).unwrap();
    }
    for name in ["worktrees", "info", "hooks", "remotes", "branches", "objects/info/commit-graphs"] {
        let checkout = place.join("c");
        let _ = fs_err::remove_dir_all(&checkout);
        FULL.snapshot("review", &checkout);
        check(&place, &checkout, &FULL.options("review")).exits(0);
        let link = checkout.join(".git").join(name);
        let _ = fs_err::remove_dir_all(&link);
        fs_err::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&elsewhere, &link).unwrap();
        let ran = check(&place, &checkout, &FULL.options("review")).exits(1);
        assert!(ran.stdout.contains(&format!(".git/{name}: damaged")), "{name}: {}", ran.stdout);
    }
}

/// Cut or changed bytes anywhere in a `.git` give findings, or the same answer as before, and never a crash.
#[test]
fn damage_gives_findings_and_no_crash() {
    let place = Place::new();
    let whole = place.join("whole");
    FULL.snapshot("review", &whole);
    git(&whole, &["commit-graph", "write", "--reachable"]);
    git(&whole, &["multi-pack-index", "write"]);
    let files: Vec<_> = walkdir::WalkDir::new(whole.join(".git"))
        .sort_by_file_name()
        .into_iter()
        .flatten()
        .filter(|e| e.file_type().is_file())
        .map(|e| e.path().strip_prefix(&whole).unwrap().to_owned())
        .collect();
    let damaged = place.join("damaged");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let strategy = (0..files.len(), any::<u32>(), any::<u8>(), any::<bool>());
    let outcome = runner.run(&strategy, |(file, at, byte, cut)| {
        let _ = fs_err::remove_dir_all(&damaged);
        assert!(Command::new("cp").arg("-a").arg(&whole).arg(&damaged).status().unwrap().success());
        let path = damaged.join(&files[file]);
        let mut bytes = fs_err::read(&path).unwrap();
        let at = at as usize % bytes.len().max(1);
        if cut {
            bytes.truncate(at);
        } else if let Some(there) = bytes.get_mut(at) {
            *there = byte;
        }
        fs_err::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        fs_err::write(&path, bytes).unwrap();
        let ran = check(&place, &damaged, &FULL.options("review"));
        prop_assert!(
            matches!(ran.code, Some(0 | 1)),
            "{:?} {at}: {:?}\n{}{}",
            files[file],
            ran.code,
            ran.stdout,
            ran.stderr
        );
        Ok(())
    });
    outcome.unwrap();
}
