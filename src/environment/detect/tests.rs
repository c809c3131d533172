//! What small trees that we wrote are detected as: file contents → language, version, source.

use super::{Detected, detect};
use crate::environment::Definitions;
use crate::model::ProjectMode;

/// Detects in a tree of these files.
fn of(files: &[(&str, &str)], date: &str) -> Option<Detected> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let place = folder.path().join(name);
        fs_err::create_dir_all(place.parent().unwrap()).unwrap();
        fs_err::write(place, text).unwrap();
    }
    let date = (!date.is_empty()).then(|| date.parse().unwrap());
    detect(&Definitions::load(&[]).unwrap(), folder.path(), date, None)
}

#[track_caller]
fn wants(files: &[(&str, &str)], date: &str, language: &str, version: Option<&str>, source: &str) -> Detected {
    let detected = of(files, date).unwrap();
    assert_eq!(detected.language, language, "{detected:#?}");
    assert_eq!(detected.version.as_deref(), version, "{detected:#?}");
    assert!(detected.version_source.contains(source), "{detected:#?}");
    detected
}

const PY: (&str, &str) = ("p/__init__.py", "");

#[test]
fn python_versions_by_what_projects_say() {
    let pyproject = |text: &'static str| ("pyproject.toml", text);
    let classified = "[project]\nname = 'p'\nrequires-python = '>=3.7'\nclassifiers = [\n\
        'Programming Language :: Python :: 3',\n 'Programming Language :: Python :: 3.8',\n\
        'Programming Language :: Python :: 3.10', 'Programming Language :: Python :: 3.11',\n]\n";
    for (files, date, version, source) in [
        // Nothing is said: the newest that was half a year old, not the newest of all.
        (vec![], "2022-03-01", "3.9", "nothing is declared"),
        (vec![], "2022-05-01", "3.10", "180 days at 2022-05-01"),
        (vec![], "2013-01-01", "2.7", "nothing"),
        (
            vec![pyproject("[project]\nrequires-python = '>=3.8'")],
            "2023-01-01",
            "3.10",
            "pyproject.toml:2: requires-python `>=3.8`",
        ),
        (vec![pyproject("[project]\nrequires-python = '>=3.6,<3.10'")], "2024-01-01", "3.9", "requires-python"),
        // None of the range is old enough, or out at all.
        (vec![pyproject("[project]\nrequires-python = '>=3.12'")], "2023-11-01", "3.12", "the oldest that was out"),
        (vec![pyproject("[project]\nrequires-python = '>=3.13'")], "2023-11-01", "3.13", "none was out"),
        // What the project lists counts without a wait, but not before it is out.
        (vec![pyproject(classified)], "2023-01-01", "3.11", "classifiers: the newest of 3.8, 3.10, 3.11"),
        (vec![pyproject(classified)], "2022-06-01", "3.10", "classifiers"),
        (
            vec![(
                "setup.py",
                "setup(python_requires='>=3.6',\n classifiers=['Programming Language :: Python :: 3.7'])",
            )],
            "2020-01-01",
            "3.7",
            "setup.py:2: classifiers",
        ),
        (
            vec![("setup.py", "setup(python_requires = \">=3.6\")")],
            "2020-01-01",
            "3.7",
            "setup.py:1: python_requires `>=3.6`",
        ),
        (vec![("setup.cfg", "[options]\npython_requires = >=3.6 ; note\n")], "2020-01-01", "3.7", ""),
        (vec![pyproject("[tool.poetry.dependencies]\npython = '^3.8'")], "2023-01-01", "3.10", "poetry `^3.8`"),
        (vec![pyproject("[tool.poetry.dependencies]\npython = '~3.9'")], "2023-01-01", "3.9", "poetry"),
        // An exact one goes before all, unless the range excludes it.
        (
            vec![(".python-version", "# ours\n3.9.16\n"), pyproject(classified)],
            "2023-01-01",
            "3.9",
            ".python-version:2: .python-version `3.9.16`",
        ),
        (vec![(".python-version", "3.6.1\n"), pyproject(classified)], "2023-01-01", "3.11", "classifiers"),
        (vec![(".python-version", "pypy3.9-7\n")], "2022-05-01", "3.10", "nothing"),
        (vec![("runtime.txt", "python-3.8.12")], "2022-05-01", "3.8", "runtime.txt:1"),
        (vec![(".tool-versions", "nodejs 18.1.0\npython 3.8.2\n")], "2022-05-01", "3.8", ".tool-versions:2: asdf"),
        (vec![("Pipfile", "[requires]\npython_version = \"3.7\"")], "2022-05-01", "3.7", "Pipfile:2"),
        (
            vec![("tox.ini", "[tox]\nenvlist =\n    py{37,38}-x,\n    py39, lint\n[testenv]\n")],
            "2023-05-01",
            "3.9",
            "tox.ini:3: envlist: the newest of 3.7, 3.8, 3.9",
        ),
        (vec![("noxfile.py", "@nox.session(python=[\"3.8\", \"3.10\"])")], "2023-05-01", "3.10", "noxfile.py"),
        (
            vec![(".github/workflows/ci.yml", "      python-version: ['3.8', \"3.9\"]\n")],
            "2023-05-01",
            "3.9",
            ".github/workflows/ci.yml:1",
        ),
        (
            vec![(".github/workflows/ci.yml", "python-version:\n  - 3.8\n  - '3.10'\nother:\n  - 3.11")],
            "2023-05-01",
            "3.10",
            "3.8, 3.10 ",
        ),
        (
            vec![
                (".github/workflows/a.yml", "python-version: 3.8"),
                (".github/workflows/b.yml", "python-version: '3.9'"),
            ],
            "2023-05-01",
            "3.9",
            "3.8, 3.9",
        ),
        (
            vec![(
                ".github/workflows/ci.yml",
                "python-version: ${{ matrix.python-version }}\n# python-version: 3.12\n",
            )],
            "2022-05-01",
            "3.10",
            "nothing",
        ),
        (
            vec![(".travis.yml", "python:\n  - 3.6\n  - \"3.7\"\ninstall:\n  - 3.9\n")],
            "2020-05-01",
            "3.7",
            ".travis.yml",
        ),
        (
            vec![("environment.yml", "dependencies:\n  - python>=3.8,<3.10\n")],
            "2023-05-01",
            "3.9",
            "conda environment `>=3.8,<3.10`",
        ),
        // A list that nobody kept up does not count, unless the range ends with it.
        (
            vec![(
                "setup.py",
                "setup(python_requires='>=3.6',\n classifiers=['Programming Language :: Python :: 3.8'])",
            )],
            "2024-10-24",
            "3.12",
            "setup.py:1: python_requires",
        ),
        (
            vec![(
                "setup.py",
                "setup(python_requires='>=3.6,<3.9',\n classifiers=['Programming Language :: Python :: 3.8'])",
            )],
            "2024-10-24",
            "3.8",
            "classifiers",
        ),
        // Without a date the newest that is known counts as wanted.
        (vec![pyproject("[project]\nrequires-python = '<3.12'")], "", "3.11", "no date is known"),
    ] {
        let files: Vec<(&str, &str)> = files.into_iter().chain([PY]).collect();
        wants(&files, date, "python", Some(version), source);
    }
}

