//! What is on record of an environment: made once, served from then on, made again when something changed.

use std::sync::Arc;
use std::time::Duration;

use redgreen::environment::{EnvironmentRecord, Known, Settings, SpecSource};
use redgreen::model::InfraReason;
use tokio_util::sync::CancellationToken;

use super::index::{Index, Package, nobody, package, usual};
use super::yard::{Project, Yard, host_with, index_at};

const PLAIN: Project = Project::named("plain");

fn record_file(yard: &Yard, record: &EnvironmentRecord) -> std::path::PathBuf {
    yard.folder.path().join("cache/environments-v1").join(format!("{}.json", record.key))
}

#[tokio::test]
async fn an_accepted_environment_is_recorded_with_its_proof_and_served_from_the_record() {
    let Some(yard) = Yard::new("an_accepted_environment_is_recorded_with_its_proof_and_served_from_the_record") else {
        return;
    };
    let request = yard.request(&PLAIN);
    let accepted = yard.accept(&request).await;
    let accepted = accepted.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    assert!(!accepted.cached);
    let record = &accepted.record;
    assert!(record.is_accepted() && record.is_proven() && record.source == SpecSource::Detected);
    let passed: Vec<&String> = record.proofs.iter().flat_map(|proof| &proof.passed).collect();
    assert_eq!(passed, ["tests/test_value.py::test_value"]);
    assert!(record.strategy.as_ref().unwrap().starts_with("editable"), "{:?}", record.strategy);
    assert!(record.bytes_added > 0 && record.seconds > 0.0);
    assert!(record.lock["python"].as_array().unwrap().iter().any(|known| known == "pytest==8.0.0"), "{}", record.lock);
    assert_eq!(record.attempts.len(), 1);
    assert_eq!(record.inputs["tool_version"], env!("CARGO_PKG_VERSION"));

    // Read back from the disk it is the same, and nothing runs.
    let text = fs_err::read_to_string(record_file(&yard, record)).unwrap();
    assert_eq!(serde_json::from_str::<EnvironmentRecord>(&text).unwrap(), *record);
    yard.take_said();
    let again = yard.accept(&request).await.unwrap().unwrap();
    assert!(again.cached && yard.take_said().is_empty());
    assert_eq!(again.prepared.digest, accepted.prepared.digest);

    // Another tree is another environment; half a record is none.
    let mut other = request.clone();
    other.subject.tree = "another".to_owned();
    assert_ne!(yard.accept(&other).await.unwrap().unwrap().record.key, record.key);
    fs_err::write(record_file(&yard, record), &text[..100]).unwrap();
    let made = yard.accept(&request).await.unwrap().unwrap();
    assert!(!made.cached && made.prepared.digest == accepted.prepared.digest);
}

#[tokio::test]
async fn equal_requests_at_once_are_one_search() {
    let Some(yard) = Yard::new("equal_requests_at_once_are_one_search") else { return };
    let request = yard.request(&PLAIN);
    let (one, two, three) = tokio::join!(yard.accept(&request), yard.accept(&request), yard.accept(&request));
    let all = [one, two, three].map(|accepted| accepted.unwrap().unwrap());
    assert_eq!(all.iter().filter(|accepted| !accepted.cached).count(), 1);
    let proofs = yard.take_said().iter().filter(|said| said.contains("sample")).count();
    assert_eq!(proofs, 1);
}

#[tokio::test]
async fn a_failure_of_the_repositorys_making_is_not_tried_again_until_something_changes() {
    let name = "a_failure_of_the_repositorys_making_is_not_tried_again_until_something_changes";
    let Some(yard) = Yard::new(name) else { return };
    let project = Project {
        install: "    raise SystemExit(\"never\")",
        files: &[("stubborn/__init__.py", "from ._built import VALUE\n")],
        ..Project::named("stubborn")
    };
    let first = yard.rejected(&project).await;
    assert!(!first.cached && record_file(&yard, &first.record).is_file());
    yard.take_said();
    let second = yard.rejected(&project).await;
    assert!(second.cached && yard.take_said().is_empty());
    assert_eq!(second.failure.lines, first.failure.lines);
    assert!(!second.log.is_empty());

    // It is when that is asked for, and with other settings; with the same ones another process finds the record, too.
    let redo = {
        let request = yard.request(&project);
        yard.environments.accept(&request, true, &|_| {}, &CancellationToken::new()).await.unwrap_err()
    };
    assert!(!redo.cached);
    let cache = yard.folder.path().join("cache");
    let other = |edit: fn(&mut Settings)| {
        let other = Yard::with(name, |settings| {
            settings.cache.clone_from(&cache);
            edit(settings);
        });
        other.unwrap()
    };
    assert!(other(|_| {}).rejected(&project).await.cached);
    let edits: [fn(&mut Settings); 2] =
        [|settings| settings.repairs += 4, |settings| settings.build_limits.wall += Duration::from_secs(1)];
    for edit in edits {
        assert!(!other(edit).rejected(&project).await.cached);
        // What was found with them is on record in its turn.
        assert!(other(edit).rejected(&project).await.cached);
    }
}

