"""Whether a Python environment works: `python_proof.py CHECK TREE MODE`, the last line is one JSON object.

CHECK  install  what is installed fits together, and the project itself is there in the modes that install it
       import   the project's top-level packages import, from the place that tests use
       collect  pytest (or unittest) collects a sample of the project's own test files
       sample   a sample of them passes

MODE is `path`, `editable`, `installed` or `auto` (told by what is there). The samples are the same ones every time.
"""

import ast
import io
import json
import os
import re
import subprocess
import sys
import time

MODE = sys.argv[3] if len(sys.argv) > 3 else "auto"
TREE = os.path.realpath(sys.argv[2])
COLLECTED_FILES, SAMPLED_FILES, SAMPLED_TESTS = 24, 8, 200
SECONDS = 150
NOT_PACKAGES = {
    "tests", "test", "testing", "docs", "doc", "examples", "example", "benchmarks", "benchmark", "scripts", "tools",
    "build", "dist", "node_modules", "venv", "env", "bin", "ci", "contrib", "notebooks", "asv_bench", "perf", "samples",
    "tutorials", "tutorial", "demo", "demos", "conftest", "setup", "noxfile", "tasks", "fabfile", "versioneer", "release",
    "integration", "utils", "e2e", "playground", "plugins", "dev", "packages", "sandbox", "_build_utils",
}


def answer(ok, detail, **more):
    more.update(ok=bool(ok), detail=detail)
    print("\n" + json.dumps(more), flush=True)
    sys.exit(0)


def normal(name):
    return re.sub(r"[-_.]+", "-", name or "").lower()


def own_distributions():
    """Distributions that were installed from the tree."""
    from importlib.metadata import distributions
    from urllib.parse import unquote

    found = []
    for distribution in distributions():
        try:
            text = distribution.read_text("direct_url.json")
            url = json.loads(text).get("url", "") if text else ""
        except (ValueError, OSError):
            url = ""
        place = os.path.realpath(unquote(url[len("file://"):])) if url.startswith("file://") else None
        folder = getattr(distribution, "_path", None)
        develop = folder is not None and os.path.realpath(str(folder)).startswith(TREE + os.sep)
        if place == TREE or develop:
            found.append(distribution)
    return found


# --------------------------------------------------------------------------------------------------------- install


def install():
    if MODE in ("editable", "installed") and not own_distributions():
        answer(False, "no distribution of the project is installed")
    problems, checked = broken_requirements()
    if problems:
        answer(False, "; ".join(problems[:8]), problems=problems[:50])
    answer(True, "%d installed distributions fit together" % checked)


def broken_requirements():
    """Requirements of installed distributions that are missing or of another version, as `pip check` sees them."""
    from importlib.metadata import distributions

    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError:
        try:
            from pip._vendor.packaging.requirements import InvalidRequirement, Requirement
        except ImportError:
            return missing_requirements()
    installed = {}
    for distribution in distributions():
        installed.setdefault(normal(distribution.metadata["Name"]), distribution)
    problems = []
    for name, distribution in sorted(installed.items()):
        for text in distribution.requires or []:
            try:
                requirement = Requirement(text)
                if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                    continue
            except (InvalidRequirement, Exception) as error:
                problems.append("%s: `%s`: %s" % (name, text, error))
                continue
            other = installed.get(normal(requirement.name))
            if other is None:
                problems.append("%s requires %s, which is not installed" % (name, requirement))
            elif requirement.specifier and not requirement.specifier.contains(other.version, prereleases=True):
                problems.append("%s requires %s, but %s is installed" % (name, requirement, other.version))
    return problems, len(installed)


def missing_requirements():
    """The same by names alone, where nothing is there that reads requirements: those with a marker are left out."""
    from importlib.metadata import distributions

    installed = {normal(distribution.metadata["Name"]): distribution for distribution in distributions()}
    problems = []
    for name, distribution in sorted(installed.items()):
        for text in distribution.requires or []:
            wanted = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", text)
            if wanted and ";" not in text and normal(wanted.group(1)) not in installed:
                problems.append("%s requires %s, which is not installed" % (name, text))
    return problems, len(installed)