#[test]
fn other_languages_versions() {
    for (files, date, language, version, source) in [
        (
            vec![("package.json", "{\"engines\": {\"node\": \">=14\"}}"), ("index.js", "")],
            "2022-11-01",
            "node",
            Some("18"),
            "engines `>=14`",
        ),
        (
            vec![("package.json", "{\"engines\": {\"node\": \">=14\"}}"), ("index.js", "")],
            "2022-05-01",
            "node",
            Some("16"),
            "engines",
        ),
        (
            vec![("package.json", "{}"), (".nvmrc", "lts/hydrogen\n"), ("index.ts", "")],
            "2024-05-01",
            "node",
            Some("18"),
            ".nvmrc",
        ),
        (
            vec![("package.json", "{}"), (".nvmrc", "v20.1.0\n"), ("index.ts", "")],
            "2024-05-01",
            "node",
            Some("20"),
            ".nvmrc `v20.1.0`",
        ),
        (
            vec![("package.json", "{}"), (".github/workflows/ci.yml", "node-version: [16.x, 18.x, 21]"), ("a.js", "")],
            "2024-05-01",
            "node",
            Some("21"),
            "16, 18, 21",
        ),
        (
            vec![("Cargo.toml", "[package]\nname = 'a'\nrust-version = '1.63'"), ("src/lib.rs", "")],
            "2023-06-02",
            "rust",
            Some("1.70"),
            "rust-version `1.63`",
        ),
        (
            vec![("Cargo.toml", ""), ("rust-toolchain.toml", "[toolchain]\nchannel = '1.72.1'"), ("src/lib.rs", "")],
            "2024-01-01",
            "rust",
            Some("1.72"),
            "rust-toolchain.toml:2",
        ),
        (
            vec![("Cargo.toml", ""), ("rust-toolchain", "nightly-2023-01-01\n"), ("src/lib.rs", "")],
            "2023-06-02",
            "rust",
            Some("1.70"),
            "nothing",
        ),
        (
            vec![("go.mod", "module x\n\ngo 1.19\n"), ("a.go", "")],
            "2023-03-01",
            "go",
            Some("1.20"),
            "go.mod:3: go `1.19`",
        ),
        (
            vec![("go.mod", "module x\ngo 1.21\ntoolchain go1.22.1\n"), ("a.go", "")],
            "2024-05-01",
            "go",
            Some("1.22"),
            "toolchain",
        ),
        (
            vec![
                ("pom.xml", "<properties><maven.compiler.source>1.8</maven.compiler.source></properties>"),
                ("src/main/java/A.java", ""),
            ],
            "2024-01-01",
            "java",
            Some("8"),
            "pom.xml:1",
        ),
        (
            vec![
                ("build.gradle", "java { toolchain { languageVersion = JavaLanguageVersion.of(17) } }"),
                ("src/main/java/A.java", ""),
            ],
            "2024-01-01",
            "java",
            Some("17"),
            "toolchain",
        ),
        (vec![("build.gradle", ""), ("src/main/java/A.java", "")], "2024-01-01", "java", Some("21"), "nothing"),
        (vec![("Makefile", ""), ("a.c", ""), ("a.h", "")], "2024-01-01", "c", None, "any version"),
        (vec![("CMakeLists.txt", ""), ("src/a.cpp", "")], "2024-01-01", "c", None, "any version"),
        (vec![("run.sh", "")], "2024-01-01", "shell", None, "any version"),
    ] {
        wants(&files, date, language, version, source);
    }
}

