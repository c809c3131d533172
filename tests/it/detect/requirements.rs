//! What projects want, as the scripts read it under this machine's interpreters.

use std::process::Command;

use serde_json::Value;

use super::{files, last_line, run, script};

/// What the script says of a tree, or `None` without the interpreter.
fn python(mode: &str, tree: &[(&str, &str)]) -> Option<Value> {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), tree);
    let mut command = Command::new("python3");
    command.args(["-I", "-c", &script("python_requirements.py"), mode]).arg(folder.path());
    Some(last_line(&run(&mut command)?))
}

#[track_caller]
fn wants(mode: &str, tree: &[(&str, &str)], expected: &[&str]) -> Value {
    let Some(said) = python(mode, tree) else { return Value::Null };
    let packages: Vec<&str> = said["packages"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(packages, expected, "{said:#}");
    said
}

#[test]
fn python_projects_by_their_metadata() {
    let pep621 = "[project]\nname = 'Own'\ndependencies = ['a>=1', 'b; python_version < \"3.9\"']\n\
                  [project.optional-dependencies]\ntest = ['pytest>=7', 'own[extra]']\nextra = ['x']\ndocs = ['sphinx']\n";
    wants("tests", &[("pyproject.toml", pep621)], &["a>=1", "b; python_version < \"3.9\"", "pytest>=7", "x"]);
    wants("runtime", &[("pyproject.toml", pep621)], &["a>=1", "b; python_version < \"3.9\""]);
    let groups = "[project]\nname = 'o'\n[dependency-groups]\nunit = ['u']\n\
                  tests = ['t', {include-group = 'Unit'}]\ndev = ['linter']\n";
    wants("tests", &[("pyproject.toml", groups)], &["t", "u", "pytest"]);
    let dev = "[project]\nname = 'o'\n[dependency-groups]\ndev = ['pytest', 'd']\n";
    wants("tests", &[("pyproject.toml", dev)], &["pytest", "d"]);
    let poetry = "[tool.poetry]\nname = 'o'\n[tool.poetry.dependencies]\npython = '^3.8'\na = '^1.2'\nb = '~0.3.1'\n\
                  c = {version = '*', optional = true}\nd = {git = 'https://x/d.git'}\n\
                  e = {version = '>=2', extras = ['z'], markers = \"sys_platform == 'linux'\"}\n\
                  [tool.poetry.group.test.dependencies]\npytest = '^7'\n";
    let said = wants(
        "tests",
        &[("pyproject.toml", poetry)],
        &["a>=1.2,<2", "b>=0.3.1,<0.4", "d", "e[z]>=2; sys_platform == 'linux'", "pytest>=7,<8"],
    );
    assert!(said.is_null() || said["notes"].to_string().contains('d'), "{said}");
    let cfg = "[metadata]\nname = o\n[options]\ninstall_requires =\n    a\n    b>1\n[options.extras_require]\ntesting =\n    t\n";
    wants(
        "tests",
        &[("setup.cfg", cfg), ("setup.py", "from setuptools import setup\nsetup()")],
        &["a", "b>1", "t", "pytest"],
    );
    let one_line = "[metadata]\nname = o\n[options]\ninstall_requires = a; b>1; python_version<'9'; c\n\
                    [options.extras_require]\ntest = pytest; t\n";
    wants(
        "tests",
        &[("setup.cfg", one_line), ("setup.py", "from setuptools import setup\nsetup()")],
        &["a", "b>1; python_version<'9'", "c", "pytest", "t"],
    );
    let dynamic = "[project]\nname = 'o'\ndynamic = ['dependencies']\n\
                   [tool.setuptools.dynamic]\ndependencies = {file = ['req/in.txt']}\n";
    wants(
        "runtime",
        &[("pyproject.toml", dynamic), ("req/in.txt", "a==1\n-r more.txt\n"), ("req/more.txt", "b # c\n")],
        &["a==1", "b"],
    );
}

#[test]
fn a_setup_script_runs_with_stand_ins_for_what_is_not_there() {
    let setup = "import os, numpy, gone.deep\nfrom setuptools import setup, find_packages, Extension\n\
                 from setuptools.command.build_ext import build_ext\nfrom nowhere import helper\n\
                 class B(build_ext):\n    pass\n\
                 here = os.path.dirname(os.path.abspath(__file__))\n\
                 req = open(os.path.join(here, 'r.txt')).read().split()\n\
                 setup(name='o', version=helper('x'), packages=find_packages(), install_requires=req,\n\
                 \x20     ext_modules=[Extension('a', ['a.c'], include_dirs=[numpy.get_include()])],\n\
                 \x20     extras_require={'tests': ['t'], ':python_version<\"3\"': ['old']}, cmdclass={'b': B})\n\
                 print('noise')\n";
    wants(
        "tests",
        &[("setup.py", setup), ("r.txt", "a b==2")],
        &["a", "b==2", "old; python_version<\"3\"", "t", "pytest"],
    );
    // One that ends badly says nothing, and that is told.
    let said = wants("runtime", &[("setup.py", "raise SystemExit('no')")], &[]);
    assert!(said.is_null() || said["notes"].to_string().contains("setup.py"), "{said}");
}

#[test]
fn requirements_files_and_test_tools() {
    let tree: &[(&str, &str)] = &[
        (
            "requirements.txt",
            "a>=1 \\\n  ,<2  # why\n--index-url https://evil\n-e .\nhttps://x/y.whl\ngit+https://h/n.git#egg=named\n",
        ),
        ("requirements-test.txt", "-r requirements.txt\n-c limits.txt\nt --hash=sha256:aa\n"),
        ("limits.txt", "t==3\nunused==1\n"),
        ("a.py", ""),
    ];
    let said = wants("files", tree, &["a>=1 ,<2", "named", "t", "pytest", "t==3"]);
    assert!(
        said.is_null()
            || (said["notes"].to_string().contains("--index-url") && !said["packages"].to_string().contains("evil"))
    );
    let tox = "[tox]\nenvlist = py38\n[testenv]\ndeps =\n    pytest>5\n    py38: odd\n    -r{toxinidir}/t.txt\n";
    wants(
        "tests",
        &[
            ("setup.py", "from setuptools import setup\nsetup(install_requires=['a'])"),
            ("tox.ini", tox),
            ("t.txt", "x"),
        ],
        &["a", "pytest>5", "x"],
    );
    let nox = "import nox\n@nox.session\ndef tests(session):\n    session.install('-e', '.', 'pytest', 'y')\n";
    wants("tests", &[("pyproject.toml", "[project]\nname='o'"), ("noxfile.py", nox)], &["pytest", "y"]);
    // A file that leads out of the tree is not read.
    wants("files", &[("requirements.txt", "-r ../../../../../../etc/hostname\nz\n")], &["z", "pytest"]);
}

#[test]
fn plugins_that_the_projects_own_tests_need() {
    let tree: &[(&str, &str)] = &[
        (
            "pyproject.toml",
            "[project]\nname='o'\n[tool.pytest.ini_options]\naddopts = ['--cov=o', '-n', 'auto', '-p', 'pytest_timeout']\nasyncio_mode = 'auto'\nrequired_plugins = ['pytest-order']\n",
        ),
        (
            "tests/test_a.py",
            "from hypothesis import given\nimport helper\n\ndef test_a(mocker, tmp_path, local):\n    pass\n",
        ),
        ("tests/conftest.py", "import pytest\n@pytest.fixture\ndef local(): pass\n"),
        ("tests/helper.py", ""),
    ];
    let plain = [
        "pytest",
        "pytest-cov",
        "pytest-xdist",
        "pytest-timeout",
        "pytest-asyncio",
        "pytest-order",
        "hypothesis",
        "pytest-mock",
    ];
    wants("tests", tree, &plain);
    let ini = "[pytest]\naddopts = --cov-report=xml --timeout=3 --ds x\n";
    wants("tests", &[("pytest.ini", ini), ("a.py", "")], &["pytest", "pytest-cov", "pytest-timeout", "pytest-django"]);
    let said =
        wants("tests", &[("tests/test_u.py", "import unittest\nclass T(unittest.TestCase):\n    pass\n")], &["pytest"]);
    assert!(said.is_null() || said["framework"] == "unittest", "{said}");
}

#[test]
fn locks_pin_what_is_asked_for_and_what_that_surely_needs() {
    let lock = "version = 1\n[[package]]\nname = 'a'\nversion = '1.5'\ndependencies = [{name = 'deep'}, {name = 'win', marker = \"sys_platform == 'win32'\"}]\n\
                [[package]]\nname = 'deep'\nversion = '0.1'\n[[package]]\nname = 'win'\nversion = '9'\n[[package]]\nname = 'other'\nversion = '2'\n\
                [[package]]\nname = 'own'\nversion = '0'\nsource = {editable = '.'}\n";
    let project = "[project]\nname = 'own'\ndependencies = ['a>=1', 'free']\n[dependency-groups]\ntest = ['pytest']\n";
    wants("locked", &[("pyproject.toml", project), ("uv.lock", lock)], &["a==1.5", "free", "pytest", "deep==0.1"]);
    let pipfile =
        "{\"default\": {\"a\": {\"version\": \"==1.5\"}}, \"develop\": {\"pytest\": {\"version\": \"==7.0\"}}}";
    wants(
        "locked",
        &[("setup.py", "from setuptools import setup\nsetup(install_requires=['a'])"), ("Pipfile.lock", pipfile)],
        &["a==1.5", "pytest==7.0"],
    );
}

#[test]
fn the_small_toml_reader_agrees_with_the_real_one() {
    let check = r##"
import sys
source = open(sys.argv[1]).read()
space = {"__name__": "script"}
exec(compile(source, "script", "exec"), space)
try:
    import tomllib
except ImportError:
    sys.exit(0)
for text in [
    "a = 1\nb = 'x'\n[t]\nc = [1, 'two', [3]]\n",
    "[a.b.\"c d\"]\nk = {x = 1, y = [true, false], z.w = 'v'}\n",
    "[[p]]\nn = '1'\n[[p]]\nn = '2'\n[p.q]\nr = 3\n",
    "s = \"a\\tb\\u00e9\\\"q\\\"\"\nm = \"\"\"\none\n  two\"\"\"\nl = '''\nraw \\n'''\n",
    "list = [ # comment\n  'a', # another\n\n  'b',\n]\nx.y.z = 'deep'\n",
    "# only a comment\r\n[w]\r\nk='v'\r\n",
]:
    expected, found = tomllib.loads(text), space["SmallToml"](text).document()
    assert expected == found, (text, expected, found)
for text in ["a = ", "[a", "a = [1 2]", "= 1", "a = 'open", "[a]\nb = 1\n[a.b.c]\nd = 1"]:
    try:
        space["SmallToml"](text).document()
    except (ValueError, AttributeError, TypeError):
        continue
    raise AssertionError(text)
"##;
    let place = crate::support::root().join("environments/scripts/python_requirements.py");
    let Some(ran) = run(Command::new("python3").args(["-I", "-c", check]).arg(place)) else { return };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn node_projects_by_their_package_json() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = r#"{"dependencies": {"a": "^1", "@s/b": "~2.0", "local": "file:../x", "g": "github:o/r"},
        "devDependencies": {"t": "", "a": "^9"}, "peerDependencies": {"al": "npm:real@3"}, "optionalDependencies": {"../evil": "1"}}"#;
    files(folder.path(), &[("package.json", manifest)]);
    let mut command = Command::new("node");
    command.args(["-e", &script("node_requirements.js")]).arg(folder.path());
    let Some(ran) = run(&mut command) else { return };
    let said = last_line(&ran);
    assert_eq!(said["packages"], serde_json::json!(["a@^1", "@s/b@~2.0", "g", "t", "al@npm:real@3"]), "{said}");
    assert_eq!(said["notes"].as_array().unwrap().len(), 2, "{said}");
    // Without a manifest, or with a broken one, nothing is wanted.
    files(folder.path(), &[("package.json", "{")]);
    let said = last_line(&run(&mut command).unwrap());
    assert_eq!(said["packages"], serde_json::json!([]), "{said}");
}