# ---------------------------------------------------------------------------------------------------------- import


def project_name():
    for path, pattern in (
        ("pyproject.toml", r"(?ms)^\[(?:project|tool\.poetry|tool\.flit\.metadata)\].*?^(?:name|module)\s*=\s*[\"']([^\"']+)"),
        ("setup.cfg", r"(?ms)^\[metadata\].*?^name\s*=\s*(\S+)"),
        ("setup.py", r"\bname\s*=\s*[\"']([^\"']+)"),
    ):
        try:
            with open(os.path.join(TREE, path), encoding="utf-8", errors="replace") as file:
                found = re.search(pattern, file.read())
        except OSError:
            continue
        if found:
            return found.group(1)
    return None


def candidates():
    """The project's top-level modules with the folders that they lie in."""
    roots = [root for root in ("src", "lib", "python", "") if os.path.isdir(os.path.join(TREE, root))]
    found = []
    for root in roots:
        folder = os.path.join(TREE, root)
        for name in sorted(os.listdir(folder)):
            place = os.path.join(folder, name)
            if os.path.isdir(place) and re.match(r"^[A-Za-z_]\w*$", name):
                if os.path.isfile(os.path.join(place, "__init__.py")):
                    found.append((name, root))
                elif name.lower() not in NOT_PACKAGES and name not in ("src", "lib", "python"):
                    # A namespace package: what is below it counts.
                    for below in sorted(os.listdir(place)):
                        inner = os.path.join(place, below, "__init__.py")
                        if os.path.isfile(inner) and re.match(r"^[A-Za-z_]\w*$", below):
                            found.append((name + "." + below, root))
            elif name.endswith(".py") and re.match(r"^[A-Za-z_]\w*\.py$", name):
                found.append((name[:-3], root))
    wanted = normal(project_name()).replace("-", "_")
    named = [c for c in found if normal(c[0]).replace("-", "_") == wanted]
    own = [c for c in found if c[0].split(".")[0].lower() not in NOT_PACKAGES and not c[0].startswith(("test_", "_"))]
    packages = [c for c in own if os.path.isdir(os.path.join(TREE, c[1], *c[0].split(".")))]
    in_src = [c for c in packages if c[1]]
    return named or in_src[:12] or packages[:12] or own[:6]


def installed_tops():
    """The top-level names of the project's own distributions, as far as they say."""
    tops = set()
    for distribution in own_distributions():
        text = distribution.read_text("top_level.txt") or ""
        tops.update(text.split())
        for file in distribution.files or []:
            first = str(file).split("/")[0]
            if first.endswith(".py") and "/" not in str(file) and not first.startswith("__editable__"):
                tops.add(first[:-3])
            elif "/" in str(file) and re.match(r"^[A-Za-z_]\w*$", first) and str(file).endswith(".py"):
                tops.add(first)
    return tops