#[test]
fn the_language_is_that_of_most_sources_with_a_manifest_in_front() {
    let many = |ending: &'static str, n: usize| (0..n).map(move |i| (format!("src/f{i}.{ending}"), String::new()));
    let language = |files: Vec<(String, String)>| {
        let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        of(&files, "2024-01-01").map(|detected| detected.language)
    };
    let file = |name: &str| (name.to_owned(), String::new());
    assert_eq!(language(vec![]), None);
    assert_eq!(language(vec![file("README.md"), file("Makefile")]), None);
    assert_eq!(language(many("py", 2).chain([file("Makefile"), file("x.c")]).collect()).as_deref(), Some("python"));
    assert_eq!(
        language(many("py", 3).chain([file("pyproject.toml")]).chain(many("c", 5)).collect()).as_deref(),
        Some("python")
    );
    assert_eq!(
        language(many("rs", 9).chain([file("Cargo.toml"), file("setup.py"), file("t.py")]).collect()).as_deref(),
        Some("rust")
    );
    assert_eq!(
        language(many("py", 9).chain([file("Cargo.toml"), file("setup.py"), file("t.rs")]).collect()).as_deref(),
        Some("python")
    );
    assert_eq!(language(vec![file("package.json")]).as_deref(), Some("node"));
    // What is vendored, built or shrunk says nothing.
    let vendored = (0..20).map(|i| file(&format!("node_modules/m/{i}.js"))).chain([file("a.min.js"), file("b.min.js")]);
    assert_eq!(language(vendored.chain([file("main.go")]).collect()).as_deref(), Some("go"));
}

