"""Runs the tests of one file with the standard library's unittest and reports every test to an inherited descriptor.

Usage: python redgreen_unittest.py TEST_FILE

One JSON object a line goes to the descriptor that REDGREEN_RESULT_FD names: `start`, a `test` for every test,
`collect-error` where the file could not be loaded, `end` with the exit code: 0 all passed, 1 some did not, 2 the file
could not be loaded, 5 no test ran. Works on Python 3.6 and later. An AssertionError or the test case's own
`failureException` is `failed`, anything else is `errored`.
"""
import posix
import sys

# These are the interpreter's own, and not files of the tree that go by their names.
FULL_PATH = sys.path[:]
sys.path[:] = [path for path in FULL_PATH if not (path + "/").startswith(posix.getcwd() + "/")]
import importlib
import importlib.util
import json
import os
import unittest

sys.path[:] = FULL_PATH


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
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def say(text):
    """For whoever reads the log; the code under test may have closed or replaced the stream."""
    try:
        sys.stderr.write(text)
    except Exception:
        pass


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def ran_project(before, test, folder):
    """Whether code of the folder was loaded: True, False, or None where that cannot be told."""
    unsure = False
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str):
            continue
        path = os.path.realpath(os.path.join(folder, path))
        if path == test:
            space = getattr(module, "__dict__", {})
            unsure = unsure or any(word in space for word in ("subprocess", "multiprocessing", "os"))
        elif under(path, folder):
            return True
        elif name not in before and "-packages" in path:
            unsure = True
    return None if unsure else False


class Result(unittest.TestResult):
    """Sends one event a test, when it stops; errors outside a test (module and class fixtures) at once."""

    def __init__(self, channel, module_name):
        super(Result, self).__init__()
        self.channel = channel
        self.prefix = module_name + "."
        self.seen = 0
        self.bad = 0
        self.current = None
        self.phases = []

    def startTest(self, test):
        super(Result, self).startTest(test)
        self.current = test
        self.phases = []

    def stopTest(self, test):
        super(Result, self).stopTest(test)
        self.current = None
        order = ["errored", "failed", "skipped", "xfail", "passed"]
        if self.phases:
            self.report(test, *min(self.phases, key=lambda phase: order.index(phase[0])))
        self.phases = []  # Python 3.12.1 stops skipped tests that it never started

    def note(self, test, status, error=None, text=None):
        if self.current is None:
            self.report(test, status, error, text)
        else:
            self.phases.append((status, error, text))

    def report(self, test, status, error, text):
        self.seen += status in ("passed", "failed", "errored")
        self.bad += status in ("failed", "errored")
        name = test.id()
        if name.startswith(self.prefix):
            name = name[len(self.prefix):]
        say("%s ... %s\n" % (name, status))
        self.channel.send(
            "test",
            id=name,
            status=status,
            kind=kind_of(error) if status == "errored" else None,
            exception=type(error).__name__ if error is not None else None,
            message=text if error is None else text_of(error),
        )

    def fault(self, test, info):
        # What stands for a class or module fixture has no failureException.
        own = (AssertionError, getattr(test, "failureException", None) or AssertionError)
        self.note(test, "failed" if isinstance(info[1], own) else "errored", info[1])

    def addSuccess(self, test):
        self.note(test, "passed")

    def addError(self, test, err):
        self.fault(test, err)
        say(self._exc_info_to_string(err, test) + "\n")

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.note(test, "xfail")

    def addUnexpectedSuccess(self, test):
        self.note(test, "failed", text="unexpected success")


def load(path):
    """Imports the test file: by its dotted name where it lies in a package of the current directory, else by path."""
    folder, parts = os.path.dirname(path), [os.path.splitext(os.path.basename(path))[0]]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        parts.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    name = ".".join(parts)
    if folder == os.getcwd() and len(parts) > 1:
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(parts[-1], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[parts[-1]] = module
    spec.loader.exec_module(module)
    return module


def main():
    channel = Channel()
    folder = os.path.realpath(os.getcwd())  # the tests may go elsewhere, and remove it
    path = os.path.abspath(sys.argv[1])
    test = os.path.realpath(path)
    sys.argv[:] = [path]
    # As `python -m unittest` does: the current directory comes first, not this script's.
    sys.path[0] = os.getcwd()
    channel.send("start", framework="unittest", python="%d.%d.%d" % sys.version_info[:3])
    before = set(sys.modules)
    try:
        module = load(path)
    except unittest.SkipTest:
        code = 5
    except BaseException as error:  # SystemExit too: a test file that leaves while it is loaded has not run
        kind = kind_of(error)
        channel.send(
            "collect-error",
            kind=kind if kind == "syntax" else "import",
            exception=type(error).__name__,
            message=text_of(error),
        )
        sys.excepthook(type(error), error, error.__traceback__)
        code = 2
    else:
        result = Result(channel, module.__name__)
        unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
        code = 1 if result.bad else 0 if result.seen else 5
    channel.end(code, ran_project(before, test, folder))
    flush()
    sys.exit(code)


if __name__ == "__main__":
    main()
