//! The proofs of the definitions, run as they are on projects that hold and on projects that do not.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{files, last_line, run, script};

/// Runs a script of a proof in a tree. `None` where the interpreter is not on this machine.
fn proof(argv: &[&str], name: &str, arguments: &[&str], tree: &Path, variables: &[(&str, &str)]) -> Option<Value> {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(argv[0]);
    // As the definitions put them together.
    let shared = if name.ends_with("_proof.sh") { script("proof.sh") } else { String::new() };
    command.args(&argv[1..]).arg(shared + &script(name)).args(arguments).current_dir(tree);
    command.env("TMPDIR", scratch.path()).env_remove("PYTHONPATH").envs(variables.iter().copied());
    Some(last_line(&run(&mut command)?))
}

fn has(program: &str) -> bool {
    run(Command::new(program).arg("--version")).is_some_and(|ran| ran.status.success())
}

#[test]
fn a_python_package_must_import_from_where_the_tests_look() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().canonicalize().unwrap();
    files(&tree, &[("pyproject.toml", "[project]\nname = 'rg-own-thing'\n"), ("rg_own_thing/__init__.py", "x = 1\n")]);
    let place = tree.display().to_string();
    let of = |mode: &str, path: &str| {
        proof(&["python3", "-c"], "python_proof.py", &["import", &place, mode], &tree, &[("PYTHONPATH", path)])
    };
    let Some(good) = of("path", &place) else { return };
    assert_eq!((good["ok"].as_bool(), &good["imported"]), (Some(true), &serde_json::json!(["rg_own_thing"])), "{good}");
    // It would import from the current directory, which is the tree here; that does not count.
    let by_folder = of("path", "").unwrap();
    assert_eq!(by_folder["ok"], false, "{by_folder}");
    assert!(by_folder["detail"].as_str().unwrap().contains("ModuleNotFoundError"), "{by_folder}");
    // Another package of the same name is not the project's.
    let elsewhere = tempfile::tempdir().unwrap();
    files(elsewhere.path(), &[("rg_own_thing/__init__.py", "")]);
    let other = of("path", &elsewhere.path().display().to_string()).unwrap();
    assert!(other["ok"] == false && other["detail"].as_str().unwrap().contains("and not from the project"), "{other}");
    // Installed as a copy, the tree must not be what is imported.
    assert_eq!(of("installed", &place).unwrap()["ok"], false);
    files(&tree, &[("rg_own_thing/__init__.py", "import rg_not_there\n")]);
    let broken = of("path", &place).unwrap();
    assert!(broken["ok"] == false && broken["detail"].as_str().unwrap().contains("rg_not_there"), "{broken}");
}

#[test]
fn nothing_installed_is_no_install() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), &[("pyproject.toml", "[project]\nname = 'rg-own-thing'\n")]);
    let place = folder.path().display().to_string();
    let of = |mode: &str| proof(&["python3", "-c"], "python_proof.py", &["install", &place, mode], folder.path(), &[]);
    let Some(said) = of("editable") else { return };
    assert!(
        said["ok"] == false && said["detail"].as_str().unwrap().contains("no distribution of the project"),
        "{said}"
    );
}

