//! Every hiding place is found, one by one and all together, and nothing else is.

use super::plants::{Garden, PLANTS, Plant, pyc};
use super::{FULL, check, findings, found, git};
use crate::support::{Place, example, root};

fn is_found(plant: &Plant, found: &std::collections::BTreeSet<(String, String, String)>) -> bool {
    found.iter().any(|(kind, place, later)| {
        kind == plant.kind && place.contains(plant.place) && (later == plant.later || later == "certain")
    })
}

#[test]
fn clean_checkouts_are_clean_with_and_without_being_told_of_the_commits() {
    let place = Place::new();
    for mode in ["run", "review"] {
        FULL.snapshot(mode, &place.join(mode));
        let bare: Vec<String> = ["--mode", mode].map(str::to_owned).to_vec();
        for options in [FULL.options(mode), bare] {
            let ran = check(&place, &place.join(mode), &options).exits(0);
            assert!(ran.stdout.starts_with("nothing later than the commit to review was found"), "{}", ran.stdout);
        }
    }
}

/// One hiding place after the other: each is found under its own name, as certainly as it must be.
#[test]
fn every_hiding_place_is_found() {
    assert!(PLANTS.len() >= 60, "{}", PLANTS.len());
    let mut missed = Vec::new();
    for mode in ["run", "review"] {
        for plant in PLANTS {
            let place = Place::new();
            let checkout = place.join("c");
            FULL.snapshot(mode, &checkout);
            (plant.plant)(&Garden { dir: &checkout });
            let found = findings(&place, &checkout, &FULL.options(mode));
            let exact = found.iter().any(|(k, p, l)| k == plant.kind && p.contains(plant.place) && l == plant.later);
            if !exact {
                missed.push(format!("{mode}: {} ({} at {}): {found:?}", plant.name, plant.kind, plant.place));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn all_hiding_places_together_are_found() {
    let place = Place::new();
    for mode in ["run", "review"] {
        let checkout = place.join(mode);
        FULL.snapshot(mode, &checkout);
        let garden = Garden { dir: &checkout };
        // The last ones first: some make git itself refuse to work afterwards.
        let spoils = |plant: &&Plant| {
            matches!(plant.kind, "alternates" | "grafts" | "shallow" | "replace" | "linked-worktree")
                || plant.place.contains("worktrees")
                || plant.place.contains("hidden")
                || plant.kind == "commit-graph"
                || plant.kind == "multi-pack-index"
        };
        for plant in PLANTS.iter().filter(|p| !spoils(p)).chain(PLANTS.iter().filter(spoils)) {
            (plant.plant)(&garden);
        }
        let found = findings(&place, &checkout, &FULL.options(mode));
        let missed: Vec<_> = PLANTS.iter().filter(|plant| !is_found(plant, &found)).map(|p| p.name).collect();
        assert!(missed.is_empty(), "{mode}: {missed:?}\n{found:#?}");
    }
}

/// What is there anyway in a real checkout and shows nothing later.
#[test]
fn what_is_no_later_is_no_finding() {
    let place = Place::new();
    let checkout = place.join("c");
    FULL.snapshot("review", &checkout);
    let garden = Garden { dir: &checkout };
    let write = |name: &str, content: &[u8]| garden.write(name, content);
    write(".git/refs/heads/old", FULL.first.as_bytes());
    write(".git/refs/tags/v1", FULL.base.as_bytes());
    write(".git/packed-refs", format!("{} refs/remotes/origin/old\n", FULL.first).as_bytes());
    write(".git/ORIG_HEAD", FULL.first.as_bytes());
    write(".git/logs/HEAD", format!("{} {} A <a@b> 1 +0\tx\n", FULL.first, FULL.base).as_bytes());
    write(".git/description", b"Unnamed repository; edit this file 'description' to name the repository.\n");
    write(".git/hooks/pre-commit.sample", b"#!/bin/sh\n");
    write(".git/info/exclude", b"# a comment\n");
    git(&checkout, &["repack", "-adq"]);
    git(&checkout, &["commit-graph", "write", "--reachable"]);
    // A tag that was made in time.
    git(&checkout, &["tag", "-a", "-m", "One", "v1.0", &FULL.first]);
    // Compiled from the very file that lies there.
    let source = fs_err::metadata(checkout.join("lantern/new.py")).unwrap();
    let time = std::os::unix::fs::MetadataExt::mtime(&source) as u32;
    garden.write("lantern/__pycache__/new.cpython-311.pyc", pyc(time, source.len() as u32));
    // Line ends as a checkout may give them.
    garden.write("setup.py", fs_err::read_to_string(checkout.join("setup.py")).unwrap().replace('\n', "\r\n"));
    assert_eq!(findings(&place, &checkout, &FULL.options("review")), Default::default());
    // The same compiled file of another time is one.
    garden.write("lantern/__pycache__/new.cpython-311.pyc", pyc(time + 1, source.len() as u32));
    assert_eq!(findings(&place, &checkout, &FULL.options("review")).len(), 1);
}

/// An ordinary clone that was set back: what nearly every harness does.
#[test]
fn a_clone_that_was_set_back_shows_the_future_in_many_places() {
    let place = Place::new();
    let checkout = place.join("c");
    git(place.path(), &["clone", "-q", FULL.dir.to_str().unwrap(), "c"]);
    git(&checkout, &["checkout", "-q", &FULL.head]);
    let report =
        check(&place, &checkout, &[FULL.options("review"), vec!["--json".to_owned()]].concat()).exits(1).json();
    let found = found(&report);
    let kinds: std::collections::BTreeSet<&str> = found.iter().map(|(kind, ..)| kind.as_str()).collect();
    for kind in ["branch", "remote-branch", "tag", "commit", "tree", "blob", "tag-object", "reflog", "remote", "head"] {
        assert!(kinds.contains(kind), "{kind}: {found:#?}");
    }
    // The commit under review itself is not allowed in this mode, and it is not later.
    assert!(found.iter().any(|(kind, _, later)| kind == "commit" && later == "no"), "{found:#?}");
    let all = report["findings"].as_array().unwrap();
    let branch = all.iter().find(|f| f["place"] == ".git/refs/heads/main").unwrap();
    assert_eq!(branch["commits"][0]["id"], FULL.last.as_str());
    assert_eq!(branch["commits"][0]["subject"], "Release 2.0");
    assert_eq!(branch["commits"][0]["date"], "2020-05-05T12:00:00Z");
    assert!(branch["remove"].as_str().unwrap().contains("update-ref -d"), "{branch}");
    // Without being told of the merged commit, nobody can be certain of a squash.
    let [head, base] = [&FULL.head, &FULL.base];
    let options = ["--mode", "review", "--head", head, "--base", base].map(|w| w.to_string());
    let unsure = findings(&place, &checkout, &options);
    assert!(
        unsure.contains(&("branch".to_owned(), ".git/refs/heads/main".to_owned(), "possible".to_owned())),
        "{unsure:#?}"
    );
    assert!(!unsure.iter().any(|(.., later)| later == "certain"), "{unsure:#?}");
    // A branch of the topic shows itself by descent.
    let tree = git(&checkout, &["rev-parse", "HEAD^{tree}"]);
    let more = git(&checkout, &["commit-tree", "-m", "more", "-p", &FULL.head, &tree]);
    git(&checkout, &["branch", "more", &more]);
    let sure = findings(&place, &checkout, &options);
    assert!(
        sure.contains(&("branch".to_owned(), ".git/refs/heads/more".to_owned(), "certain".to_owned())),
        "{sure:#?}"
    );
}

#[test]
fn a_git_that_lies_elsewhere_is_followed_and_named() {
    let place = Place::new();
    for link in [false, true] {
        let checkout = place.join(if link { "link" } else { "file" });
        FULL.snapshot("run", &checkout);
        let away = place.join(if link { "away-l" } else { "away-f" });
        fs_err::rename(checkout.join(".git"), &away).unwrap();
        if link {
            std::os::unix::fs::symlink(&away, checkout.join(".git")).unwrap();
        } else {
            fs_err::write(checkout.join(".git"), format!("gitdir: {}\n", away.display())).unwrap();
        }
        let only = findings(&place, &checkout, &FULL.options("run"));
        assert_eq!(only.into_iter().map(|(kind, ..)| kind).collect::<Vec<_>>(), ["git-file"]);
        fs_err::create_dir_all(away.join("refs/pull/2")).unwrap();
        fs_err::write(away.join("refs/pull/2/head"), &FULL.merged).unwrap();
        let found = findings(&place, &checkout, &FULL.options("run"));
        assert!(found.iter().any(|(kind, at, _)| kind == "pull-ref" && at.ends_with("refs/pull/2/head")), "{found:?}");
    }
}

#[test]
fn packages_elsewhere_are_looked_through_when_they_are_named() {
    let place = Place::new();
    FULL.snapshot("run", &place.join("c"));
    let write = |name: &str, content: &[u8]| {
        fs_err::create_dir_all(place.join(name).parent().unwrap()).unwrap();
        fs_err::write(place.join(name), content).unwrap();
    };
    write("site/lantern_kit-0.9.dist-info/METADATA", b"Version: 0.9\n");
    write("site/other-9.0.dist-info/METADATA", b"Version: 9.0\n");
    let with = |folder: &str| [FULL.options("run"), vec!["--packages".to_owned(), folder.to_owned()]].concat();
    assert_eq!(findings(&place, &place.join("c"), &with("site")), Default::default());
    write("site/lantern_kit-1.1.dist-info/METADATA", b"Version: 1.1\n");
    write("pip/wheels/ab/cd/lantern_kit-2.0-py3-none-any.whl", b"PK");
    write("pip/http-v2/a/b/c", b"\x81\xb3x-pypi-file-project\xabLantern_Kit\xb3x-pypi-file-version\xa32.0");
    write(
        "npm/_cacache/index-v5/aa/bb/cc",
        b"\n1\t{\"key\":\"make-fetch-happen:request-cache:https://example.org/lantern-kit/-/lantern-kit-2.0.0.tgz\"}",
    );
    write("cargo/registry/cache/index/lantern-kit-2.0.0.crate", b"x");
    write("node/node_modules/lantern-kit/package.json", b"{\"version\": \"2.0.0\"}");
    for (folder, kinds) in [
        ("site", &["package"][..]),
        ("pip", &["package-cache", "package-cache"]),
        ("npm", &["package-cache"]),
        ("cargo", &["package-cache"]),
        ("node", &["package"]),
    ] {
        let found = findings(&place, &place.join("c"), &with(folder));
        assert_eq!(found.iter().map(|(kind, ..)| kind.as_str()).collect::<Vec<_>>(), kinds, "{folder}: {found:?}");
        assert!(found.iter().all(|(.., later)| later == "certain"), "{found:?}");
    }
}

#[test]
fn secrets_are_found_and_not_printed() {
    let place = Place::new();
    let checkout = place.join("c");
    FULL.snapshot("review", &checkout);
    let garden = Garden { dir: &checkout };
    let secrets = PLANTS.iter().filter(|plant| plant.kind == "credential");
    secrets.for_each(|plant| (plant.plant)(&garden));
    garden.write(".git/FETCH_HEAD", format!("{}\t\tbranch 'm' of https://me:s3cr3t@example.org/x\n", FULL.base));
    for more in [&[][..], &["--json".to_owned()]] {
        let ran = check(&place, &checkout, &[&FULL.options("review"), more].concat()).exits(1);
        assert!(ran.stdout.contains("credential") && ran.stdout.contains("FETCH_HEAD"), "{}", ran.stdout);
        assert!(!ran.stdout.contains("s3cr3t") && !ran.stderr.contains("s3cr3t"), "{}\n{}", ran.stdout, ran.stderr);
    }
}

/// Our own snapshots of every instance of the example, in both modes, made and checked by the program.
#[test]
fn snapshots_of_the_whole_example_are_clean() {
    let place = Place::new();
    let rows = fs_err::read_to_string(root().join("examples/quickstart/dataset.jsonl")).unwrap();
    let mut made = 0;
    for row in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let id = row["instance_id"].as_str().unwrap();
        for mode in ["run", "review"] {
            let out = format!("{mode}-{made}");
            let words = ["snapshot", &example(), id, "--mode", mode, "--out", &out, "--json"];
            let told = place.run(&words).exits(0).json();
            assert_eq!((told["instance_id"].as_str(), told["mode"].as_str()), (Some(id), Some(mode)));
            let options = ["--mode", mode, "--instance", &example(), id].map(str::to_owned);
            assert_eq!(findings(&place, &place.join(&out), &options), Default::default(), "{id} {mode}");
            // The check knows what it is told to look for.
            let nobody = "1".repeat(40);
            let merged = row["merged_commit"].as_str().unwrap_or(&nobody);
            fs_err::write(place.join(&out).join(".git/ORIG_HEAD"), merged).unwrap();
            assert_eq!(findings(&place, &place.join(&out), &options).len(), 1, "{id} {mode}");
            made += 1;
        }
    }
    assert_eq!(made, 16);
}

#[test]
fn wrong_usage_is_named() {
    let place = Place::new();
    FULL.snapshot("run", &place.join("c"));
    for (words, part) in [
        (&["leak-check", "nowhere", "--mode", "run"][..], "there is no folder `nowhere`"),
        (&["leak-check", "c"], "--mode"),
        (&["leak-check", "c", "--mode", "run", "--head", &FULL.head], "is not in the checkout; name its benchmark"),
        (&["leak-check", "c", "--mode", "run", "--head", "HEAD"], "commit `HEAD`"),
        (&["leak-check", "c", "--mode", "run", "--packages", "x"], "there is no folder `x`"),
        (&["leak-check", "c", "--mode", "run", "--instance", &example(), "*"], "fits 8 instances"),
        (&["leak-check", "c", "--mode", "run", "--instance", &example(), "none"], "no instance of"),
        (&["snapshot", &example(), "*rotate-8*", "--out", "c"], "is there already"),
    ] {
        let ran = place.run(words).exits(2);
        assert!(ran.stderr.contains(part), "{words:?}: {}", ran.stderr);
    }
}
