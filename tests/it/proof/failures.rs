//! Projects that get no environment, each for the reason that it is named for.

use std::time::Duration;

use redgreen::environment::{FailureKind, Rejected, Stage};
use redgreen::model::InfraReason;

use super::index::{BARE_INDEX, nobody};
use super::yard::{Project, Yard, index_at};

/// A package that only its install completes: from its path it does not import.
const NEEDS_ITS_BUILD: (&str, &str) = ("@/__init__.py", "from ._built import VALUE\n");

/// Says in a failure's own words what was wrong, and that nothing is left.
#[track_caller]
fn assert_failed(yard: &Yard, rejected: &Rejected, kind: FailureKind, stage: Stage, says: &str) {
    let failure = &rejected.failure;
    let said = yard.said.lock().unwrap().join("\n");
    assert_eq!((failure.kind, failure.stage), (kind, stage), "{failure:?}\n{said}");
    assert!(failure.lines.iter().any(|line| line.contains(says)), "{failure:?}");
    assert_eq!(yard.left_behind(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn a_missing_header() {
    let Some(yard) = Yard::new("a_missing_header") else { return };
    let project = Project {
        install: "    import subprocess, sys\n    sys.exit(subprocess.call([\"cc\", \"-c\", \"fast.c\", \"-o\", \"/tmp/fast.o\"]))",
        files: &[("lacksheader/__init__.py", NEEDS_ITS_BUILD.1), ("fast.c", "#include <lantern_nowhere.h>\n")],
        ..Project::named("lacksheader")
    };
    let rejected = yard.rejected(&project).await;
    assert_failed(
        &yard,
        &rejected,
        FailureKind::MissingSystemPackage,
        Stage::Build,
        "lantern_nowhere.h: No such file or directory",
    );
    assert_eq!(rejected.failure.reason, InfraReason::Environment);
    // All that was tried is listed, with what came of it.
    assert!(rejected.record.attempts.len() > 1, "{:#?}", rejected.record.attempts);
    assert!(rejected.record.attempts.iter().all(|attempt| attempt.failure.is_some()));
}

#[tokio::test]
async fn an_impossible_version_range() {
    let Some(yard) = Yard::new("an_impossible_version_range") else { return };
    let project = Project {
        dependencies: &["steady>=99"],
        files: &[("farahead/__init__.py", "from steady import VALUE\n")],
        ..Project::named("farahead")
    };
    let rejected = yard.rejected(&project).await;
    assert_failed(&yard, &rejected, FailureKind::NoSuchVersion, Stage::Fetch, "steady>=99");
}

#[tokio::test]
async fn requirements_that_exclude_each_other() {
    let Some(yard) = Yard::new("requirements_that_exclude_each_other") else { return };
    let project = Project {
        dependencies: &["upper", "steady<2"],
        files: &[("torn/__init__.py", "import upper\nfrom steady import VALUE\n")],
        ..Project::named("torn")
    };
    let rejected = yard.rejected(&project).await;
    let failure = &rejected.failure;
    let kinds = [FailureKind::VersionConflict, FailureKind::NoSuchVersion];
    assert!(kinds.contains(&failure.kind) && failure.stage == Stage::Fetch, "{failure:?}");
}

#[tokio::test]
async fn a_network_that_is_cut() {
    let network = index_at(&nobody());
    let Some(yard) = Yard::with("a_network_that_is_cut", |settings| settings.network = network) else { return };
    let project = Project { dependencies: &["steady"], ..Project::named("farfrom") };
    let rejected = yard.rejected(&project).await;
    assert_failed(&yard, &rejected, FailureKind::Network, Stage::Fetch, "Connection refused");
    assert_eq!(rejected.failure.reason, InfraReason::Network);
    // It is no strategy's fault: one attempt, and nothing on record.
    assert_eq!(rejected.record.attempts.len(), 1);
    let again = yard.rejected(&project).await;
    assert!(!again.cached);
    assert!(!yard.folder.path().join("cache/environments-v1").join(format!("{}.json", again.record.key)).exists());
}

#[tokio::test]
async fn a_test_framework_that_is_absent() {
    let url = BARE_INDEX.as_ref().map(|index| index.url()).unwrap_or_default();
    let Some(yard) = Yard::with("a_test_framework_that_is_absent", |s| s.network = index_at(&url)) else { return };
    // The one that other tests installed is not there either.
    fs_err::remove_dir_all(yard.folder.path().join("cache/layers-v1/python-python")).unwrap();
    let rejected = yard.rejected(&Project::named("untested")).await;
    assert_failed(&yard, &rejected, FailureKind::NoTestFramework, Stage::Fetch, "pytest");
}

#[tokio::test]
async fn an_install_script_that_hangs() {
    let wall = Duration::from_secs(6);
    let Some(yard) = Yard::with("an_install_script_that_hangs", |s| s.build_limits.wall = wall) else { return };
    let project = Project {
        install: "    import os, subprocess, sys, time\n    print(\"waiting for ever\", flush=True)\n    \
                  subprocess.Popen([\"sleep\", \"100000\"], start_new_session=True)\n    time.sleep(100000)",
        files: &[("endless/__init__.py", NEEDS_ITS_BUILD.1)],
        ..Project::named("endless")
    };
    let rejected = yard.rejected(&project).await;
    assert_failed(&yard, &rejected, FailureKind::Deadline, Stage::Build, "");
    // The build has no network to wait for: it is the repository's own making, and not tried again.
    assert_eq!(rejected.failure.reason, InfraReason::Deadline);
    assert!(yard.rejected(&project).await.cached);
}

#[tokio::test]
async fn an_install_script_that_fills_the_disk() {
    const ALLOWED: u64 = 48 << 20;
    let Some(yard) = Yard::with("an_install_script_that_fills_the_disk", |s| s.build_limits.disk = ALLOWED) else {
        return;
    };
    let project = Project {
        install: "    with open(\"filler\", \"wb\") as file:\n        while True:\n            file.write(b\"x\" * (1 << 20))\n            \
                  file.flush()",
        files: &[("greedy/__init__.py", NEEDS_ITS_BUILD.1)],
        ..Project::named("greedy")
    };
    let rejected = yard.rejected(&project).await;
    assert_failed(&yard, &rejected, FailureKind::Disk, Stage::Build, "left more than");
    let mut bytes = 0;
    for entry in walkdir::WalkDir::new(yard.folder.path().join("cache")).into_iter().flatten() {
        assert_ne!(entry.file_name(), "filler");
        bytes += entry.metadata().unwrap().len();
    }
    assert!(bytes < 4 * ALLOWED, "{bytes}");
}

#[tokio::test]
async fn a_package_that_imports_only_from_the_working_directory() {
    let Some(yard) = Yard::new("a_package_that_imports_only_from_the_working_directory") else { return };
    let project = Project {
        files: &[
            ("homebody/__init__.py", "VALUE = int(open(\"homebody/value.txt\").read())\n"),
            ("homebody/value.txt", "42\n"),
        ],
        ..Project::named("homebody")
    };
    let rejected = yard.rejected(&project).await;
    assert_failed(&yard, &rejected, FailureKind::NotImportable, Stage::Import, "homebody/value.txt");
}

#[tokio::test]
async fn an_install_that_ends_well_and_is_not_whole() {
    let Some(yard) = Yard::new("an_install_that_ends_well_and_is_not_whole") else { return };
    // The back end says at install time what no file says, and the installer leaves dependencies out.
    let project = Project {
        install: "    global REQUIRES\n    REQUIRES = [\"steady\"]\n    print(\"WARNING: steady is not installed\")",
        files: &[("hollow/__init__.py", "from steady import VALUE\n")],
        ..Project::named("hollow")
    };
    let rejected = yard.rejected(&project).await;
    let install = rejected.record.attempts.iter().filter_map(|attempt| attempt.failure.as_ref());
    let install: Vec<_> = install.filter(|failure| failure.stage == Stage::Install).collect();
    assert!(!install.is_empty(), "{:#?}", rejected.record.attempts);
    assert!(install[0].detail.contains("hollow requires steady, which is not installed"), "{install:#?}");
}

#[tokio::test]
async fn tests_that_all_fail() {
    let Some(yard) = Yard::new("tests_that_all_fail") else { return };
    const TESTS: &str = "import broken\n\ndef test_a():\n    assert broken.VALUE == 1\n\n\
                         def test_b():\n    raise OSError(\"Connection refused\")\n";
    let project = Project { files: &[("tests/test_value.py", TESTS)], ..Project::named("broken") };
    let rejected = yard.rejected(&project).await;
    // What tests print of a network is their own affair.
    assert_failed(&yard, &rejected, FailureKind::NoTestPasses, Stage::Sample, "0 of 2 sampled tests pass");
    assert_eq!(rejected.failure.reason, InfraReason::Environment);
}