def imports():
    found = candidates()
    tops = installed_tops()
    if tops:
        declared = [c for c in found if c[0].split(".")[0] in tops]
        found = declared or [(name, "") for name in sorted(tops) if not name.startswith("_")][:12] or found
    if not found:
        answer(True, "the project has no package to import")
    good, bad = [], []
    for name, _ in found:
        code = (
            "import sys; sys.path[:] = [p for p in sys.path if p not in ('', '.')]\n"
            "import importlib; m = importlib.import_module(%r)\n"
            "print(getattr(m, '__file__', None) or list(getattr(m, '__path__', [''])) [0])" % name
        )
        try:
            ran = subprocess.run(
                [sys.executable, "-c", code], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, timeout=120,
            )
        except subprocess.TimeoutExpired:
            bad.append("%s: the import did not end" % name)
            continue
        said = ran.stderr.decode("utf-8", "replace")
        if ran.returncode != 0:
            sys.stderr.write(said[-4000:])
            lines = [line for line in said.splitlines() if line.strip()] or ["exit code %d" % ran.returncode]
            bad.append("%s: %s" % (name, lines[-1]))
            continue
        lines = ran.stdout.decode("utf-8", "replace").splitlines() or [""]
        place = os.path.realpath(lines[-1])
        inside = place.startswith(TREE + os.sep)
        if MODE in ("path", "editable") and not inside:
            bad.append("%s is imported from %s and not from the project" % (name, place))
        elif MODE == "installed" and inside:
            bad.append("%s is imported from the tree and not from where it is installed" % name)
        else:
            good.append(name)
    if bad:
        answer(False, "; ".join(bad[:6]), imported=good, not_imported=bad[:20])
    answer(True, "imported: %s" % ", ".join(good), imported=good)


# ------------------------------------------------------------------------------------------------ collect and sample


def test_files():
    found = []
    for folder, folders, files in os.walk(TREE):
        skipped = {"node_modules", "vendor", "build", "dist", "site-packages", "__pycache__", "venv"}
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in skipped)
        for name in sorted(files):
            if re.match(r"^(test_.*|.*_tests?|tests)\.py$", name):
                found.append(os.path.relpath(os.path.join(folder, name), TREE))
    return sorted(path for path in found if has_tests(path))


def has_tests(path):
    try:
        with open(os.path.join(TREE, path), encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 20)
    except OSError:
        return False
    return bool(re.search(r"(?m)^\s*(async )?def test|^class \w*Test|^\s*class \w+\(.*TestCase", text))


def spread(items, most):
    """Evenly over the whole list, always the same ones."""
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(most)]


CHILD = r'''
import json, os, sys
out = os.fdopen(int(sys.argv[1]), "w", buffering=1)
def say(**what): out.write(json.dumps(what) + "\n")
# Tests must not find a package by the current directory alone.
sys.path[:] = [path for path in sys.path if path not in ("", ".")]
import pytest
class Recorder:
    def __init__(self): self.seen = 0
    def pytest_collectreport(self, report):
        if report.failed:
            say(kind="uncollected", id=report.nodeid, why=str(report.longrepr)[-1500:])
    def pytest_collection_finish(self, session):
        say(kind="collected", count=len(session.items), files=sorted({i.nodeid.split("::")[0] for i in session.items}))
        del session.items[int(sys.argv[2]):]
    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            say(kind="test", id=report.nodeid, outcome=report.outcome, when=report.when,
                why=str(report.longrepr)[-300:] if report.failed else None)
    def pytest_internalerror(self, excrepr): say(kind="internal", why=str(excrepr)[-1500:])
code = pytest.main(sys.argv[3:], plugins=[Recorder()])
say(kind="end", code=int(code))
out.flush()
os._exit(0)
'''


def pytest_says(files, most, options, seconds):
    read, write = os.pipe()
    os.set_inheritable(write, True)
    # No plugin may spread the work over processes or turn the order: what is recorded would be another sample.
    arguments = options + ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:random_order", "-q", "--color=no"]
    from importlib.metadata import distributions
    names = {normal(d.metadata["Name"]) for d in distributions()}
    if "pytest-xdist" in names:
        arguments += ["-n", "0"]
    if "pytest-cov" in names:
        arguments += ["--no-cov"]
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(write), str(most)] + arguments + files, cwd=TREE, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, close_fds=False, start_new_session=True,
    )
    os.close(write)
    import threading

    said, lines = io.BytesIO(), []

    def drain(file, sink):
        for line in file:
            sink(line)

    reader = os.fdopen(read, "rb")
    threads = [
        threading.Thread(target=drain, args=(process.stdout, said.write), daemon=True),
        threading.Thread(target=drain, args=(reader, lines.append), daemon=True),
    ]
    for thread in threads:
        thread.start()
    timed_out = False
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        timed_out = True
        import signal

        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for thread in threads:
        thread.join(5)
    events = []
    for line in lines:
        try:
            events.append(json.loads(line.decode("utf-8", "replace")))
        except ValueError:
            pass
    text = said.getvalue().decode("utf-8", "replace")
    sys.stdout.write(text[-6000:])
    sys.stdout.flush()
    return events, text, timed_out