#[test]
fn a_named_language_is_taken_at_its_word() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("pyproject.toml"), "[project]").unwrap();
    let definitions = Definitions::load(&[]).unwrap();
    let detected = detect(&definitions, folder.path(), None, Some("JavaScript")).unwrap();
    assert_eq!((detected.language.as_str(), detected.manifest()), ("node", None));
    let detected = detect(&definitions, folder.path(), None, Some("cobol")).unwrap();
    assert_eq!((detected.language.as_str(), detected.manifest()), ("python", Some("pyproject.toml")));
}

#[test]
fn other_versions_come_nearest_first_and_what_was_out_before_what_was_not() {
    let python = wants(
        &[("pyproject.toml", "[project]\nrequires-python = '>=3.8'"), PY],
        "2023-01-01",
        "python",
        Some("3.10"),
        "requires-python",
    );
    let versions: Vec<&str> = python.versions().collect();
    assert_eq!(versions, ["3.10", "3.9", "3.8", "3.11", "3.12", "3.13", "3.14", "3.15"]);
    assert!(python.alternatives[3].why.contains("out later") || python.alternatives[3].why.contains("was out"));
    let listed = wants(
        &[
            (
                "pyproject.toml",
                "[project]\nrequires-python = '>=3.8'\nclassifiers = ['Programming Language :: Python :: 3.8', 'Programming Language :: Python :: 3.10']",
            ),
            PY,
        ],
        "2023-01-01",
        "python",
        Some("3.10"),
        "classifiers",
    );
    assert_eq!(listed.versions().take(3).collect::<Vec<_>>(), ["3.10", "3.8", "3.9"]);
    let rust = wants(
        &[("Cargo.toml", "[package]\nrust-version = '1.90'"), ("a.rs", "")],
        "2026-01-01",
        "rust",
        Some("1.92"),
        "",
    );
    assert_eq!(
        rust.versions().collect::<Vec<_>>(),
        ["1.92", "1.93", "1.94", "1.95", "1.96", "1.97", "1.98", "1.91", "1.90"]
    );
}

#[test]
fn strategies_follow_the_files_and_a_bare_tree_is_taken_by_its_path() {
    let names = |files: &[(&str, &str)]| -> Vec<String> {
        of(files, "2024-01-01").unwrap().strategies.into_iter().map(|strategy| strategy.name).collect()
    };
    let bare = of(&[("a.py", "")], "2024-01-01").unwrap();
    assert_eq!(bare.strategies.len(), 1);
    assert_eq!((bare.strategies[0].project, bare.manifest()), (ProjectMode::Path, None));
    assert_eq!(bare.strategies[0].packages, ["pytest"]);
    // A file with the settings of tools alone is no project to install.
    let tools = names(&[("pyproject.toml", "[tool.black]\nline-length = 100"), ("a.py", "")]);
    assert!(tools.iter().all(|name| name.starts_with("by path")), "{tools:?}");
    let project = names(&[("pyproject.toml", "[project]\nname = 'a'"), ("a.py", "")]);
    assert_eq!(project.len(), 5, "{project:?}");
    assert!(project[0].starts_with("editable, with the test") && project[3].starts_with("installed"));
    let locked = names(&[("pyproject.toml", "[project]\nname = 'a'"), ("uv.lock", ""), ("a.py", "")]);
    assert!(locked[0].contains("locked"), "{locked:?}");
    let node = names(&[("package.json", "{\"scripts\": {\"build\": \"tsc\"}}"), ("a.ts", "")]);
    assert!(node[0].contains("build script"), "{node:?}");
    assert_eq!(names(&[("Makefile", ""), ("a.c", "")]), ["make", "the compiler alone"]);
    assert_eq!(names(&[("configure.ac", ""), ("a.c", "")])[0], "autoreconf, configure and make");
}

