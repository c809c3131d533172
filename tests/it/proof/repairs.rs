//! Failed recipes that are changed until they work: by rules of the definitions, by whoever proposes something.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use redgreen::environment::{
    Attempt, FailureKind, Proposal, ProposalFuture, RepairRequest, Repairer, RepairerError, Settings, SpecChange, Stage,
};
use redgreen::model::InfraReason;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::yard::{Project, Yard, host_with};

/// What a scripted repairer is told to say where it is to break.
const CRASH: &str = "crash";

/// A repairer that says what it was told to say, and remembers what it was asked.
struct Scripted {
    answers: Mutex<Vec<Proposal>>,
    asked: Mutex<Vec<Value>>,
}

impl Scripted {
    fn saying(answers: &[Value]) -> Arc<Self> {
        let change = |value: &Value| match value.as_str() {
            Some(why) => Proposal::GiveUp(why.to_owned()),
            None => Proposal::Change(serde_json::from_value::<SpecChange>(value.clone()).unwrap()),
        };
        let answers = answers.iter().rev().map(change).collect();
        Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl Repairer for Scripted {
    fn identity(&self) -> Value {
        json!("scripted")
    }

    fn propose<'a>(&'a self, request: &'a RepairRequest, _cancel: &'a CancellationToken) -> ProposalFuture<'a> {
        self.asked.lock().unwrap().push(serde_json::to_value(request).unwrap());
        let answer = self.answers.lock().unwrap().pop();
        let answer = match answer {
            Some(Proposal::GiveUp(why)) if why == CRASH => {
                Err(RepairerError("it was stopped at its deadline".to_owned()))
            }
            answer => Ok(answer.unwrap_or_else(|| Proposal::GiveUp("at my wits' end".to_owned()))),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// The definitions with one more rule, as a person adds it.
fn with_rule(folder: &std::path::Path, rule: &str) -> Vec<PathBuf> {
    let own = fs_err::read_to_string(crate::support::root().join("environments/python.toml")).unwrap();
    // The first rule that fits is taken: the new one goes before those that are there.
    let place = own.find("[[repair]]").unwrap();
    fs_err::write(folder.join("python.toml"), format!("{}{rule}\n{}", &own[..place], &own[place..])).unwrap();
    vec![folder.to_owned()]
}

/// A project whose install wants a variable that nobody can know.
const SECRETIVE: Project = Project {
    install: "    import os, sys\n    os.environ.get(\"LANTERN_WICK\") == \"long\" or sys.exit(\"the wick is too short\")\n    \
              open(\"secretive/_built.py\", \"w\").write(\"VALUE = 42\\n\")",
    files: &[("secretive/__init__.py", "from ._built import VALUE\n")],
    ..Project::named("secretive")
};

fn story(attempts: &[Attempt]) -> Vec<(Option<&str>, bool)> {
    attempts.iter().map(|a| (a.repair.as_ref().map(|repair| repair.by.as_str()), a.failure.is_none())).collect()
}

#[tokio::test]
async fn the_scripted_repairer_finds_what_no_rule_knows() {
    let Some(yard) = Yard::new("the_scripted_repairer_finds_what_no_rule_knows") else { return };
    let scripted = Scripted::saying(&[
        json!({"packages": ["--index-url=https://elsewhere.example/simple"]}),
        json!({"variables": {"LANTERN_WICK": "long"}}),
    ]);
    let yard = yard.repaired_by(scripted.clone());
    let request = yard.request(&SECRETIVE);
    let accepted = yard.accept(&request).await.unwrap().unwrap();
    assert_eq!(accepted.resolved.spec.variables["LANTERN_WICK"], "long");
    assert_eq!(accepted.prepared.variables["LANTERN_WICK"], "long");
    let attempts = &accepted.record.attempts;
    let repaired: Vec<_> = story(attempts).into_iter().filter(|(by, _)| by.is_some()).collect();
    // The first proposal is refused, and told so; the second is built and proven.
    assert_eq!(repaired, [(Some("repairer"), false), (Some("repairer"), true)]);
    let asked = scripted.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[0]["log_tail"].as_str().unwrap().contains("the wick is too short"), "{:#}", asked[0]);
    assert_eq!(asked[0]["spec"]["language"], "python");
    assert!(asked[1]["tried"][0]["result"].as_str().unwrap().starts_with("refused: "), "{:#}", asked[1]);
    // It serves from the record, and nobody is asked again.
    let again = yard.accept(&request).await.unwrap().unwrap();
    assert!(again.cached && scripted.asked().is_empty());
    assert_eq!(again.prepared.digest, accepted.prepared.digest);
}

#[tokio::test]
async fn attempts_are_counted_and_the_same_change_is_never_tried_twice() {
    let Some(yard) = Yard::new("attempts_are_counted_and_the_same_change_is_never_tried_twice") else { return };
    let wrong = json!({"variables": {"LANTERN_WICK": "short"}});
    let scripted = Scripted::saying(&[wrong.clone(), wrong.clone(), json!({"rebuild": ["true"]}), wrong]);
    let yard = yard.repaired_by(scripted.clone());
    let rejected = yard.rejected(&SECRETIVE).await;
    let asked = scripted.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[2]["tried"][1]["result"].as_str().unwrap().contains("refused: "), "{:#}", asked[2]);
    // Each of them is on record with what came of it.
    let by_repairer = rejected.record.attempts.iter().filter(|attempt| attempt.repair.is_some());
    assert_eq!(by_repairer.count(), 3);
    let logs = rejected.record.attempts.iter().filter_map(|attempt| attempt.log.as_ref());
    for log in logs {
        let file = yard.folder.path().join("cache/environments-v1").join(format!("{log}.log"));
        assert!(!fs_err::read(file).unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_repairer_that_gives_up_leaves_the_failure_as_it_was() {
    let Some(yard) = Yard::new("a_repairer_that_gives_up_leaves_the_failure_as_it_was") else { return };
    let scripted = Scripted::saying(&[json!("no idea")]);
    let yard = yard.repaired_by(scripted.clone());
    let rejected = yard.rejected(&SECRETIVE).await;
    assert_eq!(scripted.asked().len(), 1);
    assert!(rejected.record.attempts.iter().all(|attempt| attempt.repair.is_none()));
    assert!(String::from_utf8_lossy(&rejected.log).contains("the wick is too short"));
    // It had its say: the failure is on record.
    assert!(yard.rejected(&SECRETIVE).await.cached);
}

#[tokio::test]
async fn a_repairer_that_breaks_has_not_given_up() {
    let Some(yard) = Yard::new("a_repairer_that_breaks_has_not_given_up") else { return };
    let scripted = Scripted::saying(&[json!(CRASH), json!({"variables": {"LANTERN_WICK": "long"}})]);
    let yard = yard.repaired_by(scripted.clone());
    let rejected = yard.rejected(&SECRETIVE).await;
    assert!(String::from_utf8_lossy(&rejected.log).contains("the wick is too short"));
    // The next time it is asked again, and answers.
    let accepted = yard.accept(&yard.request(&SECRETIVE)).await.unwrap().unwrap();
    assert_eq!((accepted.cached, scripted.asked().len()), (false, 2));
}

/// A rule against what SECRETIVE says, and a base for every version of Python that has none.
fn wick_rule(change: &str) -> String {
    format!(
        "[[base]]\nname = \"any-python\"\nversion = \"3\"\ndebian = \"bookworm\"\npackages = [\"python3\"]\n\n\
         [[repair]]\nname = \"a longer wick\"\npattern = 'the wick is too short'\nchange = {{ {change} }}\n"
    )
}

/// A maker of bases in front of the path, which fails and says this.
fn with_maker(folder: &std::path::Path, says: &str) -> impl FnOnce(&mut Settings) {
    let program = folder.join("mmdebstrap");
    fs_err::write(&program, format!("#!/bin/sh\necho 'I: running apt-get update...' >&2\necho '{says}' >&2\nexit 2\n"))
        .unwrap();
    fs_err::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let host = host_with(folder);
    |settings| {
        settings.host = host;
        settings.makes_bases = true;
    }
}

#[tokio::test]
async fn what_failed_for_want_of_a_base_that_nobody_was_to_make_is_not_kept() {
    let name = "what_failed_for_want_of_a_base_that_nobody_was_to_make_is_not_kept";
    let folder = tempfile::tempdir().unwrap();
    let rule = wick_rule("system_packages = [\"redgreen-no-such-package\"]");
    let Some(yard) = Yard::with(name, |s| s.definitions = with_rule(folder.path(), &rule)) else { return };
    let rejected = yard.rejected(&SECRETIVE).await;
    // It is the recipe before the repair that tells most.
    assert_eq!((rejected.failure.stage, rejected.failure.reason), (Stage::Build, InfraReason::Environment));
    let repaired = rejected.record.attempts.iter().filter(|attempt| attempt.repair.is_some());
    let failures: Vec<_> = repaired.filter_map(|attempt| attempt.failure.as_ref()).collect();
    assert!(!failures.is_empty() && failures.iter().all(|failure| failure.stage == Stage::Toolchain), "{failures:?}");
    assert!(failures[0].detail.contains("`redgreen env base "), "{failures:?}");
    assert!(!yard.rejected(&SECRETIVE).await.cached);

    // Nor is what failed because the program that makes bases did.
    let cache = yard.folder.path().join("cache");
    let maker = with_maker(folder.path(), "E: the maker is broken");
    let broken = Yard::with(name, |settings| {
        maker(settings);
        settings.cache = cache.clone();
        settings.definitions = with_rule(folder.path(), &rule);
    });
    let broken = broken.unwrap();
    assert_eq!(broken.rejected(&SECRETIVE).await.failure.stage, Stage::Build);
    assert!(!broken.rejected(&SECRETIVE).await.cached);

    // Where the base was to be made, a package that does not exist is the recipe's fault, and kept.
    let maker = with_maker(folder.path(), "E: Unable to locate package redgreen-no-such-package");
    let making = Yard::with(name, |settings| {
        maker(settings);
        settings.cache = cache;
        settings.definitions = with_rule(folder.path(), &rule);
    });
    let making = making.unwrap();
    let rejected = making.rejected(&SECRETIVE).await;
    assert!(!rejected.cached && rejected.failure.stage == Stage::Build, "{rejected:#?}");
    // How a base is made is heard.
    let said = making.take_said();
    assert!(said.iter().any(|line| line.contains("running apt-get update")), "{said:#?}");
    assert!(making.rejected(&SECRETIVE).await.cached);
}

#[tokio::test]
async fn a_mirror_that_fails_while_a_repair_is_tried_is_no_failure_of_the_repository() {
    let name = "a_mirror_that_fails_while_a_repair_is_tried_is_no_failure_of_the_repository";
    let folder = tempfile::tempdir().unwrap();
    let rule = wick_rule("system_packages = [\"redgreen-no-such-package\"]");
    let maker = with_maker(folder.path(), "E: Failed to fetch http://mirror.example/debian/dists/bookworm/InRelease");
    let Some(yard) = Yard::with(name, |settings| {
        maker(settings);
        settings.definitions = with_rule(folder.path(), &rule);
    }) else {
        return;
    };
    let rejected = yard.rejected(&SECRETIVE).await;
    let failure = &rejected.failure;
    let found = (failure.kind, failure.stage, failure.reason);
    assert_eq!(found, (FailureKind::Network, Stage::Toolchain, InfraReason::Network), "{failure:?}");
    assert!(!yard.rejected(&SECRETIVE).await.cached);
}

#[tokio::test]
async fn a_repair_with_a_version_that_is_not_to_be_had_is_kept_with_that() {
    let name = "a_repair_with_a_version_that_is_not_to_be_had_is_kept_with_that";
    let folder = tempfile::tempdir().unwrap();
    let rule = wick_rule("version = \"77.1\"");
    let Some(yard) = Yard::with(name, |s| s.definitions = with_rule(folder.path(), &rule)) else { return };
    let rejected = yard.rejected(&SECRETIVE).await;
    let missing: Vec<_> = rejected.record.missing.iter().map(|missing| missing.spec.version.as_deref()).collect();
    assert_eq!(missing, [Some("77.1")]);
    assert!(yard.rejected(&SECRETIVE).await.cached);
}

#[tokio::test]
async fn a_withdrawn_version_is_pinned_by_a_rule() {
    let Some(yard) = Yard::new("a_withdrawn_version_is_pinned_by_a_rule") else { return };
    let project = Project {
        dependencies: &["withdrawn>=1"],
        files: &[("faithful/__init__.py", "import withdrawn\nVALUE = 42\n")],
        ..Project::named("faithful")
    };
    let accepted = yard.accept(&yard.request(&project)).await;
    let accepted = accepted.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    let first = accepted.record.attempts[0].failure.as_ref().unwrap();
    assert_eq!(first.kind, FailureKind::Yanked, "{first:#?}");
    assert!(accepted.resolved.spec.packages.contains(&"withdrawn==1.0".to_owned()), "{:?}", accepted.resolved.spec);
    let by = accepted.record.attempts.last().unwrap().repair.as_ref().unwrap().by.clone();
    assert!(by.starts_with("rule "), "{by}");
}

#[tokio::test]
async fn a_module_that_nobody_declared_is_installed_by_a_rule() {
    let Some(yard) = Yard::new("a_module_that_nobody_declared_is_installed_by_a_rule") else { return };
    let project =
        Project { files: &[("forgetful/__init__.py", "import six\nVALUE = 42\n")], ..Project::named("forgetful") };
    let accepted = yard.accept(&yard.request(&project)).await;
    let accepted = accepted.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    assert!(accepted.resolved.spec.packages.contains(&"six".to_owned()), "{:?}", accepted.resolved.spec);
    let by = accepted.record.attempts.last().unwrap().repair.as_ref().unwrap().by.clone();
    assert!(by.starts_with("rule "), "{by}");
}

#[tokio::test]
async fn a_missing_header_that_the_tree_brings_is_found_by_a_rule() {
    let name = "a_missing_header_that_the_tree_brings_is_found_by_a_rule";
    let folder = tempfile::tempdir().unwrap();
    let rule = r#"
[[repair]]
name = "headers that the tree brings"
pattern = 'fatal error: (lantern)_\w+\.h: No such file'
change = { variables = { CPATH = "/workspace/vendor/$1" } }
"#;
    let Some(yard) = Yard::with(name, |settings| settings.definitions = with_rule(folder.path(), rule)) else { return };
    let project = Project {
        install: "    import subprocess, sys\n    subprocess.check_call([\"cc\", \"-c\", \"fast.c\", \"-o\", \"/tmp/fast.o\"])\n    \
                  open(\"bringsheader/_built.py\", \"w\").write(\"VALUE = 42\\n\")",
        files: &[
            ("bringsheader/__init__.py", "from ._built import VALUE\n"),
            ("fast.c", "#include <lantern_near.h>\n"),
            ("vendor/lantern/lantern_near.h", "\n"),
        ],
        ..Project::named("bringsheader")
    };
    let accepted = yard.accept(&yard.request(&project)).await;
    let accepted = accepted.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    let attempts = &accepted.record.attempts;
    assert_eq!(story(attempts), [(None, false), (Some("rule headers that the tree brings"), true)]);
    assert_eq!(attempts[0].failure.as_ref().unwrap().kind, FailureKind::MissingSystemPackage);
    assert_eq!(accepted.resolved.spec.variables["CPATH"], "/workspace/vendor/lantern");
}

#[tokio::test]
async fn an_impossible_range_is_lowered_by_a_rule() {
    let name = "an_impossible_range_is_lowered_by_a_rule";
    let folder = tempfile::tempdir().unwrap();
    let rule = r#"
[[repair]]
name = "steady as it was"
pattern = 'No matching distribution found for (steady)>=99'
change = { packages = ["$1==1.0"] }
"#;
    let Some(yard) = Yard::with(name, |settings| settings.definitions = with_rule(folder.path(), rule)) else { return };
    let project = Project {
        files: &[
            (
                "pyproject.toml",
                "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n\n[project]\n\
                 name = \"toohigh\"\nversion = \"1.0\"\n\n[project.optional-dependencies]\ntest = [\"steady>=99\"]\n",
            ),
            (
                "tests/test_value.py",
                "import steady\nimport toohigh\n\ndef test_value():\n    assert toohigh.VALUE == 42\n",
            ),
        ],
        ..Project::named("toohigh")
    };
    let accepted = yard.accept(&yard.request(&project)).await;
    let accepted = accepted.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    let attempts = &accepted.record.attempts;
    assert_eq!(story(attempts), [(None, false), (Some("rule steady as it was"), true)]);
    assert_eq!(attempts[0].failure.as_ref().unwrap().kind, FailureKind::NoSuchVersion);
    assert!(accepted.resolved.spec.packages.contains(&"steady==1.0".to_owned()));
}

#[tokio::test]
async fn an_install_that_hangs_is_repaired_by_the_scripted_repairer() {
    let name = "an_install_that_hangs_is_repaired_by_the_scripted_repairer";
    let wall = std::time::Duration::from_secs(8);
    let Some(yard) = Yard::with(name, |settings| settings.build_limits.wall = wall) else { return };
    let scripted = Scripted::saying(&[json!({"variables": {"LANTERN_WAIT": "no"}})]);
    let yard = yard.repaired_by(scripted.clone());
    let project = Project {
        install: "    import os, time\n    os.environ.get(\"LANTERN_WAIT\") == \"no\" or time.sleep(100000)\n    \
                  open(\"patient/_built.py\", \"w\").write(\"VALUE = 42\\n\")",
        files: &[("patient/__init__.py", "from ._built import VALUE\n")],
        ..Project::named("patient")
    };
    let accepted = yard.accept(&yard.request(&project)).await;
    let accepted = accepted.unwrap_or_else(|r| panic!("{:?}", r.failure)).unwrap();
    assert_eq!(scripted.asked()[0]["failure"]["kind"], "deadline");
    assert_eq!(accepted.record.attempts.last().unwrap().repair.as_ref().unwrap().by, "repairer");
}