#[test]
fn a_c_project_is_built_collected_and_tested_by_make() {
    if !has("make") || !has("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    let make = "all: prog\nprog: a.c\n\tcc -o prog a.c\ntest: prog\n\t./prog\n.PHONY: all test\n";
    files(tree, &[("Makefile", make), ("a.c", "int main(void) { return 0; }\n"), ("test.d/x", "")]);
    let of = |check: &str| proof(&["sh", "-c"], "c_proof.sh", &["sh", check, "cc"], tree, &[]).unwrap();
    for check in ["install", "import", "collect", "sample"] {
        assert_eq!(of(check)["ok"], true, "{check}: {}", of(check));
    }
    assert_eq!(of("sample")["passed"], serde_json::json!(["make test"]));
    files(tree, &[("a.c", "int main(void) { return 3; }\n")]);
    let failed = of("sample");
    assert_eq!(
        (failed["ok"].as_bool(), &failed["failed"]),
        (Some(false), &serde_json::json!(["make test"])),
        "{failed}"
    );
    files(tree, &[("a.c", "#include <rg_no_such_header.h>\nint main(void) { return 0; }\n")]);
    let broken = of("import");
    assert!(broken["ok"] == false && broken["detail"].as_str().unwrap().contains("rg_no_such_header.h"), "{broken}");
    // A file of the goal's name is no goal.
    files(tree, &[("Makefile", "all:\n\t@true\n"), ("test", "")]);
    assert_eq!(of("collect")["collected"], 0);
}

#[test]
fn a_node_package_loads_and_its_tests_pass() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    let place = tree.display().to_string();
    files(
        tree,
        &[
            ("package.json", r#"{"name": "own", "main": "./lib/index.js", "scripts": {"test": "node --test"}}"#),
            ("lib/index.js", "module.exports = 1;\n"),
            ("test/a.test.js", "const { test } = require('node:test');\ntest('holds', () => {});\n"),
            ("test/helper.js", "exports.x = 1;\n"),
        ],
    );
    let of = |check: &str| proof(&["node", "-e"], "node_proof.js", &[check, &place], tree, &[]);
    let Some(install) = of("install") else { return };
    assert_eq!(install["ok"], true, "{install}");
    assert_eq!(of("import").unwrap()["ok"], true);
    assert_eq!(of("collect").unwrap()["collected"], 1);
    let sample = of("sample").unwrap();
    assert_eq!((sample["ok"].as_bool(), sample["failed"].as_array().map(Vec::len)), (Some(true), Some(0)), "{sample}");
    assert!(sample["passed"].to_string().contains("test/a.test.js: "), "{sample}");
    files(tree, &[("test/a.test.js", "const { test } = require('node:test');\ntest('holds', () => { throw 1; });\n")]);
    assert_eq!(of("sample").unwrap()["ok"], false);
    files(tree, &[("lib/index.js", "require('rg-not-there');\n")]);
    let broken = of("import").unwrap();
    assert!(broken["ok"] == false && broken["detail"].as_str().unwrap().contains("rg-not-there"), "{broken}");
    files(
        tree,
        &[(
            "package.json",
            r#"{"main": "dist/a.js", "devDependencies": {"jest": "^29", "gone": "1"}, "scripts": {"test": "jest"}}"#,
        )],
    );
    assert!(of("import").unwrap()["detail"].as_str().unwrap().contains("not built"));
    assert!(of("install").unwrap()["detail"].as_str().unwrap().contains("gone is not installed"));
    assert!(of("collect").unwrap()["detail"].as_str().unwrap().contains("jest: not found"));
}

#[test]
fn a_rust_crate_compiles_lists_and_passes() {
    if !has("cargo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    let lib = "#[test]\nfn holds() {}\n#[test]\n#[should_panic]\nfn panics() { panic!() }\n";
    files(
        tree,
        &[
            ("Cargo.toml", "[package]\nname = 'own'\nversion = '0.1.0'\nedition = '2021'\n[workspace]\n"),
            ("src/lib.rs", lib),
        ],
    );
    let of = |check: &str| {
        proof(&["sh", "-c"], "rust_proof.sh", &["sh", check, "cargo"], tree, &[("CARGO_TARGET_DIR", "target")]).unwrap()
    };
    assert_eq!(of("import")["ok"], true);
    assert_eq!(of("collect")["collected"], 2);
    let sample = of("sample");
    assert_eq!(sample["passed"].as_array().map(Vec::len), Some(2), "{sample}");
    files(tree, &[("src/lib.rs", "#[test]\nfn holds() { assert!(false) }\n")]);
    assert_eq!((of("sample")["ok"].as_bool(), of("sample")["failed"].as_array().map(Vec::len)), (Some(false), Some(1)));
    files(tree, &[("src/lib.rs", "fn broken( {}\n")]);
    assert_eq!(of("import")["ok"], false);
    files(
        tree,
        &[(
            "Cargo.toml",
            "[package]\nname = 'own'\nversion = '0.1.0'\n[dependencies]\nrg-no-such-crate = '1'\n[workspace]\n",
        )],
    );
    assert_eq!(of("install")["ok"], false);
}
