//! A compiled extension that a revision changes: the tests must run what the revision says and not what was compiled before.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::docker;
use crate::proof::index::Index;
use crate::support::{Place, Ran, loudly};
use crate::truth::fixture::{Fixture, commits, difference, instance};

const SETUP: &str = "\
from setuptools import Extension, setup
setup(name='fast', version='1.0', py_modules=['slow'], ext_modules=[Extension('fast', ['fast.c'])])
";

fn source(body: &str) -> String {
    format!(
        "#include <Python.h>\n\
         static PyObject *answer(PyObject *self, PyObject *none) {{ {body} }}\n\
         static PyMethodDef methods[] = {{{{\"answer\", answer, METH_NOARGS, NULL}}, {{NULL, NULL, 0, NULL}}}};\n\
         static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, \"fast\", NULL, -1, methods}};\n\
         PyMODINIT_FUNC PyInit_fast(void) {{ return PyModule_Create(&module); }}\n"
    )
}

const ORACLE: &str = "\
import unittest
import fast

class T(unittest.TestCase):
    def test_answer(self):
        self.assertEqual(fast.answer(), 43)
";

/// A folder with a wheel of setuptools and its version, as interpreters bring it; nothing where there is none, or no
/// compiler with Python's headers.
fn setuptools() -> Option<(PathBuf, String)> {
    const LOOK: &str = r#"
import glob, os, sysconfig
places = ["/usr/share/python-wheels"]
try:
    import ensurepip
    places.insert(0, os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))
except ImportError:
    pass
found = [w for p in places for w in glob.glob(os.path.join(p, "setuptools-*.whl"))]
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
if found and os.path.exists(header) and os.system("cc --version >/dev/null 2>&1") == 0:
    print(found[0])
"#;
    let output = Command::new("python3").args(["-I", "-c", LOOK]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let version = path.file_name()?.to_str()?.split('-').nth(1)?.to_owned();
    Some((path.parent()?.to_owned(), version))
}

/// Scores a project with a compiled extension in a sandbox of this kind: one instance whose environment compiles again
/// after a patch, and one whose does not.
fn scored(sandbox: &str) -> Option<Value> {
    let Some(((wheels, version), index)) = setuptools().zip(Index::serve(Vec::new())) else {
        loudly("LEFT OUT, as there is no Python with headers and setuptools, or no C compiler: a compiled extension");
        return None;
    };
    let place = Place::new();
    let mut fixture = Fixture::new(&place);
    let repository = fixture.repository("fast");
    let tree = |body: &str, python: &str| -> BTreeMap<String, String> {
        let files = [("setup.py", SETUP.to_owned()), ("fast.c", source(body)), ("slow.py", python.to_owned())];
        files.into_iter().map(|(path, text)| (path.to_owned(), text)).collect()
    };
    let wrong = "return PyLong_FromLong(42);";
    let right = "return PyLong_FromLong(43);";
    let (head, merged) = commits(&repository, &tree(wrong, "VALUE = 1\n"), &tree(right, "VALUE = 1\n"));
    let compile = "python setup.py --quiet build_ext --inplace";
    let patch = |body: &str, python: &str| difference(&repository, &head, &tree(body, python));
    let patches = [
        ("right", patch("long value = 40; return PyLong_FromLong(value + 3);", "VALUE = 1\n")),
        ("python-only", patch(wrong, "VALUE = 43\n")),
        ("broken", patch("return PyLong_FromLong(43)", "VALUE = 1\n")),
    ];
    for (number, rebuild) in [(1, json!([compile])), (2, json!([]))] {
        // Without a control that would notice, the second one's verdicts stand as they are.
        let control = (number == 1).then_some(merged.as_str());
        let mut one = instance("fast", number, &head, control);
        one["language"] = json!("Python");
        one["environment"] = json!({
            "language": "python", "packages": [format!("setuptools=={version}")], "project": "path",
            "steps": [compile], "rebuild": rebuild,
        });
        one["comments"] = json!([{"id": "c1", "text": "One more.", "test": "c1_test.py", "framework": "unittest"}]);
        let id = fixture.add(one, &[("c1_test.py", ORACLE)]);
        for (arm, patch) in &patches {
            fixture.revise(&id, arm, patch);
        }
    }
    fixture.import();
    let mirrors = place.join("mirrors").display().to_string();
    let arguments = ["score", "bench", "--sandbox", sandbox, "--mirrors", &mirrors, "--out", "run", "--json"];
    let mut command = if sandbox == "docker" {
        // A base with a C compiler and Python's headers, and the engine.
        docker::base::root();
        docker::score::command(&place, &arguments)
    } else {
        place.command(&arguments)
    };
    command.env("PIP_INDEX_URL", index.url()).env("PIP_FIND_LINKS", wheels).env("no_proxy", "127.0.0.1");
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    Some(ran.json())
}

/// Verdict and reason of an arm in the instance of a pull request.
fn verdict<'a>(report: &'a Value, pull: u64, arm: &str) -> (&'a str, &'a str) {
    let rows = report["verdicts"].as_array().unwrap();
    let is_it = |row: &&Value| {
        row["arm"] == arm && row["instance_id"].as_str().unwrap().starts_with(&format!("truth__fast-{pull}@"))
    };
    let row = rows.iter().find(is_it).unwrap();
    (row["verdict"].as_str().unwrap(), row["reason"].as_str().unwrap_or_default())
}

fn compiled_again(sandbox: &str) {
    let Some(report) = scored(sandbox) else { return };
    let rows = report["verdicts"].as_array().unwrap();
    let where_they_ran = if sandbox == "docker" { &["container"][..] } else { &["full", "userns"] };
    for row in rows.iter().filter(|row| !row["isolation"].is_null()) {
        assert!(where_they_ran.contains(&row["isolation"]["level"].as_str().unwrap()), "{row:#}");
    }
    assert_eq!(verdict(&report, 1, "merged").0, "pass", "{report:#}");
    assert_eq!(verdict(&report, 1, "right"), ("pass", ""), "{report:#}");
    assert_eq!(verdict(&report, 1, "python-only"), ("fail", "failed"), "{report:#}");
    assert_eq!(verdict(&report, 1, "broken"), ("fail", "errored(compile)"), "{report:#}");
    // Without compiling again the tests run what was compiled at head: a right revision fails, and one that does not
    // even compile does not show.
    assert_eq!(verdict(&report, 2, "right"), ("fail", "failed"), "{report:#}");
    assert_eq!(verdict(&report, 2, "broken"), ("fail", "failed"), "{report:#}");
}

#[test]
fn a_compiled_extension_is_compiled_again_in_the_embedded_sandbox() {
    compiled_again("local");
}

#[test]
fn a_compiled_extension_is_compiled_again_in_containers() {
    if docker::is_here() {
        compiled_again("docker");
    }
}