#[test]
fn what_is_not_understood_is_noted() {
    let odd = wants(
        &[("pyproject.toml", "[project]\nrequires-python = 'three'"), (".python-version", "system\n"), PY],
        "2022-05-01",
        "python",
        Some("3.10"),
        "nothing",
    );
    assert_eq!(odd.notes.len(), 2, "{:?}", odd.notes);
    assert!(odd.notes[0].contains("three") && odd.notes[1].contains("system"), "{:?}", odd.notes);
    let node = wants(
        &[("package.json", "{\"engines\": {\"node\": \"~xx0x\"}}"), ("a.js", "")],
        "2022-11-01",
        "node",
        Some("18"),
        "nothing",
    );
    assert!(node.notes[0].contains("~xx0x"));
}

#[test]
fn links_out_of_the_tree_say_nothing() {
    let outside = tempfile::tempdir().unwrap();
    fs_err::write(outside.path().join("v"), "3.8\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("a.py"), "").unwrap();
    let link = |name: &str| fs_err::os::unix::fs::symlink(outside.path().join("v"), folder.path().join(name)).unwrap();
    link(".python-version");
    link("pyproject.toml");
    fs_err::os::unix::fs::symlink(outside.path(), folder.path().join(".github")).unwrap();
    let date = Some("2022-05-01".parse().unwrap());
    let detected = detect(&Definitions::load(&[]).unwrap(), folder.path(), date, None).unwrap();
    assert_eq!((detected.version.as_deref(), detected.manifest()), (Some("3.10"), None));
    // The same text in a plain file counts.
    fs_err::remove_file(folder.path().join(".python-version")).unwrap();
    fs_err::copy(outside.path().join("v"), folder.path().join(".python-version")).unwrap();
    let detected = detect(&Definitions::load(&[]).unwrap(), folder.path(), date, None).unwrap();
    assert_eq!(detected.version.as_deref(), Some("3.8"));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    #[test]
    fn no_file_makes_it_panic(text in "(\\PC|\\n){0,200}", version in "[0-9a-z.^~<>=!*x|, \"'\\[\\]{}-]{0,40}") {
        let quoted = version.replace(['\'', '\\'], "");
        let json = serde_json::json!({"engines": {"node": version}, "volta": {"node": version}}).to_string();
        let pyproject = format!("[project]\nrequires-python = '{quoted}'\nclassifiers = ['{quoted}']\n{text}");
        let workflow = format!("python-version: [{version}]\nnode-version: {version}\n{text}");
        let files = [
            (".python-version", version.as_str()), (".nvmrc", &version), (".tool-versions", &text), ("setup.py", &text),
            ("setup.cfg", &text), ("tox.ini", &text), ("package.json", &json), ("pyproject.toml", &pyproject),
            (".github/workflows/x.yml", &workflow), ("Cargo.toml", &text), ("go.mod", &text), ("pom.xml", &text), ("a.py", ""),
        ];
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let place = folder.path().join(name);
            fs_err::create_dir_all(place.parent().unwrap()).unwrap();
            fs_err::write(place, text).unwrap();
        }
        let definitions = Definitions::load(&[]).unwrap();
        for language in ["python", "node", "rust", "go", "java", "c"] {
            let date = Some(jiff::civil::date(2024, 1, 1));
            let detected = detect(&definitions, folder.path(), date, Some(language)).unwrap();
            proptest::prop_assert!(detected.versions().all(|v| v.starts_with(|c: char| c.is_ascii_digit())));
        }
    }
}
