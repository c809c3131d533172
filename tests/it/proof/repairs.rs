//! Failed recipes that are changed until they work: by rules of the definitions, by whoever proposes something.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use redgreen::environment::{Attempt, FailureKind, Proposal, ProposalFuture, RepairRequest, Repairer, SpecChange};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::yard::{Project, Yard};

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
        Box::pin(std::future::ready(Ok(answer.unwrap_or_else(|| Proposal::GiveUp("at my wits' end".to_owned())))))
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
        assert!(!yard.environments.attempt_log(log).unwrap().is_empty());
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
