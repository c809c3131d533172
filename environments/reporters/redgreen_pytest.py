"""Runs pytest on one test file and reports every test to an inherited descriptor.

Usage: python redgreen_pytest.py PYTEST_ARGUMENT...

One JSON object a line goes to the descriptor that REDGREEN_RESULT_FD names: `start`, a `test` for every test,
`collect-error` where a file could not be loaded, `end` with pytest's own exit code. Works with pytest 3 to 9 on
Python 3.6 and later. What failed is told by the exception, not by pytest's word for the phase: an AssertionError or
pytest's own `fail` is `failed`, anything else is `errored`.
"""
import json
import os
import sys


class Channel(object):
    """The result channel: written by this process only, and not inherited by what the tests start."""

    def __init__(self):
        number = int(os.environ.pop("REDGREEN_RESULT_FD"))
        self._descriptor = os.dup(number)  # not inheritable, unlike the original
        os.close(number)
        self._process = os.getpid()
        self._count = 0

    def send(self, event, **fields):
        if os.getpid() != self._process:
            return
        if event == "test":
            self._count += 1
        record = {"event": event}
        record.update((name, value) for name, value in fields.items() if value is not None)
        left = (json.dumps(record, sort_keys=True) + "\n").encode("ascii")
        while left:
            left = left[os.write(self._descriptor, left):]

    def end(self, code, project):
        self.send("end", tests=self._count, exit=int(code), project=project)


def text_of(error):
    """The first line of what an exception says, cut to a sane length."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # a __str__ of the project's own that breaks
        lines = []
    return lines[0][:2000] if lines else ""


def kind_of(error):
    if isinstance(error, SyntaxError):
        return "syntax"
    if isinstance(error, ImportError):
        return "import"
    return "exception"


def under(path, folder):
    return path is not None and (path == folder or path.startswith(folder.rstrip(os.sep) + os.sep))


def ran_project(before, own_files, folder):
    """Whether code of the folder was loaded: True, False, or None where that cannot be told."""
    site = [os.path.realpath(path) for path in sys.path if os.path.basename(path).endswith("-packages")]
    family = (
        "pytest _pytest py pluggy iniconfig packaging pygments attr attrs six more_itertools atomicwrites pathlib2 "
        "importlib_metadata zipp typing_extensions tomli exceptiongroup colorama setuptools pkg_resources"
    ).split()
    unsure = False
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str):
            continue
        path = os.path.realpath(os.path.join(folder, path))
        if path in own_files:
            space = getattr(module, "__dict__", {})
            unsure = unsure or any(word in space for word in ("subprocess", "multiprocessing", "os"))
        elif under(path, folder):
            return True
        elif name not in before and name.split(".")[0] not in family and any(under(path, at) for at in site):
            unsure = True
    return None if unsure else False


class Reporter(object):
    """The pytest plugin: notes exceptions as they come and sends one event a test when its teardown is over."""

    def __init__(self, channel):
        self.channel = channel
        self.errors = {}
        self.phases = {}
        self.files = set()

    @staticmethod
    def name_of(nodeid):
        # The file's part depends on where the test lies; there is only one file.
        name = nodeid.split("::", 1)[1] if "::" in nodeid else nodeid
        return name.replace("::()", "")  # pytest 3 names the instance of a class

    def pytest_runtest_makereport(self, item, call):
        if call.excinfo is not None:
            self.errors[(item.nodeid, call.when)] = call.excinfo.value

    def pytest_runtest_logreport(self, report):
        error = self.errors.pop((report.nodeid, report.when), None)
        phases = self.phases.setdefault(report.nodeid, [])
        phases.append(self.status_of(report, error))
        if report.when == "teardown":
            del self.phases[report.nodeid]
            order = ["errored", "failed", "skipped", "xfail", "xpass", "passed"]
            status, error = min(phases, key=lambda phase: order.index(phase[0]))
            bad = status in ("errored", "failed")
            self.channel.send(
                "test",
                id=self.name_of(report.nodeid),
                status=status,
                kind=kind_of(error) if status == "errored" else None,
                exception=type(error).__name__ if bad and error is not None else None,
                message=text_of(error if error is not None else report.longrepr or "unexpected pass") if bad else None,
            )

    @staticmethod
    def status_of(report, error):
        import pytest

        expected_failure = hasattr(report, "wasxfail")
        if report.outcome == "skipped":
            return ("xfail" if expected_failure else "skipped"), None
        if report.outcome == "passed":
            return ("xpass" if expected_failure else "passed"), None
        if error is None:  # a strict xfail that passed, or a test whose subtests failed
            return "failed", None
        own = isinstance(error, (AssertionError, pytest.fail.Exception))
        return ("failed" if own else "errored"), error

    def pytest_itemcollected(self, item):
        self.files.add(os.path.realpath(str(item.fspath)))

    def pytest_exception_interact(self, node, call, report):
        if not hasattr(report, "when") or report.when == "collect":
            self.collect_error(call.excinfo.value)

    def pytest_internalerror(self, excrepr, excinfo):
        self.collect_error(excinfo.value)

    def collect_error(self, error):
        # pytest wraps what an import raises; the cause is what tells.
        if type(error).__name__ == "CollectError":
            error = error.__cause__ or error.__context__ or error
        kind = kind_of(error)
        self.channel.send(
            "collect-error",
            kind=kind if kind == "syntax" else "import",
            exception=type(error).__name__,
            message=text_of(error),
        )


def main():
    channel = Channel()
    folder = os.path.realpath(os.getcwd())  # the tests may go elsewhere, and remove it
    # As `python -m pytest` does: the current directory comes first, not this script's.
    sys.path[0] = os.getcwd()
    import pytest

    channel.send("start", framework="pytest", version=pytest.__version__, python="%d.%d.%d" % sys.version_info[:3])
    before = set(sys.modules)
    reporter = Reporter(channel)
    code = pytest.main(sys.argv[1:], plugins=[reporter])
    channel.end(code, ran_project(before, reporter.files, folder))
    try:
        sys.stdout.flush()
    except Exception:  # the code under test may have closed or replaced it
        pass
    sys.exit(int(code))


if __name__ == "__main__":
    main()