def decisive(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"^(E  |ERROR|ImportError|\w*Error:|pytest: error|usage:)", line)]
    return (errors or lines or ["no output"])[-1][:300]


def no_pytest():
    try:
        import pytest  # noqa: F401
    except ImportError as error:
        return str(error)
    return None


def collect():
    missing = no_pytest()
    if missing:
        answer(False, "the test framework is not there: %s" % missing)
    files = test_files()
    if not files:
        answer(True, "the project has no tests of its own", collected=0)
    chosen = spread(files, COLLECTED_FILES)
    events, text, timed_out = pytest_says(chosen, 0, ["--collect-only", "--continue-on-collection-errors"], SECONDS)
    collected = [event for event in events if event["kind"] == "collected"]
    count = collected[-1]["count"] if collected else 0
    bad = [event for event in events if event["kind"] == "uncollected"]
    for event in bad[:3]:
        print("%s: %s" % (event["id"], event["why"]))
    if timed_out:
        answer(False, "collecting %d files did not end within %d s" % (len(chosen), SECONDS))
    if count == 0 or len(bad) * 2 > len(chosen):
        why = decisive(bad[0]["why"]) if bad else decisive(text)
        answer(False, "%d of %d test files do not collect: %s" % (len(bad) or len(chosen), len(chosen), why), collected=count)
    more = " (%d of them not: %s)" % (len(bad), decisive(bad[0]["why"])) if bad else ""
    answer(True, "%d tests collected from %d files%s" % (count, len(chosen), more), collected=count)


def sample():
    missing = no_pytest()
    if missing:
        answer(False, "the test framework is not there: %s" % missing)
    files = test_files()
    if not files:
        answer(True, "the project has no tests of its own", passed=[], failed=[])
    began, passed, failed, skipped = time.monotonic(), [], [], 0
    # A file that holds up everything must not be the only one that is seen: each gets its part of the time.
    for path in spread(files, SAMPLED_FILES * 3):
        left = SECONDS - (time.monotonic() - began)
        if left < 5 or len(passed) + len(failed) >= SAMPLED_TESTS:
            break
        if passed and len(passed) + len(failed) >= SAMPLED_TESTS // 8 and time.monotonic() - began > SECONDS / 3:
            break
        events, _, _ = pytest_says([path], SAMPLED_TESTS // SAMPLED_FILES, ["--continue-on-collection-errors"], min(left, SECONDS / 4))
        outcomes = {}
        for event in events:
            if event["kind"] == "test":
                worse = outcomes.get(event["id"]) == "failed"
                outcomes[event["id"]] = "failed" if worse else event["outcome"]
                if event["outcome"] == "failed":
                    print("%s: %s" % (event["id"], event["why"]))
        passed += [test for test, outcome in outcomes.items() if outcome == "passed"]
        failed += [test for test, outcome in outcomes.items() if outcome == "failed"]
        skipped += sum(outcome == "skipped" for outcome in outcomes.values())
    passed, failed = sorted(passed), sorted(failed)
    detail = "%d of %d sampled tests pass" % (len(passed), len(passed) + len(failed))
    detail += ", %d are skipped" % skipped if skipped else ""
    if not passed and skipped and not failed:
        answer(True, "all %d sampled tests are skipped" % skipped, passed=[], failed=[])
    answer(passed and len(passed) >= len(failed), detail, passed=passed, failed=failed)


CHECKS = {"install": install, "import": imports, "collect": collect, "sample": sample}
CHECKS[sys.argv[1]]()