#[tokio::test]
async fn what_is_on_record_needs_no_network() {
    let Some(yard) = Yard::new("what_is_on_record_needs_no_network") else { return };
    let request = yard.request(&PLAIN);
    let accepted = yard.accept(&request).await.unwrap().unwrap();
    let cache = yard.folder.path().join("cache");
    let offline = Yard::with("what_is_on_record_needs_no_network", |settings| {
        settings.cache = cache;
        settings.offline = true;
        settings.network = index_at(&nobody());
    });
    let again = offline.unwrap().accept(&request).await.unwrap().unwrap();
    assert!(again.cached && again.prepared.digest == accepted.prepared.digest);
}

#[tokio::test]
async fn an_interrupt_leaves_no_record_and_the_next_one_goes_on() {
    let Some(yard) = Yard::new("an_interrupt_leaves_no_record_and_the_next_one_goes_on") else { return };
    let request = yard.request(&PLAIN);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let said = yard.said.clone();
    // It is broken off as soon as the first step is told.
    let stopper = tokio::spawn(async move {
        while said.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    });
    let rejected = yard.accept_until(&request, &cancel).await.unwrap_err();
    stopper.await.unwrap();
    assert_eq!(rejected.failure.reason, redgreen::model::InfraReason::Interrupted, "{rejected:#?}");
    assert!(!record_file(&yard, &rejected.record).exists());
    assert_eq!(yard.left_behind(), Vec::<std::path::PathBuf>::new());
    assert!(yard.accept(&request).await.unwrap().is_some());
}

#[tokio::test]
async fn a_tree_with_nothing_to_install_is_left_as_it_is() {
    let Some(yard) = Yard::new("a_tree_with_nothing_to_install_is_left_as_it_is") else { return };
    let mut request = yard.request(&PLAIN);
    let tree = yard.folder.path().join("bare");
    fs_err::create_dir(&tree).unwrap();
    fs_err::write(tree.join("a.py"), "VALUE = 1\n").unwrap();
    // Settings of tools make no project.
    fs_err::write(tree.join("pyproject.toml"), "[tool.black]\nline-length = 99\n").unwrap();
    request.subject.snapshot = tree;
    request.subject.tree = "bare".to_owned();
    assert!(yard.accept(&request).await.unwrap().is_none());
    assert!(yard.take_said().is_empty());
    // A check foresees the same.
    assert!(matches!(yard.environments.known(&request), Known::Bare));
}

#[tokio::test]
async fn the_search_has_a_deadline_of_its_own() {
    let name = "the_search_has_a_deadline_of_its_own";
    let Some(yard) = Yard::with(name, |settings| settings.search_deadline = Duration::ZERO) else { return };
    let rejected = yard.rejected(&PLAIN).await;
    assert_eq!(rejected.failure.kind, redgreen::environment::FailureKind::Deadline, "{rejected:#?}");
    assert!(!record_file(&yard, &rejected.record).exists());
    let _keep = Arc::new(yard);
}

#[tokio::test]
async fn what_left_the_cache_is_made_again_as_it_was() {
    let name = "what_left_the_cache_is_made_again_as_it_was";
    let project = Project {
        dependencies: &["moving"],
        files: &[("settled/__init__.py", "import moving\nVALUE = moving.VALUE\n")],
        ..Project::named("settled")
    };
    let served = |versions: &[&'static str]| {
        let moving = versions
            .iter()
            .map(|version| Package { files: &[("moving.py", "VALUE = 42\n")], ..package("moving", version) });
        Index::serve(usual().into_iter().chain(moving).collect())
    };
    let Some(index) = served(&["1.0"]) else { return };
    let url = index.url();
    let Some(yard) = Yard::with(name, |settings| settings.network = index_at(&url)) else { return };
    let request = yard.request(&project);
    let first = yard.accept(&request).await.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    let cache = yard.folder.path().join("cache");
    // A newer version comes out, and the layers are gone.
    fs_err::remove_dir_all(cache.join("layers-v1")).unwrap();
    let url = served(&["1.0", "2.0"]).unwrap().url();
    let again = Yard::with(name, |settings| {
        settings.network = index_at(&url);
        settings.cache = cache;
    });
    let again = again.unwrap().accept(&request).await.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    assert!(!again.cached);
    assert!(again.record.lock["python"].as_array().unwrap().iter().any(|known| known == "moving==1.0"));
    assert_eq!(
        (again.prepared.digest, again.record.made_at),
        (first.prepared.digest.clone(), first.record.made_at.clone())
    );
}

/// A project that wants a version of Python that no machine has.
const FUTURE: Project = Project { files: &[(".python-version", "3.77\n")], ..Project::named("future") };

/// The definitions, with that version as one that was out for long; `more` is added at the end.
fn definitions_of_the_future(folder: &std::path::Path, more: &str) -> Vec<std::path::PathBuf> {
    let own = fs_err::read_to_string(crate::support::root().join("environments/python.toml")).unwrap();
    let release = "[[version.release]]\nversion = \"3.77\"\ndate = \"2022-01-01\"\n\n";
    let place = own.find("[[version.release]]").unwrap();
    let text = format!("{}{release}{}{more}", &own[..place], &own[place..]);
    fs_err::write(folder.join("python.toml"), text).unwrap();
    vec![folder.to_owned()]
}

fn program(folder: &std::path::Path, name: &str, body: &str) {
    let file = folder.join(name);
    fs_err::write(&file, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs_err::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn the_wanted_version_is_taken_once_it_is_to_be_had() {
    let name = "the_wanted_version_is_taken_once_it_is_to_be_had";
    let (folder, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let definitions = definitions_of_the_future(own.path(), "");
    let Some(yard) = Yard::with(name, |settings| settings.definitions = definitions.clone()) else { return };
    let request = yard.request(&FUTURE);
    let accepted = yard.accept(&request).await.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    assert_ne!(accepted.record.version.as_deref(), Some("3.77"));
    let missing: Vec<_> = accepted.record.missing.iter().map(|missing| missing.spec.version.as_deref()).collect();
    assert_eq!(missing[0], Some("3.77"));
    assert!(yard.accept(&request).await.unwrap().unwrap().cached);

    // Somebody installs it: this machine's Python under another number.
    let real = accepted.resolved.toolchain.executable.display().to_string();
    let body = format!("'{real}' \"$@\" | sed 's/\"version\": \"[0-9.]*\"/\"version\": \"3.77.0\"/'");
    program(folder.path(), "python3.77", &body);
    let cache = yard.folder.path().join("cache");
    let later = Yard::with(name, |settings| {
        settings.cache = cache;
        settings.definitions = definitions;
        settings.host = host_with(folder.path());
    });
    let later = later.unwrap();
    assert!(matches!(later.environments.known(&request), Known::Outdated(_)));
    let again = later.accept(&request).await.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    assert_eq!((again.cached, again.record.version.as_deref()), (false, Some("3.77")));
    assert!(again.record.missing.is_empty());
    assert!(later.accept(&request).await.unwrap().unwrap().cached);
}

#[tokio::test]
async fn a_mirror_that_fails_chooses_no_other_version() {
    let name = "a_mirror_that_fails_chooses_no_other_version";
    let (folder, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let base =
        "\n[[base]]\nname = \"python-3.77\"\nversion = \"3.77\"\ndebian = \"bookworm\"\npackages = [\"python3\"]\n";
    let definitions = definitions_of_the_future(own.path(), base);
    let with = |makes_bases: bool, cache: Option<std::path::PathBuf>| {
        Yard::with(name, |settings| {
            settings.host = host_with(folder.path());
            settings.definitions = definitions.clone();
            settings.makes_bases = makes_bases;
            settings.cache = cache.unwrap_or_else(|| settings.cache.clone());
        })
    };
    program(folder.path(), "mmdebstrap", "echo 'E: Failed to fetch http://mirror.example/debian' >&2; exit 2");
    let Some(yard) = with(true, None) else { return };
    let rejected = yard.rejected(&FUTURE).await;
    assert_eq!(rejected.failure.reason, InfraReason::Network, "{rejected:#?}");
    assert!(!record_file(&yard, &rejected.record).exists());

    // Where no base was to be made, another version is taken until one is.
    let cache = yard.folder.path().join("cache");
    let other = with(false, Some(cache.clone())).unwrap();
    let request = other.request(&FUTURE);
    let accepted = other.accept(&request).await.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    assert!(accepted.record.missing[0].unmade);
    assert!(other.accept(&request).await.unwrap().unwrap().cached);
    let again = with(true, Some(cache)).unwrap().accept(&request).await.unwrap_err();
    assert_eq!(again.failure.reason, InfraReason::Network);
    // What was accepted is still there for those who make none.
    assert!(other.accept(&request).await.unwrap().unwrap().cached);
}
